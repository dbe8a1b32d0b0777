"""Which nodes are candidates for disruption, what blocks the other nodes, and what disruption costs."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import (
    FREE,
    HOUR_S,
    LARGE,
    MEDIUM,
    NOW_S,
    SMALL,
    disruption_input,
    load,
    managed_node,
    pdb,
)
from holdfast import names
from holdfast.core.disruption import costs
from holdfast.core.disruption.candidates import CandidateSet
from holdfast.core.disruption.costs import POD, Cost
from holdfast.core.disruption.inputs import DisruptionInput, NodeFacts
from holdfast.model.reasons import BlockedCode
from holdfast.model.snapshot import NodeView
from planner_builders import NANO, pool, reservation, shape

WEB = shape(1000)
BUSY = managed_node("n1", pods=load("web", WEB))


def refusal(one: NodeView, facts: NodeFacts | None = None, **more: Any) -> str | None:
    candidate_set = CandidateSet(disruption_input(one, facts={one.name: facts} if facts else {}, **more))
    why = candidate_set.refused.get(one.name)
    return why.code if why else None


@pytest.mark.fact("D-4")
@pytest.mark.parametrize(
    ("one", "facts", "code"),
    [
        (BUSY, NodeFacts(), None),
        (BUSY, NodeFacts(queued=True), BlockedCode.QUEUED),
        (managed_node("n1", claim=None), NodeFacts(), BlockedCode.NOT_OURS),
        (BUSY, NodeFacts(rebooting=True), BlockedCode.REBOOTING),
        (managed_node("n1", initialized=False), NodeFacts(), BlockedCode.UNINITIALIZED),
        (managed_node("n1", deleting=True), NodeFacts(), BlockedCode.DELETING),
        (managed_node("n1", nominated=True), NodeFacts(), BlockedCode.NOMINATED),
        (BUSY, NodeFacts(do_not_disrupt=True), BlockedCode.DO_NOT_DISRUPT),
    ],
)
def test_node_is_a_candidate_unless_it_is_blocked(
    one: NodeView, facts: NodeFacts, code: BlockedCode | None
) -> None:
    assert refusal(one, facts) is code


@pytest.mark.fact("D-4")
def test_a_node_without_a_usable_node_pool_is_no_candidate() -> None:
    assert refusal(BUSY, pools=[pool("other")]) is BlockedCode.NO_NODE_POOL
    assert refusal(BUSY, pools=[pool("default")]) is BlockedCode.NO_NODE_POOL
    unmanaged = replace(BUSY, node_pool=None)
    assert refusal(unmanaged) is BlockedCode.NOT_OURS


def blocked(*nodes: NodeView, **more: Any) -> str | None:
    found = CandidateSet(disruption_input(*nodes, **more)).candidates[nodes[0].name].pods_block
    return found.code if found else None


@pytest.mark.fact("D-5", "D-6")
def test_do_not_disrupt_pod_blocks_its_node_even_if_it_is_a_daemonset_or_mirror_pod() -> None:
    assert (
        blocked(managed_node("n1", pods=load("web", WEB, do_not_disrupt=True)))
        is BlockedCode.POD_DO_NOT_DISRUPT
    )
    of_daemon = load("logs", WEB, do_not_disrupt=True, from_daemon_set=True, reschedulable=False)
    assert blocked(managed_node("n1", pods=of_daemon)) is BlockedCode.POD_DO_NOT_DISRUPT
    mirror = load("proxy", WEB, do_not_disrupt=True, mirror=True, reschedulable=False)
    assert blocked(managed_node("n1", pods=mirror)) is BlockedCode.POD_DO_NOT_DISRUPT
    assert blocked(BUSY) is None


@pytest.mark.fact("D-5")
def test_exhausted_pod_disruption_budget_blocks_and_so_do_two_budgets_of_one_pod() -> None:
    assert blocked(BUSY, budgets=(pdb(allowed=0),)) is BlockedCode.BUDGET_OF_PODS
    assert blocked(BUSY, budgets=(pdb(allowed=1),)) is None
    assert (
        blocked(BUSY, budgets=(pdb(allowed=1), pdb(allowed=1, name="second"))) is BlockedCode.BUDGET_OF_PODS
    )
    assert blocked(BUSY, budgets=(pdb("other", allowed=0),)) is None


@pytest.mark.fact("D-5")
def test_pod_disruption_budget_does_not_block_terminating_or_evictable_unhealthy_pods() -> None:
    terminating = managed_node("n1", pods=load("web", WEB, terminating=True))
    assert blocked(terminating, budgets=(pdb(allowed=0),)) is None
    unhealthy = managed_node("n1", pods=load("web", WEB, ready=False))
    assert blocked(unhealthy, budgets=(pdb(allowed=0, always_allows_unhealthy=True),)) is None
    assert blocked(unhealthy, budgets=(pdb(allowed=0),)) is BlockedCode.BUDGET_OF_PODS


# --- What disruption costs -----------------------------------------------------------------------------


@pytest.mark.fact("D-7")
def test_eviction_cost_depends_on_deletion_cost_and_priority_within_bounds() -> None:
    (pod,) = load("web", WEB)
    assert costs.eviction_cost(pod) == POD
    assert costs.eviction_cost(pod._replace(deletion_cost=2**27)) == 2 * POD
    assert costs.eviction_cost(pod._replace(priority=2**25)) == 2 * POD
    assert costs.eviction_cost(pod._replace(deletion_cost=2**31 - 1, priority=2**31 - 1)) == 10 * POD
    assert costs.eviction_cost(pod._replace(deletion_cost=-(2**31), priority=-(2**31))) == -10 * POD


@pytest.mark.fact("D-7")
def test_node_close_to_its_expiration_costs_less_to_disrupt() -> None:
    node = managed_node("n1", pods=load("web", WEB, 4))
    assert costs.disruption_cost(node, NOW_S) == 4 * POD
    assert costs.disruption_cost(node, NOW_S, NOW_S - 3 * HOUR_S, 4 * HOUR_S) == POD
    assert costs.disruption_cost(node, NOW_S, NOW_S - 5 * HOUR_S, 4 * HOUR_S) == 0


@pytest.mark.fact("D-8")
def test_node_with_only_daemonset_pods_or_pods_without_eviction_cost_is_empty() -> None:
    cheap = load("web", WEB, deletion_cost=-(2**27))
    assert costs.is_empty(managed_node("n1"))
    assert costs.is_empty(managed_node("n1", pods=cheap))
    assert costs.is_empty(
        managed_node("n1", pods=load("logs", WEB, from_daemon_set=True, reschedulable=False))
    )
    assert not costs.is_empty(BUSY)


# --- What a node costs ---------------------------------------------------------------------------------


def cost(one: NodeView, **more: Any) -> Cost:
    return CandidateSet(disruption_input(one, **more)).cost(one)


@pytest.mark.fact("R-36")
def test_node_cost_is_the_price_of_its_type_in_its_zone_and_capacity_type() -> None:
    assert cost(managed_node("n1", LARGE)) == Cost(round(0.4 * NANO))
    assert cost(managed_node("n1", SMALL, capacity_type=names.SPOT)) == Cost(round(0.04 * NANO))
    assert cost(managed_node("n1", "unheard-of")) == Cost(0)
    assert cost(managed_node("n1", MEDIUM, zone="z9")) == Cost(0)


@pytest.mark.fact("Q-27", "D-22", "W-8")
def test_reserved_nodes_cost_nothing_and_are_ordered_by_the_price_of_their_type() -> None:
    reservations = [
        reservation("cr-1", LARGE, available=0, total=1),
        reservation("cr-2", SMALL, available=0, total=1),
    ]
    big = cost(managed_node("n1", LARGE, slot="cr-1"), reservations=reservations)
    little = cost(managed_node("n1", SMALL, slot="cr-2"), reservations=reservations)
    assert big.paid_nano == little.paid_nano == 0
    assert little < big < Cost(1)


@pytest.mark.fact("R-36")
def test_cost_of_a_reserved_node_does_not_depend_on_whether_its_reservation_is_offered() -> None:
    """The reservation may be full, unknown or not offered. A node without a price must not look free to replace."""
    reservations = [reservation("cr-1", LARGE, available=0, total=1)]
    full = cost(managed_node("n1", LARGE, slot="cr-1"), reservations=reservations)
    unknown = cost(managed_node("n1", LARGE, slot="cr-2"), reservations=reservations)
    not_offered = cost(managed_node("n1", LARGE, slot="cr-1"))
    assert full == unknown == not_offered == Cost(0, round(0.4 * NANO))


def order(*nodes: NodeView, **more: Any) -> list[str]:
    found: DisruptionInput = disruption_input(*nodes, **more)
    return [one.name for one in sorted(CandidateSet(found).candidates.values(), key=lambda one: one.order)]


@pytest.mark.fact("D-22")
def test_candidates_are_ordered_by_saving_per_disruption_cost_with_reserved_nodes_last() -> None:
    reservations = [reservation("cr-1", LARGE, available=0, total=1)]
    nodes = [
        managed_node("a", LARGE, load("a", WEB), slot="cr-1"),
        managed_node("b", SMALL, load("b", WEB)),
        managed_node("c", LARGE, load("c", WEB)),
        managed_node("d", LARGE, load("d", WEB, 6)),
    ]
    assert order(*nodes, reservations=reservations, rules=FREE) == ["c", "d", "b", "a"]


@pytest.mark.fact("NC-42")
@pytest.mark.parametrize(
    ("event_s", "initialized_s", "after_s", "settled"),
    [
        (NOW_S - 60, 0, 60, True),
        (NOW_S - 59, 0, 60, False),
        (None, NOW_S - 59, 60, False),
        (None, NOW_S - 60, 60, True),
        (None, 0, None, False),
    ],
)
def test_node_is_consolidatable_after_enough_time_without_pod_events(
    event_s: int | None, initialized_s: int, after_s: int | None, *, settled: bool
) -> None:
    node = replace(BUSY, last_pod_event_s=event_s)
    assert is_settled(node, NodeFacts(initialized_s=initialized_s), after_s) is settled
    assert not is_settled(replace(node, initialized=False), NodeFacts(initialized_s=0), 0)


def is_settled(node: NodeView, facts: NodeFacts, after_s: int | None) -> bool:
    candidate_set = CandidateSet(disruption_input(node, facts={node.name: facts}))
    return candidate_set.candidate(node).is_settled(after_s, NOW_S)
