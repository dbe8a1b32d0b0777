"""Quantities as integers in thousandths, and sums of resources.

Every resource is counted in thousandths: a vCPU and a byte each are a thousand.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any, Final

Amounts = Mapping[str, int]

_QUANTITY: Final = re.compile(r"([+-]?[0-9.]+)([a-zA-Z]*|[eE][+-]?[0-9]+)")
_FACTORS: Final[Mapping[str, Decimal]] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}


@functools.lru_cache(maxsize=8192)
def parse(value: str | float) -> int:
    """Thousandths, rounded up. The API server has validated the quantity."""
    match = _QUANTITY.fullmatch(str(value))
    assert match is not None, value
    number, suffix = Decimal(match[1]), match[2]
    factor = _FACTORS[suffix] if suffix in _FACTORS else Decimal(f"1{suffix}")
    return int((number * factor * 1000).to_integral_value(ROUND_CEILING))


def text(thousandths: int) -> str:
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def of(resources: Mapping[str, Any] | None) -> dict[str, int]:
    return {name: parse(value) for name, value in (resources or {}).items()}


def texts(amounts: Amounts) -> dict[str, str]:
    return {name: text(amount) for name, amount in amounts.items()}


def total(many: Iterable[Amounts]) -> dict[str, int]:
    found: dict[str, int] = {}
    for amounts in many:
        for name, amount in amounts.items():
            found[name] = found.get(name, 0) + amount
    return found


def larger(one: Amounts, other: Amounts) -> dict[str, int]:
    """The larger amount of each resource."""
    return {name: max(one.get(name, 0), other.get(name, 0)) for name in {**one, **other}}
