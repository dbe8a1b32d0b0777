"""The decisions of the last hours, in memory: bounded in number, age and size. The JSON API and the page show them.

A restart loses it; events and the annotations of NodeClaims stay.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from holdfast.api.meta import Object
from holdfast.model.decisions import Decision, DecisionType
from holdfast.ports import Clock

MAX: Final = 5_000
AGE_S: Final = 24 * 3600
_TEXT_MAX: Final = 500
_REASONS_MAX: Final = 20


class DecisionLog:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: deque[Decision] = deque(maxlen=MAX)
        self._last_id = 0
        self._began_s = clock.now_s()

    @property
    def last_id(self) -> int:
        return self._last_id

    @property
    def since_s(self) -> int:
        """No decision before this time is kept."""
        first_s = self._kept[0].at_s if len(self._kept) == MAX else self._began_s
        return max(first_s, self._clock.now_s() - AGE_S)

    def add(self, type_: str, about: Object, text: str, reasons: Iterable[str] = ()) -> None:
        self._last_id += 1
        while self._kept and self._kept[0].at_s < self._clock.now_s() - AGE_S:
            self._kept.popleft()
        meta = about.metadata
        kept = tuple(reason[:_TEXT_MAX] for _, reason in zip(range(_REASONS_MAX), reasons, strict=False))
        self._kept.append(
            Decision(
                self._last_id,
                self._clock.now_s(),
                DecisionType(type_),
                about.kind,
                meta.namespace,
                meta.name,
                text[:_TEXT_MAX],
                kept,
            )
        )

    def newest(self, limit: int, after: int = 0) -> list[Decision]:
        """Newest first, with an id above `after`."""
        oldest_s = self._clock.now_s() - AGE_S
        found: list[Decision] = []
        for one in reversed(self._kept):
            if len(found) >= limit or one.id <= after:
                break
            if one.at_s >= oldest_s:  # the clock may have been set back in between
                found.append(one)
        return found

    def of(self, kind: str, name: str, namespace: str = "", limit: int = 20) -> list[Decision]:
        """Of one object, newest first."""
        key = kind, namespace, name
        found = (one for one in reversed(self._kept) if (one.kind, one.namespace, one.name) == key)
        return [one for _, one in zip(range(limit), found, strict=False)]

    def count(self, type_: DecisionType, within_s: int) -> int:
        since_s = self._clock.now_s() - within_s
        return sum(one.type is type_ and one.at_s >= since_s for one in self._kept)
