"""Quantities in canonical form, as the API server stores them: 0.5 is 500m, 1.5Gi is 1536Mi, 1000 is 1k.

Quantities of custom resources are stored as written.
"""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

_QUANTITY: Final = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))(?P<suffix>(?:[KMGTPE]i)|[numkMGTPE]|(?:[eE][+-]?\d{1,2}))?"
)
_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_NANO: Final = 10**9
_MAX_CHARACTERS: Final = 64


@lru_cache(maxsize=4096)
def canonical(text: str) -> str | None:
    """The canonical form, or None when it is not a quantity."""
    match = _QUANTITY.fullmatch(text) if len(text) <= _MAX_CHARACTERS else None
    if match is None:
        return None
    number, suffix = Decimal(match["number"]), match["suffix"] or ""
    if suffix in _BINARY[1:]:
        return _binary(number * 1024 ** _BINARY.index(suffix))
    if suffix[:1] in ("e", "E") and suffix[1:]:
        return _decimal(number.scaleb(int(suffix[1:])), exponents=True)
    return _decimal(number.scaleb(_DECIMAL[suffix]), exponents=False)


def _binary(value: Decimal) -> str:
    whole = int(value.to_integral_value(ROUND_CEILING))
    if value != whole or abs(whole) < 1024:  # noqa: PLR2004 - the first binary suffix
        return _decimal(value, exponents=False)
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole, power = whole // 1024, power + 1
    return f"{whole}{_BINARY[power]}"


def _decimal(value: Decimal, *, exponents: bool) -> str:
    nanos = int((value * _NANO).to_integral_value(ROUND_CEILING))
    if nanos == 0:
        return "0"
    exponent = -9
    while nanos % 1000 == 0 and exponent < 18:  # noqa: PLR2004 - E is the largest suffix
        nanos, exponent = nanos // 1000, exponent + 3
    if exponents:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    return f"{nanos}{_BY_EXPONENT[exponent]}"
