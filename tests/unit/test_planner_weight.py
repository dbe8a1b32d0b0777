"""Weights of NodePools: no packing skips a heavier NodePool to be cheaper."""

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from planner_builders import instance_type, is_in, one_per_node, pods, pool, request, reservation, shape

ON_DEMAND = is_in(names.CAPACITY_TYPE, "on-demand")
SMALL, LARGE = instance_type("small", 2, 8, 0.096), instance_type("large", 8, 32, 0.384)
BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))


@BOTH_PACKINGS
def test_a_heavier_nodepool_gets_the_pod_although_a_lighter_one_is_cheaper(packing: Packing) -> None:
    pools = [pool("heavy", [LARGE], ON_DEMAND, weight=100), pool("light", [SMALL], ON_DEMAND, weight=1)]
    plan = solve(request(pools, pods(1, shape()), packing=packing))
    assert [claim.node_pool for claim in plan.claims] == ["heavy"]


def test_the_cheaper_of_nodepools_with_equal_weight_is_used() -> None:
    pools = [pool("b", [LARGE], ON_DEMAND, weight=10), pool("a", [SMALL], ON_DEMAND, weight=10)]
    plan = solve(request(pools, pods(1, shape()), packing=Packing.COST))
    assert [claim.node_pool for claim in plan.claims] == ["a"]


@BOTH_PACKINGS
def test_weight_comes_before_the_slots_of_lighter_nodepools_when_configured(packing: Packing) -> None:
    reservations = [reservation("cr-1", "small")]
    slots = instance_type("small", 2, 8, 0.096, reservations)
    pools = [pool("heavy", [LARGE], ON_DEMAND, weight=100), pool("light", [slots], weight=1)]
    pending = pods(2, shape(**one_per_node()))
    plan = solve(request(pools, pending, reservations, packing, reserved_before_weight=False))
    assert [claim.node_pool for claim in plan.claims] == ["heavy", "heavy"]


@BOTH_PACKINGS
def test_a_lighter_nodepool_gets_pods_that_do_not_fit_in_the_heavier_one(packing: Packing) -> None:
    pools = [pool("heavy", [SMALL], ON_DEMAND, weight=100), pool("light", [LARGE], ON_DEMAND, weight=1)]
    plan = solve(request(pools, (*pods(1, shape(6_000)), *pods(1, shape(1_000), "small")), packing=packing))
    assert {claim.node_pool: claim.pods for claim in plan.claims} == {"light": ("pod-000000", "small-000000")}
