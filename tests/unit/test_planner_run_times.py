"""Pods with a known run time are placed only into reservations that last; of these, into the one that ends soonest."""

import dataclasses
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling import gangs
from holdfast.core.scheduling.input import lasting
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement
from holdfast.model.pods import PodView, RunTime
from holdfast.model.reasons import ReasonCode, sentences
from holdfast.model.requirement import Operator
from holdfast.model.requirements import from_labels, of
from holdfast.model.reservations import Reservation
from planner_builders import (
    RESERVATION_ID,
    gang,
    instance_type,
    is_in,
    node,
    pods,
    pool,
    reasons,
    request,
    reservation,
    shape,
)

HOUR_S = 3600
LEAD_S = 2400  # the drain begins so long before the end
START_S = 300  # the default estimate
RESERVED = is_in(names.CAPACITY_TYPE, "reserved")


def block(id_: str, ends_s: int, **more: Any) -> Reservation:
    return reservation(
        id_,
        "m5.large",
        available=more.pop("available", 4),
        kind="capacity-block",
        end_s=ends_s,
        drain_lead_s=LEAD_S,
        reclaim_lead_s=1800,
        **more,
    )


def running_for(count: int, lasts_s: int | None = None, ends_s: int | None = None) -> tuple[PodView, ...]:
    run_time = None if lasts_s is None and ends_s is None else RunTime(lasts_s, ends_s)
    return tuple(pod._replace(run_time=run_time) for pod in pods(count, shape(1500)))


def plan_request(
    reservations: list[Reservation], pending: tuple[PodView, ...], *wanted: Any, **more: Any
) -> SolveRequest:
    types = [instance_type("m5.large", 2, 8, 0.1, reservations)]
    return request([pool("train", types, *wanted)], pending, reservations, **more)


def slots(plan: Plan) -> list[str | None]:
    return [claim.reservation_id for claim in plan.claims]


@pytest.mark.fact("TI-4")
@pytest.mark.parametrize(
    ("lasts_s", "expected"),
    [
        (3 * HOUR_S - LEAD_S - START_S, "cr-1"),
        (3 * HOUR_S - LEAD_S - START_S + 1, None),
        (None, "cr-1"),  # an unknown run time may use every reservation
    ],
)
def test_pod_uses_a_block_only_if_it_ends_before_the_drain(lasts_s: int | None, expected: str | None) -> None:
    plan = solve(plan_request([block("cr-1", 3 * HOUR_S)], running_for(1, lasts_s)))
    assert slots(plan) == [expected]


@pytest.mark.parametrize(("ends_s", "expected"), [(HOUR_S, "cr-1"), (HOUR_S + 1, None)])
def test_pod_with_a_deadline_uses_a_block_whose_drain_begins_later(ends_s: int, expected: str | None) -> None:
    plan = solve(plan_request([block("cr-1", HOUR_S + LEAD_S)], running_for(1, ends_s=ends_s)))
    assert slots(plan) == [expected]


def test_of_a_length_and_a_deadline_the_earlier_end_counts() -> None:
    drains_s = 3 * HOUR_S - LEAD_S
    by_deadline = plan_request([block("cr-1", 3 * HOUR_S)], running_for(1, 9 * HOUR_S, drains_s))
    by_length = plan_request([block("cr-1", 3 * HOUR_S)], running_for(1, HOUR_S, 9 * HOUR_S))
    neither = plan_request([block("cr-1", 3 * HOUR_S)], running_for(1, 9 * HOUR_S, 9 * HOUR_S))
    assert [slots(solve(one)) for one in (by_deadline, by_length, neither)] == [["cr-1"], ["cr-1"], [None]]


def test_of_blocks_that_last_the_one_that_ends_soonest_is_used() -> None:
    blocks = [block("cr-long", 48 * HOUR_S), block("cr-short", 2 * HOUR_S), block("cr-middle", 24 * HOUR_S)]
    plan = solve(plan_request(blocks, running_for(1, 5 * HOUR_S)))
    assert slots(plan) == ["cr-middle"]
    assert solve(plan_request(blocks, running_for(1, 600))).claims[0].reservation_id == "cr-short"


def test_claim_may_not_be_launched_into_a_block_that_ends_too_soon() -> None:
    blocks = [block("cr-long", 48 * HOUR_S), block("cr-short", 2 * HOUR_S)]
    (claim,) = solve(plan_request(blocks, running_for(1, 5 * HOUR_S))).claims
    assert claim.requirements.get(RESERVATION_ID).values == {"cr-long"}
    (on_demand,) = solve(plan_request([block("cr-short", 2 * HOUR_S)], running_for(1, 5 * HOUR_S))).claims
    assert not on_demand.requirements.get(RESERVATION_ID).has("cr-short")


def test_reservation_that_keeps_its_instances_after_its_end_is_used() -> None:
    ending = reservation("cr-1", "m5.large", end_s=HOUR_S)
    assert slots(solve(plan_request([ending], running_for(1, 9 * HOUR_S)))) == ["cr-1"]


def test_node_in_a_block_that_ends_too_soon_takes_no_such_pod() -> None:
    there = node("n-1", labels={names.CAPACITY_TYPE: "reserved", RESERVATION_ID: "cr-1"})
    blocks = [block("cr-1", 2 * HOUR_S, available=0, total=1)]
    long = solve(plan_request(blocks, running_for(1, 5 * HOUR_S), nodes=(there,)))
    short = solve(plan_request(blocks, running_for(1, 600), nodes=(there,)))
    assert (len(long.placed), len(long.claims)) == (0, 1)
    assert (len(short.placed), len(short.claims)) == (1, 0)


def test_reason_names_when_the_drain_begins_and_how_long_the_pod_may_run() -> None:
    plan = solve(plan_request([block("cr-1", 3 * HOUR_S)], running_for(1, 5 * HOUR_S), RESERVED))
    assert reasons(plan) == {"pod-000000": [ReasonCode.ENDS_TOO_SOON]}
    (unplaced,) = plan.unplaced
    assert sentences(unplaced.reasons) == (
        "block cr-1 ends too soon: its nodes are drained from 02:20 on (UTC), and the pod may run for 5 hours"
    )


def test_reason_of_a_deadline_names_the_deadline() -> None:
    plan = solve(plan_request([block("cr-1", 3 * HOUR_S)], running_for(1, ends_s=5 * HOUR_S), RESERVED))
    (unplaced,) = plan.unplaced
    assert sentences(unplaced.reasons).endswith("and the pod may run until 05:00 (UTC)")


def test_pod_on_demand_has_the_reason_of_each_block() -> None:
    blocks = [block("cr-1", 3 * HOUR_S), block("cr-2", 3 * HOUR_S)]
    one = plan_request(blocks, running_for(1, 5 * HOUR_S))
    plan = solve(dataclasses.replace(one, explain_slots=True))
    (not_reserved,) = plan.not_reserved
    assert [(reason.code, reason.subjects) for reason in not_reserved.reasons] == [
        (ReasonCode.ENDS_TOO_SOON, ("cr-1", "cr-2"))
    ]


def test_pod_that_selects_the_block_by_its_id_is_refused_with_the_reason() -> None:
    chosen = shape(1500, node_selector=from_labels({RESERVATION_ID: "cr-1"}))
    pod = tuple(one._replace(run_time=RunTime(9 * HOUR_S)) for one in pods(1, chosen))
    plan = solve(plan_request([block("cr-1", 3 * HOUR_S)], pod))
    assert reasons(plan) == {"pod-000000": [ReasonCode.ENDS_TOO_SOON]}


def test_pod_that_requires_a_reservation_is_not_launched_on_demand_because_of_its_run_time() -> None:
    """Exists and NotIn together would allow nodes without a reservation."""
    exists = of(requirement.of(RESERVATION_ID, Operator.EXISTS))
    (pod,) = pods(1, shape(1500, required_terms=(exists,)))
    blocks = [block("cr-short", 3 * HOUR_S), block("cr-long", 48 * HOUR_S, available=0, total=1)]
    plan = solve(plan_request(blocks, (pod._replace(run_time=RunTime(9 * HOUR_S)),)))
    assert (plan.claims, len(plan.unplaced)) == ((), 1)
    alone = solve(plan_request(blocks[:1], (pod._replace(run_time=RunTime(9 * HOUR_S)),)))
    assert reasons(alone) == {"pod-000000": [ReasonCode.ENDS_TOO_SOON]}


def test_gang_is_not_placed_in_part_because_of_a_block_that_ends_too_soon() -> None:
    blocks = [block("cr-short", 2 * HOUR_S, available=3), block("cr-long", 48 * HOUR_S, available=2)]
    members = running_for(3, 5 * HOUR_S)
    one = plan_request(blocks, members, RESERVED, gangs=(gang("train", members, 3),))
    plan = gangs.solve(one)
    assert plan.claims == ()
    (text,) = {sentences(found.reasons) for found in plan.unplaced}
    assert "only 2 of the 3 pods that it needs would have a node (2 in cr-long)" in text
    assert "block cr-short ends too soon" in text


def test_reason_names_a_block_with_free_slots_that_ends_too_soon_beside_a_full_one() -> None:
    blocks = [block("cr-free", 3 * HOUR_S), block("cr-full", 48 * HOUR_S, available=0, total=1)]
    plan = solve(plan_request(blocks, running_for(1, 5 * HOUR_S), RESERVED))
    assert reasons(plan) == {"pod-000000": [ReasonCode.ENDS_TOO_SOON, ReasonCode.WAITS_FOR_SLOT]}
    assert [reason.subjects for reason in plan.unplaced[0].reasons] == [("cr-free",), ("cr-full",)]


def test_pods_of_many_lengths_are_few_classes() -> None:
    blocks = [block(f"cr-{n}", (n + 2) * HOUR_S) for n in range(3)]
    pending = tuple(
        pod._replace(run_time=RunTime(ends_s=60 * number)) for number, pod in enumerate(pods(1000, shape(10)))
    )
    one = plan_request(blocks, pending)
    found = lasting.with_lasting(pending, one.snapshot, START_S)
    assert len({id(pod.shape) for pod in found}) == 4
    assert [pod.uid for pod in found] == [pod.uid for pod in pending]


def test_upcoming_block_counts_from_its_start() -> None:
    upcoming = block("cr-1", 10 * HOUR_S, start_s=6 * HOUR_S)
    one = plan_request([upcoming], running_for(1, 4 * HOUR_S), RESERVED)
    assert reasons(solve(one)) == {"pod-000000": [ReasonCode.ENDS_TOO_SOON]}
    shorter = plan_request([upcoming], running_for(1, 3 * HOUR_S), RESERVED)
    assert reasons(solve(shorter)) == {"pod-000000": [ReasonCode.NOT_STARTED]}


def test_without_a_block_the_pods_are_not_changed() -> None:
    pending = running_for(2, HOUR_S)
    one = plan_request([reservation("cr-1", "m5.large")], pending)
    assert list(lasting.with_lasting(pending, one.snapshot, START_S)) == list(pending)
