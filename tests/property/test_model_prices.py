"""Laws of the price that makes a paid slot come first."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.model import prices

price = st.integers(1, 10**12)
size = st.tuples(st.integers(1, 10**6), st.integers(1, 2**45))


@pytest.mark.fact("R-6")
@given(st.lists(price, min_size=1), st.lists(price), st.data())
@settings(deadline=None)
def test_a_slot_is_never_free_and_cheaper_than_all_that_is_bought(
    on_demand: list[int], spot: list[int], data: st.DataObject
) -> None:
    known = prices.price_range(on_demand, spot)
    own = data.draw(st.none() | st.sampled_from(on_demand))
    cpu, memory = data.draw(size)
    assert 0 < prices.near_zero(own, cpu, memory, known) < min(on_demand + spot)


@pytest.mark.fact("R-6")
@given(st.lists(price, min_size=1), st.lists(price), st.data())
@settings(deadline=None)
def test_slots_stand_in_the_same_order_inside_and_on_the_wire(
    on_demand: list[int], spot: list[int], data: st.DataObject
) -> None:
    known = prices.price_range(on_demand, spot)
    own = st.none() | st.sampled_from(on_demand)
    (a, (cpu_a, memory_a)), (b, (cpu_b, memory_b)) = (
        data.draw(st.tuples(own, size)),
        data.draw(st.tuples(own, size)),
    )
    inside = (
        prices.order_key(names.RESERVED, a, cpu_a, memory_a),
        prices.order_key(names.RESERVED, b, cpu_b, memory_b),
    )
    derived = prices.near_zero(a, cpu_a, memory_a, known), prices.near_zero(b, cpu_b, memory_b, known)
    assert (inside[0] < inside[1]) == (derived[0] < derived[1])
    assert (inside[0] == inside[1]) == (derived[0] == derived[1])


@given(st.integers(0, 10**15))
@settings(deadline=None)
def test_a_price_reads_back_as_it_was_written(nano: int) -> None:
    assert prices.parse(prices.text(nano)) == nano
