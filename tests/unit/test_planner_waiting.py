"""Waiting for a slot is a choice with a bound; falling back in the same run is the rule."""

import dataclasses
from typing import Any

import pytest

from holdfast.core.scheduling.plan import ReasonCode
from holdfast.core.scheduling.request import ReservedMode, SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import ClaimView
from planner_builders import fake_types, one_per_node, pods, pool, request, reservation, shape

HELD = ClaimView("other-claim", "default", NO_REQUIREMENTS, 0, slot="cr-1")


def asked(**more: Any) -> SolveRequest:
    kept = [reservation("cr-1", "fake-it-5", available=1, total=4)]
    return request([pool("default", fake_types(9, kept))], pods(1, shape()), kept, claims=(HELD,), **more)


@pytest.mark.fact("R-22")
def test_a_pod_whose_slot_is_held_falls_back_in_the_same_run() -> None:
    plan = solve(asked())
    assert [claim.slot for claim in plan.claims] == [None]


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


def test_a_pool_may_have_a_patience_of_its_own() -> None:
    patient = asked(taken_s=10)
    own = dataclasses.replace(patient.snapshot.node_pools[0], reservation_wait_s=60)
    snapshot = dataclasses.replace(patient.snapshot, node_pools=(own,))
    (waiting,) = solve(dataclasses.replace(patient, snapshot=snapshot)).unplaced
    assert waiting.waits_until_s == 60


@pytest.mark.fact("R-19", "R-20")
def test_strict_mode_defers_every_pod_that_could_use_a_slot() -> None:
    kept = [reservation("cr-1", "fake-it-5")]
    strict = request(
        [pool("default", fake_types(9, kept))],
        pods(3, shape(**one_per_node())),
        kept,
        reserved_mode=ReservedMode.STRICT,
    )
    plan = solve(strict)
    assert [claim.slot for claim in plan.claims] == ["cr-1"]
    assert len(plan.unplaced) == 2
