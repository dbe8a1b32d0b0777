"""Direct mode: `capacityReservationSpec` of the class is in every launch template, and EC2 chooses the reservation."""

from typing import Any

import pytest

from aws_launch_world import LaunchWorld, capacity_type
from holdfast import errors
from holdfast.model.instances import Instance
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.setup import ACCOUNT

ID = "karpenter.k8s.aws/capacity-reservation-id"
SETTING = "karpenter.k8s.aws/capacity-reservation-setting"


@pytest.fixture
def world() -> LaunchWorld:
    return LaunchWorld()


def direct(world: LaunchWorld, **spec: Any) -> Any:
    return world.resolve(world.node_class(capacityReservationSpec=spec))


def reservation_labels(world: LaunchWorld) -> list[tuple[str, str | None, str | None]]:
    """Capacity type, reservation and setting of each instance, from its labels."""
    return [
        (each.capacity_type, dict(each.labels).get(ID), dict(each.labels).get(SETTING))
        for each in world.described()
    ]


@pytest.mark.fact("Q-39", "Q-41")
def test_preference_open_joins_an_open_reservation_and_labels_the_instance(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="open")
    node_class = direct(world, capacityReservationPreference="open")
    for _ in range(2):
        world.one(node_class, capacity_type("on-demand"), types=("m5.large",))
    joined = sorted(reservation_labels(world), key=lambda entry: entry[1] or "")
    assert joined == [("on-demand", None, "open"), ("on-demand", slots.id, "open")]


@pytest.mark.fact("Q-39", "Q-41")
def test_preference_none_joins_no_reservation(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="open")
    world.one(direct(world, capacityReservationPreference="none"), types=("m5.large",))
    assert world.free(slots) == 1
    assert [entry[1:] for entry in reservation_labels(world)] == [(None, "none")]


@pytest.mark.fact("Q-39", "Q-40", "Q-41")
def test_target_by_id_launches_into_the_reservation_or_fails(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="targeted")
    node_class = direct(world, capacityReservationTarget={"capacityReservationId": slots.id})
    world.one(node_class, types=("m5.large",))
    assert reservation_labels(world) == [("on-demand", slots.id, "target")]
    (found,) = world.launch(world.requests(node_class, types=("m5.large",)))
    assert isinstance(found, errors.ReservationExhausted)
    assert found.reservation_ids == (slots.id,)
    assert len(world.machines) == 1
    assert not world.discovery.unavailable.pools.members(world.clock.monotonic_s())


@pytest.mark.fact("Q-39", "Q-41")
def test_a_target_by_group_overflows_to_on_demand(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="targeted")
    group = control.add_group(world.ec2.world, account=ACCOUNT, name="ml", members=(slots.id,))
    node_class = direct(world, capacityReservationTarget={"capacityReservationResourceGroupArn": group.id})
    for _ in range(2):
        world.one(node_class, types=("m5.large",))
    assert sorted(entry[1] or "" for entry in reservation_labels(world)) == ["", slots.id]
    assert {entry[2] for entry in reservation_labels(world)} == {"target"}


@pytest.mark.fact("Q-40")
def test_target_never_launches_spot(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="targeted")
    target = {"capacityReservationId": slots.id}
    node_class = direct(world, capacityReservationTarget=target)
    (found,) = world.launch(world.requests(node_class, capacity_type("spot")))
    assert isinstance(found, errors.InsufficientCapacity)
    assert world.machines == []
    instance = world.one(node_class, capacity_type("spot", "on-demand"), types=("m5.large",))
    assert world.machine(instance).lifecycle == ""


@pytest.mark.fact("Q-40", "Q-43")
def test_target_without_capacity_does_not_make_on_demand_unavailable(world: LaunchWorld) -> None:
    group = control.add_group(world.ec2.world, account=ACCOUNT, name="ml")
    node_class = direct(world, capacityReservationTarget={"capacityReservationResourceGroupArn": group.id})
    world.ec2.world.faults.add(faults.NoCapacity(market="on-demand"))
    (found,) = world.launch(world.requests(node_class, types=("m5.large",)))
    assert not isinstance(found, Instance)
    assert not world.discovery.unavailable.pools.members(world.clock.monotonic_s())
