"""What if some nodes went: who moves, where to, and what it may cost."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.disruption import simulation
from holdfast.core.disruption.inputs import DisruptionInput, Settings
from holdfast.core.disruption.simulation import Answer, Simulator
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import resources
from holdfast.model.pods import TopologySpread
from holdfast.model.snapshot import NodeView, Snapshot
from planner_builders import (
    fake_types,
    instance_type,
    node,
    placed,
    pods,
    pool,
    request,
    running,
    selector,
    shape,
)

FOUR_CORES = [instance_type("only", 4, 16, 1.0)]
OLD = node("old", pods=running(1, shape(3000)))
HOUR_S = 3600


def world(*nodes: NodeView, **more: Any) -> SolveRequest:
    of_pool = pool("default", more.pop("types", FOUR_CORES), **more.pop("of_pool", {}))
    return request([of_pool], more.pop("pending", ()), nodes=nodes, **more)


def simulated(asked: SolveRequest, *candidates: str, **more: Any) -> tuple[Plan, Snapshot]:
    snapshot = simulation.without(asked.snapshot, candidates, **more)
    return solve(replace(asked, snapshot=snapshot)), snapshot


@pytest.mark.fact("S-15", "S-3")
def test_the_pods_of_candidates_move_and_candidates_get_none() -> None:
    plan, _ = simulated(world(OLD, node("other")), "old")
    assert placed(plan) == {"other": ("old-000000",)}
    plan, _ = simulated(world(OLD), "old")
    assert [claim.pods for claim in plan.claims] == [("old-000000",)]


@pytest.mark.fact("S-74")
def test_a_replacement_may_exceed_the_limit_for_a_while() -> None:
    full = {
        "limits": resources.of({"cpu": 4000, "nodes": 1}),
        "used": resources.of({"cpu": 4000, "nodes": 1}),
    }
    asked = world(OLD, of_pool=full, pending=pods(1, shape(3000)))
    assert not solve(asked).claims
    plan, _ = simulated(asked, "old")
    assert len(plan.claims) == 1


def test_limits_are_freed_once_where_a_candidate_is_going_anyway() -> None:
    going = replace(OLD, deleting=True)
    full = {"limits": resources.of({"cpu": 4000}), "used": resources.of({"cpu": 4000})}
    plan, snapshot = simulated(world(going, of_pool=full), "old")
    assert snapshot.node_pools[0].used["cpu"] == 4000
    assert not plan.claims


# --- Nodes that only just changed -------------------------------------------------------------------


def changed(seconds_ago: int) -> NodeView:
    return node("changed", last_pod_event_s=10 * HOUR_S - seconds_ago)


def consolidated(*nodes: NodeView, after_s: int | None = HOUR_S, **more: Any) -> Plan:
    asked = world(*nodes, of_pool={"consolidate_after_s": after_s}, taken_s=10 * HOUR_S, **more)
    return simulated(asked, "old", consolidating=True)[0]


@pytest.mark.fact("S-25")
@pytest.mark.parametrize(
    ("seconds_ago", "after_s", "taken"), [(60, HOUR_S, False), (HOUR_S, HOUR_S, True), (60, None, True)]
)
def test_a_node_within_its_window_takes_no_pod_that_consolidation_moves(
    seconds_ago: int, after_s: int | None, *, taken: bool
) -> None:
    plan = consolidated(OLD, changed(seconds_ago), after_s=after_s)
    assert bool(placed(plan)) is taken
    assert len(plan.claims) == (0 if taken else 1)
    assert not any("unsettled" in key for claim in plan.claims for key in claim.requirements.by_key)


@pytest.mark.fact("S-25")
def test_pending_pods_and_pods_of_nodes_that_go_anyway_may_use_it() -> None:
    going = node("going", pods=running(1, shape(1000), "gone"), deleting=True)
    plan = consolidated(OLD, changed(60), going, pending=pods(1, shape(1000)))
    assert placed(plan) == {"changed": ("gone-000000", "pod-000000")}
    assert [claim.pods for claim in plan.claims] == [("old-000000",)]


@pytest.mark.fact("S-25")
def test_other_simulations_use_such_a_node() -> None:
    asked = world(OLD, changed(60), of_pool={"consolidate_after_s": HOUR_S}, taken_s=10 * HOUR_S)
    assert placed(simulated(asked, "old")[0]) == {"changed": ("old-000000",)}


def test_pods_on_such_a_node_still_count() -> None:
    spread = TopologySpread("topology.kubernetes.io/zone", 1, True, selector(app="web"))
    old = node("old", pods=running(1, shape(1000, spreads=(spread,))))
    busy = replace(changed(60), pods=running(1, shape(1000), "busy"))
    plan = consolidated(old, busy)
    assert [claim.zone for claim in plan.claims] == ["z2"]


# --- Whether the answer will do ---------------------------------------------------------------------


def answered(asked: SolveRequest) -> Answer:
    """What every method of disruption asks before it takes the node `old`."""
    return Simulator(DisruptionInput(asked.snapshot), Settings()).ask([OLD])


@pytest.mark.fact("S-104")
def test_a_pod_that_was_pending_before_does_not_keep_a_node_from_going() -> None:
    pending = pods(1, shape(99_000))
    answer = answered(world(OLD, node("other"), pending=pending, types=fake_types(1)))
    assert [one.pod for one in answer.plan.unplaced] == ["pod-000000"]
    assert answer.stuck is None


@pytest.mark.fact("S-104")
def test_a_pod_that_would_lose_its_place_does() -> None:
    answer = answered(world(OLD, types=fake_types(1)))
    assert [one.pod for one in answer.plan.unplaced] == ["old-000000"]
    assert answer.stuck is not None
    assert answer.stuck.subject == "default/old-0"
