"""Amounts of resources: read as exact fractions, added and compared as integer billionths.

It shares no code with the planner, whose arithmetic it checks.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, TypeAlias

Resources: TypeAlias = dict[str, int]  # in billionths, the smallest unit that a quantity can name

ONE: Final = 10**9

_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)([eE][+-]?[0-9]+)?([a-zA-Z]*)")
_SUFFIXES: Final = (
    {"": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000)}
    | {suffix: Fraction(1000**power) for power, suffix in enumerate("kMGTPE", 1)}
    | {f"{suffix}i": Fraction(1024**power) for power, suffix in enumerate("KMGTPE", 1)}
)
_DURATION: Final = re.compile(r"([0-9.]+)(h|ms|m|s)")
_SECONDS: Final = {"h": Fraction(3600), "m": Fraction(60), "s": Fraction(1), "ms": Fraction(1, 1000)}


def quantity(wire: Any) -> Fraction:
    """A Kubernetes quantity: `250m`, `1Gi`, `2`, 0.5, `1e3`."""
    found = _QUANTITY.fullmatch(str(wire).strip())
    assert found, f"{wire!r} is not a quantity"
    digits, exponent, suffix = found.groups()
    return Fraction(digits + (exponent or "")) * _SUFFIXES[suffix]


def resources(wire: Mapping[str, Any] | None) -> Resources:
    return {name: _billionths(quantity(amount)) for name, amount in (wire or {}).items()}


def _billionths(amount: Fraction) -> int:
    scaled = amount * ONE
    assert scaled.denominator == 1, f"{amount} is finer than a billionth"
    return scaled.numerator


def total(parts: Iterable[Mapping[str, int]]) -> Resources:
    summed: Resources = {}
    for part in parts:
        for name, amount in part.items():
            summed[name] = summed.get(name, 0) + amount
    return summed


def less(whole: Mapping[str, int], part: Mapping[str, int]) -> Resources:
    return total((whole, {name: -amount for name, amount in part.items()}))


def largest(parts: Iterable[Mapping[str, int]]) -> Resources:
    """For each resource, the largest amount that any of the parts has."""
    top: Resources = {}
    for part in parts:
        for name, amount in part.items():
            top[name] = max(top.get(name, 0), amount)
    return top


def fits(wanted: Mapping[str, int], available: Mapping[str, int]) -> bool:
    """Whether all wanted amounts are available; a missing amount is 0, and if any available amount is negative, nothing
    fits (S-54)."""
    if any(amount < 0 for amount in available.values()):
        return False
    return all(amount <= available.get(name, 0) for name, amount in wanted.items())


def seconds(wire: Any) -> Fraction:
    """A Go duration: `90s`, `2m`, `1h30m`."""
    return sum((Fraction(n) * _SECONDS[unit] for n, unit in _DURATION.findall(str(wire))), Fraction(0))


def price(wire: Any) -> Fraction | None:
    """Decimal USD an hour as text; None where unknown."""
    return None if wire is None else Fraction(str(wire))


def amounts(found: Mapping[str, int]) -> dict[str, str]:
    """Resources as in a document."""
    return {name: decimal(Fraction(amount, ONE)) for name, amount in sorted(found.items())}


def decimal(value: Fraction) -> str:
    """A price or an amount as text. They are short decimals, so nothing is rounded."""
    text = format(Decimal(value.numerator) / Decimal(value.denominator), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
