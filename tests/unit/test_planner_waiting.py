"""Waiting for a slot is a choice with a bound; falling back in the same run is the rule."""

import dataclasses
from typing import Any

import pytest

from disruption_builders import MEDIUM, load, machine, world
from holdfast.core.disruption import simulation
from holdfast.core.scheduling.input.request import ReservedMode, Settings, SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import ClaimView, Snapshot
from planner_builders import fake_types, instance_type, one_per_node, pods, pool, request, reservation, shape

HELD = ClaimView("other-claim", "default", NO_REQUIREMENTS, 0, reservation_id="cr-1")


def asked(**more: Any) -> SolveRequest:
    kept = [reservation("cr-1", "fake-it-5", available=1, total=4)]
    return request([pool("default", fake_types(9, kept))], pods(1, shape()), kept, claims=(HELD,), **more)


@pytest.mark.fact("R-22")
def test_a_pod_whose_slot_is_held_falls_back_in_the_same_run() -> None:
    plan = solve(asked())
    assert [claim.reservation_id for claim in plan.claims] == [None]


def test_with_patience_it_waits_and_says_for_what_and_until_when() -> None:
    plan = solve(asked(reservation_wait_s=300, taken_s=100))
    assert not plan.claims
    (waiting,) = plan.unplaced
    assert (waiting.waits_for, waiting.waits_until_s) == ("cr-1", 300)
    assert [reason.code for reason in waiting.reasons] == [ReasonCode.WAITS_FOR_SLOT]


def test_patience_ends() -> None:
    assert len(solve(asked(reservation_wait_s=300, taken_s=300)).claims) == 1


def test_nobody_waits_for_a_slot_that_others_simply_use() -> None:
    kept = [reservation("cr-1", "fake-it-5", available=0, total=4)]
    plan = solve(
        request([pool("default", fake_types(9, kept))], pods(1, shape()), kept, reservation_wait_s=300)
    )
    assert len(plan.claims) == 1


def going(*, deleting: bool = True) -> Snapshot:
    """A node in the only slot, and its pod, of a pool with patience."""
    kept = [reservation("cr-1", MEDIUM, available=0, total=1)]
    there = machine("a", MEDIUM, load("a", shape(3000)), slot="cr-1", deleting=deleting)
    claim = ClaimView(
        "claim-a", "default", NO_REQUIREMENTS, 0, reservation_id="cr-1", launched_s=5, deleting=deleting
    )
    asked = world(there, reservations=kept, claims=(claim,)).snapshot
    patient = tuple(dataclasses.replace(one, reservation_wait_s=60) for one in asked.node_pools)
    return dataclasses.replace(asked, node_pools=patient)


def test_a_pod_on_a_node_that_goes_waits_for_the_slot_of_its_own_node() -> None:
    snapshot = going()
    (waiting,) = solve(SolveRequest(snapshot, Settings())).unplaced
    assert (waiting.waits_for, waiting.waits_until_s) == ("cr-1", snapshot.taken_s + 60)


def test_nobody_waits_in_a_simulation_of_what_would_be_if_a_node_went() -> None:
    asked = simulation.without(going(deleting=False), ["a"])
    assert [claim.reservation_id for claim in solve(SolveRequest(asked, Settings())).claims] == [None]


@pytest.mark.parametrize(
    ("state", "started_s", "waits_for"),
    [
        (InstanceState.ENDING, None, ["cr-1"]),
        (InstanceState.RUNNING, None, []),  # it stays in its slot
        (InstanceState.ENDING, 1000, []),  # the reservation has not begun
    ],
)
def test_a_slot_that_is_being_released_is_waited_for_if_it_can_be_used(
    state: InstanceState, started_s: int | None, waits_for: list[str]
) -> None:
    kept = [reservation("cr-1", "fake-it-5", available=0, total=1, start_s=started_s)]
    inside = Instance("i-1", "fake-it-5", "z1", "reserved", state, 0, reservation_id="cr-1")
    plan = solve(
        request(
            [pool("default", fake_types(9, kept))],
            pods(1, shape()),
            kept,
            instances=(inside,),
            reservation_wait_s=300,
        )
    )
    assert [one.waits_for for one in plan.unplaced] == waits_for


def test_a_slot_of_a_reservation_that_does_not_suit_the_pod_is_not_waited_for() -> None:
    big = shape(7_000)  # fake-it-5 has six cores
    held = dataclasses.replace(asked(reservation_wait_s=300).snapshot, pending=pods(1, big))
    settings = asked(reservation_wait_s=300).settings
    assert [claim.reservation_id for claim in solve(SolveRequest(held, settings)).claims] == [None]


def test_labels_of_a_type_that_no_pool_knows_keep_nobody_from_waiting_for_its_slot() -> None:
    kept = [reservation("cr-1", "odd", available=1, total=4)]
    odd = instance_type("odd", 4, 16, 1.0, kept, labels={"vendor.example/sandbox": "true"})
    plan = solve(
        request([pool("default", [odd])], pods(1, shape()), kept, claims=(HELD,), reservation_wait_s=300)
    )
    assert [one.waits_for for one in plan.unplaced] == ["cr-1"]


def test_a_pool_may_have_a_patience_of_its_own() -> None:
    patient = asked(taken_s=10)
    own = dataclasses.replace(patient.snapshot.node_pools[0], reservation_wait_s=60)
    snapshot = dataclasses.replace(patient.snapshot, node_pools=(own,))
    (waiting,) = solve(dataclasses.replace(patient, snapshot=snapshot)).unplaced
    assert waiting.waits_until_s == 60


@pytest.mark.fact("R-19", "R-20", "P-5")
def test_strict_mode_defers_every_pod_that_could_use_a_slot() -> None:
    kept = [reservation("cr-1", "fake-it-5")]
    strict = request(
        [pool("default", fake_types(9, kept))],
        pods(3, shape(**one_per_node())),
        kept,
        reserved_mode=ReservedMode.STRICT,
    )
    plan = solve(strict)
    assert [claim.reservation_id for claim in plan.claims] == ["cr-1"]
    assert len(plan.unplaced) == 2
