"""Plans of small random cases, compared with optimal plans of an integer program; `make oracle` compares thousands."""

from collections.abc import Callable

import pytest

from holdfast.core.scheduling.input.request import Packing
from oracle import cases, compare
from oracle.cases import Case


@pytest.mark.parametrize("make", [cases.case, cases.one_per_node])
@pytest.mark.parametrize("first", range(0, 100, 50))
@pytest.mark.parametrize("packing", list(Packing))
def test_plan_places_every_pod_that_fits_and_uses_every_slot_that_saves_money(
    packing: Packing, first: int, make: Callable[[int], Case]
) -> None:
    found = compare.compare(range(first, first + 50), packing, make)
    assert (found.fewer_pods, found.unused_slots) == ([], [])


@pytest.mark.parametrize("seed", [2490, 2522, 2815, 4530, 4785])
@pytest.mark.parametrize("packing", list(Packing))
def test_regression_cases_place_as_many_pods_as_the_optimal_plan(packing: Packing, seed: int) -> None:
    assert compare.compare(range(seed, seed + 1), packing, cases.one_per_node).fewer_pods == []
