"""Topology spread: which domains exist, which pods count, and which domain is chosen."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape, TopologySpread
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import from_labels, of
from holdfast.model.snapshot import NodeView
from holdfast.model.taints import Effect, Taint, Toleration, TolerationOperator
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
    reservation,
    running,
    selector,
    shape,
)

WEB = selector(app="web")
TEAM = Taint("team", Effect.NO_SCHEDULE)
TOLERATES = (Toleration("team", TolerationOperator.EXISTS),)
ONE_POD = [instance_type("tiny", 1, 2, 1.0)]  # capacity for one pod of 500m CPU


def over(key: str = names.ZONE, skew: int = 1, **more: Any) -> TopologySpread:
    return TopologySpread(key, skew, True, **({"selector": WEB} | more))


def spread(*constraints: TopologySpread, cpu_millis: int = 500, **more: Any) -> PodShape:
    return shape(cpu_millis, 100, spreads=constraints or (over(),), **more)


def zones(plan: Plan) -> dict[str, int]:
    return dict(Counter(claim.zone for claim in plan.claims for _ in claim.pods))


def closed(type_: InstanceType, zone: str) -> InstanceType:
    """The type without available offerings in a zone."""
    offerings = tuple(replace(o, healthy=o.healthy and o.zone != zone) for o in type_.offerings)
    return replace(type_, offerings=offerings)


# --- Which domain is chosen -------------------------------------------------------------------------


@pytest.mark.fact("S-79")
@pytest.mark.parametrize(("count", "expected"), [(3, [1, 1, 1]), (4, [1, 1, 2]), (9, [3, 3, 3])])
def test_pods_are_spread_evenly_and_each_claim_is_in_one_zone(count: int, expected: list[int]) -> None:
    plan = solve(request([pool("default", fake_types(3))], pods(count, spread())))
    assert sorted(zones(plan).values()) == expected
    assert all(len(claim.requirements.get(names.ZONE).values) == 1 for claim in plan.claims)


@pytest.mark.fact("S-79")
def test_the_zone_with_the_fewest_pods_is_chosen() -> None:
    nodes = (
        node("a", cpu=1, zone="z1", pods=running(2, shape(500, 0), "x")),
        node("b", cpu=1, zone="z3", pods=running(1, shape(500, 0), "y")),
    )
    plans = [
        solve(request([pool("default", fake_types(3))], pods(1, spread()), nodes=nodes)) for _ in range(2)
    ]
    assert [claim.zone for claim in plans[0].claims] == ["z2"]
    assert plans[0] == plans[1]


@pytest.mark.fact("S-79")
@pytest.mark.parametrize(("skew", "placed_pods"), [(1, 1), (2, 2), (3, 3)])
def test_no_zone_exceeds_the_minimum_by_more_than_max_skew(skew: int, placed_pods: int) -> None:
    """Nodes can be launched only in z1, but z2 and z3 are domains without pods."""
    types = [closed(closed(t, "z2"), "z3") for t in ONE_POD]
    plan = solve(request([pool("default", types)], pods(5, spread(over(skew=skew)))))
    assert zones(plan) == {"z1": placed_pods}
    assert {code for codes in reasons(plan).values() for code in codes} == {ReasonCode.TOPOLOGY}


@pytest.mark.fact("S-79")
def test_a_pod_that_its_own_constraint_does_not_select_does_not_count_itself() -> None:
    crowded = node("a", zone="z1", pods=running(1, shape(500, 0)))
    only_z1 = [closed(closed(t, "z2"), "z3") for t in ONE_POD]
    itself = solve(request([pool("default", only_z1)], pods(1, spread()), nodes=(crowded,)))
    other = solve(request([pool("default", only_z1)], pods(1, spread(app="db")), nodes=(crowded,)))
    assert not itself.placed
    assert placed(other) == {"a": ("pod-000000",)}


@pytest.mark.fact("S-79")
def test_the_minimum_covers_only_zones_that_the_pod_allows() -> None:
    two = of(is_in(names.ZONE, "z1", "z2"))
    plan = solve(request([pool("default", ONE_POD)], pods(4, spread(node_selector=two))))
    assert zones(plan) == {"z1": 2, "z2": 2}


@pytest.mark.fact("S-79")
def test_with_fewer_zones_than_min_domains_the_minimum_is_zero() -> None:
    def placed_with(least: int) -> dict[str, int]:
        return zones(solve(request([pool("default", ONE_POD)], pods(6, spread(over(min_domains=least))))))

    assert placed_with(3) == {"z1": 2, "z2": 2, "z3": 2}
    assert placed_with(4) == {"z1": 1, "z2": 1, "z3": 1}


@pytest.mark.fact("S-76")
def test_each_constraint_uses_its_own_min_domains() -> None:
    strict, lenient = spread(over(min_domains=4)), spread(over())
    pending = (*pods(6, strict, "a"), *pods(3, lenient, "b"))
    plan = solve(request([pool("default", ONE_POD)], pending))
    assert len([uid for uid in reasons(plan) if uid.startswith("a")]) == 3
    assert not [uid for uid in reasons(plan) if uid.startswith("b")]


@pytest.mark.fact("S-76")
def test_constraints_that_select_the_same_pods_count_together() -> None:
    small, large = spread(cpu_millis=400), spread(over(skew=2), cpu_millis=500)
    pending = (*pods(2, large, "a"), *pods(1, small, "b"))
    plan = solve(request([pool("default", ONE_POD)], pending))
    assert zones(plan) == {"z1": 1, "z2": 1, "z3": 1}


@pytest.mark.fact("S-75", "S-79")
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (names.CAPACITY_TYPE, {"spot": 3, "on-demand": 3, "reserved": 2}),  # the reservation has two slots
        (names.NODEPOOL, {"a": 4, "b": 4}),
        (names.INSTANCE_TYPE, {"amd": 4, "arm": 4}),
    ],
)
def test_a_spread_can_use_any_label_of_nodes(key: str, expected: dict[str, int]) -> None:
    reservations = [reservation("cr-1", "amd", available=2)]
    types = [
        instance_type("amd", 1, 2, 1.0, reservations),
        instance_type("arm", 1, 2, 2.0, labels={names.ARCH: "arm64"}),
    ]
    plan = solve(request([pool("a", types), pool("b", types)], pods(8, spread(over(key))), reservations))
    assert Counter(min(claim.requirements.get(key).values) for claim in plan.claims) == expected


# --- Hostnames --------------------------------------------------------------------------------------


@pytest.mark.fact("S-79", "S-84")
@pytest.mark.parametrize(("skew", "nodes"), [(1, 6), (2, 3), (3, 2)])
def test_over_hostnames_the_minimum_is_zero_and_every_new_node_is_a_domain(skew: int, nodes: int) -> None:
    plan = solve(request([pool("default", fake_types(9))], pods(6, spread(over(names.HOSTNAME, skew)))))
    assert [len(claim.pods) for claim in plan.claims] == [skew] * nodes


@pytest.mark.fact("S-77")
def test_pods_on_a_node_without_a_hostname_label_count_on_that_node() -> None:
    one = node("n1", pods=running(1, shape(0, 0)))
    unlabelled = replace(one, labels=tuple(item for item in one.labels if item[0] != names.HOSTNAME))
    plan = solve(request([], pods(1, spread(over(names.HOSTNAME))), nodes=(unlabelled,)))
    assert reasons(plan) == {"pod-000000": [ReasonCode.NO_NODE_POOL]}


# --- Which domains exist ----------------------------------------------------------------------------


@pytest.mark.fact("S-75")
def test_a_zone_without_available_offerings_is_a_domain() -> None:
    types = [closed(t, "z3") for t in ONE_POD]
    plan = solve(request([pool("default", types)], pods(4, spread())))
    assert zones(plan) == {"z1": 1, "z2": 1}


@pytest.mark.fact("S-75")
def test_a_zone_that_no_nodepool_allows_is_no_domain() -> None:
    plan = solve(request([pool("default", ONE_POD, is_in(names.ZONE, "z1", "z2"))], pods(4, spread())))
    assert zones(plan) == {"z1": 2, "z2": 2}


@pytest.mark.fact("S-75")
def test_zones_of_nodepools_that_a_pod_does_not_select_are_no_domains() -> None:
    pools = [
        pool("a", ONE_POD, is_in(names.ZONE, "z1", "z2")),
        pool("b", ONE_POD, is_in(names.ZONE, "z3")),
    ]
    only_a = spread(node_selector=from_labels({names.NODEPOOL: "a"}))
    assert zones(solve(request(pools, pods(4, only_a)))) == {"z1": 2, "z2": 2}


@pytest.mark.fact("S-75")
def test_values_of_custom_nodepool_labels_are_domains() -> None:
    pools = [pool("default", ONE_POD, requirement.of("rack", Operator.IN, ("r1", "r2")))]
    plan = solve(request(pools, pods(4, spread(over("rack")))))
    racks = Counter(min(claim.requirements.get("rack").values) for claim in plan.claims)
    assert racks == {"r1": 2, "r2": 2}


def in_zone(zone: str, **more: Any) -> NodeView:
    return node(f"n-{zone}", cpu=0, zone=zone, **more)


@pytest.mark.fact("S-75")
def test_the_zone_of_an_existing_node_is_a_domain_if_the_pod_selects_the_node() -> None:
    pools = [pool("default", ONE_POD)]
    constraint = spread(node_selector=from_labels({names.NODEPOOL: "default"}))
    of_other_pool = in_zone("z9", labels={names.NODEPOOL: "other"})
    assert len(solve(request(pools, pods(6, constraint), nodes=(in_zone("z9"),))).claims) == 3
    assert len(solve(request(pools, pods(6, constraint), nodes=(of_other_pool,))).claims) == 6


@pytest.mark.fact("S-75", "S-78")
def test_zones_of_tainted_nodes_are_domains_unless_the_constraint_honors_taints() -> None:
    pools = [
        pool("a", ONE_POD, is_in(names.ZONE, "z1", "z2")),
        pool("b", ONE_POD, is_in(names.ZONE, "z3"), taints=(TEAM,)),
    ]
    existing = node("n1", zone="z3", taints=(TEAM,))
    assert len(solve(request(pools, pods(6, spread()), nodes=(existing,))).claims) == 2
    honors = spread(over(honors_node_taints=True))
    assert len(solve(request(pools, pods(6, honors), nodes=(existing,))).claims) == 6


# --- Which pods count -------------------------------------------------------------------------------


def next_zone(constraint: TopologySpread, *nodes: NodeView, **more: Any) -> str:
    """The zone of a new pod beside these nodes, z1 or z2; z1 if both are equal."""
    wanted = pool("default", fake_types(3), is_in(names.ZONE, "z1", "z2"))
    plan = solve(request([wanted], pods(1, spread(constraint, **more)), nodes=nodes))
    return plan.claims[0].zone


@pytest.mark.fact("S-77")
@pytest.mark.parametrize(
    ("existing", "counts"),
    [
        (running(1, shape(0, 0)), True),
        (running(1, shape(0, 0), from_daemon_set=True), True),
        (running(1, shape(0, 0, app="db")), False),
        (running(1, shape(0, 0, namespace="other")), False),
        (running(1, shape(0, 0), terminating=True), False),
    ],
)
def test_running_pods_that_the_selector_matches_in_the_namespace_count(
    existing: Any, *, counts: bool
) -> None:
    assert next_zone(over(), in_zone("z1", pods=existing)) == ("z2" if counts else "z1")


@pytest.mark.fact("S-77")
def test_pods_on_a_node_without_the_topology_label_do_not_count() -> None:
    one = in_zone("z1", pods=running(1, shape(0, 0)))
    unlabelled = replace(one, labels=tuple(item for item in one.labels if item[0] != names.ZONE))
    assert next_zone(over(), unlabelled) == "z1"


@pytest.mark.fact("S-77")
def test_a_constraint_without_a_selector_counts_no_pods() -> None:
    assert next_zone(over(selector=None), in_zone("z1", pods=running(5, shape(0, 0)))) == "z1"


@pytest.mark.fact("S-78", "S-77")
def test_a_node_that_node_affinity_excludes_counts_only_if_affinity_is_ignored() -> None:
    foreign = in_zone("z1", labels={"team": "x"}, pods=running(1, shape(0, 0)))
    without_team = {"required_terms": (of(requirement.of("team", Operator.DOES_NOT_EXIST)),)}
    assert next_zone(over(), foreign, **without_team) == "z1"
    assert next_zone(over(honors_node_affinity=False), foreign, **without_team) == "z2"


@pytest.mark.fact("S-78", "S-77")
def test_a_tainted_node_counts_unless_taints_are_honored() -> None:
    tainted = in_zone("z1", taints=(TEAM,), pods=running(1, shape(0, 0)))
    assert next_zone(over(), tainted) == "z2"
    assert next_zone(over(honors_node_taints=True), tainted) == "z1"
    assert next_zone(over(honors_node_taints=True), tainted, tolerations=TOLERATES) == "z2"


@pytest.mark.fact("S-77")
def test_displaced_pods_count_for_each_other_once() -> None:
    existing = running(3, spread())
    deleting_node = node("going", zone="z1", pods=existing, deleting=True)
    wanted = pool("default", ONE_POD)
    plan = solve(request([wanted], (), nodes=(deleting_node,)))
    assert zones(plan) == {"z1": 1, "z2": 1, "z3": 1}


# --- Which zones are domains --------------------------------------------------------------------------

BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def without_subnet(type_: InstanceType, zone: str) -> InstanceType:
    """The type in an EC2NodeClass without a subnet in a zone: EC2 offers it there, but no node can be launched."""
    zones = is_in(names.ZONE, *(one for one in ("z1", "z2", "z3") if one != zone))
    return replace(closed(type_, zone), requirements=type_.requirements.add(zones))


@BOTH_PACKINGS
@pytest.mark.parametrize("wanted", [(), (is_in(names.ZONE, "z1", "z2", "z3"),)], ids=["any zone", "named"])
def test_a_zone_without_a_subnet_is_no_domain(packing: Packing, wanted: tuple[Requirement, ...]) -> None:
    types = [without_subnet(instance_type("tiny", 1, 2, 1.0), "z3")]
    plan = solve(request([pool("default", types, *wanted)], pods(7, spread()), packing=packing))
    assert not plan.unplaced
    assert sorted(zones(plan).values()) == [3, 4]


@BOTH_PACKINGS
def test_a_zone_that_only_a_nodepool_with_a_taint_has_is_no_domain(packing: Packing) -> None:
    pools = [
        pool("default", ONE_POD, is_in(names.ZONE, "z1", "z2")),
        pool("team", ONE_POD, is_in(names.ZONE, "z3"), taints=(TEAM,)),
    ]
    plan = solve(request(pools, pods(7, spread()), packing=packing))
    assert not plan.unplaced
    assert sorted(zones(plan).values()) == [3, 4]


@BOTH_PACKINGS
def test_a_zone_without_the_instance_types_that_a_pod_selects_is_no_domain(packing: Packing) -> None:
    types = [instance_type("tiny", 1, 2, 1.0), instance_type("other", 1, 2, 1.0, zones=("z1", "z2"))]
    chosen = spread(node_selector=of(is_in(names.INSTANCE_TYPE, "other")))
    plan = solve(request([pool("default", types)], pods(5, chosen), packing=packing))
    assert not plan.unplaced
    assert sorted(zones(plan).values()) == [2, 3]


@BOTH_PACKINGS
def test_a_zone_that_only_a_nodepool_without_the_selected_label_has_is_no_domain(packing: Packing) -> None:
    pools = [
        pool("racks", ONE_POD, is_in("example.com/rack", "r1"), is_in(names.ZONE, "z1", "z2")),
        pool("plain", ONE_POD),
    ]
    chosen = spread(node_selector=of(is_in("example.com/rack", "r1")))
    plan = solve(request(pools, pods(5, chosen), packing=packing))
    assert not plan.unplaced
    assert sorted(zones(plan).values()) == [2, 3]
