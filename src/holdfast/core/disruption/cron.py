"""Cron schedules of five fields, in UTC: whether the window of a budget is open.

Called by `budgets`. The syntax is that of Karpenter's API: numbers, ranges, lists, steps, names of months and days, and
names such as @daily. If both the day of the month and the day of the week are restricted, one of them must match.
"""

import datetime as dt
import re
from dataclasses import dataclass
from typing import Final

from holdfast import errors

_MINUTE_S: Final = 60
_DAY_S: Final = 24 * 60 * 60
_EPOCH_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()
_DAYS_MAX: Final = 5 * 366  # how far back to search; an older window counts as none

_NICKNAMES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_PART: Final = re.compile(r"(\*|\?|\w{1,9})(?:-(\w{1,9}))?(?:/([0-9]{1,9}))?")


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()  # names of the values from `low` on


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of the month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of the week", 0, 6, _DAYS),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either_day: bool  # day of month and day of week are both restricted

    def latest_s(self, now_s: int) -> int | None:
        """The last start of the schedule, up to now; None: there was none in `_DAYS_MAX` days."""
        today = now_s // _DAY_S
        for day in range(today, max(-1, today - _DAYS_MAX), -1):
            if self._is_on(day):
                before_s = min(now_s - day * _DAY_S, _DAY_S - 1)
                found = self._latest_of_day_s(before_s)
                if found is not None:
                    return day * _DAY_S + found
        return None

    def _is_on(self, day: int) -> bool:
        date = dt.date.fromordinal(_EPOCH_ORDINAL + day)
        if date.month not in self.months:
            return False
        of_month, of_week = date.day in self.days, date.isoweekday() % 7 in self.weekdays
        return (of_month or of_week) if self.either_day else (of_month and of_week)

    def _latest_of_day_s(self, before_s: int) -> int | None:
        at = before_s // _MINUTE_S
        found = [60 * h + m for h in self.hours for m in self.minutes if 60 * h + m <= at]
        return max(found) * _MINUTE_S if found else None


def parse(text: str) -> Schedule:
    """Raises InvalidInput if the text is not a schedule."""
    fields = _NICKNAMES.get(text.strip(), text).split()
    if len(fields) != len(_FIELDS):
        raise errors.InvalidInput(
            f"{text[:40]!r} is no schedule: it has {len(fields)} fields instead of five"
        )
    values = [_values(one, field) for one, field in zip(fields, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = values
    return Schedule(
        minutes=tuple(sorted(minutes)),
        hours=tuple(sorted(hours)),
        days=frozenset(days),
        months=frozenset(months),
        weekdays=frozenset(weekdays),
        either_day=not _is_any(fields[2]) and not _is_any(fields[4]),
    )


def is_open(schedule: Schedule, duration_s: int, now_s: int) -> bool:
    """Whether the last window is open: its first second is included, the second after its duration is not (D-11)."""
    latest_s = schedule.latest_s(now_s)
    return latest_s is not None and now_s - duration_s < latest_s


def _is_any(field: str) -> bool:
    return any(part in ("*", "?", "*/1", "?/1") for part in field.split(","))


def _values(text: str, field: _Field) -> set[int]:
    found: set[int] = set()
    for part in text.lower().split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise errors.InvalidInput(f"{part[:40]!r} is no {field.name}")
        first, last, step = match.groups()
        if first in ("*", "?"):
            if last is not None:
                raise errors.InvalidInput(f"{part!r} is no {field.name}")
            low, high = field.low, field.high
        else:
            low = _number(first, field)
            high = _number(last, field) if last is not None else (field.high if step else low)
        if low > high or (step is not None and int(step) == 0):
            raise errors.InvalidInput(f"{part!r} is no {field.name}: it is empty")
        found.update(range(low, high + 1, int(step or 1)))
    return found


def _number(text: str, field: _Field) -> int:
    if text in field.words:
        return field.low + field.words.index(text)
    if text.isascii() and text.isdigit() and field.low <= int(text) <= field.high:
        return int(text)
    raise errors.InvalidInput(f"{text!r} is no {field.name}: it goes from {field.low} to {field.high}")
