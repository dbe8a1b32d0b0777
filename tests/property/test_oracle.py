"""Plans of small random cases beside the best plans, found by an integer program; `make oracle` compares thousands."""

from collections.abc import Callable

import pytest

from holdfast.core.scheduling.input.request import Packing
from oracle import cases, compare
from oracle.cases import Case


@pytest.mark.parametrize("make", [cases.case, cases.one_per_node])
@pytest.mark.parametrize("first", range(0, 100, 50))
@pytest.mark.parametrize("packing", list(Packing))
def test_no_pod_is_left_out_that_could_be_placed_and_no_slot_unused_that_saves_money(
    packing: Packing, first: int, make: Callable[[int], Case]
) -> None:
    found = compare.compare(range(first, first + 50), packing, make)
    assert (found.fewer_pods, found.unused_slots) == ([], [])


@pytest.mark.parametrize("seed", [2490, 2522, 2815, 4530, 4785])
@pytest.mark.parametrize("packing", list(Packing))
def test_a_case_that_left_out_a_pod_once_has_the_most_pods(packing: Packing, seed: int) -> None:
    assert compare.compare(range(seed, seed + 1), packing, cases.one_per_node).fewer_pods == []
