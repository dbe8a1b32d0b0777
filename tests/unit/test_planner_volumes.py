"""Volumes: how many a node can attach, and where they can be."""

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


def at(*places: Requirements, **more: Any) -> PodShape:
    return shape(100, 100, volumes=Volumes(alternatives=places), **more)


def limited(name: str, most: int | None, price: float = 1.0) -> Any:
    volume_limits = () if most is None else ((DISKS, most),)
    one = instance_type(name, 4, 16, price)
    return type(one)(
        one.name, one.requirements, one.capacity, one.overhead, one.offerings, volume_limits=volume_limits
    )


# --- How many ---------------------------------------------------------------------------------------


def test_a_volume_that_pods_share_counts_once_where_min_values_are_asked_for() -> None:
    two_types = requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, (), 2)
    types = [limited("a", 1), limited("b", 1)]
    plan = solve(request([pool("default", types, two_types)], pods(3, needs("default/shared"))))
    assert [len(claim.pods) for claim in plan.claims] == [3]


@pytest.mark.fact("S-95")
def test_a_node_takes_no_more_different_volumes_than_its_drivers_attach() -> None:
    there = running(1, needs("default/a", "default/b"))
    nodes = (node("n1", pods=there, volume_limits=((DISKS, 3),)), node("n2"))
    one, two = pods(1, needs("default/c")), pods(1, needs("default/c", "default/d"))
    assert placed(solve(request([], one, nodes=nodes))) == {"n1": ("pod-000000",)}
    assert placed(solve(request([], two, nodes=nodes))) == {"n2": ("pod-000000",)}


@pytest.mark.fact("S-95")
def test_a_volume_that_is_attached_already_is_not_counted_again() -> None:
    there = running(1, needs("default/a", "default/b"))
    full = node("n1", pods=there, volume_limits=((DISKS, 2),))
    again = solve(request([], pods(3, needs("default/a")), nodes=(full,)))
    assert placed(again) == {"n1": ("pod-000000", "pod-000001", "pod-000002")}
    assert not solve(request([], pods(1, needs("default/c")), nodes=(full,))).placed


@pytest.mark.fact("S-95")
def test_the_volumes_of_another_driver_have_a_limit_of_their_own() -> None:
    full = node("n1", pods=running(1, needs("default/a")), volume_limits=((DISKS, 1), ("files.example", 1)))
    other = pods(1, needs("default/b", driver="files.example"))
    assert solve(request([], other, nodes=(full,))).placed
    unnamed = pods(1, needs("default/b", driver="unlimited.example"))
    assert solve(request([], unnamed, nodes=(full,))).placed


@pytest.mark.fact("S-95")
@pytest.mark.parametrize(
    ("reported", "of_type", "limits"),
    [
        ({"disks_example": 5}, 25, {DISKS: 5}),  # what the node says
        ({}, 25, {DISKS: 25}),  # what its type says, until it does
        ({"disks_example": None}, 25, {}),  # a driver without a count is unlimited
    ],
)
def test_a_node_has_the_limit_it_reports_or_else_that_of_its_type(
    reported: dict[str, Any], of_type: int, limits: dict[str, int]
) -> None:
    found = node_views.volume_limits(csi_node("n1", **reported), ((DISKS, of_type),))
    assert dict(found) == limits


@pytest.mark.fact("S-95", "S-63")
def test_new_nodes_are_of_types_that_attach_what_their_pods_need() -> None:
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


# --- Where ------------------------------------------------------------------------------------------


@pytest.mark.fact("S-96", "S-63")
def test_a_node_is_where_the_first_alternative_that_works_is() -> None:
    pools = [pool("default", fake_types(3))]
    assert solve(request(pools, pods(1, at(in_zone("z2"), in_zone("z3"))))).claims[0].zone == "z2"
    only_z3 = [pool("default", fake_types(3), is_in(names.ZONE, "z1", "z3"))]
    assert solve(request(only_z3, pods(1, at(in_zone("z2"), in_zone("z3"))))).claims[0].zone == "z3"


@pytest.mark.fact("S-96")
def test_a_node_that_exists_must_be_where_some_alternative_is() -> None:
    nodes = (node("a", zone="z1"), node("b", zone="z3"))
    pending = pods(1, at(in_zone("z2"), in_zone("z3")))
    assert placed(solve(request([], pending, nodes=nodes))) == {"b": ("pod-000000",)}


@pytest.mark.fact("S-96")
def test_volumes_that_are_where_no_node_can_be_are_the_reason() -> None:
    plan = solve(request([pool("default", fake_types(3))], pods(1, at(in_zone("z9")))))
    assert reasons(plan) == {"pod-000000": [ReasonCode.VOLUMES]}
    here = at(in_zone("z2"), node_selector=from_labels({names.ZONE: "z1"}))
    assert reasons(solve(request([pool("default", fake_types(3))], pods(1, here)))) == {
        "pod-000000": [ReasonCode.VOLUMES]
    }


@pytest.mark.fact("S-96")
def test_two_pods_whose_volumes_are_in_different_zones_get_a_node_each() -> None:
    pending = (*pods(1, at(in_zone("z1")), "a"), *pods(1, at(in_zone("z2")), "b"))
    plan = solve(request([pool("default", fake_types(3))], pending))
    assert {claim.pods: claim.zone for claim in plan.claims} == {("a-000000",): "z1", ("b-000000",): "z2"}


@pytest.mark.fact("S-98", "S-79")
def test_where_a_volume_is_does_not_change_which_zones_a_spread_looks_at() -> None:
    """z2 and z3 are empty, so the pod whose volume is in z1 would make the difference two."""
    spread = TopologySpread(names.ZONE, 1, True, selector(app="web"))
    there = node("n1", zone="z1", pods=running(1, shape()))
    pools = [pool("default", fake_types(3))]
    by_volume = pods(1, at(in_zone("z1"), spreads=(spread,)))
    assert reasons(solve(request(pools, by_volume, nodes=(there,)))) == {"pod-000000": [ReasonCode.TOPOLOGY]}
    by_itself = pods(1, shape(100, 100, node_selector=from_labels({names.ZONE: "z1"}), spreads=(spread,)))
    assert placed(solve(request(pools, by_itself, nodes=(there,)))) == {"n1": ("pod-000000",)}


@pytest.mark.fact("S-63")
def test_the_next_alternative_is_tried_where_topology_forbids_the_first() -> None:
    apart = PodTerm(names.ZONE, selector(app="db"), ("default",))
    there = node("n1", zone="z2", pods=running(1, shape(app="db")))
    pending = pods(1, at(in_zone("z2"), in_zone("z3"), anti_affinity=(apart,)))
    plan = solve(request([pool("default", fake_types(3))], pending, nodes=(there,)))
    assert [claim.zone for claim in plan.claims] == ["z3"]
