"""Wishes: what a pod gives up when it finds no place, and in which order."""

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
RATHER_NOT = Taint("spare", Effect.PREFER_NO_SCHEDULE)


def label(key: str, value: str = "yes") -> Requirements:
    return from_labels({key: value})


def wish(weight: int, key: str, value: str = "yes") -> PreferredNodeTerm:
    return PreferredNodeTerm(weight, label(key, value))


def beside(weight: int, app: str, key: str = names.HOSTNAME) -> PreferredPodTerm:
    return PreferredPodTerm(weight, PodTerm(key, selector(app=app), ("default",)))


def with_labels(name: str, *labels: str, **more: Any) -> NodeView:
    return node(name, labels=dict.fromkeys(labels, "yes"), **more)


def among(nodes: tuple[NodeView, ...], **more: Any) -> Plan:
    """A plan for one pod that can only go on one of these nodes."""
    settings = more.pop("settings", {})
    return solve(request([], pods(1, shape(**more)), nodes=nodes, **settings))


def chosen(*nodes: NodeView, **more: Any) -> str | None:
    return next(iter(placed(among(nodes, **more))), None)


# --- Before anything is given up --------------------------------------------------------------------


@pytest.mark.fact("S-29")
def test_the_heaviest_wish_for_a_node_acts_as_a_requirement() -> None:
    plain, light, heavy = with_labels("a"), with_labels("b", "light"), with_labels("c", "heavy")
    wishes = (wish(1, "light"), wish(50, "heavy"))
    assert chosen(plain, light, heavy, preferred_terms=wishes) == "c"
    assert chosen(plain, light, preferred_terms=wishes) == "b"
    assert chosen(plain, preferred_terms=wishes) == "a"


@pytest.mark.fact("S-29")
def test_a_wish_opens_a_node_where_one_that_exists_does_not_fulfil_it() -> None:
    pending = pods(1, shape(preferred_terms=(wish(1, names.ZONE, "z3"),)))
    plan = solve(request([pool("default", fake_types(3))], pending, nodes=(node("n1", zone="z1"),)))
    assert [claim.zone for claim in plan.claims] == ["z3"]


@pytest.mark.fact("S-29")
def test_all_wishes_about_other_pods_act_together() -> None:
    both = node("c", pods=(*running(1, shape(app="db"), "x"), *running(1, shape(app="cache"), "y")))
    one = node("a", pods=running(1, shape(app="db"), "z"))
    bad = node("b", pods=(*running(1, shape(app="db"), "u"), *running(1, shape(app="noisy"), "v")))
    wishes = (beside(1, "db"), beside(2, "cache"))
    assert chosen(one, bad, both, preferred_affinity=wishes) == "c"
    assert chosen(bad, one, preferred_anti_affinity=(beside(1, "noisy"), beside(1, "quiet"))) == "a"


@pytest.mark.fact("S-29")
def test_a_spread_that_is_a_wish_acts_as_a_requirement() -> None:
    crowded, free = node("a", zone="z1", pods=running(2, shape())), node("b", zone="z2")
    spread = TopologySpread(names.ZONE, 1, False, selector(app="web"))
    assert chosen(crowded, free, spreads=(spread,)) == "b"
    assert chosen(crowded, node("b", cpu=0, zone="z2"), spreads=(spread,)) == "a"


@pytest.mark.fact("S-28")
def test_alternatives_of_node_affinity_are_equal() -> None:
    terms = (label("second"), label("first"))
    assert chosen(with_labels("a", "first"), with_labels("b", "second"), required_terms=terms) == "a"
    assert chosen(with_labels("a", "first"), required_terms=terms) == "a"
    assert chosen(with_labels("a"), required_terms=terms) is None


# --- The order in which things are given up ---------------------------------------------------------


@pytest.mark.fact("S-28")
@pytest.mark.parametrize(
    ("kept", "given_up"),
    [
        ({"preferred_affinity": (beside(1, "db"),)}, {"required_terms": (label("gone"), label("any"))}),
        ({"preferred_anti_affinity": (beside(1, "noisy"),)}, {"preferred_affinity": (beside(9, "gone"),)}),
        ({"preferred_terms": (wish(1, "here"),)}, {"preferred_affinity": (beside(1, "gone"),)}),
        ({"preferred_terms": (wish(1, "here"),)}, {"preferred_anti_affinity": (beside(1, "everywhere"),)}),
        (
            {"spreads": (TopologySpread(names.ZONE, 1, False, selector(app="web")),)},
            {"preferred_terms": (wish(1, "gone"),)},
        ),
    ],
)
def test_what_comes_earlier_is_given_up_first(kept: dict[str, Any], given_up: dict[str, Any]) -> None:
    """The node "b" fulfils what is kept, and no node what must be given up; "a" is tried first."""
    everywhere = running(1, shape(0, app="everywhere"), "e")
    good = node(
        "b",
        zone="z2",
        labels={"here": "yes", "any": "yes"},
        pods=(*everywhere, *running(1, shape(0, app="db"), "d")),
    )
    others = (*running(1, shape(0, app="noisy"), "n"), *running(2, shape(0), "w"))
    bad = node(
        "a", zone="z1", labels={"any": "yes"}, pods=(*running(1, shape(0, app="everywhere"), "f"), *others)
    )
    assert chosen(bad, good, **kept, **given_up) == "b"
    assert chosen(bad, **kept, **given_up) == "a"


@pytest.mark.fact("S-28")
def test_of_one_kind_the_heaviest_is_given_up_first() -> None:
    plain, fulfils = node("a"), node("b", pods=running(1, shape(app="db")))
    assert chosen(plain, fulfils, preferred_affinity=(beside(1, "db"), beside(9, "gone"))) == "b"
    assert chosen(plain, fulfils, preferred_affinity=(beside(9, "db"), beside(1, "gone"))) == "a"


@pytest.mark.fact("S-28")
def test_every_place_is_tried_before_anything_more_is_given_up() -> None:
    pending = pods(1, shape(preferred_terms=(wish(2, names.ZONE, "z9"), wish(1, names.ZONE, "z3"))))
    plan = solve(request([pool("default", fake_types(3))], pending, nodes=(node("n1", zone="z1"),)))
    assert not plan.placed
    assert [claim.zone for claim in plan.claims] == ["z3"]


@pytest.mark.fact("S-28")
def test_what_is_required_is_never_given_up() -> None:
    assert chosen(node("a"), required_terms=(label("gone"),)) is None
    far = PodTerm(names.HOSTNAME, selector(app="db"), ("default",))
    assert chosen(node("a"), affinity=(far,)) is None
    assert chosen(node("a", pods=running(1, shape(app="db"))), anti_affinity=(far,)) is None


def test_an_alternative_that_was_given_up_for_wishes_is_tried_again_without_them() -> None:
    terms = (label("only"), label("nowhere"))
    assert chosen(with_labels("a", "only"), required_terms=terms, preferred_terms=(wish(1, "gone"),)) == "a"


# --- Taints that are mere preferences ---------------------------------------------------------------


@pytest.mark.fact("S-50", "S-28")
def test_a_taint_that_is_a_preference_keeps_pods_off_until_there_is_no_other_place() -> None:
    rather_not = pool("a", fake_types(3), taints=(RATHER_NOT,), weight=9)
    pools = [rather_not, pool("b", fake_types(1))]
    assert [c.node_pool for c in solve(request(pools, pods(1, shape(500)))).claims] == ["b"]
    assert [c.node_pool for c in solve(request(pools, pods(1, shape(2000)))).claims] == ["a"]


@pytest.mark.fact("S-28", "S-50")
def test_wishes_are_given_up_before_such_a_taint_is_tolerated() -> None:
    pools = [pool("a", fake_types(3), taints=(RATHER_NOT,), labels=()), pool("b", fake_types(3))]
    pending = pods(1, shape(preferred_terms=(wish(1, names.NODEPOOL, "a"),)))
    assert [claim.node_pool for claim in solve(request(pools, pending)).claims] == ["b"]


@pytest.mark.fact("S-50")
def test_such_a_taint_on_a_foreign_node_alone_is_never_tolerated() -> None:
    tainted = node("n1", taints=(RATHER_NOT,))
    of_pool = pool("default", fake_types(1), taints=(RATHER_NOT,))
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
    "wishes",
    [
        {"preferred_terms": (wish(1, "good"),)},
        {"preferred_affinity": (beside(1, "db"),)},
        {"preferred_anti_affinity": (beside(1, "noisy"),)},
        {"spreads": (TopologySpread(names.ZONE, 1, False, selector(app="web")),)},
    ],
)
def test_wishes_can_be_ignored_altogether(wishes: dict[str, Any]) -> None:
    bad = node("a", zone="z1", pods=(*running(1, shape(0, app="noisy"), "n"), *running(2, shape(0), "w")))
    good = with_labels("b", "good", zone="z2", pods=running(1, shape(0, app="db"), "d"))
    assert chosen(bad, good, **wishes) == "b"
    assert chosen(bad, good, **wishes, settings=IGNORED) == "a"


@pytest.mark.fact("S-31")
def test_a_wish_is_given_up_for_a_free_slot_before_a_pod_waits_for_the_one_it_wishes() -> None:
    kept = [reservation("cr-1", "fake-it-1", "z1"), reservation("cr-2", "fake-it-1", "z2")]
    pending = pods(2, shape(preferred_terms=(wish(1, names.ZONE, "z1"),), **one_per_node()))
    plan = solve(
        request([pool("default", fake_types(3, kept))], pending, kept, reserved_mode=ReservedMode.STRICT)
    )
    assert {claim.pods: claim.reservation_id for claim in plan.claims} == {
        ("pod-000000",): "cr-1",
        ("pod-000001",): "cr-2",
    }
