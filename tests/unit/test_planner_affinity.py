"""Affinity and anti-affinity between pods: who goes first, who waits, and who is kept away."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import PodShape, PodTerm, PreferredPodTerm, TopologySpread
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirements import from_labels, of
from holdfast.model.snapshot import NodeView
from planner_builders import (
    fake_types,
    instance_type,
    is_in,
    node,
    placed,
    pods,
    pool,
    reasons,
    request,
    running,
    selector,
    shape,
)

POOL = pool("default", fake_types(9))
ONE_POD = [instance_type("tiny", 1, 2, 1.0)]  # room for one pod of 600 thousandths


def term(app: str, key: str = names.ZONE, namespaces: tuple[str, ...] = ("default",)) -> PodTerm:
    return PodTerm(key, selector(app=app), namespaces)


def near(app: str, of_app: str = "web", key: str = names.ZONE, **more: Any) -> PodShape:
    return shape(600, 100, app=of_app, affinity=(term(app, key),), **more)


def far(app: str, of_app: str = "web", key: str = names.ZONE, **more: Any) -> PodShape:
    return shape(600, 100, app=of_app, anti_affinity=(term(app, key),), **more)


def in_zone(zone: str, app: str = "db", **more: Any) -> NodeView:
    """A full node with one pod of an app."""
    return node(f"n-{zone}", cpu=0, zone=zone, pods=running(1, shape(0, 0, app=app), zone), **more)


def zones(plan: Plan) -> list[str]:
    return sorted(claim.zone for claim in plan.claims)


# --- Affinity ---------------------------------------------------------------------------------------


@pytest.mark.fact("S-81")
@pytest.mark.parametrize("zone", ["z1", "z2", "z3"])
def test_a_pod_goes_to_a_zone_where_one_is_that_it_wants_to_be_near(zone: str) -> None:
    plan = solve(request([POOL], pods(3, near("db")), nodes=(in_zone(zone),)))
    assert set(zones(plan)) == {zone}
    assert all(claim.requirements.get(names.ZONE).values == {zone} for claim in plan.claims)


@pytest.mark.fact("S-81")
def test_a_pod_that_wants_to_be_near_others_that_are_nowhere_waits() -> None:
    plan = solve(request([POOL], pods(1, near("db"))))
    assert reasons(plan) == {"pod-000000": [ReasonCode.TOPOLOGY]}


@pytest.mark.fact("S-81")
@pytest.mark.parametrize("key", [names.ZONE, names.HOSTNAME])
def test_the_first_of_its_own_kind_begins_and_the_others_follow(key: str) -> None:
    plan = solve(request([POOL], pods(5, near("web", key=key))))
    assert len(set(zones(plan))) == 1
    assert sum(len(claim.pods) for claim in plan.claims) == 5
    if key == names.HOSTNAME:
        assert len(plan.claims) == 1


@pytest.mark.fact("S-81")
def test_on_one_host_there_is_room_for_so_many() -> None:
    plan = solve(request([pool("default", ONE_POD)], pods(2, near("web", key=names.HOSTNAME))))
    assert len(plan.claims) == 1
    assert len(plan.unplaced) == 1


@pytest.mark.fact("S-81")
def test_nobody_begins_where_one_of_the_kind_is_in_a_zone_the_pod_may_be_in() -> None:
    only_z2 = pool("default", fake_types(9), is_in(names.ZONE, "z2"))
    there = in_zone("z1", app="web")
    assert solve(request([only_z2], pods(1, near("web")), nodes=(there,))).unplaced
    elsewhere = near("web", node_selector=from_labels({names.ZONE: "z2"}))
    assert zones(solve(request([only_z2], pods(1, elsewhere), nodes=(there,)))) == ["z2"]


@pytest.mark.fact("S-81")
def test_who_begins_does_so_in_a_zone_that_its_node_can_be_in() -> None:
    pools = [pool("default", fake_types(9), is_in(names.ZONE, "z3"))]
    assert set(zones(solve(request(pools, pods(3, near("web")), nodes=(in_zone("z1"),))))) == {"z3"}


@pytest.mark.fact("S-81", "S-20")
def test_a_pod_follows_a_smaller_one_that_is_placed_after_its_first_try() -> None:
    leader = shape(100, 100, app="db", node_selector=from_labels({names.ZONE: "z2"}))
    plan = solve(request([pool("default", ONE_POD)], (*pods(2, near("db"), "a"), *pods(1, leader, "b"))))
    assert set(zones(plan)) == {"z2"}
    assert not plan.unplaced


@pytest.mark.fact("S-80")
@pytest.mark.parametrize(
    ("namespaces", "found"), [(("default",), False), (("other",), True), (("x", "other"), True)]
)
def test_only_pods_of_the_terms_namespaces_are_neighbours(
    namespaces: tuple[str, ...], *, found: bool
) -> None:
    there = node("n1", zone="z2", pods=running(1, shape(0, 0, app="db", namespace="other")))
    wanting = shape(app="web", affinity=(term("db", names.ZONE, namespaces),))
    plan = solve(request([], pods(1, wanting), nodes=(there,)))
    assert bool(plan.placed) is found


# --- Anti-affinity ----------------------------------------------------------------------------------


@pytest.mark.fact("S-82")
def test_a_pod_is_kept_out_of_zones_where_one_is_that_it_avoids() -> None:
    nodes = (in_zone("z1"), in_zone("z2"))
    assert zones(solve(request([POOL], pods(1, far("db")), nodes=nodes))) == ["z3"]
    assert reasons(solve(request([POOL], pods(1, far("db")), nodes=(*nodes, in_zone("z3"))))) == {
        "pod-000000": [ReasonCode.TOPOLOGY]
    }


@pytest.mark.fact("S-82", "S-83")
def test_pods_that_avoid_each_other_get_a_zone_each_in_one_run() -> None:
    plan = solve(request([POOL], pods(5, far("web"))))
    assert zones(plan) == ["z1", "z2", "z3"]
    assert all(len(claim.requirements.get(names.ZONE).values) == 1 for claim in plan.claims)
    assert len(plan.unplaced) == 2


@pytest.mark.fact("S-82", "ST-10")
@pytest.mark.parametrize("key", [names.ZONE, names.HOSTNAME])
def test_a_pod_that_runs_and_avoids_others_keeps_them_away(key: str) -> None:
    guard = running(1, shape(0, 0, app="db", anti_affinity=(term("web", key),)))
    nodes = (node("a", zone="z1", pods=guard), node("b", zone="z2"))
    assert placed(solve(request([], pods(1, shape()), nodes=nodes))) == {"b": ("pod-000000",)}
    assert placed(solve(request([], pods(1, shape(app="other")), nodes=nodes))) == {"a": ("pod-000000",)}


@pytest.mark.fact("S-82")
def test_a_pod_of_this_plan_that_avoids_others_keeps_them_away_too() -> None:
    guard = shape(700, 100, app="db", anti_affinity=(term("web", names.HOSTNAME),))
    plan = solve(request([POOL], (*pods(1, guard, "a"), *pods(1, shape(100, 100), "b"))))
    assert sorted(claim.pods for claim in plan.claims) == [("a-000000",), ("b-000000",)]
    in_zones = shape(700, 100, app="db", anti_affinity=(term("web"),))
    plan = solve(request([POOL], (*pods(1, in_zones, "a"), *pods(1, shape(100, 100), "b"))))
    assert len({claim.zone for claim in plan.claims}) == len(plan.claims) == 2


@pytest.mark.fact("S-82")
def test_a_mere_wish_to_avoid_others_keeps_nobody_away() -> None:
    wish = (PreferredPodTerm(100, term("web", names.HOSTNAME)),)
    there = node("a", pods=running(1, shape(0, 0, app="db", preferred_anti_affinity=wish)))
    assert placed(solve(request([], pods(1, shape()), nodes=(there,)))) == {"a": ("pod-000000",)}
    guard = shape(700, 100, app="db", preferred_anti_affinity=wish)
    plan = solve(request([POOL], (*pods(1, guard, "a"), *pods(1, shape(100, 100), "b"))))
    assert len(plan.claims) == 1


@pytest.mark.fact("S-82")
def test_a_node_without_the_label_is_in_no_zone_to_avoid() -> None:
    bare = node("a")
    bare = replace(bare, labels=tuple(item for item in bare.labels if item[0] != names.ZONE))
    plan = solve(request([], pods(1, far("db")), nodes=(bare, in_zone("z1"), in_zone("z2"))))
    assert placed(plan) == {"a": ("pod-000000",)}


# --- Nodes whose zone is open -----------------------------------------------------------------------


@pytest.mark.fact("S-83")
def test_a_pod_that_another_avoids_gets_one_zone_so_that_the_others_stay_free() -> None:
    """In Karpenter the node of the database may end up anywhere, so no zone is known to be free of it."""
    pending = (*pods(1, shape(700, 100, app="db"), "db"), *pods(1, far("db"), "web"))
    plan = solve(request([pool("default", ONE_POD)], pending))
    assert zones(plan) == ["z1", "z2"]
    assert all(len(claim.requirements.get(names.ZONE).values) == 1 for claim in plan.claims)


@pytest.mark.fact("S-83")
def test_a_pod_on_a_node_that_must_be_in_one_zone_keeps_it_out_of_that_one() -> None:
    here = shape(700, 100, app="db", node_selector=from_labels({names.ZONE: "z1"}))
    plan = solve(request([pool("default", ONE_POD)], (*pods(1, here, "db"), *pods(1, far("db"), "web"))))
    assert zones(plan) == ["z1", "z2"]


@pytest.mark.fact("S-83")
def test_a_pod_counts_for_a_spread_once_its_node_has_come_down_to_one_zone() -> None:
    """The big pod is selected and its node is open; the second narrows that node to z1, where both then count."""
    spread = TopologySpread(names.ZONE, 1, True, selector(app="web"))
    two_pods = [instance_type("two", 2, 4, 1.0)]
    big = shape(1000, 100)
    narrowing = shape(900, 100, app="db", node_selector=from_labels({names.ZONE: "z1"}))
    spreading = shape(800, 100, spreads=(spread,))
    pending = (*pods(1, big, "a"), *pods(1, narrowing, "b"), *pods(2, spreading, "c"))
    plan = solve(request([pool("default", two_pods)], pending))
    where = {uid: claim.zone for claim in plan.claims for uid in claim.pods}
    assert where["a-000000"] == where["b-000000"] == "z1"
    assert sorted((where["c-000000"], where["c-000001"])) == ["z2", "z3"]


def test_a_domain_must_suit_every_constraint_on_its_key_at_once() -> None:
    nodes = (
        in_zone("z1", app="cache"),
        in_zone("z2", app="cache"),
        node("x", cpu=0, zone="z1", pods=running(1, shape(0, 0, app="noisy"))),
    )
    wanting = shape(affinity=(term("cache"),), anti_affinity=(term("noisy"),), node_selector=of())
    assert zones(solve(request([POOL], pods(1, wanting), nodes=nodes))) == ["z2"]
