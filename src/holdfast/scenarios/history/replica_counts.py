"""The number of pods of a group over time, without dips that evictions and restarts cause.

A controller replaces an evicted pod at once, so the count falls and rises again. A fall counts only if the count does not
come back within `DIP_S`. Rises and lasting falls keep their exact times.
"""

from typing import Final

DIP_S: Final = 60


class ReplicaCount:
    def __init__(self, count: int) -> None:
        self.recorded = count  # what `settled` returned last
        self._levels: list[tuple[int, int]] = []  # later counts, and since when

    @property
    def is_settled(self) -> bool:
        return not self._levels

    def observe(self, at_s: int, count: int) -> None:
        before = self._levels[-1][1] if self._levels else self.recorded
        if count == before:
            return
        first = len(self._levels)
        while first > 0 and self._levels[first - 1][1] < count and self._levels[first - 1][0] > at_s - DIP_S:
            first -= 1
        left = self._levels[first - 1][1] if first else self.recorded
        dip = [(since_s, max(low, min(left, count))) for since_s, low in self._levels[first:]]
        self._levels = self._merged([*self._levels[:first], *dip, (at_s, count)])

    def settled(self, at_s: int, *, final: bool = False) -> list[tuple[int, int]]:
        """The changes that later counts cannot undo, with their times. `final`: all changes."""
        found = []
        while self._levels and (final or self._is_settled(at_s)):
            since_s, self.recorded = self._levels.pop(0)
            found.append((since_s, self.recorded))
        return found

    def _is_settled(self, at_s: int) -> bool:
        since_s, count = self._levels[0]
        return count > self.recorded or since_s <= at_s - DIP_S

    def _merged(self, levels: list[tuple[int, int]]) -> list[tuple[int, int]]:
        before, kept = self.recorded, []
        for since_s, count in levels:
            if count != before:
                kept.append((since_s, count))
            before = count
        return kept
