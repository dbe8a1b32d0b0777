"""Simulation of disruption: where the pods of the candidates are placed, and which pods block it."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.disruption import simulation
from holdfast.core.disruption.inputs import DisruptionInput, Settings
from holdfast.core.disruption.simulation import SimulationResult, Simulator
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import resources
from holdfast.model.pods import TopologySpread
from holdfast.model.snapshot import NodeView, Snapshot
from planner_builders import (
    fake_types,
    gang,
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


def request_with(*nodes: NodeView, **more: Any) -> SolveRequest:
    of_pool = pool("default", more.pop("types", FOUR_CORES), **more.pop("of_pool", {}))
    return request([of_pool], more.pop("pending", ()), nodes=nodes, **more)


def simulate(solve_request: SolveRequest, *candidates: str, **more: Any) -> tuple[Plan, Snapshot]:
    snapshot = simulation.without(solve_request.snapshot, candidates, **more)
    return solve(replace(solve_request, snapshot=snapshot)), snapshot


@pytest.mark.fact("S-15", "S-3")
def test_pods_of_a_candidate_are_placed_on_other_nodes() -> None:
    plan, _ = simulate(request_with(OLD, node("other")), "old")
    assert placed(plan) == {"other": ("old-000000",)}
    plan, _ = simulate(request_with(OLD), "old")
    assert [claim.pods for claim in plan.claims] == [("old-000000",)]


@pytest.mark.fact("S-74")
def test_replacement_may_exceed_the_limit_of_the_nodepool() -> None:
    full = {
        "limits": resources.of({"cpu": 4000, "nodes": 1}),
        "used": resources.of({"cpu": 4000, "nodes": 1}),
    }
    solve_request = request_with(OLD, of_pool=full, pending=pods(1, shape(3000)))
    assert not solve(solve_request).claims
    plan, _ = simulate(solve_request, "old")
    assert len(plan.claims) == 1


def test_deleting_candidate_does_not_free_the_limit_twice() -> None:
    deleting = replace(OLD, deleting=True)
    full = {"limits": resources.of({"cpu": 4000}), "used": resources.of({"cpu": 4000})}
    plan, snapshot = simulate(request_with(deleting, of_pool=full), "old")
    assert snapshot.node_pools[0].used["cpu"] == 4000
    assert not plan.claims


# --- Unsettled nodes --------------------------------------------------------------------------------


def changed_node(seconds_ago: int) -> NodeView:
    return node("changed", last_pod_event_s=10 * HOUR_S - seconds_ago)


def consolidation_plan(*nodes: NodeView, after_s: int | None = HOUR_S, **more: Any) -> Plan:
    solve_request = request_with(
        *nodes, of_pool={"consolidate_after_s": after_s}, taken_s=10 * HOUR_S, **more
    )
    return simulate(solve_request, "old", consolidating=True)[0]


@pytest.mark.fact("S-25")
@pytest.mark.parametrize(
    ("seconds_ago", "after_s", "is_used"), [(60, HOUR_S, False), (HOUR_S, HOUR_S, True), (60, None, True)]
)
def test_unsettled_node_gets_no_pods_from_consolidation(
    seconds_ago: int, after_s: int | None, *, is_used: bool
) -> None:
    plan = consolidation_plan(OLD, changed_node(seconds_ago), after_s=after_s)
    assert bool(placed(plan)) is is_used
    assert len(plan.claims) == (0 if is_used else 1)
    assert not any("unsettled" in key for claim in plan.claims for key in claim.requirements.by_key)


@pytest.mark.fact("S-25")
def test_pending_and_displaced_pods_may_use_an_unsettled_node() -> None:
    deleting = node("going", pods=running(1, shape(1000), "gone"), deleting=True)
    plan = consolidation_plan(OLD, changed_node(60), deleting, pending=pods(1, shape(1000)))
    assert placed(plan) == {"changed": ("gone-000000", "pod-000000")}
    assert [claim.pods for claim in plan.claims] == [("old-000000",)]


@pytest.mark.fact("S-25")
def test_simulation_without_consolidation_uses_an_unsettled_node() -> None:
    solve_request = request_with(
        OLD, changed_node(60), of_pool={"consolidate_after_s": HOUR_S}, taken_s=10 * HOUR_S
    )
    assert placed(simulate(solve_request, "old")[0]) == {"changed": ("old-000000",)}


def test_pods_on_an_unsettled_node_count_for_topology_spread() -> None:
    spread = TopologySpread("topology.kubernetes.io/zone", 1, True, selector(app="web"))
    old = node("old", pods=running(1, shape(1000, spreads=(spread,))))
    busy = replace(changed_node(60), pods=running(1, shape(1000), "busy"))
    plan = consolidation_plan(old, busy)
    assert [claim.zone for claim in plan.claims] == ["z2"]


# --- Pods that block a deletion ---------------------------------------------------------------------


def result_of(solve_request: SolveRequest) -> SimulationResult:
    """The simulation that every disruption method runs before it disrupts the node `old`."""
    return Simulator(DisruptionInput(solve_request.snapshot), Settings()).simulate([OLD])


@pytest.mark.fact("S-104")
def test_pod_that_is_already_pending_does_not_block_the_deletion_of_a_node() -> None:
    pending = pods(1, shape(99_000))
    result = result_of(request_with(OLD, node("other"), pending=pending, types=fake_types(1)))
    assert [one.pod for one in result.plan.unplaced] == ["pod-000000"]
    assert result.stuck is None


@pytest.mark.fact("S-104")
def test_pod_that_fits_on_no_other_node_blocks_the_deletion_of_its_node() -> None:
    result = result_of(request_with(OLD, types=fake_types(1)))
    assert [one.pod for one in result.plan.unplaced] == ["old-000000"]
    assert result.stuck is not None
    assert result.stuck.subject == "default/old-0"


@pytest.mark.parametrize(("least", "is_stuck"), [(1, False), (2, True)])
def test_a_member_of_a_gang_moves_only_if_enough_members_have_a_node(least: int, *, is_stuck: bool) -> None:
    """The other member of the gang is pending and fits nowhere."""
    lost = pods(1, shape(99_000), "lost")
    group = gang("train", (*OLD.pods, *lost), least)
    result = result_of(request_with(OLD, node("other"), pending=lost, gangs=(group,)))
    assert (result.stuck is not None) == is_stuck
    if result.stuck is not None:
        assert "PodGroup default/train: only 1 of the 2 pods that it needs" in result.stuck.text


def test_members_of_a_running_gang_move_one_by_one() -> None:
    others = running(2, shape(1000), "others")
    group = gang("train", (*OLD.pods, *others), 3)
    result = result_of(request_with(OLD, node("other"), node("full", pods=others), gangs=(group,)))
    assert (result.stuck, placed(result.plan)) == (None, {"other": ("old-000000",)})
