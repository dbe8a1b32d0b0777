"""Plans of small random cases beside the best plans, found by an integer program; `make oracle` compares thousands."""

import pytest

from holdfast.core.scheduling.request import Packing
from oracle import compare


@pytest.mark.parametrize("first", range(0, 150, 50))
@pytest.mark.parametrize("packing", list(Packing))
def test_no_pod_is_left_out_that_could_be_placed_and_no_slot_unused_that_saves_money(
    packing: Packing, first: int
) -> None:
    found = compare.compare(range(first, first + 50), packing)
    assert (found.fewer_pods, found.unused_slots) == ([], [])
