"""The cost of a node beside its instance, surcharges of instance types, and the spread of nodes over zones."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirements
from holdfast.model.offerings import InstanceType
from planner_builders import (
    NANO,
    instance_type,
    is_in,
    node,
    one_per_node,
    pods,
    pool,
    request,
    reservation,
    running,
    shape,
)

ON_DEMAND = is_in(names.CAPACITY_TYPE, names.ON_DEMAND)
SMALL = instance_type("small", 2, 8, 0.10)
LARGE = instance_type("large", 16, 64, 0.81)  # costs one cent more than eight small nodes
BOTH = list(Packing)


def with_surcharge(known: InstanceType, usd: float) -> InstanceType:
    offerings = (
        replace(one, surcharge_nano_usd_per_hour=round(usd * NANO))
        if one.capacity_type != names.RESERVED
        else one
        for one in known.offerings
    )
    return replace(known, offerings=tuple(offerings))


def zones(count: int, packing: Packing, **more: Any) -> Counter[str]:
    """The planned zones of `count` nodes with one pod each."""
    of = shape(1000, **one_per_node())
    plan = solve(request([pool("default", [SMALL], ON_DEMAND)], pods(count, of), packing=packing, **more))
    assert not plan.unplaced
    return Counter(claim.zone for claim in plan.claims)


# --- The cost of a node -------------------------------------------------------------------------------


@pytest.mark.parametrize(("node_cost", "types"), [("0", {"small": 8}), ("0.02", {"large": 1})])
def test_many_small_nodes_are_chosen_only_when_nodes_cost_nothing(
    node_cost: str, types: dict[str, int]
) -> None:
    plan = solve(
        request(
            [pool("default", [SMALL, LARGE], ON_DEMAND)],
            pods(8, shape(1800)),
            packing=Packing.COST,
            node_cost_nano=round(float(node_cost) * NANO),
        )
    )
    assert Counter(claim.instance_type for claim in plan.claims) == types


def test_reported_prices_exclude_the_node_cost() -> None:
    plan = solve(
        request(
            [pool("default", [SMALL, LARGE], ON_DEMAND)],
            pods(8, shape(1800)),
            packing=Packing.COST,
            node_cost_nano=NANO,
        )
    )
    assert [claim.price_nano_usd_per_hour for claim in plan.claims] == [round(0.81 * NANO)]
    assert plan.price_nano_usd_per_hour == plan.baseline_nano_usd_per_hour == round(0.81 * NANO)


def test_slots_are_used_regardless_of_the_node_cost() -> None:
    reserved = reservation("cr-1", "small", "z1", 8)
    types = [instance_type("small", 2, 8, 0.10, [reserved]), LARGE]
    plan = solve(
        request(
            [pool("default", types)],
            pods(8, shape(1800)),
            [reserved],
            packing=Packing.COST,
            node_cost_nano=NANO,
        )
    )
    assert [claim.reservation_id for claim in plan.claims] == ["cr-1"] * 8


# --- Surcharges ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", BOTH)
def test_instance_types_are_ordered_by_price_plus_surcharge(packing: Packing) -> None:
    burstable = with_surcharge(instance_type("burstable", 2, 8, 0.04), 0.08)
    plan = solve(
        request([pool("default", [burstable, SMALL], ON_DEMAND)], pods(1, shape(1800)), packing=packing)
    )
    (claim,) = plan.claims
    assert claim.instance_types == ("small", "burstable")
    assert plan.price_nano_usd_per_hour == round(0.10 * NANO)


@pytest.mark.parametrize("packing", BOTH)
def test_reported_prices_exclude_the_surcharge(packing: Packing) -> None:
    burstable = with_surcharge(instance_type("burstable", 2, 8, 0.04), 0.08)
    plan = solve(request([pool("default", [burstable], ON_DEMAND)], pods(1, shape(1800)), packing=packing))
    assert [claim.price_nano_usd_per_hour for claim in plan.claims] == [round(0.04 * NANO)]
    assert plan.price_nano_usd_per_hour == round(0.04 * NANO)


# --- Zones --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packing", BOTH)
def test_nodes_with_equal_prices_are_spread_over_the_zones(packing: Packing) -> None:
    assert zones(9, packing) == {"z1": 3, "z2": 3, "z3": 3}


@pytest.mark.parametrize("packing", BOTH)
def test_zones_with_fewer_nodes_of_the_node_pool_come_first(packing: Packing) -> None:
    full = [node(f"n{n}", cpu=1, zone="z1", pods=running(1, shape(1000), f"old{n}")) for n in range(3)]
    full.append(node("n3", cpu=1, zone="z2", pods=running(1, shape(1000), "old3")))
    assert zones(5, packing, nodes=tuple(full)) == {"z2": 2, "z3": 3}


@pytest.mark.parametrize("packing", BOTH)
def test_planned_nodes_that_must_be_in_one_zone_count_for_the_spread(packing: Packing) -> None:
    fixed = shape(
        1000, app="fixed", node_selector=requirements.of(is_in(names.ZONE, "z1")), **one_per_node("fixed")
    )
    free = shape(1500, app="free", **one_per_node("free"))
    solve_request = request(
        [pool("default", [SMALL], ON_DEMAND)], (*pods(2, fixed, "a"), *pods(4, free, "b")), packing=packing
    )
    assert Counter(claim.zone for claim in solve(solve_request).claims) == {"z1": 2, "z2": 2, "z3": 2}


@pytest.mark.parametrize("packing", BOTH)
def test_nodes_of_other_node_pools_do_not_count_for_the_spread(packing: Packing) -> None:
    other = node("n1", cpu=1, zone="z1", labels={names.NODEPOOL: "other"}, pods=running(1, shape(1000)))
    assert zones(1, packing, nodes=(other,)) == {"z1": 1}


@pytest.mark.parametrize("packing", BOTH)
def test_a_cheaper_zone_is_preferred_to_a_spread(packing: Packing) -> None:
    cheap = [
        replace(one, price_nano_usd_per_hour=one.price_nano_usd_per_hour - 1) if one.zone == "z2" else one
        for one in SMALL.offerings
        if one.price_nano_usd_per_hour
    ]
    types = [replace(SMALL, offerings=tuple(cheap))]
    plan = solve(
        request([pool("default", types, ON_DEMAND)], pods(6, shape(1000, **one_per_node())), packing=packing)
    )
    assert {claim.zone for claim in plan.claims} == {"z2"}


def test_a_claim_allows_every_zone_and_prefers_the_planned_one() -> None:
    plan = solve(request([pool("default", [SMALL], ON_DEMAND)], pods(3, shape(1000, **one_per_node()))))
    assert {claim.annotations["holdfast.dev/preferred-zone"] for claim in plan.claims} == {"z1", "z2", "z3"}
    assert all(claim.requirements.get(names.ZONE).complement for claim in plan.claims)
