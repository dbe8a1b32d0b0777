"""Pods of nodes that are being deleted: which are planned, which stay, and which count for topology."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input import displaced
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import PodShape, PodTerm, PodView, TopologySpread
from holdfast.model.selectors import LabelSelector
from holdfast.model.snapshot import BudgetView
from holdfast.model.taints import Effect, Toleration, TolerationOperator
from holdfast.state.conversion import budgets
from objects import budget
from planner_builders import fake_types, node, placed, pods, pool, request, running, selector, shape

TOLERATES_DISRUPTION = Toleration(names.DISRUPTED_TAINT, TolerationOperator.EXISTS, effect=Effect.NO_SCHEDULE)
SPREAD = TopologySpread(names.ZONE, 1, True, selector(app="web"))
APART = PodTerm(names.ZONE, selector(app="web"), ("default",))


def plan_for_deleting_node(*displaced_pods: PodView, **more: Any) -> Plan:
    """A plan for a cluster with one deleting node that has these pods, and one other node."""
    deleting_node = node("going", pods=displaced_pods, deleting=True)
    return solve(request([pool("default", fake_types(9))], (), nodes=(deleting_node, node("stays")), **more))


def one(of: PodShape | None = None, **more: Any) -> PodView:
    return running(1, of or shape(), **more)[0]


def blocking(name: str = "pdb", **more: Any) -> BudgetView:
    return BudgetView(
        "default", name, selector(app="web"), **({"fully_blocking": True} | more), disruptions_allowed=0
    )


@pytest.mark.fact("S-3")
def test_pods_of_a_deleting_node_are_planned_like_pending_pods() -> None:
    deleting_node = node("going", pods=running(2, shape(3000)), deleting=True)
    pending = pods(1, shape(1000))
    plan = solve(request([pool("default", fake_types(9))], pending, nodes=(deleting_node, node("stays"))))
    assert placed(plan) == {"stays": ("old-000000", "pod-000000")}
    assert [claim.pods for claim in plan.claims] == [("old-000001",)]


@pytest.mark.fact("S-3", "S-15")
def test_a_deleting_node_gets_no_pods() -> None:
    deleting_node = node("going", deleting=True)
    plan = solve(request([pool("default", fake_types(9))], pods(1, shape()), nodes=(deleting_node,)))
    assert not plan.placed
    assert len(plan.claims) == 1


def test_a_displaced_pod_that_is_also_pending_is_planned_once() -> None:
    pod = one()
    plan = solve(
        request([pool("default", fake_types(9))], [pod], nodes=(node("going", pods=(pod,), deleting=True),))
    )
    assert [claim.pods for claim in plan.claims] == [(pod.uid,)]


@pytest.mark.fact("S-3")
@pytest.mark.parametrize(
    "fields",
    [{"reschedulable": False}, {"from_daemon_set": True, "reschedulable": False}, {"do_not_disrupt": True}],
)
def test_a_pod_that_is_not_reschedulable_or_must_not_be_disrupted_is_not_planned(
    fields: dict[str, Any],
) -> None:
    plan = plan_for_deleting_node(one(**fields))
    assert not plan.placed
    assert not plan.claims
    assert not plan.unplaced


@pytest.mark.fact("S-3", "S-5")
def test_a_pod_of_a_fully_blocking_disruption_budget_is_not_planned() -> None:
    assert not plan_for_deleting_node(one(), budgets=(blocking(),)).placed
    assert placed(plan_for_deleting_node(one(), budgets=(blocking(fully_blocking=False),))) == {
        "stays": ("old-000000",)
    }


@pytest.mark.fact("S-5")
@pytest.mark.parametrize(
    ("spec", "blocks"),
    [
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": "0%"}, True),
        ({"minAvailable": "100%"}, True),
        ({"maxUnavailable": 1}, False),
        ({"minAvailable": "99%"}, False),
        ({"minAvailable": 5}, False),
    ],
)
def test_a_disruption_budget_blocks_fully_when_it_can_never_allow_a_disruption(
    spec: dict[str, Any], *, blocks: bool
) -> None:
    view = budgets.view(budget("pdb", selector={"matchLabels": {"app": "web"}}, **spec))
    assert displaced.is_blocked(one(), [view]) is blocks


@pytest.mark.fact("S-5")
def test_two_disruption_budgets_for_one_pod_block_it() -> None:
    lenient = [blocking(name, fully_blocking=False) for name in ("a", "b")]
    assert displaced.is_blocked(one(), lenient)
    assert not displaced.is_blocked(one(), lenient[:1])


@pytest.mark.fact("S-5")
def test_a_disruption_budget_with_always_allow_blocks_only_ready_pods() -> None:
    view = blocking(always_allows_unhealthy=True)
    assert displaced.is_blocked(one(), [view])
    assert not displaced.is_blocked(one(ready=False), [view])
    assert displaced.is_blocked(one(ready=False), [blocking()])


def test_a_disruption_budget_blocks_only_the_pods_it_selects_in_its_namespace() -> None:
    assert not displaced.is_blocked(one(shape(namespace="other")), [blocking()])
    assert not displaced.is_blocked(one(shape(app="db")), [blocking()])
    selects_all = BudgetView("default", "all", LabelSelector(), fully_blocking=True, disruptions_allowed=0)
    selects_none = BudgetView("default", "none", None, fully_blocking=True, disruptions_allowed=0)
    assert displaced.is_blocked(one(shape(app="db")), [selects_all])
    assert not displaced.is_blocked(one(), [selects_none])


@pytest.mark.fact("S-6")
@pytest.mark.parametrize(
    ("pod", "evictable"),
    [
        (one(), True),
        (one(from_daemon_set=True, reschedulable=False), True),
        (one(terminating=True), False),
        (one(mirror=True), False),
        (one(do_not_disrupt=True), False),
        (one(shape(tolerations=(TOLERATES_DISRUPTION,))), False),
    ],
)
def test_which_pods_are_evictable(pod: PodView, *, evictable: bool) -> None:
    assert displaced.is_evictable(pod) is evictable


@pytest.mark.fact("S-5", "S-6", "S-3")
@pytest.mark.parametrize("pod", [one(terminating=True), one(shape(tolerations=(TOLERATES_DISRUPTION,)))])
def test_disruption_budgets_do_not_block_a_pod_that_is_never_evicted(pod: PodView) -> None:
    plan = plan_for_deleting_node(pod, budgets=(blocking(), blocking("another")))
    assert placed(plan) == {"stays": (pod.uid,)}


# --- Which pods count for topology ------------------------------------------------------------------


def node_of_next_pod(**more: Any) -> str:
    """The node of a pod that is spread over zones: a in z1 or b in z2; z1 comes first by name."""
    nodes = (node("a", zone="z1", **more), node("b", zone="z2"))
    pending = pods(1, shape(spreads=(SPREAD,)))
    (one,) = solve(request([pool("default", fake_types(9))], pending, nodes=nodes)).placed
    return one.node


@pytest.mark.fact("S-77")
def test_a_terminating_pod_does_not_count_for_a_spread_but_uses_capacity() -> None:
    assert node_of_next_pod() == "a"
    assert node_of_next_pod(pods=running(1, shape())) == "b"
    assert node_of_next_pod(pods=running(1, shape(), terminating=True)) == "a"
    assert node_of_next_pod(pods=running(1, shape(3500), terminating=True)) == "b"


@pytest.mark.fact("S-77")
def test_a_pod_that_stays_on_a_deleting_node_counts_for_topology_and_a_displaced_pod_does_not() -> None:
    def claimed_zone(**more: Any) -> str:
        deleting_node = node("going", pods=running(1, shape(100), **more), deleting=True)
        pending = pods(1, shape(anti_affinity=(APART,)))
        plan = solve(request([pool("default", fake_types(9))], pending, nodes=(deleting_node,)))
        return next(claim.zone for claim in plan.claims if "pod-000000" in claim.pods)

    assert claimed_zone() == "z1"
    assert claimed_zone(do_not_disrupt=True) == "z2"


def test_hostname_affinity_starts_no_second_group_while_a_pod_stays_on_a_deleting_node() -> None:
    together = shape(
        100, labels=(("app", "web"),), affinity=(PodTerm(names.HOSTNAME, selector(app="web"), ("default",)),)
    )

    def unplaced(**more: Any) -> int:
        deleting_node = node("going", pods=running(1, together, **more), deleting=True)
        return len(
            solve(
                request([pool("default", fake_types(9))], pods(1, together), nodes=(deleting_node,))
            ).unplaced
        )

    assert unplaced(do_not_disrupt=True) == 1
    assert unplaced() == 0
