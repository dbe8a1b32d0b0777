"""Direct mode: what the class says about reservations goes into every template, and EC2 does the rest."""

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


def facts(world: LaunchWorld) -> list[tuple[str, str | None, str | None]]:
    """Capacity type, reservation and setting, as the labels of each machine say."""
    return [
        (each.capacity_type, dict(each.labels).get(ID), dict(each.labels).get(SETTING))
        for each in world.described()
    ]


@pytest.mark.fact("Q-39", "Q-41")
def test_open_joins_an_open_reservation_and_says_so(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="open")
    node_class = direct(world, capacityReservationPreference="open")
    for _ in range(2):
        world.one(node_class, capacity_type("on-demand"), types=("m5.large",))
    joined = sorted(facts(world), key=lambda fact: fact[1] or "")
    assert joined == [("on-demand", None, "open"), ("on-demand", slots.id, "open")]


@pytest.mark.fact("Q-39", "Q-41")
def test_none_stays_out_of_every_reservation(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="open")
    world.one(direct(world, capacityReservationPreference="none"), types=("m5.large",))
    assert world.free(slots) == 1
    assert [fact[1:] for fact in facts(world)] == [(None, "none")]


@pytest.mark.fact("Q-39", "Q-40", "Q-41")
def test_a_target_by_id_is_launched_into_or_fails(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="targeted")
    node_class = direct(world, capacityReservationTarget={"capacityReservationId": slots.id})
    world.one(node_class, types=("m5.large",))
    assert facts(world) == [("on-demand", slots.id, "target")]
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
    assert sorted(fact[1] or "" for fact in facts(world)) == ["", slots.id]
    assert {fact[2] for fact in facts(world)} == {"target"}


@pytest.mark.fact("Q-40")
def test_a_target_never_buys_spot(world: LaunchWorld) -> None:
    slots = world.reserve(total=1, criteria="targeted")
    target = {"capacityReservationId": slots.id}
    node_class = direct(world, capacityReservationTarget=target)
    (found,) = world.launch(world.requests(node_class, capacity_type("spot")))
    assert isinstance(found, errors.InsufficientCapacity)
    assert world.machines == []
    instance = world.one(node_class, capacity_type("spot", "on-demand"), types=("m5.large",))
    assert world.machine(instance).lifecycle == ""


@pytest.mark.fact("Q-40", "Q-43")
def test_what_a_target_lacks_says_nothing_about_what_can_be_bought(world: LaunchWorld) -> None:
    group = control.add_group(world.ec2.world, account=ACCOUNT, name="ml")
    node_class = direct(world, capacityReservationTarget={"capacityReservationResourceGroupArn": group.id})
    world.ec2.world.faults.add(faults.NoCapacity(market="on-demand"))
    (found,) = world.launch(world.requests(node_class, types=("m5.large",)))
    assert not isinstance(found, Instance)
    assert not world.discovery.unavailable.pools.members(world.clock.monotonic_s())
