"""Topology constraints in a plan hold together, count only certain domains, and leave no pod unplaced that fits."""

from collections import Counter
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement, requirements, resources
from holdfast.model.pods import PodShape, PodTerm, PreferredPodTerm, TopologySpread
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.snapshot import NodeView
from holdfast.model.taints import Effect, Taint
from planner_builders import (
    fake_types,
    instance_type,
    is_in,
    pods,
    pool,
    request,
    reservation,
    selector,
    shape,
)

RACK = "example.com/rack"
ON_DEMAND = is_in(names.CAPACITY_TYPE, names.ON_DEMAND)
RESERVED = is_in(names.CAPACITY_TYPE, names.RESERVED)


def spread(key: str = names.ZONE, app: str = "web", **more: Any) -> TopologySpread:
    return TopologySpread(key, 1, True, selector(app=app), **more)


def term(key: str, app: str) -> PodTerm:
    return PodTerm(key, selector(app=app), ("default",))


def only(*wanted: Requirement) -> dict[str, Any]:
    return {"node_selector": requirements.of(*wanted)}


def alone(**more: Any) -> PodShape:
    """A pod with anti-affinity to pods of its own app on a node."""
    return shape(anti_affinity=(term(names.HOSTNAME, "web"),), **more)


def full_node(zone: str, arch: str) -> NodeView:
    labels = ((names.ARCH, arch), (names.HOSTNAME, "full"), (names.ZONE, zone))
    return NodeView("full", labels, resources.NOTHING, resources.NOTHING)


def zones(plan: Plan, prefix: str) -> Counter[str]:
    """The number of pods with this uid prefix in each zone."""
    return Counter(claim.zone for claim in plan.claims for uid in claim.pods if uid.startswith(prefix))


def test_constraints_on_two_topology_keys_are_decided_together() -> None:
    types = [
        instance_type("a", 8, 16, 0.1, zones=("z2",), labels={RACK: "r1"}),
        instance_type("b", 8, 16, 0.1, zones=("z1",), labels={RACK: "r2"}),
    ]
    database = shape(4_000, app="db", **only(is_in(names.ZONE, "z2")))
    web = shape(spreads=(spread(RACK),), anti_affinity=(term(names.ZONE, "db"),))
    pending = (*pods(1, database, "db"), *pods(1, web, "web"))
    plan = solve(request([pool("default", types)], pending))
    assert not plan.unplaced  # rack r1 comes first, but its nodes are in the zone of the database
    assert zones(plan, "web") == {"z1": 1}


def test_a_zone_is_chosen_for_a_slot_only_if_the_pod_fits_the_slot() -> None:
    reservations = [
        reservation("cr-1", "fake-it-7", "z1"),
        reservation("cr-2", "fake-it-7", "z2"),
        reservation("cr-small", "fake-it-0", "z1"),
    ]
    web = alone(cpu_millis=6_000, spreads=(spread(app="nobody"),), **only(RESERVED))
    plan = solve(request([pool("default", fake_types(9, reservations))], pods(2, web), reservations))
    assert sorted(claim.reservation_id or "" for claim in plan.claims) == ["cr-1", "cr-2"]
    assert not plan.unplaced


@pytest.mark.fact("S-78")
def test_pods_in_slots_do_not_count_for_a_spread_that_selects_on_demand() -> None:
    reservations = [reservation("cr-1", "fake-it-5", "z1", available=3)]
    types = [
        instance_type(t.name, i + 1, 2 * (i + 1), 0.1, reservations, ("z1", "z2"))
        for i, t in enumerate(fake_types(9))
    ]
    in_slots = alone(cpu_millis=4_000)
    web = shape(1_000, spreads=(spread(),), **only(ON_DEMAND))
    pending = (*pods(3, in_slots, "slot"), *pods(6, web, "web"))
    plan = solve(request([pool("default", types)], pending, reservations))
    assert Counter(claim.reservation_id for claim in plan.claims)["cr-1"] == 3
    assert zones(plan, "web") == {"z1": 3, "z2": 3}


@pytest.mark.fact("S-75")
@pytest.mark.parametrize("honors", [False, True])
def test_a_zone_that_only_a_nodepool_with_another_taint_has_is_no_domain(honors: bool) -> None:  # noqa: FBT001 - a case
    untainted = pool("here", [instance_type("a", 4, 8, 0.1, zones=("z1", "z2"))])
    taint = Taint("team", Effect.NO_SCHEDULE, "ml")
    tainted = pool("there", [instance_type("b", 4, 8, 0.1, zones=("z3",))], taints=(taint,))
    plan = solve(request([untainted, tainted], pods(4, shape(spreads=(spread(honors_node_taints=honors),)))))
    assert zones(plan, "pod") == {"z1": 2, "z2": 2}


@pytest.mark.fact("S-75")
def test_the_zone_of_a_node_that_a_pod_cannot_use_is_no_domain_unless_affinity_is_ignored() -> None:
    types = [instance_type("a", 4, 8, 0.1, zones=("z1", "z2"))]
    arm = full_node("z9", "arm64")
    on_amd = only(is_in(names.ARCH, "amd64"))
    plan = solve(
        request([pool("default", types)], pods(4, shape(spreads=(spread(),), **on_amd)), nodes=(arm,))
    )
    assert zones(plan, "pod") == {"z1": 2, "z2": 2}
    ignores = shape(spreads=(spread(honors_node_affinity=False),), **on_amd)
    plan = solve(request([pool("default", types)], pods(4, ignores), nodes=(arm,)))
    assert zones(plan, "pod") == {"z1": 1, "z2": 1}


@pytest.mark.fact("S-82")
def test_preferred_anti_affinity_excludes_no_pods_although_another_pod_requires_the_same() -> None:
    types = [instance_type("a", 4, 8, 0.1, zones=("z1",))]
    prefers = shape(2_000, preferred_anti_affinity=(PreferredPodTerm(1, term(names.ZONE, "web")),))
    requires = shape(1_000, app="db", anti_affinity=(term(names.ZONE, "web"),))
    plan = solve(request([pool("default", types)], (*pods(3, prefers, "web"), *pods(1, requires, "db"))))
    assert [one.pod for one in plan.unplaced] == ["db-000000"]


def test_a_zone_is_chosen_where_min_values_can_be_met() -> None:
    types = [
        instance_type("cheap", 4, 8, 0.01, zones=("z1",)),
        instance_type("x", 4, 8, 0.1, zones=("z2",)),
        instance_type("y", 4, 8, 0.1, zones=("z2",)),
    ]
    flexible = requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, min_values=2)
    near = shape(2_000, app="near", affinity=(term(names.ZONE, "web"),))
    pending = (*pods(1, shape(3_000), "web"), *pods(1, near, "near"))
    plan = solve(request([pool("default", types, flexible)], pending))
    assert len(plan.claims) == 2
    assert not plan.unplaced
    assert {claim.instance_types for claim in plan.claims} == {("x", "y")}


@pytest.mark.fact("S-20")
def test_spread_pods_are_retried_after_pods_in_other_zones_are_placed() -> None:
    first = shape(2_000, spreads=(spread(honors_node_affinity=False),), **only(is_in(names.ZONE, "z1")))
    later = [shape(500, **only(is_in(names.ZONE, zone))) for zone in ("z2", "z3")]
    pending = (*pods(4, first, "first"), *pods(3, later[0], "two"), *pods(3, later[1], "three"))
    plan = solve(request([pool("default", fake_types(9))], pending))
    assert not plan.unplaced  # at first only one fits; after the other pods the minimum is three
    assert zones(plan, "first") == {"z1": 4}
