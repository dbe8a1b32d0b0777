"""Prices are exact, and a reserved offering is always cheaper than spot and on-demand."""

from fractions import Fraction

import pytest

from holdfast import errors, names
from holdfast.model import prices


def test_prices_are_read_and_written_exactly() -> None:
    assert prices.parse("0.0832") == prices.parse(0.0832) == 83_200_000
    assert prices.parse("1e-3") == 1_000_000
    assert prices.text(83_200_000) == "0.0832"
    assert prices.text(10 * prices.NANO_USD_PER_USD) == "10"
    assert prices.text(0) == "0"
    assert prices.text(1) == "0.000000001"


@pytest.mark.parametrize("bad", ["", "-1", "free", "0.1 USD", "nan", "1e999", True, float("inf")])
def test_invalid_price_is_refused(bad: str | float) -> None:
    with pytest.raises(errors.InvalidInput, match="USD an hour"):
        prices.parse(bad)


def test_near_zero_price_follows_the_design_document() -> None:
    """on-demand / (most expensive / cheapest spot) / 1,000,000, with 0.0832, 10 and 0.02 USD."""
    known = prices.price_range(on_demand=[83_200_000, 10**10], spot=[20_000_000, 30_000_000])
    assert known == prices.PriceRange(10**10, 20_000_000)
    near_zero = prices.near_zero(83_200_000, 2000, 2**33, known)
    assert near_zero == Fraction(83_200_000) / Fraction(10**10, 20_000_000) / 1_000_000
    assert prices.text(near_zero) == "0.0000000001664"


def test_fraction_of_a_nano_usd_is_written_with_its_first_digits() -> None:
    assert prices.text(Fraction(1, 3)) == "0.000000000333333333333333"


def test_near_zero_price_is_above_zero_without_known_prices() -> None:
    known = prices.price_range([], [0])
    assert 0 < prices.near_zero(None, 1000, 1, known) < known.cheapest


def test_reserved_offerings_are_ordered_before_spot_and_on_demand() -> None:
    keys = [
        prices.order_key(names.RESERVED, 5, 0, 0),
        prices.order_key(names.RESERVED, 9, 0, 0),
        prices.order_key(names.RESERVED, None, 2000, 8),
        prices.order_key(names.RESERVED, 0, 4000, 2),
        prices.order_key(names.RESERVED, None, 4000, 3),
        prices.order_key(names.SPOT, 1, 0, 0),
        prices.order_key(names.ON_DEMAND, 2, 0, 0),
        prices.order_key(names.ON_DEMAND, None, 1000, 1),
    ]
    assert keys == sorted(keys)
    assert len(set(keys)) == len(keys)


def test_a_price_beyond_64_bits_of_nano_usd_is_refused() -> None:
    assert prices.parse("9223372036") < 2**63
    with pytest.raises(errors.InvalidInput, match="more than 9223372036 USD"):
        prices.parse("9223372037")
