"""Times and durations of the wire as integers of seconds.

Called by the other modules of `state`. The rule: a time without a zone is UTC, whatever machine reads it, so
that a file means the same everywhere.
"""

import math
import re
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

NEVER: Final = "Never"

_SECONDS_PER_UNIT: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "ms": Fraction(1, 10**3),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{0,18})?|\.[0-9]{1,18})(ns|us|µs|ms|s|m|h)")
_DURATION: Final = re.compile(rf"(?:{_PART.pattern}){{1,20}}")


def epoch_s(moment: datetime) -> int:
    """Whole seconds since the epoch."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return int(aware.timestamp() // 1)


def epoch_s_or_none(moment: datetime | None) -> int | None:
    return None if moment is None else epoch_s(moment)


def moment_s(written: str | None) -> int | None:
    """What `text` wrote; None for what is no time."""
    try:
        return epoch_s(datetime.fromisoformat(written)) if written else None
    except ValueError:
        return None


def text(moment_s: int) -> str:
    """Seconds since the epoch as Kubernetes writes them."""
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def duration_s(written: str) -> int | None:
    """A duration such as 1h30m or 1.5s in whole seconds, rounded up; None for what is no duration."""
    if not _DURATION.fullmatch(written):
        return None
    parts = _PART.findall(written)
    return math.ceil(sum(Fraction(number) * _SECONDS_PER_UNIT[unit] for number, unit in parts))
