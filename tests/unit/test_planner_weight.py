"""The weight of a NodePool is a wish of its owner: no packing goes round it to be cheaper."""

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from planner_builders import instance_type, is_in, one_per_node, pods, pool, request, reservation, shape

ON_DEMAND = is_in(names.CAPACITY_TYPE, "on-demand")
SMALL, LARGE = instance_type("small", 2, 8, 0.096), instance_type("large", 8, 32, 0.384)
BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))


@BOTH_PACKINGS
def test_a_heavier_pool_gets_the_pod_although_a_lighter_one_is_cheaper(packing: Packing) -> None:
    pools = [pool("heavy", [LARGE], ON_DEMAND, weight=100), pool("light", [SMALL], ON_DEMAND, weight=1)]
    plan = solve(request(pools, pods(1, shape()), packing=packing))
    assert [claim.node_pool for claim in plan.claims] == ["heavy"]


def test_of_equal_weight_the_cheaper_pool_may_be_taken() -> None:
    pools = [pool("b", [LARGE], ON_DEMAND, weight=10), pool("a", [SMALL], ON_DEMAND, weight=10)]
    plan = solve(request(pools, pods(1, shape()), packing=Packing.COST))
    assert [claim.node_pool for claim in plan.claims] == ["a"]


@BOTH_PACKINGS
def test_where_weight_comes_first_so_it_does_before_the_slots_of_lighter_pools(packing: Packing) -> None:
    kept = [reservation("cr-1", "small")]
    slots = instance_type("small", 2, 8, 0.096, kept)
    pools = [pool("heavy", [LARGE], ON_DEMAND, weight=100), pool("light", [slots], weight=1)]
    asked = pods(2, shape(**one_per_node()))
    plan = solve(request(pools, asked, kept, packing, reserved_before_weight=False))
    assert [claim.node_pool for claim in plan.claims] == ["heavy", "heavy"]


@BOTH_PACKINGS
def test_a_lighter_pool_takes_what_the_heavier_one_has_no_room_for(packing: Packing) -> None:
    pools = [pool("heavy", [SMALL], ON_DEMAND, weight=100), pool("light", [LARGE], ON_DEMAND, weight=1)]
    plan = solve(request(pools, (*pods(1, shape(6_000)), *pods(1, shape(1_000), "small")), packing=packing))
    assert {claim.node_pool: claim.pods for claim in plan.claims} == {"light": ("pod-000000", "small-000000")}
