"""Kubernetes quantities (`100m`, `1.5Gi`, `12e6`), parsed exactly into integers.

No floats are used. A quantity is a whole number of nano-units; finer amounts are rounded away from zero, so that a very
small request never becomes 0.

Where the documentation and the code of Kubernetes differ, this module follows the code: a binary quantity is capped at
2^63-1, a decimal one is not. `value()` and `millis()` cap both, where Go would overflow. Go also reads a lone sign, point
or suffix ("+", ".", "Ki") as zero; here they are rejected, as in the documented grammar.
"""

import enum
import functools
import re
from dataclasses import dataclass, field
from typing import Final

from holdfast import errors

MAX: Final = 2**63 - 1
NANO_PER_UNIT: Final = 10**9
NANO_PER_MILLI: Final = 10**6

_LENGTH_MAX: Final = 100  # bounds the work; a longer text is a mistake or an attack
_EXPONENT_MAX: Final = 99


class Format(enum.Enum):
    """The notation in which a quantity was read and is printed."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An exact amount. Equality ignores the notation."""

    nano: int
    format: Format = field(default=Format.DECIMAL_SI, compare=False)

    def value(self) -> int:
        """In whole units, rounded away from zero: Go's `Value`."""
        return _cap(_divide_rounding_up(self.nano, NANO_PER_UNIT))

    def millis(self) -> int:
        """In thousandths, rounded away from zero: Go's `MilliValue`."""
        return _cap(_divide_rounding_up(self.nano, NANO_PER_MILLI))

    def __str__(self) -> str:
        """The canonical form: no fraction, no precision lost, the largest suffix that allows both."""
        units, rest = divmod(self.nano, NANO_PER_UNIT)
        if self.format is Format.BINARY_SI and rest == 0 and abs(units) >= _KI:
            return _binary_text(units)
        return _decimal_text(self.nano, exponent_form=self.format is Format.DECIMAL_EXPONENT)


def parse(value: str | float) -> Quantity:
    """The quantity of a manifest, where YAML has a string, an integer or a float.

    A float is read through its shortest text, so that `1.1` is one and one tenth.
    """
    return _parse_text(value if isinstance(value, str) else _number_text(value))


def millis(value: str | float) -> int:
    """Thousandths, as of a core, rounded up as kube-scheduler does."""
    if isinstance(value, str) and value[-1:] == "m" and _is_short_number(value[:-1]):
        return int(value[:-1])  # most requests: ten times as fast
    return parse(value).millis()


def units(value: str | float) -> int:
    """Whole units, such as bytes or pods, rounded up as kube-scheduler does."""
    if isinstance(value, str):
        bytes_ = _BYTES_PER_SUFFIX.get(value[-2:])
        if bytes_ is not None and _is_short_number(value[:-2]):
            return int(value[:-2]) * bytes_
    elif type(value) is int and 0 <= value <= _SHORT_MAX:
        return value
    return parse(value).value()


# --- Reading ----------------------------------------------------------------------------------------

_KI: Final = 1024
_DECIMAL_SUFFIXES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_NANO_PER_SUFFIX: Final = {suffix: 1000**i for i, suffix in enumerate(_DECIMAL_SUFFIXES)} | {
    suffix: NANO_PER_UNIT * _KI ** (i + 1) for i, suffix in enumerate(_BINARY_SUFFIXES)
}
_BYTES_PER_SUFFIX: Final = {"Ki": _KI, "Mi": _KI**2, "Gi": _KI**3}
_SHORT: Final = 9  # digits: what they mean in any of these units is below the cap
_SHORT_MAX: Final = 10**_SHORT
_PATTERN: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([^0-9.].*)?", re.DOTALL)
_EXPONENT: Final = re.compile(r"[eE]([+-]?)0*([0-9]{1,2})")
_ACCEPTED: Final = (
    "write a number with one of the suffixes "
    f"{' '.join(s for s in _DECIMAL_SUFFIXES if s)} {' '.join(_BINARY_SUFFIXES)}, "
    f"or with an exponent up to e{_EXPONENT_MAX}, for example 500m, 1.5Gi or 12e6"
)


def _is_short_number(digits: str) -> bool:
    return len(digits) <= _SHORT and digits.isdecimal() and digits.isascii()


@functools.lru_cache(maxsize=8192)
def _parse_text(text: str) -> Quantity:
    if len(text) > _LENGTH_MAX:
        raise errors.InvalidInput(f"quantity {text[:20]!r}... is longer than {_LENGTH_MAX} characters")
    match = _PATTERN.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise errors.InvalidInput(f"quantity {text!r} does not start with a number; {_ACCEPTED}")
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4] or ""
    multiplier, divisor, form = _scale(text, suffix)
    magnitude = _divide_rounding_up(int(whole + fraction) * multiplier, divisor * 10 ** len(fraction))
    if form is Format.BINARY_SI:
        magnitude = min(magnitude, MAX * NANO_PER_UNIT)
        form = Format.DECIMAL_SI if 0 < magnitude < NANO_PER_UNIT else form
    return Quantity(-magnitude if sign == "-" else magnitude, form)


def _scale(text: str, suffix: str) -> tuple[int, int, Format]:
    """What one unit of this suffix is in nano, as multiplier and divisor, and its format."""
    nano = _NANO_PER_SUFFIX.get(suffix)
    if nano is not None:
        return nano, 1, Format.BINARY_SI if suffix in _BINARY_SUFFIXES else Format.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        raise errors.InvalidInput(f"quantity {text!r} has the unknown suffix {suffix!r}; {_ACCEPTED}")
    power = 10 ** int(match[2])
    if match[1] == "-":
        return NANO_PER_UNIT, power, Format.DECIMAL_EXPONENT
    return NANO_PER_UNIT * power, 1, Format.DECIMAL_EXPONENT


def _number_text(number: float) -> str:
    if isinstance(number, bool):
        raise errors.InvalidInput(f"quantity {number!r} is a boolean; {_ACCEPTED}")
    return repr(number)  # "inf" and "nan" are refused when this is read


def _divide_rounding_up(numerator: int, denominator: int) -> int:
    """Divide and round away from zero."""
    return -(-numerator // denominator) if numerator >= 0 else numerator // denominator


def _cap(number: int) -> int:
    return max(-MAX, min(MAX, number))


# --- Writing ----------------------------------------------------------------------------------------


def _binary_text(units: int) -> str:
    steps = 0
    while units % _KI == 0 and steps < len(_BINARY_SUFFIXES):
        units //= _KI
        steps += 1
    return f"{units}{_BINARY_SUFFIXES[steps - 1] if steps else ''}"


def _decimal_text(nano: int, *, exponent_form: bool) -> str:
    """Go prints 1000E as "1", having no suffix for it; we print 1000E."""
    if nano == 0:
        return "0"
    steps = 0
    while nano % 1000 == 0 and (exponent_form or steps < len(_DECIMAL_SUFFIXES) - 1):
        nano //= 1000
        steps += 1
    if not exponent_form:
        return f"{nano}{_DECIMAL_SUFFIXES[steps]}"
    exponent = 3 * steps - 9
    return f"{nano}e{exponent}" if exponent else str(nano)
