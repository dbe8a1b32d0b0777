"""Volumes: how many a node can attach, and in which topology."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement
from holdfast.model.pods import PodShape, PodTerm, TopologySpread, Volumes
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirement import Operator
from holdfast.model.requirements import Requirements, from_labels, of
from holdfast.state.conversion import nodes as node_views
from objects import csi_node
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

DISKS = "disks.example"


def needs(*claims: str, driver: str = DISKS, **more: Any) -> PodShape:
    return shape(100, 100, volumes=Volumes(claims=tuple((driver, claim) for claim in claims)), **more)


def in_zone(*zones: str) -> Requirements:
    return of(is_in(names.ZONE, *zones))


def with_volume_in(*topologies: Requirements, **more: Any) -> PodShape:
    return shape(100, 100, volumes=Volumes(alternatives=topologies), **more)


def limited(name: str, most: int | None, price: float = 1.0) -> Any:
    volume_limits = () if most is None else ((DISKS, most),)
    one = instance_type(name, 4, 16, price)
    return type(one)(
        one.name, one.requirements, one.capacity, one.overhead, one.offerings, volume_limits=volume_limits
    )


# --- Volume limits ----------------------------------------------------------------------------------


def test_a_shared_volume_counts_once_when_min_values_are_required() -> None:
    two_types = requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, (), 2)
    types = [limited("a", 1), limited("b", 1)]
    plan = solve(request([pool("default", types, two_types)], pods(3, needs("default/shared"))))
    assert [len(claim.pods) for claim in plan.claims] == [3]


@pytest.mark.fact("S-95")
def test_a_node_attaches_no_more_volumes_than_its_driver_limit() -> None:
    existing = running(1, needs("default/a", "default/b"))
    nodes = (node("n1", pods=existing, volume_limits=((DISKS, 3),)), node("n2"))
    one, two = pods(1, needs("default/c")), pods(1, needs("default/c", "default/d"))
    assert placed(solve(request([], one, nodes=nodes))) == {"n1": ("pod-000000",)}
    assert placed(solve(request([], two, nodes=nodes))) == {"n2": ("pod-000000",)}


@pytest.mark.fact("S-95")
def test_an_attached_volume_is_not_counted_again() -> None:
    existing = running(1, needs("default/a", "default/b"))
    full = node("n1", pods=existing, volume_limits=((DISKS, 2),))
    again = solve(request([], pods(3, needs("default/a")), nodes=(full,)))
    assert placed(again) == {"n1": ("pod-000000", "pod-000001", "pod-000002")}
    assert not solve(request([], pods(1, needs("default/c")), nodes=(full,))).placed


@pytest.mark.fact("S-95")
def test_each_driver_has_its_own_volume_limit() -> None:
    full = node("n1", pods=running(1, needs("default/a")), volume_limits=((DISKS, 1), ("files.example", 1)))
    other = pods(1, needs("default/b", driver="files.example"))
    assert solve(request([], other, nodes=(full,))).placed
    unnamed = pods(1, needs("default/b", driver="unlimited.example"))
    assert solve(request([], unnamed, nodes=(full,))).placed


@pytest.mark.fact("S-95")
@pytest.mark.parametrize(
    ("reported", "of_type", "limits"),
    [
        ({"disks_example": 5}, 25, {DISKS: 5}),  # the limit of the CSINode
        ({}, 25, {DISKS: 25}),  # the limit of the instance type until the CSINode has the driver
        ({"disks_example": None}, 25, {}),  # a driver without a count is unlimited
    ],
)
def test_a_node_has_the_volume_limit_of_its_csinode_or_else_of_its_instance_type(
    reported: dict[str, Any], of_type: int, limits: dict[str, int]
) -> None:
    found = node_views.volume_limits(csi_node("n1", **reported), ((DISKS, of_type),))
    assert dict(found) == limits


@pytest.mark.fact("S-95", "S-63")
def test_new_nodes_have_instance_types_that_attach_all_volumes_of_their_pods() -> None:
    pools = [pool("default", [limited("few", 1), limited("many", 3, 2.0), limited("any", None, 3.0)])]
    assert solve(request(pools, pods(1, needs("a")))).claims[0].instance_types == ("few", "many", "any")
    assert solve(request(pools, pods(1, needs("a", "b")))).claims[0].instance_types == ("many", "any")
    together = (*pods(1, needs("a", "b"), "x"), *pods(1, needs("b", "c"), "y"))
    (claim,) = solve(request(pools, together)).claims
    assert claim.instance_types == ("many", "any")
    (claim,) = solve(request(pools, (*together, *pods(1, needs("d"), "z")))).claims
    assert claim.instance_types == ("any",)


@pytest.mark.fact("S-95")
def test_pods_get_another_node_when_no_type_attaches_all_their_volumes() -> None:
    pools = [pool("default", [limited("two", 2)])]
    pending = [pods(1, needs(f"claim-{i}"), f"p{i}")[0] for i in range(5)]
    plan = solve(request(pools, pending))
    assert sorted(len(claim.pods) for claim in plan.claims) == [1, 2, 2]
    assert reasons(solve(request(pools, pods(1, needs("a", "b", "c"))))) == {
        "pod-000000": [ReasonCode.VOLUMES]
    }


# --- Topology of volumes ----------------------------------------------------------------------------


@pytest.mark.fact("S-96", "S-63")
def test_a_new_node_is_in_the_first_volume_topology_that_works() -> None:
    pools = [pool("default", fake_types(3))]
    assert solve(request(pools, pods(1, with_volume_in(in_zone("z2"), in_zone("z3"))))).claims[0].zone == "z2"
    only_z3 = [pool("default", fake_types(3), is_in(names.ZONE, "z1", "z3"))]
    assert (
        solve(request(only_z3, pods(1, with_volume_in(in_zone("z2"), in_zone("z3"))))).claims[0].zone == "z3"
    )


@pytest.mark.fact("S-96")
def test_an_existing_node_must_match_a_volume_topology() -> None:
    nodes = (node("a", zone="z1"), node("b", zone="z3"))
    pending = pods(1, with_volume_in(in_zone("z2"), in_zone("z3")))
    assert placed(solve(request([], pending, nodes=nodes))) == {"b": ("pod-000000",)}


@pytest.mark.fact("S-96")
def test_volumes_are_the_reason_when_no_node_can_be_in_their_zone() -> None:
    plan = solve(request([pool("default", fake_types(3))], pods(1, with_volume_in(in_zone("z9")))))
    assert reasons(plan) == {"pod-000000": [ReasonCode.VOLUMES]}
    conflicting = with_volume_in(in_zone("z2"), node_selector=from_labels({names.ZONE: "z1"}))
    assert reasons(solve(request([pool("default", fake_types(3))], pods(1, conflicting)))) == {
        "pod-000000": [ReasonCode.VOLUMES]
    }


@pytest.mark.fact("S-96")
def test_two_pods_whose_volumes_are_in_different_zones_get_a_node_each() -> None:
    pending = (*pods(1, with_volume_in(in_zone("z1")), "a"), *pods(1, with_volume_in(in_zone("z2")), "b"))
    plan = solve(request([pool("default", fake_types(3))], pending))
    assert {claim.pods: claim.zone for claim in plan.claims} == {("a-000000",): "z1", ("b-000000",): "z2"}


@pytest.mark.fact("S-98", "S-79")
def test_the_zone_of_a_volume_does_not_limit_the_domains_of_a_spread() -> None:
    """z2 and z3 have no pods, so the pod whose volume is in z1 would make the skew two."""
    spread = TopologySpread(names.ZONE, 1, True, selector(app="web"))
    existing = node("n1", zone="z1", pods=running(1, shape()))
    pools = [pool("default", fake_types(3))]
    by_volume = pods(1, with_volume_in(in_zone("z1"), spreads=(spread,)))
    assert reasons(solve(request(pools, by_volume, nodes=(existing,)))) == {
        "pod-000000": [ReasonCode.TOPOLOGY]
    }
    by_itself = pods(1, shape(100, 100, node_selector=from_labels({names.ZONE: "z1"}), spreads=(spread,)))
    assert placed(solve(request(pools, by_itself, nodes=(existing,)))) == {"n1": ("pod-000000",)}


@pytest.mark.fact("S-63")
def test_the_next_volume_topology_is_tried_if_anti_affinity_excludes_the_first() -> None:
    apart = PodTerm(names.ZONE, selector(app="db"), ("default",))
    existing = node("n1", zone="z2", pods=running(1, shape(app="db")))
    pending = pods(1, with_volume_in(in_zone("z2"), in_zone("z3"), anti_affinity=(apart,)))
    plan = solve(request([pool("default", fake_types(3))], pending, nodes=(existing,)))
    assert [claim.zone for claim in plan.claims] == ["z3"]
