"""Direct mode: `capacityReservationSpec` of the class is in every launch template, and EC2 chooses the reservation."""

from typing import Any

import pytest

from holdfast import errors
from holdfast.model.instances import Instance
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.setup import ACCOUNT
from launch_environment import LaunchEnvironment, capacity_type

ID = "karpenter.k8s.aws/capacity-reservation-id"
SETTING = "karpenter.k8s.aws/capacity-reservation-setting"


@pytest.fixture
def env() -> LaunchEnvironment:
    return LaunchEnvironment()


def direct(env: LaunchEnvironment, **spec: Any) -> Any:
    return env.resolve(env.node_class(capacityReservationSpec=spec))


def reservation_labels(env: LaunchEnvironment) -> list[tuple[str, str | None, str | None]]:
    """Capacity type, reservation and setting of each instance, from its labels."""
    return [
        (each.capacity_type, dict(each.labels).get(ID), dict(each.labels).get(SETTING))
        for each in env.described()
    ]


@pytest.mark.fact("Q-39", "Q-41")
def test_preference_open_joins_an_open_reservation_and_labels_the_instance(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, criteria="open")
    node_class = direct(env, capacityReservationPreference="open")
    for _ in range(2):
        env.one(node_class, capacity_type("on-demand"), types=("m5.large",))
    joined = sorted(reservation_labels(env), key=lambda entry: entry[1] or "")
    assert joined == [("on-demand", None, "open"), ("on-demand", slots.id, "open")]


@pytest.mark.fact("Q-39", "Q-41")
def test_preference_none_joins_no_reservation(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, criteria="open")
    env.one(direct(env, capacityReservationPreference="none"), types=("m5.large",))
    assert env.free(slots) == 1
    assert [entry[1:] for entry in reservation_labels(env)] == [(None, "none")]


@pytest.mark.fact("Q-39", "Q-40", "Q-41")
def test_target_by_id_launches_into_the_reservation_or_fails(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, criteria="targeted")
    node_class = direct(env, capacityReservationTarget={"capacityReservationId": slots.id})
    env.one(node_class, types=("m5.large",))
    assert reservation_labels(env) == [("on-demand", slots.id, "target")]
    (found,) = env.launch(env.requests(node_class, types=("m5.large",)))
    assert isinstance(found, errors.ReservationExhausted)
    assert found.reservation_ids == (slots.id,)
    assert len(env.ec2_instances) == 1
    assert not env.discovery.unavailable.pools.members(env.clock.monotonic_s())


@pytest.mark.fact("Q-39", "Q-41")
def test_a_target_by_group_overflows_to_on_demand(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, criteria="targeted")
    group = control.add_group(env.ec2.region, account=ACCOUNT, name="ml", members=(slots.id,))
    node_class = direct(env, capacityReservationTarget={"capacityReservationResourceGroupArn": group.id})
    for _ in range(2):
        env.one(node_class, types=("m5.large",))
    assert sorted(entry[1] or "" for entry in reservation_labels(env)) == ["", slots.id]
    assert {entry[2] for entry in reservation_labels(env)} == {"target"}


@pytest.mark.fact("Q-40")
def test_target_never_launches_spot(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, criteria="targeted")
    target = {"capacityReservationId": slots.id}
    node_class = direct(env, capacityReservationTarget=target)
    (found,) = env.launch(env.requests(node_class, capacity_type("spot")))
    assert isinstance(found, errors.InsufficientCapacity)
    assert env.ec2_instances == []
    instance = env.one(node_class, capacity_type("spot", "on-demand"), types=("m5.large",))
    assert env.ec2_instance(instance).lifecycle == ""


@pytest.mark.fact("Q-40", "Q-43")
def test_target_without_capacity_does_not_make_on_demand_unavailable(env: LaunchEnvironment) -> None:
    group = control.add_group(env.ec2.region, account=ACCOUNT, name="ml")
    node_class = direct(env, capacityReservationTarget={"capacityReservationResourceGroupArn": group.id})
    env.ec2.region.faults.add(faults.NoCapacity(market="on-demand"))
    (found,) = env.launch(env.requests(node_class, types=("m5.large",)))
    assert not isinstance(found, Instance)
    assert not env.discovery.unavailable.pools.members(env.clock.monotonic_s())
