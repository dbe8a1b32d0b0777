"""Money: exact prices, and the price that makes a paid slot come first.

Called by the cloud adapters (which parse), by `offerings` (which orders) and by reports (which print). The
rule: inside, a price is an integer of nano-USD an hour; nothing here is ever a float.

A slot that is paid for costs nothing more, yet 0 would lose the order among slots. So slots are a tier of
their own, ordered by what their type costs on demand; for the wire and for reports that order is written as
a price near zero.
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
    """Where an offering stands; a price that is unknown (None or 0) comes last in its tier, by
    cpu, then memory."""
    tier = RESERVED_TIER if capacity_type == names.RESERVED else PAID_TIER
    if not price_nano_usd_per_hour:
        return tier, True, cpu_millis, memory_bytes
    return tier, False, price_nano_usd_per_hour, 0


@dataclass(frozen=True, slots=True)
class PriceRange:
    """The dearest and the cheapest hourly price that is known, both above 0."""

    dearest: int
    cheapest: int


def price_range(on_demand: Iterable[int], spot: Iterable[int]) -> PriceRange:
    """Over all that can be bought. Normally the cheapest is a spot price; should something on demand be
    cheaper still, that, or a slot might look dearer than it. Nothing known at all: one nano."""
    known = [price for prices in (on_demand, spot) for price in prices if price > 0] or [1]
    return PriceRange(max(known), min(known))


def near_zero(
    on_demand_nano_usd_per_hour: int | None, cpu_millis: int, memory_bytes: int, known: PriceRange
) -> Fraction:
    """The price of a reserved slot, in nano-USD an hour: `on_demand / (dearest / cheapest) / 1,000,000`.

    Below every price that can be bought, in the order of the on-demand prices, never 0. Types whose
    on-demand price is unknown follow after all others, by cpu, then memory: same order as `order_key`.
    """
    highest = Fraction(known.cheapest, _REDUCTION)  # the price of the dearest type
    if on_demand_nano_usd_per_hour:
        assert on_demand_nano_usd_per_hour <= known.dearest, "the range covers every price that is known"
        return highest * on_demand_nano_usd_per_hour / known.dearest
    size = (cpu_millis << 64) + memory_bytes
    return highest * (1 + Fraction(size, size + 1))
