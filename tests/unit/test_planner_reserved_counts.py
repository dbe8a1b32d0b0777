"""How the planner counts slots: one count per reservation, one slot per node, never more than are free."""

import dataclasses
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import resources
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape, PodTerm
from holdfast.model.requirements import of
from planner_builders import (
    fake_types,
    instance_type,
    is_in,
    node,
    offering,
    one_per_node,
    pods,
    pool,
    request,
    reservation,
    selector,
    shape,
)

RESERVED_ONLY = is_in(names.CAPACITY_TYPE, "reserved")
BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def reservation_ids(plan: Plan) -> list[str]:
    return sorted(claim.reservation_id for claim in plan.claims if claim.reservation_id)


def with_reserved(of_type: InstanceType, **changed: Any) -> InstanceType:
    """The type with its reserved offerings changed."""
    offerings = (dataclasses.replace(o, **changed) if o.reservation_id else o for o in of_type.offerings)
    return dataclasses.replace(of_type, offerings=tuple(offerings))


def of_pool(name: str) -> PodShape:
    return shape(app=name, node_selector=of(is_in(names.NODEPOOL, name)), **one_per_node(name))


@pytest.mark.fact("aws-4.6.1", "R-3")
@BOTH_PACKINGS
def test_two_nodepools_share_the_count_of_one_reservation(packing: Packing) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=3)]
    pools = [pool(name, fake_types(9, reservations)) for name in ("one", "two")]
    pending = (*pods(3, of_pool("one"), "one"), *pods(3, of_pool("two"), "two"))
    plan = solve(request(pools, pending, reservations, packing))
    assert reservation_ids(plan) == ["cr-1"] * 3
    assert not plan.unplaced


@pytest.mark.fact("R-3", "R-15")
@BOTH_PACKINGS
def test_two_instance_types_and_zones_share_the_count_of_one_reservation(packing: Packing) -> None:
    reservations = [reservation("cr-1", "small", available=2)]
    elsewhere = offering(names.RESERVED, "z2", 0.2, count=2, reservation_id="cr-1")
    large = instance_type("large", 4, 16, 0.2)
    types = [
        instance_type("small", 2, 8, 0.1, reservations),
        dataclasses.replace(large, offerings=(*large.offerings, elsewhere)),
    ]
    plan = solve(request([pool("default", types)], pods(4, shape(**one_per_node())), reservations, packing))
    assert reservation_ids(plan) == ["cr-1"] * 2
    assert dict(plan.slots_left) == {"cr-1": 0}


@pytest.mark.fact("R-7")
@BOTH_PACKINGS
def test_with_the_feature_gate_off_no_claim_is_reserved(packing: Packing) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=3)]
    arguments = (
        [pool("default", fake_types(9, reservations))],
        pods(2, shape(**one_per_node())),
        reservations,
        packing,
    )
    plan = solve(request(*arguments, reserved_capacity=False))
    assert len(plan.claims) == 2
    assert not reservation_ids(plan)
    for claim in plan.claims:
        assert not claim.requirements.get(names.CAPACITY_TYPE).has(names.RESERVED)
    only = (
        [pool("default", fake_types(9, reservations), RESERVED_ONLY)],
        pods(1, shape()),
        reservations,
        packing,
    )
    assert len(solve(request(*only, reserved_capacity=False)).unplaced) == 1


@pytest.mark.fact("R-10")
@pytest.mark.parametrize(("listed", "counted"), [(5, 2), (0, 2), (5, 0)])
def test_free_slots_come_from_the_reservation_and_not_from_its_offerings(listed: int, counted: int) -> None:
    reservations = [reservation("cr-1", "small", available=counted, total=5)]
    types = [with_reserved(instance_type("small", 2, 8, 0.1, reservations), count=listed)]
    plan = solve(request([pool("default", types)], pods(4, shape(**one_per_node())), reservations))
    assert reservation_ids(plan) == ["cr-1"] * counted


@pytest.mark.fact("aws-3.3", "R-12")
def test_a_reservation_without_a_count_is_never_used() -> None:
    unknown = [reservation("cr-unknown", "fake-it-5", available=3)]
    plan = solve(request([pool("default", fake_types(9, unknown))], pods(1, shape()), reservations=[]))
    assert [claim.reservation_id for claim in plan.claims] == [None]


@pytest.mark.fact("R-12", "R-13")
@BOTH_PACKINGS
def test_more_pods_on_a_reserved_node_use_no_second_slot(packing: Packing) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=2)]  # six cores, 5.9 for pods
    plan = solve(
        request([pool("default", fake_types(9, reservations))], pods(5, shape(1_000)), reservations, packing)
    )
    assert [(claim.reservation_id, len(claim.pods)) for claim in plan.claims] == [("cr-1", 5)]
    assert dict(plan.slots_left) == {"cr-1": 1}


@pytest.mark.fact("R-14", "R-16")
@BOTH_PACKINGS
def test_a_node_that_moves_to_a_larger_reservation_frees_its_slot(packing: Packing) -> None:
    reservations = [
        reservation("cr-small", "fake-it-3"),
        reservation("cr-large", "fake-it-7"),
    ]  # 4 and 8 cores
    plan = solve(
        request([pool("default", fake_types(9, reservations))], pods(3, shape(3_000)), reservations, packing)
    )
    assert {claim.reservation_id: len(claim.pods) for claim in plan.claims} == {"cr-large": 2, "cr-small": 1}


@pytest.mark.fact("R-16")
def test_an_unplaced_pod_uses_no_slot() -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=2)]
    unsatisfiable = shape(affinity=(PodTerm(names.HOSTNAME, selector(app="other"), ("default",)),))
    plan = solve(
        request([pool("default", fake_types(9, reservations))], pods(3, unsatisfiable), reservations)
    )
    assert len(plan.unplaced) == 3
    assert dict(plan.slots_left) == {"cr-1": 2}


@pytest.mark.fact("R-43")
@BOTH_PACKINGS
def test_a_slot_with_a_smaller_capacity_is_not_used_for_a_pod_that_does_not_fit(
    packing: Packing,
) -> None:
    reservations = [reservation("cr-1", "big", available=2)]
    types = [
        with_reserved(
            instance_type("big", 8, 32, 1.0, reservations), capacity_override=resources.of({"cpu": 2000})
        )
    ]
    for cpu_millis, reservation_id in ((4_000, None), (1_000, "cr-1")):
        plan = solve(request([pool("default", types)], pods(1, shape(cpu_millis)), reservations, packing))
        assert [claim.reservation_id for claim in plan.claims] == [reservation_id]


@pytest.mark.parametrize("reserved_capacity", [True, False])
@BOTH_PACKINGS
def test_a_plan_without_pods_reports_the_same_free_slots_as_one_that_needs_none(
    packing: Packing, *, reserved_capacity: bool
) -> None:
    free = [reservation("cr-2", "fake-it-3"), reservation("cr-1", "fake-it-5", available=3)]
    more: dict[str, Any] = {"packing": packing, "reserved_capacity": reserved_capacity, "nodes": (node(),)}
    pools = [pool("default", fake_types(9, free))]
    placed = solve(request(pools, pods(1, shape()), free, **more))
    empty = solve(request(pools, (), free, **more))
    assert empty == dataclasses.replace(placed, placed=())
    assert empty.slots_left == ((("cr-1", 3), ("cr-2", 1)) if reserved_capacity else ())
