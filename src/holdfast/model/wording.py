"""Formats counts, lists, times, durations and amounts of resources for messages.

A list is short and states how many names it leaves out; a time has its date unless it is today; an amount is never
negative.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from holdfast.model import resources
from holdfast.model.resources import Resources

LISTED_MAX: Final = 6  # names in one list; the rest is a number
_DAY_S: Final = 86_400
_EARLIEST_S: Final = -62_135_596_800  # 0001-01-01T00:00:00Z
_LATEST_S: Final = 253_402_300_799  # 9999-12-31T23:59:59Z
_UNITS: Final = (("day", _DAY_S), ("hour", 3600), ("minute", 60), ("second", 1))
_PARTS_MAX: Final = 2  # units in one duration


def count(number: int, noun: str) -> str:
    """`1 slot`, `2 slots`."""
    return f"{number:,} {plural(noun, number)}"


def some(number: int) -> str:
    """`none`, `1`, `2`: how many of several."""
    return f"{number:,}" if number else "none"


def are(number: int) -> str:
    """`is` or `are`."""
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    """`has` or `have`."""
    return "has" if number == 1 else "have"


def plural(noun: str, number: int) -> str:
    return noun if number == 1 else f"{noun}s"


def listed(names: Sequence[str], more: int = 0, *, shown: int = LISTED_MAX) -> str:
    """`a, b and 594 more`; `more` is the number of names that `names` leaves out already."""
    more += max(0, len(names) - shown)
    text = ", ".join(names[:shown])
    return f"{text} and {more:,} more" if more else text


def snake_case(word: str) -> str:
    """`when_empty` of `WhenEmpty`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower()


def either(names: Sequence[str]) -> str:
    """`spot`, `spot or on-demand`."""
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def moment(at_s: int, now_s: int) -> str:
    """`02:56` today, `2026-11-16 02:56` on another day; the caller adds `UTC`."""
    at = datetime.fromtimestamp(max(_EARLIEST_S, min(_LATEST_S, at_s)), UTC).replace(tzinfo=None)
    day, _, time = at.isoformat(sep=" ", timespec="minutes").partition(" ")
    return time if at_s // _DAY_S == now_s // _DAY_S else f"{day} {time}"


def duration(seconds: int) -> str:
    """`1 day`, `2 hours 5 minutes`, `40 seconds`: the two largest units, rounded down."""
    parts: list[tuple[str, int]] = []
    left = max(0, seconds)
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        if number or (unit == "second" and not parts):
            parts.append((unit, number))
        elif parts:
            break
    return " ".join(count(number, unit) for unit, number in parts[:_PARTS_MAX])


def amounts(of: Resources, names: Iterable[str]) -> str:
    """`cpu 8, memory 1Gi`, of these resources; `no cpu` where there is none, or less."""
    found = ((name, of[name]) for name in names)
    return ", ".join(f"{n} {resources.text(n, a)}" if a > 0 else f"no {n}" for n, a in found)
