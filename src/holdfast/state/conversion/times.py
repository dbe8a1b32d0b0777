"""Converts times and durations to integers of seconds.

A time without a zone is UTC, so that a file means the same in every local time zone. A duration beyond the last date is
cut to it, so that no arithmetic on user input overflows.
"""

import math
import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

NEVER: Final = "Never"
LATEST_S: Final = 253_402_300_799  # 9999-12-31T23:59:59Z, the last second of datetime
_EARLIEST_S: Final = -62_135_596_800  # 0001-01-01T00:00:00Z
_DIGITS_MAX: Final = 18  # of a number that is parsed; int() refuses numbers with thousands of digits

_SECONDS_PER_UNIT: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_WHOLE_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_PLAIN: Final = re.compile(r"([0-9]{1,15})([smh])")
_PART: Final = re.compile(r"([0-9]+(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(ns|us|µs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern}){{1,20}}")


def epoch_s(moment: datetime) -> int:
    """Whole seconds since the epoch."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() // 1)


def epoch_s_or_none(moment: datetime | None) -> int | None:
    return None if moment is None else epoch_s(moment)


def moment_s(written: str | None) -> int | None:
    """Parses a time that `text` wrote; None: it is not a time."""
    try:
        return epoch_s(datetime.fromisoformat(written)) if written else None
    except ValueError:
        return None


def text(moment_s: int) -> str:
    """Seconds since the epoch in the format of Kubernetes, limited to the years 1 to 9999."""
    nearest = datetime.fromtimestamp(max(_EARLIEST_S, min(LATEST_S, moment_s)), UTC)
    return f"{nearest.replace(tzinfo=None).isoformat()}Z"


def duration_s(written: str) -> int | None:
    """A duration such as 1h30m or 1.5s in whole seconds, rounded up, at most LATEST_S; None: it is not a duration."""
    if plain := _PLAIN.fullmatch(written):  # nearly always
        return min(LATEST_S, int(plain[1]) * _WHOLE_SECONDS[plain[2]])
    if not _DURATION.fullmatch(written):
        return None
    parts = _PART.findall(written)
    if any(len(number.partition(".")[0].lstrip("0")) > _DIGITS_MAX for number, _ in parts):
        return LATEST_S
    exact = sum(Fraction(number.lstrip("0") or "0") * _SECONDS_PER_UNIT[unit] for number, unit in parts)
    return min(LATEST_S, math.ceil(exact))
