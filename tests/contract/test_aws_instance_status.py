"""Instances with failed status checks or scheduled events, as the Cloud port reports them, over the wire."""

import pytest

from aws_launch_world import LaunchWorld, capacity_type
from aws_world import OTHER, run
from holdfast import errors
from holdfast.cloud.aws.instances import instance_status
from holdfast.model.instance_status import InstanceStatus
from holdfast.model.instances import Instance
from holdfast.sim.ec2 import control, faults

OPERATION = "DescribeInstanceStatus"
DAY_S = 86_400


@pytest.fixture
def world() -> LaunchWorld:
    return LaunchWorld()


def running_instances(world: LaunchWorld, count: int) -> list[str]:
    """Ids of running instances, sorted."""
    node_class = world.resolve(world.node_class())
    found = world.launch(world.requests(node_class, capacity_type("on-demand"), count=count))
    world.clock.advance(60)
    world.ec2.advance()
    return sorted(one.provider_id.rpartition("/")[2] for one in found if isinstance(one, Instance))


def reported_statuses(world: LaunchWorld) -> list[tuple[str, str, int | None]]:
    statuses: tuple[InstanceStatus, ...] = tuple(run(world.cloud.instance_statuses()))
    return [(one.instance_id, one.category, one.failing_since_s) for one in statuses]


def impair_and_schedule(world: LaunchWorld, ids: list[str]) -> list[tuple[str, str, int | None]]:
    """Impairs or schedules one instance of each kind; returns the statuses that must be reported."""
    began_s = world.clock.now_s()
    control.impair(world.ec2.world, ids[0], "instance")
    control.impair(world.ec2.world, ids[1], "system")
    control.impair(world.ec2.world, ids[2], "ebs")
    control.schedule_event(world.ec2.world, ids[3], "instance-retirement", began_s + DAY_S)
    world.clock.advance(30)
    world.ec2.advance()
    control.impair(world.ec2.world, ids[4], "instance")
    control.schedule_event(world.ec2.world, ids[4], "instance-reboot", began_s + DAY_S)
    return [
        (ids[0], "instance_status", began_s),
        (ids[1], "system_status", began_s),
        (ids[3], "event_status", None),
        (ids[4], "instance_status", began_s + 30),
    ]


@pytest.mark.fact("aws-6.5.1")
def test_one_call_reports_failed_checks_and_scheduled_events_but_no_volumes(world: LaunchWorld) -> None:
    ids = running_instances(world, 6)
    assert reported_statuses(world) == []
    asked = world.asked(OPERATION)
    expected = impair_and_schedule(world, ids)
    assert reported_statuses(world) == expected
    assert world.asked(OPERATION) == asked + 1


@pytest.mark.fact("aws-6.5.1")
def test_large_account_is_read_with_one_filtered_call_at_a_time(
    world: LaunchWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(instance_status, "PAGE", 5)
    ids = running_instances(world, 12)
    assert reported_statuses(world) == []
    asked = world.asked(OPERATION)
    expected = impair_and_schedule(world, ids)
    readings = [reported_statuses(world) for _ in range(5)]
    assert world.asked(OPERATION) == asked + 5
    assert {one for reading in readings for one in reading} == set(expected)
    failing = [one for one in expected if one[1] == "instance_status"]
    assert sum(set(failing) <= set(reading) for reading in readings) == 2  # of the five calls


@pytest.mark.parametrize(
    "code", ["instance-reboot", "system-reboot", "system-maintenance", "instance-retirement", "instance-stop"]
)
@pytest.mark.fact("aws-6.5.1")
def test_scheduled_event_is_reported_until_it_is_over(world: LaunchWorld, code: str) -> None:
    (instance_id,) = running_instances(world, 1)
    control.schedule_event(world.ec2.world, instance_id, code, world.clock.now_s() + DAY_S)
    (status,) = run(world.cloud.instance_statuses())
    assert (status.instance_id, status.category, status.failing_since_s) == (
        instance_id,
        "event_status",
        None,
    )
    assert code in status.message
    world.clock.advance(DAY_S)
    assert reported_statuses(world) == []


def test_instances_of_other_accounts_are_not_reported(world: LaunchWorld) -> None:
    (instance_id,) = running_instances(world, 1)
    raw = world.ec2.world.instances[instance_id]
    world.ec2.world.put_instance(raw, account=OTHER, impaired={"instance": world.clock.now_s()})
    assert reported_statuses(world) == []


def test_missing_permission_raises_unauthorized() -> None:
    world = LaunchWorld(rules=[faults.Denied(operation=OPERATION)])
    with pytest.raises(errors.Unauthorized, match=OPERATION):
        run(world.cloud.instance_statuses())
