"""The reader of the interruption queue parses the events that the simulated EC2 emits."""

from typing import Any

import msgspec
import pytest

from ec2_region import HOUR_S, MINUTE_S, START_S, Region
from holdfast.cloud.aws.instances import interruption
from holdfast.cloud.aws.instances.interruption import Kind, Notice
from holdfast.sim.ec2 import control


def notices(region: Region) -> list[Notice]:
    """All events emitted so far, parsed as if read from the queue."""
    return [interruption.read(msgspec.json.encode(event).decode()) for event in region.events]


def kinds(region: Region) -> list[Kind]:
    return [notice.kind for notice in notices(region)]


def launched(region: Region, **data: Any) -> str:
    (instance,) = region.launch(**data)
    return instance.id


@pytest.mark.fact("aws-6.4.2")
def test_events_of_one_instance_have_its_id() -> None:
    region = Region()
    instance_id = launched(region)
    region.events.clear()
    control.interrupt_spot(region.state, instance_id)
    control.recommend_rebalance(region.state, instance_id)
    control.schedule_event(region.state, instance_id, "instance-retirement", START_S + HOUR_S)
    found = notices(region)
    assert [notice.kind for notice in found] == [Kind.SPOT_INTERRUPTED, Kind.REBALANCE, Kind.SCHEDULED_CHANGE]
    assert {notice.instance_ids for notice in found} == {(instance_id,)}
    assert found[0].ends_s == START_S + 120


@pytest.mark.fact("aws-6.4.2")
def test_termination_emits_instance_terminated_events() -> None:
    region = Region()
    instance_id = launched(region)
    region.wait(HOUR_S)
    region.events.clear()
    region.call("TerminateInstances", InstanceIds=[instance_id])
    region.wait(HOUR_S)
    assert set(kinds(region)) == {Kind.INSTANCE_TERMINATED}
    assert {notice.instance_ids for notice in notices(region)} == {(instance_id,)}


def test_capacity_block_emits_a_warning_before_its_end() -> None:
    region = Region()
    block = region.reserve(
        "p5.48xlarge", kind="capacity-block", criteria="targeted", end_s=START_S + 2 * HOUR_S
    )
    region.wait(HOUR_S + 25 * MINUTE_S)
    warnings = [notice for notice in notices(region) if notice.kind is Kind.BLOCK_EXPIRING]
    assert [notice.reservation_ids for notice in warnings] == [(block.id,)]


def test_reclaimed_interruptible_reservation_emits_a_warning_for_its_instance() -> None:
    region = Region()
    source = region.reserve(total=2)
    answer = region.call(
        "CreateInterruptibleCapacityReservationAllocation", CapacityReservationId=source.id, InstanceCount=1
    )
    assert answer
    interruptible = next(each for each in region.state.reservations if each.interruptible)
    template = region.targeting(
        interruptible, "capacity-reservations-only", market="interruptible-capacity-reservation"
    )
    fleet = region.fleet(
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Latest"},
            "Overrides": [{"InstanceType": "m5.large", "AvailabilityZone": "us-west-2a"}],
        },
        kind="reserved-capacity",
        ReservedCapacityOptions={"ReservationTypes": ["interruptible-capacity-reservation"]},
    )
    (instance,) = region.launched(fleet)
    region.call(
        "UpdateInterruptibleCapacityReservationAllocation",
        CapacityReservationId=source.id,
        TargetInstanceCount=0,
    )
    region.wait(1)
    warnings = [n for n in notices(region) if n.kind is Kind.RESERVATION_INTERRUPTED]
    assert [notice.instance_ids for notice in warnings] == [(instance.id,)]
