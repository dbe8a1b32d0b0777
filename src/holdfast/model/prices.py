"""Exact prices, and the derived price of a reserved slot.

A price is an integer of nano-USD an hour, never a float.

A slot is paid for already, but a price of 0 would lose the order among slots. So slots are a separate tier, sorted by the
on-demand price of their type; on the wire and in reports that order is a price near zero.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from holdfast import errors, names

NANO_USD_PER_USD: Final = 10**9
MAX: Final = 2**63 - 1  # nano-USD an hour; the planner's arrays have 64 bits
RESERVED_TIER: Final = 0
PAID_TIER: Final = 1

_REDUCTION: Final = 1_000_000
_DIGITS: Final = 15  # significant ones of a near-zero price on the wire
_PATTERN: Final = re.compile(r"[0-9]{1,12}(?:\.[0-9]{0,30})?(?:[eE][+-]?[0-9]{1,2})?")

OrderKey = tuple[int, bool, int, int]
"""Sorts offerings cheapest first: tier, price unknown, price or cpu, memory."""


def parse(text: str | float) -> int:
    """USD an hour to nano-USD an hour; finer digits are rounded half to even. A float is read as printed."""
    if isinstance(text, bool) or not _PATTERN.fullmatch(str(text)):
        raise errors.InvalidInput(f"price {text!r} is not a number of USD an hour such as 0.0832")
    price = round(Fraction(str(text)) * NANO_USD_PER_USD)
    if price > MAX:
        raise errors.InvalidInput(f"price {text!r} is more than {MAX // NANO_USD_PER_USD} USD an hour")
    return price


def text(nano_usd_per_hour: int | Fraction) -> str:
    """A price as a plain decimal of USD an hour. A fraction of a nano keeps its first digits."""
    digits, places = Fraction(nano_usd_per_hour), 9
    while digits.denominator != 1 and digits < 10 ** (_DIGITS - 1):
        digits, places = digits * 10, places + 1
    padded = str(round(digits)).rjust(places + 1, "0")
    return f"{padded[:-places]}.{padded[-places:]}".rstrip("0").rstrip(".")


def order_key(
    capacity_type: str, price_nano_usd_per_hour: int | None, cpu_millis: int, memory_bytes: int
) -> OrderKey:
    """Sorts offerings; an unknown price (None or 0) comes last in its tier, by cpu, then memory."""
    tier = RESERVED_TIER if capacity_type == names.RESERVED else PAID_TIER
    if not price_nano_usd_per_hour:
        return tier, True, cpu_millis, memory_bytes
    return tier, False, price_nano_usd_per_hour, 0


@dataclass(frozen=True, slots=True)
class PriceRange:
    """The highest and the lowest known hourly price, both above 0."""

    dearest: int
    cheapest: int


def price_range(on_demand: Iterable[int], spot: Iterable[int]) -> PriceRange:
    """The range of all on-demand and spot prices. The lowest is normally a spot price; on-demand prices count too, or a
    slot could seem more expensive than one of them. If no price is known: one nano."""
    known = [price for prices in (on_demand, spot) for price in prices if price > 0] or [1]
    return PriceRange(max(known), min(known))


def near_zero(
    on_demand_nano_usd_per_hour: int | None, cpu_millis: int, memory_bytes: int, known: PriceRange
) -> Fraction:
    """The price of a reserved slot, in nano-USD an hour: `on_demand / (dearest / cheapest) / 1,000,000`.

    It is below every on-demand and spot price, in the order of the on-demand prices, and never 0. Types with an unknown
    on-demand price come last, by cpu, then memory, as in `order_key`.
    """
    highest = Fraction(known.cheapest, _REDUCTION)  # the price of the most expensive type
    if on_demand_nano_usd_per_hour:
        assert on_demand_nano_usd_per_hour <= known.dearest, "the range covers every price that is known"
        return highest * on_demand_nano_usd_per_hour / known.dearest
    size = (cpu_millis << 64) + memory_bytes
    return highest * (1 + Fraction(size, size + 1))
