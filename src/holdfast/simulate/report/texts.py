"""Dollars, hours, counts, lengths of time and times as text. Times are UTC.

The words of all parts of a report.
"""

from datetime import UTC, datetime
from typing import Final

from holdfast.simulate.report.measures import Measure, Spread, Unit

MINUS: Final = "\N{MINUS SIGN}"
DASH: Final = "\N{EN DASH}"
SAME: Final = "same"  # no difference
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_SECONDS_WITH_TENTHS: Final = 10
_SPACE: Final = "\N{NO-BREAK SPACE}"  # between a number and its unit
_PERCENT: Final = f"{_SPACE}%"
_EXACT_BELOW: Final = 1000  # hours and dollars of an axis have digits after the point below this
_SMALL: Final = 0.005


def value(number: float, unit: Unit) -> str:
    match unit:
        case Unit.USD:
            return usd(number)
        case Unit.HOURS:
            return f"{_signed(number, f'{abs(number):,.1f}')}{_SPACE}h"
        case Unit.SECONDS:
            return length(number)
        case Unit.PERCENT:
            return f"{number:.1f}{_PERCENT}"
        case Unit.COUNT:
            return count(number)


def usd(amount: float) -> str:
    return _signed(amount if abs(amount) >= _SMALL else 0.0, f"${abs(amount):,.2f}")


def usd_short(amount: float) -> str:
    """For an axis: cents only if there are some."""
    has_cents = not float(amount).is_integer() and abs(amount) < _EXACT_BELOW
    return _signed(amount, f"${abs(amount):,.2f}" if has_cents else f"${abs(amount):,.0f}")


def count(number: float) -> str:
    """A median of an even number of counts may have a half."""
    whole = float(number).is_integer()
    return _signed(number, f"{abs(number):,.0f}" if whole else f"{abs(number):,.1f}")


def length(seconds: float) -> str:
    """`3 d 4 h`, `5 min 20 s`, `3.4 s`: at most two units."""
    if abs(seconds) < _SECONDS_WITH_TENTHS:
        tenths = f"{abs(seconds):.1f}".removesuffix(".0")
        return _signed(seconds if tenths != "0" else 0, f"{tenths}{_SPACE}s")
    left, parts = round(abs(seconds)), list[str]()
    for size, unit in _UNITS:
        number, rest = divmod(left, size)
        if number or parts:
            parts.append(f"{number}{_SPACE}{unit}" if number else "")
            left = rest
    return _signed(seconds, " ".join(filter(None, parts[:2])))


def spread(of: Spread, unit: Unit) -> str:
    """`smallest to largest`, or nothing if they are the same."""
    return "" if of.is_exact else f"{value(of.smallest, unit)} to {value(of.largest, unit)}"


def difference(measure: Measure, amount: float, base: float) -> str:
    """`+$12.00 (+3.1 %)`; `same` if there is none."""
    text = value(amount, measure.unit)
    if text == value(0, measure.unit):
        return SAME
    if measure.unit is Unit.PERCENT:
        text = f"{_signed(amount, f'{abs(amount):.1f}')} points"
    sign = "+" if amount > 0 else ""
    percent = 100 * amount / base if base and measure.unit is not Unit.PERCENT else 0.0
    share = (
        f" ({_signed(percent, f'{abs(percent):,.1f}', plus='+')}{_PERCENT})"
        if abs(percent) >= _SMALL * 10
        else ""
    )
    return f"{sign}{text}{share}"


def date(at_s: int) -> str:
    """`Mon 16 Nov 2026 09:00`."""
    at = moment(at_s)
    return f"{day(at_s)} {_MONTHS[at.month - 1]} {at.year} {clock(at_s)}"


def short_date(at_s: int) -> str:
    """`Mon 16 Nov 09:00`."""
    return f"{day(at_s)} {_MONTHS[moment(at_s).month - 1]} {clock(at_s)}"


def day(at_s: int) -> str:
    """`Mon 16`."""
    at = moment(at_s)
    return f"{_DAYS[at.weekday()]} {at.day}"


def month_day(at_s: int) -> str:
    """`16 Nov`."""
    at = moment(at_s)
    return f"{at.day} {_MONTHS[at.month - 1]}"


def clock(at_s: int) -> str:
    return f"{moment(at_s):%H:%M}"


def moment(at_s: int) -> datetime:
    return datetime.fromtimestamp(at_s, UTC)


def _signed(number: float, text: str, *, plus: str = "") -> str:
    if number < 0:
        return f"{MINUS}{text}"
    return f"{plus}{text}" if number > 0 else text
