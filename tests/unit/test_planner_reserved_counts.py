"""How slots are counted while a plan is made: one count a reservation, one slot a node, and never one more."""

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


def slots(plan: Plan) -> list[str]:
    return sorted(claim.reservation_id for claim in plan.claims if claim.reservation_id)


def with_reserved(of_type: InstanceType, **changed: Any) -> InstanceType:
    """The type with its reserved offerings changed."""
    ways = (dataclasses.replace(o, **changed) if o.reservation_id else o for o in of_type.offerings)
    return dataclasses.replace(of_type, offerings=tuple(ways))


def of_pool(name: str) -> PodShape:
    return shape(app=name, node_selector=of(is_in(names.NODEPOOL, name)), **one_per_node(name))


@pytest.mark.fact("aws-4.6.1", "R-3")
@BOTH_PACKINGS
def test_two_pools_that_offer_one_reservation_draw_on_one_count(packing: Packing) -> None:
    kept = [reservation("cr-1", "fake-it-5", available=3)]
    pools = [pool(name, fake_types(9, kept)) for name in ("one", "two")]
    pending = (*pods(3, of_pool("one"), "one"), *pods(3, of_pool("two"), "two"))
    plan = solve(request(pools, pending, kept, packing))
    assert slots(plan) == ["cr-1"] * 3
    assert not plan.unplaced


@pytest.mark.fact("R-3", "R-15")
@BOTH_PACKINGS
def test_two_types_and_zones_that_offer_one_reservation_draw_on_one_count(packing: Packing) -> None:
    kept = [reservation("cr-1", "small", available=2)]
    elsewhere = offering(names.RESERVED, "z2", 0.2, count=2, reservation_id="cr-1")
    large = instance_type("large", 4, 16, 0.2)
    types = [
        instance_type("small", 2, 8, 0.1, kept),
        dataclasses.replace(large, offerings=(*large.offerings, elsewhere)),
    ]
    plan = solve(request([pool("default", types)], pods(4, shape(**one_per_node())), kept, packing))
    assert slots(plan) == ["cr-1"] * 2
    assert dict(plan.slots_left) == {"cr-1": 0}


@pytest.mark.fact("R-7")
@BOTH_PACKINGS
def test_with_the_gate_off_nothing_is_reserved_or_pinned(packing: Packing) -> None:
    kept = [reservation("cr-1", "fake-it-5", available=3)]
    asked = [pool("default", fake_types(9, kept))], pods(2, shape(**one_per_node())), kept, packing
    plan = solve(request(*asked, reserved_capacity=False))
    assert len(plan.claims) == 2
    assert not slots(plan)
    for claim in plan.claims:
        assert not claim.requirements.get(names.CAPACITY_TYPE).has(names.RESERVED)
    only = [pool("default", fake_types(9, kept), RESERVED_ONLY)], pods(1, shape()), kept, packing
    assert len(solve(request(*only, reserved_capacity=False)).unplaced) == 1


@pytest.mark.fact("R-10")
@pytest.mark.parametrize(("listed", "counted"), [(5, 2), (0, 2), (5, 0)])
def test_the_reservation_is_counted_and_not_what_each_listing_of_it_says(listed: int, counted: int) -> None:
    kept = [reservation("cr-1", "small", available=counted, total=5)]
    types = [with_reserved(instance_type("small", 2, 8, 0.1, kept), count=listed)]
    plan = solve(request([pool("default", types)], pods(4, shape(**one_per_node())), kept))
    assert slots(plan) == ["cr-1"] * counted


@pytest.mark.fact("aws-3.3", "R-12")
def test_a_reservation_that_nobody_counted_is_never_planned_into() -> None:
    unknown = [reservation("cr-unknown", "fake-it-5", available=3)]
    plan = solve(request([pool("default", fake_types(9, unknown))], pods(1, shape()), reservations=[]))
    assert [claim.reservation_id for claim in plan.claims] == [None]


@pytest.mark.fact("R-12", "R-13")
@BOTH_PACKINGS
def test_a_node_that_has_its_slot_takes_no_other_for_more_pods(packing: Packing) -> None:
    kept = [reservation("cr-1", "fake-it-5", available=2)]  # six cores, 5.9 for pods
    plan = solve(request([pool("default", fake_types(9, kept))], pods(5, shape(1_000)), kept, packing))
    assert [(claim.reservation_id, len(claim.pods)) for claim in plan.claims] == [("cr-1", 5)]
    assert dict(plan.slots_left) == {"cr-1": 1}


@pytest.mark.fact("R-14", "R-16")
@BOTH_PACKINGS
def test_a_node_that_grows_into_a_larger_slot_gives_its_own_back(packing: Packing) -> None:
    kept = [reservation("cr-small", "fake-it-3"), reservation("cr-large", "fake-it-7")]  # 4 and 8 cores
    plan = solve(request([pool("default", fake_types(9, kept))], pods(3, shape(3_000)), kept, packing))
    assert {claim.reservation_id: len(claim.pods) for claim in plan.claims} == {"cr-large": 2, "cr-small": 1}


@pytest.mark.fact("R-16")
def test_a_pod_that_is_tried_and_finds_no_place_takes_no_slot() -> None:
    kept = [reservation("cr-1", "fake-it-5", available=2)]
    near_nobody = shape(affinity=(PodTerm(names.HOSTNAME, selector(app="other"), ("default",)),))
    plan = solve(request([pool("default", fake_types(9, kept))], pods(3, near_nobody), kept))
    assert len(plan.unplaced) == 3
    assert dict(plan.slots_left) == {"cr-1": 2}


@pytest.mark.fact("R-43")
@BOTH_PACKINGS
def test_a_slot_with_less_room_than_its_type_is_not_taken_for_what_does_not_fit_in_it(
    packing: Packing,
) -> None:
    kept = [reservation("cr-1", "big", available=2)]
    types = [
        with_reserved(instance_type("big", 8, 32, 1.0, kept), capacity_override=resources.of({"cpu": 2000}))
    ]
    for cpu_millis, slot in ((4_000, None), (1_000, "cr-1")):
        plan = solve(request([pool("default", types)], pods(1, shape(cpu_millis)), kept, packing))
        assert [claim.reservation_id for claim in plan.claims] == [slot]
