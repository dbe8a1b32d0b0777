"""Packing by price: the patterns contain every pod, and their cost is near a lower bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.search import dual_prices, greedy
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirements
from planner_builders import (
    fake_types,
    instance_type,
    is_in,
    one_per_node,
    pods,
    pool,
    request,
    reservation,
    shape,
)

ALLOCATABLE = np.array(
    [[1900, 7000, 29], [3900, 15000, 58], [7900, 31000, 58], [1900, 3000, 29], [7900, 63000, 58]]
)
PRICES = np.array([96, 192, 384, 80, 500])

demands = st.lists(
    st.tuples(st.integers(50, 1800), st.integers(50, 2900), st.integers(1, 40)), min_size=1, max_size=8
)


@given(demands)
@settings(max_examples=60)
def test_dual_prices_are_feasible_and_patterns_cost_at_least_the_bound(
    wanted: list[tuple[int, int, int]],
) -> None:
    sizes = np.array([(cpu, memory, 1) for cpu, memory, _ in wanted])
    counts = np.array([count for _, _, count in wanted])
    dual = dual_prices.resource_prices(
        ALLOCATABLE.astype(float), PRICES.astype(float), (sizes.T @ counts).astype(float)
    )
    assert (ALLOCATABLE @ dual <= PRICES * (1 + 1e-6)).all()
    found = greedy.patterns(sizes, counts, ALLOCATABLE, PRICES)
    cost = sum(pattern.nodes * PRICES[pattern.type] for pattern in found)
    assert cost >= dual @ (sizes.T @ counts) * (1 - 1e-6)


@given(demands)
@settings(max_examples=60)
def test_patterns_contain_every_pod_and_fit_their_type(wanted: list[tuple[int, int, int]]) -> None:
    sizes = np.array([(cpu, memory, 1) for cpu, memory, _ in wanted])
    counts = np.array([count for _, _, count in wanted])
    found = greedy.patterns(sizes, counts, ALLOCATABLE, PRICES)
    assert (sum((p.nodes * p.pods for p in found), np.zeros_like(counts)) == counts).all()
    for pattern in found:
        assert (pattern.pods @ sizes <= ALLOCATABLE[pattern.type]).all()


LADDER = [
    instance_type("small", 2, 8, 0.10, capacity_types=[names.ON_DEMAND]),
    instance_type("medium", 8, 32, 0.40, capacity_types=[names.ON_DEMAND]),
    instance_type("huge", 96, 384, 9.00, capacity_types=[names.ON_DEMAND]),  # expensive for its size
]


def test_packing_by_price_avoids_a_large_expensive_type() -> None:
    arguments = [pool("default", LADDER)], pods(60, shape(900, 2048))
    first_fit = solve(request(*arguments))
    by_price = solve(request(*arguments, packing=Packing.COST))
    assert {claim.instance_type for claim in first_fit.claims} == {"huge"}
    assert by_price.price_nano_usd_per_hour < 0.5 * first_fit.price_nano_usd_per_hour
    assert by_price.baseline_nano_usd_per_hour == first_fit.price_nano_usd_per_hour
    assert sum(len(claim.pods) for claim in by_price.claims) == 60


def test_pods_that_need_an_expensive_type_share_a_node_if_that_is_cheaper() -> None:
    """Filling the node with the fewest pods first would make every node an expensive one."""
    types = [
        instance_type("plain", 4, 16, 0.20, capacity_types=[names.ON_DEMAND]),
        instance_type("fast", 4, 16, 0.30, capacity_types=[names.ON_DEMAND], labels={names.ARCH: "arm64"}),
    ]
    either = (is_in(names.ZONE, "nowhere"), is_in(names.ARCH, "arm64"))
    fast = shape(100, 64, "fast", required_terms=tuple(requirements.of(one) for one in either))
    apart = shape(1000, 1024, **one_per_node())
    arguments = [pool("default", types)], (*pods(3, apart, "apart"), *pods(9, fast, "fast"))
    plan = solve(request(*arguments, packing=Packing.COST))
    assert sorted(claim.instance_type for claim in plan.claims) == ["fast", "plain", "plain"]
    assert plan.baseline_nano_usd_per_hour > plan.price_nano_usd_per_hour


@pytest.mark.parametrize("candidates", [0, 1, 16])
def test_no_packing_costs_more_than_first_fit(candidates: int) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=3)]
    plan = solve(
        request(
            [
                pool(
                    "default",
                    fake_types(40, reservations),
                    is_in(names.CAPACITY_TYPE, "reserved", "on-demand"),
                )
            ],
            (*pods(50, shape(700, 900), "a"), *pods(50, shape(300, 3000), "b")),
            reservations,
            Packing.COST,
            packing_candidates=candidates,
            node_cost_nano=0,
        )
    )
    assert plan.price_nano_usd_per_hour <= plan.baseline_nano_usd_per_hour
    assert sum(claim.reservation_id == "cr-1" for claim in plan.claims) == 3
    assert not plan.unplaced


def test_stop_early_returns_the_best_packing_found_so_far() -> None:
    types = [instance_type("small", 2, 4, 0.08), instance_type("large", 16, 32, 0.8)]
    solve_request = request(
        [pool("default", types)], pods(30, shape(900, 1024)), packing=Packing.COST, node_cost_nano=0
    )
    whole = solve(solve_request)
    at_once = solve(solve_request, stop_early=lambda: True)
    assert whole.packing != "first-fit"
    assert whole.price_nano_usd_per_hour < whole.baseline_nano_usd_per_hour
    assert at_once.packing == "first-fit"
    assert at_once.price_nano_usd_per_hour == whole.baseline_nano_usd_per_hour
    stops = iter([False, True])
    assert solve(solve_request, stop_early=lambda: next(stops)).packing in {"first-fit", "by-price"}
