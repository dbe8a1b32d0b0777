"""Properties of the near-zero price, which makes reserved offerings the cheapest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import names
from holdfast.model import prices

price = st.integers(1, 10**12)
size = st.tuples(st.integers(1, 10**6), st.integers(1, 2**45))


@pytest.mark.fact("R-6")
@given(st.lists(price, min_size=1), st.lists(price), st.data())
def test_a_slot_costs_more_than_zero_and_less_than_every_on_demand_and_spot_price(
    on_demand: list[int], spot: list[int], data: st.DataObject
) -> None:
    price_range = prices.price_range(on_demand, spot)
    own_price = data.draw(st.none() | st.sampled_from(on_demand))
    cpu, memory = data.draw(size)
    assert 0 < prices.near_zero(own_price, cpu, memory, price_range) < min(on_demand + spot)


@pytest.mark.fact("R-6")
@given(st.lists(price, min_size=1), st.lists(price), st.data())
def test_slots_have_the_same_order_by_order_key_and_by_near_zero_price(
    on_demand: list[int], spot: list[int], data: st.DataObject
) -> None:
    price_range = prices.price_range(on_demand, spot)
    own_price = st.none() | st.sampled_from(on_demand)
    (a, (cpu_a, memory_a)), (b, (cpu_b, memory_b)) = (
        data.draw(st.tuples(own_price, size)),
        data.draw(st.tuples(own_price, size)),
    )
    order_keys = (
        prices.order_key(names.RESERVED, a, cpu_a, memory_a),
        prices.order_key(names.RESERVED, b, cpu_b, memory_b),
    )
    near_zero_prices = (
        prices.near_zero(a, cpu_a, memory_a, price_range),
        prices.near_zero(b, cpu_b, memory_b, price_range),
    )
    assert (order_keys[0] < order_keys[1]) == (near_zero_prices[0] < near_zero_prices[1])
    assert (order_keys[0] == order_keys[1]) == (near_zero_prices[0] == near_zero_prices[1])


@given(st.integers(0, 10**15))
def test_price_text_round_trips(nano: int) -> None:
    assert prices.parse(prices.text(nano)) == nano
