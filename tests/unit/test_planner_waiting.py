"""By default a pod falls back to other capacity in the same run; waiting for a slot is optional and bounded."""

import dataclasses
from typing import Any

import pytest

from disruption_builders import MEDIUM, disruption_input, load, managed_node
from holdfast.core.disruption import simulation
from holdfast.core.scheduling.input.request import ReservedMode, Settings, SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import ClaimView, Snapshot
from planner_builders import fake_types, instance_type, one_per_node, pods, pool, request, reservation, shape

CLAIM_WITH_HOLD = ClaimView("other-claim", "default", NO_REQUIREMENTS, 0, reservation_id="cr-1")


def solve_request(**more: Any) -> SolveRequest:
    reservations = [reservation("cr-1", "fake-it-5", available=1, total=4)]
    return request(
        [pool("default", fake_types(9, reservations))],
        pods(1, shape()),
        reservations,
        claims=(CLAIM_WITH_HOLD,),
        **more,
    )


@pytest.mark.fact("R-22")
def test_a_pod_whose_slot_is_held_falls_back_in_the_same_run() -> None:
    plan = solve(solve_request())
    assert [claim.reservation_id for claim in plan.claims] == [None]


def test_with_a_reservation_wait_the_pod_waits_for_the_held_slot_until_a_deadline() -> None:
    plan = solve(solve_request(reservation_wait_s=300, taken_s=100))
    assert not plan.claims
    (waiting,) = plan.unplaced
    assert (waiting.waits_for, waiting.waits_until_s) == ("cr-1", 300)
    assert [reason.code for reason in waiting.reasons] == [ReasonCode.WAITS_FOR_SLOT]


def test_no_pod_waits_for_a_slot_while_the_feature_gate_is_disabled() -> None:
    plan = solve(solve_request(reservation_wait_s=300, taken_s=100, reserved_capacity=False))
    assert [claim.reservation_id for claim in plan.claims] == [None]


def test_the_pod_falls_back_after_the_reservation_wait() -> None:
    assert len(solve(solve_request(reservation_wait_s=300, taken_s=300)).claims) == 1


def test_no_pod_waits_for_a_slot_that_running_instances_use() -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=0, total=4)]
    plan = solve(
        request(
            [pool("default", fake_types(9, reservations))],
            pods(1, shape()),
            reservations,
            reservation_wait_s=300,
        )
    )
    assert len(plan.claims) == 1


def snapshot_with_reserved_node(*, deleting: bool = True) -> Snapshot:
    """A node in the only slot, with its pod, in a NodePool with a reservation wait."""
    reservations = [reservation("cr-1", MEDIUM, available=0, total=1)]
    existing = managed_node("a", MEDIUM, load("a", shape(3000)), slot="cr-1", deleting=deleting)
    claim = ClaimView(
        "claim-a", "default", NO_REQUIREMENTS, 0, reservation_id="cr-1", launched_s=5, deleting=deleting
    )
    snapshot = disruption_input(existing, reservations=reservations, claims=(claim,)).snapshot
    node_pools = tuple(dataclasses.replace(one, reservation_wait_s=60) for one in snapshot.node_pools)
    return dataclasses.replace(snapshot, node_pools=node_pools)


def test_a_pod_of_a_deleting_node_waits_for_the_slot_of_that_node() -> None:
    snapshot = snapshot_with_reserved_node()
    (waiting,) = solve(SolveRequest(snapshot, Settings())).unplaced
    assert (waiting.waits_for, waiting.waits_until_s) == ("cr-1", snapshot.taken_s + 60)


def test_no_pod_waits_in_a_disruption_simulation() -> None:
    snapshot = simulation.without(snapshot_with_reserved_node(deleting=False), ["a"])
    assert [claim.reservation_id for claim in solve(SolveRequest(snapshot, Settings())).claims] == [None]


@pytest.mark.parametrize(
    ("state", "started_s", "waits_for"),
    [
        (InstanceState.ENDING, None, ["cr-1"]),
        (InstanceState.RUNNING, None, []),  # the instance keeps its slot
        (InstanceState.ENDING, 1000, []),  # the reservation has not started
    ],
)
def test_pods_wait_for_a_releasing_slot_if_it_can_be_used(
    state: InstanceState, started_s: int | None, waits_for: list[str]
) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=0, total=1, start_s=started_s)]
    instance = Instance("i-1", "fake-it-5", "z1", "reserved", state, 0, reservation_id="cr-1")
    plan = solve(
        request(
            [pool("default", fake_types(9, reservations))],
            pods(1, shape()),
            reservations,
            instances=(instance,),
            reservation_wait_s=300,
        )
    )
    assert [one.waits_for for one in plan.unplaced] == waits_for


def test_no_pod_waits_for_a_slot_that_is_too_small() -> None:
    big = shape(7_000)  # fake-it-5 has six cores
    snapshot = dataclasses.replace(solve_request(reservation_wait_s=300).snapshot, pending=pods(1, big))
    settings = solve_request(reservation_wait_s=300).settings
    assert [claim.reservation_id for claim in solve(SolveRequest(snapshot, settings)).claims] == [None]


def test_pods_wait_for_a_slot_of_a_type_with_labels_that_no_nodepool_defines() -> None:
    reservations = [reservation("cr-1", "odd", available=1, total=4)]
    odd = instance_type("odd", 4, 16, 1.0, reservations, labels={"vendor.example/sandbox": "true"})
    plan = solve(
        request(
            [pool("default", [odd])],
            pods(1, shape()),
            reservations,
            claims=(CLAIM_WITH_HOLD,),
            reservation_wait_s=300,
        )
    )
    assert [one.waits_for for one in plan.unplaced] == ["cr-1"]


def test_a_nodepool_may_have_its_own_reservation_wait() -> None:
    without_wait = solve_request(taken_s=10)
    own = dataclasses.replace(without_wait.snapshot.node_pools[0], reservation_wait_s=60)
    snapshot = dataclasses.replace(without_wait.snapshot, node_pools=(own,))
    (waiting,) = solve(dataclasses.replace(without_wait, snapshot=snapshot)).unplaced
    assert waiting.waits_until_s == 60


@pytest.mark.fact("R-19", "R-20", "P-5")
def test_strict_mode_defers_every_pod_that_could_use_a_slot() -> None:
    reservations = [reservation("cr-1", "fake-it-5")]
    strict = request(
        [pool("default", fake_types(9, reservations))],
        pods(3, shape(**one_per_node())),
        reservations,
        reserved_mode=ReservedMode.STRICT,
    )
    plan = solve(strict)
    assert [claim.reservation_id for claim in plan.claims] == ["cr-1"]
    assert len(plan.unplaced) == 2
