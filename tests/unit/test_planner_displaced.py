"""Pods of nodes that are being deleted: who is planned for, who stays, and who counts meanwhile."""

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


def after_losing(*lost: PodView, **more: Any) -> Plan:
    """A plan for a cluster with one node that goes, with these pods, and one that stays."""
    going = node("going", pods=lost, deleting=True)
    return solve(request([pool("default", fake_types(9))], (), nodes=(going, node("stays")), **more))


def one(of: PodShape | None = None, **more: Any) -> PodView:
    return running(1, of or shape(), **more)[0]


def blocking(name: str = "pdb", **more: Any) -> BudgetView:
    return BudgetView(
        "default", name, selector(app="web"), **({"fully_blocking": True} | more), disruptions_allowed=0
    )


@pytest.mark.fact("S-3")
def test_pods_of_a_node_that_goes_are_planned_like_pending_ones() -> None:
    going = node("going", pods=running(2, shape(3000)), deleting=True)
    pending = pods(1, shape(1000))
    plan = solve(request([pool("default", fake_types(9))], pending, nodes=(going, node("stays"))))
    assert placed(plan) == {"stays": ("old-000000", "pod-000000")}
    assert [claim.pods for claim in plan.claims] == [("old-000001",)]


@pytest.mark.fact("S-3", "S-15")
def test_a_node_that_goes_is_given_nothing() -> None:
    going = node("going", deleting=True)
    plan = solve(request([pool("default", fake_types(9))], pods(1, shape()), nodes=(going,)))
    assert not plan.placed
    assert len(plan.claims) == 1


def test_a_pod_that_is_pending_too_is_planned_once() -> None:
    pod = one()
    plan = solve(
        request([pool("default", fake_types(9))], [pod], nodes=(node("going", pods=(pod,), deleting=True),))
    )
    assert [claim.pods for claim in plan.claims] == [(pod.uid,)]


@pytest.mark.fact("S-3")
@pytest.mark.parametrize(
    "stays",
    [{"reschedulable": False}, {"from_daemon_set": True, "reschedulable": False}, {"do_not_disrupt": True}],
)
def test_a_pod_that_nobody_makes_anew_or_may_disrupt_stays(stays: dict[str, Any]) -> None:
    plan = after_losing(one(**stays))
    assert not plan.placed
    assert not plan.claims
    assert not plan.unplaced


@pytest.mark.fact("S-3", "S-5")
def test_a_pod_that_a_budget_never_lets_go_stays() -> None:
    assert not after_losing(one(), budgets=(blocking(),)).placed
    assert placed(after_losing(one(), budgets=(blocking(fully_blocking=False),))) == {
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
def test_a_budget_blocks_fully_when_it_can_never_allow_a_disruption(
    spec: dict[str, Any], *, blocks: bool
) -> None:
    view = budgets.view(budget("pdb", selector={"matchLabels": {"app": "web"}}, **spec))
    assert displaced.is_blocked(one(), [view]) is blocks


@pytest.mark.fact("S-5")
def test_two_budgets_block_whatever_they_allow() -> None:
    lenient = [blocking(name, fully_blocking=False) for name in ("a", "b")]
    assert displaced.is_blocked(one(), lenient)
    assert not displaced.is_blocked(one(), lenient[:1])


@pytest.mark.fact("S-5")
def test_a_budget_that_always_allows_unhealthy_pods_blocks_only_those_that_are_ready() -> None:
    view = blocking(always_allows_unhealthy=True)
    assert displaced.is_blocked(one(), [view])
    assert not displaced.is_blocked(one(ready=False), [view])
    assert displaced.is_blocked(one(ready=False), [blocking()])


def test_a_budget_is_about_the_pods_of_its_namespace_that_it_selects() -> None:
    assert not displaced.is_blocked(one(shape(namespace="other")), [blocking()])
    assert not displaced.is_blocked(one(shape(app="db")), [blocking()])
    everyone = BudgetView("default", "all", LabelSelector(), fully_blocking=True, disruptions_allowed=0)
    nobody = BudgetView("default", "none", None, fully_blocking=True, disruptions_allowed=0)
    assert displaced.is_blocked(one(shape(app="db")), [everyone])
    assert not displaced.is_blocked(one(), [nobody])


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
def test_what_can_be_evicted(pod: PodView, *, evictable: bool) -> None:
    assert displaced.is_evictable(pod) is evictable


@pytest.mark.fact("S-5", "S-6", "S-3")
@pytest.mark.parametrize("pod", [one(terminating=True), one(shape(tolerations=(TOLERATES_DISRUPTION,)))])
def test_a_pod_that_is_not_evicted_anyway_is_held_back_by_no_budget(pod: PodView) -> None:
    plan = after_losing(pod, budgets=(blocking(), blocking("another")))
    assert placed(plan) == {"stays": (pod.uid,)}


# --- Who counts meanwhile ---------------------------------------------------------------------------


def zone_of_the_next(**more: Any) -> str:
    """Where a pod that is spread over zones goes next to nodes in z1 and z2; z1 is preferred for its name."""
    nodes = (node("a", zone="z1", **more), node("b", zone="z2"))
    pending = pods(1, shape(spreads=(SPREAD,)))
    (one,) = solve(request([pool("default", fake_types(9))], pending, nodes=nodes)).placed
    return one.node


@pytest.mark.fact("S-77")
def test_a_pod_on_its_way_out_does_not_count_though_it_still_takes_room() -> None:
    assert zone_of_the_next() == "a"
    assert zone_of_the_next(pods=running(1, shape())) == "b"
    assert zone_of_the_next(pods=running(1, shape(), terminating=True)) == "a"
    assert zone_of_the_next(pods=running(1, shape(3500), terminating=True)) == "b"


@pytest.mark.fact("S-77")
def test_a_pod_that_stays_on_a_node_that_goes_counts_and_one_that_is_planned_anew_does_not() -> None:
    def claimed_zone(**more: Any) -> str:
        going = node("going", pods=running(1, shape(100), **more), deleting=True)
        pending = pods(1, shape(anti_affinity=(APART,)))
        plan = solve(request([pool("default", fake_types(9))], pending, nodes=(going,)))
        return next(claim.zone for claim in plan.claims if "pod-000000" in claim.pods)

    assert claimed_zone() == "z1"
    assert claimed_zone(do_not_disrupt=True) == "z2"


def test_a_group_of_hostname_affinity_does_not_begin_anew_beside_pods_that_stay() -> None:
    together = shape(
        100, labels=(("app", "web"),), affinity=(PodTerm(names.HOSTNAME, selector(app="web"), ("default",)),)
    )

    def unplaced(**more: Any) -> int:
        going = node("going", pods=running(1, together, **more), deleting=True)
        return len(
            solve(request([pool("default", fake_types(9))], pods(1, together), nodes=(going,))).unplaced
        )

    assert unplaced(do_not_disrupt=True) == 1
    assert unplaced() == 0
