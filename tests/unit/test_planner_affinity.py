"""Affinity and anti-affinity between pods: allowed domains, the first pod of a group, and retries."""

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
ONE_POD = [instance_type("tiny", 1, 2, 1.0)]  # capacity for one pod of 600m CPU


def term(app: str, key: str = names.ZONE, namespaces: tuple[str, ...] = ("default",)) -> PodTerm:
    return PodTerm(key, selector(app=app), namespaces)


def with_affinity(app: str, of_app: str = "web", key: str = names.ZONE, **more: Any) -> PodShape:
    return shape(600, 100, app=of_app, affinity=(term(app, key),), **more)


def with_anti_affinity(app: str, of_app: str = "web", key: str = names.ZONE, **more: Any) -> PodShape:
    return shape(600, 100, app=of_app, anti_affinity=(term(app, key),), **more)


def in_zone(zone: str, app: str = "db", **more: Any) -> NodeView:
    """A full node with one pod of an app."""
    return node(f"n-{zone}", cpu=0, zone=zone, pods=running(1, shape(0, 0, app=app), zone), **more)


def zones(plan: Plan) -> list[str]:
    return sorted(claim.zone for claim in plan.claims)


# --- Affinity ---------------------------------------------------------------------------------------


@pytest.mark.fact("S-81")
@pytest.mark.parametrize("zone", ["z1", "z2", "z3"])
def test_affinity_places_pods_in_the_zone_of_a_matching_pod(zone: str) -> None:
    plan = solve(request([POOL], pods(3, with_affinity("db")), nodes=(in_zone(zone),)))
    assert set(zones(plan)) == {zone}
    assert all(claim.requirements.get(names.ZONE).values == {zone} for claim in plan.claims)


@pytest.mark.fact("S-81")
def test_affinity_to_a_pod_that_does_not_exist_is_unsatisfiable() -> None:
    plan = solve(request([POOL], pods(1, with_affinity("db"))))
    assert reasons(plan) == {"pod-000000": [ReasonCode.TOPOLOGY]}


@pytest.mark.fact("S-81")
@pytest.mark.parametrize("key", [names.ZONE, names.HOSTNAME])
def test_pods_with_affinity_to_themselves_share_one_domain(key: str) -> None:
    plan = solve(request([POOL], pods(5, with_affinity("web", key=key))))
    assert len(set(zones(plan))) == 1
    assert sum(len(claim.pods) for claim in plan.claims) == 5
    if key == names.HOSTNAME:
        assert len(plan.claims) == 1


@pytest.mark.fact("S-81")
def test_hostname_affinity_leaves_pods_unplaced_when_the_node_is_full() -> None:
    plan = solve(request([pool("default", ONE_POD)], pods(2, with_affinity("web", key=names.HOSTNAME))))
    assert len(plan.claims) == 1
    assert len(plan.unplaced) == 1


@pytest.mark.fact("S-81")
def test_self_affinity_starts_no_new_domain_if_a_matching_pod_is_in_any_zone() -> None:
    """kube-scheduler binds such a pod only next to the running one, so a node in another zone would stay empty."""
    only_z2 = pool("default", fake_types(9), is_in(names.ZONE, "z2"))
    existing = in_zone("z1", app="web")
    assert solve(request([only_z2], pods(1, with_affinity("web")), nodes=(existing,))).unplaced
    elsewhere = with_affinity("web", node_selector=from_labels({names.ZONE: "z2"}))
    assert solve(request([only_z2], pods(1, elsewhere), nodes=(existing,))).unplaced


@pytest.mark.fact("S-81")
@pytest.mark.parametrize("zone", ["z1", "z2", "z3"])
def test_pods_of_different_shapes_with_affinity_share_the_zone_that_one_of_them_requires(zone: str) -> None:
    large = shape(900, 100, app="web", affinity=(term("web", names.ZONE),))
    small = with_affinity("web", node_selector=from_labels({names.ZONE: zone}))
    plan = solve(request([pool("default", ONE_POD)], (*pods(2, large, "a"), *pods(2, small, "b"))))
    assert not plan.unplaced
    assert set(zones(plan)) == {zone}


@pytest.mark.fact("S-81")
def test_self_affinity_starts_in_a_zone_that_the_nodepool_allows() -> None:
    pools = [pool("default", fake_types(9), is_in(names.ZONE, "z3"))]
    assert set(zones(solve(request(pools, pods(3, with_affinity("web")), nodes=(in_zone("z1"),))))) == {"z3"}


def test_affinity_to_a_pod_on_a_node_without_a_zone_settles_the_zone_of_that_node() -> None:
    """Nodes of other pods are opened first, and their zones stay open."""
    pending = (
        *pods(2, shape(800, 100, app="other"), "other"),
        *pods(1, shape(700, 100, app="db"), "db"),
        *pods(1, with_affinity("db"), "web"),
    )
    plan = solve(request([pool("default", ONE_POD)], pending))
    assert not plan.unplaced
    zone_of = {
        claim.pods[0].partition("-")[0]: claim.requirements.get(names.ZONE).values for claim in plan.claims
    }
    assert zone_of["db"] == zone_of["web"]
    assert len(zone_of["db"]) == 1
    assert not zone_of["other"]


@pytest.mark.fact("S-81", "S-20")
def test_affinity_to_a_smaller_pod_is_retried_after_that_pod_is_placed() -> None:
    database = shape(100, 100, app="db", node_selector=from_labels({names.ZONE: "z2"}))
    plan = solve(
        request([pool("default", ONE_POD)], (*pods(2, with_affinity("db"), "a"), *pods(1, database, "b")))
    )
    assert set(zones(plan)) == {"z2"}
    assert not plan.unplaced


@pytest.mark.fact("S-80")
@pytest.mark.parametrize(
    ("namespaces", "found"), [(("default",), False), (("other",), True), (("x", "other"), True)]
)
def test_affinity_matches_only_pods_in_the_namespaces_of_the_term(
    namespaces: tuple[str, ...], *, found: bool
) -> None:
    existing = node("n1", zone="z2", pods=running(1, shape(0, 0, app="db", namespace="other")))
    wanting = shape(app="web", affinity=(term("db", names.ZONE, namespaces),))
    plan = solve(request([], pods(1, wanting), nodes=(existing,)))
    assert bool(plan.placed) is found


# --- Anti-affinity ----------------------------------------------------------------------------------


@pytest.mark.fact("S-82")
def test_anti_affinity_excludes_the_zones_of_matching_pods() -> None:
    nodes = (in_zone("z1"), in_zone("z2"))
    assert zones(solve(request([POOL], pods(1, with_anti_affinity("db")), nodes=nodes))) == ["z3"]
    assert reasons(
        solve(request([POOL], pods(1, with_anti_affinity("db")), nodes=(*nodes, in_zone("z3"))))
    ) == {"pod-000000": [ReasonCode.TOPOLOGY]}


@pytest.mark.fact("S-82", "S-83")
def test_pods_with_zonal_anti_affinity_get_one_zone_each_in_one_run() -> None:
    plan = solve(request([POOL], pods(5, with_anti_affinity("web"))))
    assert zones(plan) == ["z1", "z2", "z3"]
    assert all(len(claim.requirements.get(names.ZONE).values) == 1 for claim in plan.claims)
    assert len(plan.unplaced) == 2


@pytest.mark.fact("S-82", "ST-10")
@pytest.mark.parametrize("key", [names.ZONE, names.HOSTNAME])
def test_anti_affinity_of_a_running_pod_excludes_matching_pending_pods(key: str) -> None:
    excluding = running(1, shape(0, 0, app="db", anti_affinity=(term("web", key),)))
    nodes = (node("a", zone="z1", pods=excluding), node("b", zone="z2"))
    assert placed(solve(request([], pods(1, shape()), nodes=nodes))) == {"b": ("pod-000000",)}
    assert placed(solve(request([], pods(1, shape(app="other")), nodes=nodes))) == {"a": ("pod-000000",)}


@pytest.mark.fact("S-82")
def test_anti_affinity_of_a_planned_pod_excludes_matching_pods() -> None:
    excluding = shape(700, 100, app="db", anti_affinity=(term("web", names.HOSTNAME),))
    plan = solve(request([POOL], (*pods(1, excluding, "a"), *pods(1, shape(100, 100), "b"))))
    assert sorted(claim.pods for claim in plan.claims) == [("a-000000",), ("b-000000",)]
    in_zones = shape(700, 100, app="db", anti_affinity=(term("web"),))
    plan = solve(request([POOL], (*pods(1, in_zones, "a"), *pods(1, shape(100, 100), "b"))))
    assert len({claim.zone for claim in plan.claims}) == len(plan.claims) == 2


@pytest.mark.fact("S-82")
def test_preferred_anti_affinity_does_not_exclude_other_pods() -> None:
    preferences = (PreferredPodTerm(100, term("web", names.HOSTNAME)),)
    existing = node("a", pods=running(1, shape(0, 0, app="db", preferred_anti_affinity=preferences)))
    assert placed(solve(request([], pods(1, shape()), nodes=(existing,)))) == {"a": ("pod-000000",)}
    preferring = shape(700, 100, app="db", preferred_anti_affinity=preferences)
    plan = solve(request([POOL], (*pods(1, preferring, "a"), *pods(1, shape(100, 100), "b"))))
    assert len(plan.claims) == 1


@pytest.mark.fact("S-82")
def test_a_node_without_a_zone_label_is_not_excluded_by_zonal_anti_affinity() -> None:
    bare = node("a")
    bare = replace(bare, labels=tuple(item for item in bare.labels if item[0] != names.ZONE))
    plan = solve(request([], pods(1, with_anti_affinity("db")), nodes=(bare, in_zone("z1"), in_zone("z2"))))
    assert placed(plan) == {"a": ("pod-000000",)}


# --- Nodes whose zone is open -----------------------------------------------------------------------


@pytest.mark.fact("S-83")
def test_the_target_of_anti_affinity_is_pinned_to_one_zone() -> None:
    """Karpenter leaves the zone of the database's node open, so no zone is certain to be without the database."""
    pending = (*pods(1, shape(700, 100, app="db"), "db"), *pods(1, with_anti_affinity("db"), "web"))
    plan = solve(request([pool("default", ONE_POD)], pending))
    assert zones(plan) == ["z1", "z2"]
    assert all(len(claim.requirements.get(names.ZONE).values) == 1 for claim in plan.claims)


@pytest.mark.fact("S-83")
def test_anti_affinity_excludes_only_the_zone_that_the_target_requires() -> None:
    database = shape(700, 100, app="db", node_selector=from_labels({names.ZONE: "z1"}))
    plan = solve(
        request(
            [pool("default", ONE_POD)], (*pods(1, database, "db"), *pods(1, with_anti_affinity("db"), "web"))
        )
    )
    assert zones(plan) == ["z1", "z2"]


@pytest.mark.fact("S-83")
def test_a_pod_counts_for_a_spread_once_its_node_is_limited_to_one_zone() -> None:
    """The zone of the big pod's node is open until the second pod narrows it to z1; then the big pod counts in z1."""
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


def test_a_domain_must_satisfy_every_constraint_on_its_key() -> None:
    nodes = (
        in_zone("z1", app="cache"),
        in_zone("z2", app="cache"),
        node("x", cpu=0, zone="z1", pods=running(1, shape(0, 0, app="noisy"))),
    )
    wanting = shape(affinity=(term("cache"),), anti_affinity=(term("noisy"),), node_selector=of())
    assert zones(solve(request([POOL], pods(1, wanting), nodes=nodes))) == ["z2"]
