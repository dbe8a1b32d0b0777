"""Preferences: which ones the planner relaxes when a pod does not fit, and in which order."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import PreferencePolicy, ReservedMode
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import PodTerm, PreferredNodeTerm, PreferredPodTerm, TopologySpread
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirements import Requirements, from_labels
from holdfast.model.snapshot import NodeView
from holdfast.model.taints import Effect, Taint
from planner_builders import (
    fake_types,
    node,
    one_per_node,
    placed,
    pods,
    pool,
    reasons,
    request,
    reservation,
    running,
    selector,
    shape,
)

IGNORED: dict[str, Any] = {"preference_policy": PreferencePolicy.IGNORE}
PREFER_NO_SCHEDULE = Taint("spare", Effect.PREFER_NO_SCHEDULE)


def label(key: str, value: str = "yes") -> Requirements:
    return from_labels({key: value})


def preference(weight: int, key: str, value: str = "yes") -> PreferredNodeTerm:
    return PreferredNodeTerm(weight, label(key, value))


def pod_preference(weight: int, app: str, key: str = names.HOSTNAME) -> PreferredPodTerm:
    return PreferredPodTerm(weight, PodTerm(key, selector(app=app), ("default",)))


def with_labels(name: str, *labels: str, **more: Any) -> NodeView:
    return node(name, labels=dict.fromkeys(labels, "yes"), **more)


def among(nodes: tuple[NodeView, ...], **more: Any) -> Plan:
    """A plan for one pod that can only be placed on one of these nodes."""
    settings = more.pop("settings", {})
    return solve(request([], pods(1, shape(**more)), nodes=nodes, **settings))


def chosen(*nodes: NodeView, **more: Any) -> str | None:
    return next(iter(placed(among(nodes, **more))), None)


# --- Before any preference is relaxed ---------------------------------------------------------------


@pytest.mark.fact("S-29")
def test_the_node_preference_with_the_highest_weight_acts_as_a_requirement() -> None:
    plain, light, heavy = with_labels("a"), with_labels("b", "light"), with_labels("c", "heavy")
    preferences = (preference(1, "light"), preference(50, "heavy"))
    assert chosen(plain, light, heavy, preferred_terms=preferences) == "c"
    assert chosen(plain, light, preferred_terms=preferences) == "b"
    assert chosen(plain, preferred_terms=preferences) == "a"


@pytest.mark.fact("S-29")
def test_a_new_node_is_planned_when_no_existing_node_satisfies_a_preference() -> None:
    pending = pods(1, shape(preferred_terms=(preference(1, names.ZONE, "z3"),)))
    plan = solve(request([pool("default", fake_types(3))], pending, nodes=(node("n1", zone="z1"),)))
    assert [claim.zone for claim in plan.claims] == ["z3"]


@pytest.mark.fact("S-29")
def test_all_pod_preferences_act_together() -> None:
    both = node("c", pods=(*running(1, shape(app="db"), "x"), *running(1, shape(app="cache"), "y")))
    one = node("a", pods=running(1, shape(app="db"), "z"))
    bad = node("b", pods=(*running(1, shape(app="db"), "u"), *running(1, shape(app="noisy"), "v")))
    preferences = (pod_preference(1, "db"), pod_preference(2, "cache"))
    assert chosen(one, bad, both, preferred_affinity=preferences) == "c"
    assert (
        chosen(bad, one, preferred_anti_affinity=(pod_preference(1, "noisy"), pod_preference(1, "quiet")))
        == "a"
    )


@pytest.mark.fact("S-29")
def test_a_schedule_anyway_spread_acts_as_a_requirement() -> None:
    crowded, free = node("a", zone="z1", pods=running(2, shape())), node("b", zone="z2")
    spread = TopologySpread(names.ZONE, 1, False, selector(app="web"))
    assert chosen(crowded, free, spreads=(spread,)) == "b"
    assert chosen(crowded, node("b", cpu=0, zone="z2"), spreads=(spread,)) == "a"


@pytest.mark.fact("S-28")
def test_node_affinity_terms_have_no_order() -> None:
    terms = (label("second"), label("first"))
    assert chosen(with_labels("a", "first"), with_labels("b", "second"), required_terms=terms) == "a"
    assert chosen(with_labels("a", "first"), required_terms=terms) == "a"
    assert chosen(with_labels("a"), required_terms=terms) is None


# --- The order of relaxation ------------------------------------------------------------------------


@pytest.mark.fact("S-28")
@pytest.mark.parametrize(
    ("respected", "relaxed"),
    [
        (
            {"preferred_affinity": (pod_preference(1, "db"),)},
            {"required_terms": (label("gone"), label("any"))},
        ),
        (
            {"preferred_anti_affinity": (pod_preference(1, "noisy"),)},
            {"preferred_affinity": (pod_preference(9, "gone"),)},
        ),
        ({"preferred_terms": (preference(1, "here"),)}, {"preferred_affinity": (pod_preference(1, "gone"),)}),
        (
            {"preferred_terms": (preference(1, "here"),)},
            {"preferred_anti_affinity": (pod_preference(1, "everywhere"),)},
        ),
        (
            {"spreads": (TopologySpread(names.ZONE, 1, False, selector(app="web")),)},
            {"preferred_terms": (preference(1, "gone"),)},
        ),
    ],
)
def test_preferences_are_relaxed_in_order(respected: dict[str, Any], relaxed: dict[str, Any]) -> None:
    """Node "b" satisfies `respected`, no node satisfies `relaxed`, and node "a" is tried first."""
    everywhere = running(1, shape(0, app="everywhere"), "e")
    good = node(
        "b",
        zone="z2",
        labels={"here": "yes", "any": "yes"},
        pods=(*everywhere, *running(1, shape(0, app="db"), "d")),
    )
    other_pods = (*running(1, shape(0, app="noisy"), "n"), *running(2, shape(0), "w"))
    bad = node(
        "a",
        zone="z1",
        labels={"any": "yes"},
        pods=(*running(1, shape(0, app="everywhere"), "f"), *other_pods),
    )
    assert chosen(bad, good, **respected, **relaxed) == "b"
    assert chosen(bad, **respected, **relaxed) == "a"


@pytest.mark.fact("S-28")
def test_the_preference_with_the_highest_weight_is_relaxed_first() -> None:
    plain, fulfils = node("a"), node("b", pods=running(1, shape(app="db")))
    assert (
        chosen(plain, fulfils, preferred_affinity=(pod_preference(1, "db"), pod_preference(9, "gone"))) == "b"
    )
    assert (
        chosen(plain, fulfils, preferred_affinity=(pod_preference(9, "db"), pod_preference(1, "gone"))) == "a"
    )


@pytest.mark.fact("S-28")
def test_every_node_and_nodepool_is_tried_before_the_next_preference_is_relaxed() -> None:
    pending = pods(
        1, shape(preferred_terms=(preference(2, names.ZONE, "z9"), preference(1, names.ZONE, "z3")))
    )
    plan = solve(request([pool("default", fake_types(3))], pending, nodes=(node("n1", zone="z1"),)))
    assert not plan.placed
    assert [claim.zone for claim in plan.claims] == ["z3"]


@pytest.mark.fact("S-28")
def test_required_constraints_are_never_relaxed() -> None:
    assert chosen(node("a"), required_terms=(label("gone"),)) is None
    term = PodTerm(names.HOSTNAME, selector(app="db"), ("default",))
    assert chosen(node("a"), affinity=(term,)) is None
    assert chosen(node("a", pods=running(1, shape(app="db"))), anti_affinity=(term,)) is None


def test_a_node_affinity_term_is_tried_again_after_preferences_are_relaxed() -> None:
    terms = (label("only"), label("nowhere"))
    assert (
        chosen(with_labels("a", "only"), required_terms=terms, preferred_terms=(preference(1, "gone"),))
        == "a"
    )


# --- PreferNoSchedule taints ------------------------------------------------------------------------


@pytest.mark.fact("S-50", "S-28")
def test_a_prefer_no_schedule_taint_is_tolerated_only_when_no_other_nodepool_fits() -> None:
    tainted = pool("a", fake_types(3), taints=(PREFER_NO_SCHEDULE,), weight=9)
    pools = [tainted, pool("b", fake_types(1))]
    assert [c.node_pool for c in solve(request(pools, pods(1, shape(500)))).claims] == ["b"]
    assert [c.node_pool for c in solve(request(pools, pods(1, shape(2000)))).claims] == ["a"]


@pytest.mark.fact("S-28", "S-50")
def test_preferences_are_relaxed_before_a_prefer_no_schedule_taint_is_tolerated() -> None:
    pools = [pool("a", fake_types(3), taints=(PREFER_NO_SCHEDULE,), labels=()), pool("b", fake_types(3))]
    pending = pods(1, shape(preferred_terms=(preference(1, names.NODEPOOL, "a"),)))
    assert [claim.node_pool for claim in solve(request(pools, pending)).claims] == ["b"]


@pytest.mark.fact("S-50")
def test_a_prefer_no_schedule_taint_that_no_nodepool_has_is_never_tolerated() -> None:
    tainted = node("n1", taints=(PREFER_NO_SCHEDULE,))
    of_pool = pool("default", fake_types(1), taints=(PREFER_NO_SCHEDULE,))
    assert reasons(
        solve(request([pool("default", fake_types(1))], pods(1, shape(2000)), nodes=(tainted,)))
    ) == {"pod-000000": [ReasonCode.RESOURCES]}
    assert placed(solve(request([of_pool], pods(1, shape(2000)), nodes=(tainted,)))) == {
        "n1": ("pod-000000",)
    }


@pytest.mark.fact("S-50")
@pytest.mark.parametrize("effect", list(Effect))
def test_a_taint_of_a_pool_must_be_tolerated_whatever_its_effect(effect: Effect) -> None:
    tainted = pool("a", fake_types(3), taints=(Taint("team", effect, "x"),), weight=9)
    plan = solve(request([tainted, pool("b", fake_types(3))], pods(1, shape())))
    assert [claim.node_pool for claim in plan.claims] == ["b"]


# --- Policies ---------------------------------------------------------------------------------------


@pytest.mark.fact("S-30")
@pytest.mark.parametrize(
    "preferences",
    [
        {"preferred_terms": (preference(1, "good"),)},
        {"preferred_affinity": (pod_preference(1, "db"),)},
        {"preferred_anti_affinity": (pod_preference(1, "noisy"),)},
        {"spreads": (TopologySpread(names.ZONE, 1, False, selector(app="web")),)},
    ],
)
def test_preferences_are_ignored_with_the_policy_ignore(preferences: dict[str, Any]) -> None:
    bad = node("a", zone="z1", pods=(*running(1, shape(0, app="noisy"), "n"), *running(2, shape(0), "w")))
    good = with_labels("b", "good", zone="z2", pods=running(1, shape(0, app="db"), "d"))
    assert chosen(bad, good, **preferences) == "b"
    assert chosen(bad, good, **preferences, settings=IGNORED) == "a"


@pytest.mark.fact("S-31")
def test_a_preference_is_relaxed_for_a_free_slot_before_a_pod_waits_for_the_preferred_slot() -> None:
    reservations = [reservation("cr-1", "fake-it-1", "z1"), reservation("cr-2", "fake-it-1", "z2")]
    pending = pods(2, shape(preferred_terms=(preference(1, names.ZONE, "z1"),), **one_per_node()))
    plan = solve(
        request(
            [pool("default", fake_types(3, reservations))],
            pending,
            reservations,
            reserved_mode=ReservedMode.STRICT,
        )
    )
    assert {claim.pods: claim.reservation_id for claim in plan.claims} == {
        ("pod-000000",): "cr-1",
        ("pod-000001",): "cr-2",
    }
