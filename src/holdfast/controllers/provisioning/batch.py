"""When to plan: when no more pods arrive, or at once after a trigger.

A window ends when no new pod arrived for some time, or at its maximum length. A pod that is already in the window does
not extend it (P-2). A trigger may cause the next trigger, such as a launch that fails again and again: many triggers
within a minute are delayed more and more.
"""

from dataclasses import dataclass, field
from typing import Final

_TRIGGERS_MAX: Final = 10  # within a minute, without delay
_MINUTE_S: Final = 60.0
_SLOWEST_S: Final = 30.0


@dataclass(slots=True)
class Batch:
    idle_s: float
    longest_s: float
    _elements: set[str] = field(default_factory=set)
    _opened_s: float = 0.0
    _last_s: float = 0.0
    _triggered_s: float | None = None  # when the window ends because of a trigger
    _triggers_s: list[float] = field(default_factory=list)  # when windows ended because of triggers

    def add(self, element: str, now_s: float) -> None:
        if not self._elements:
            self._opened_s = now_s
        if element not in self._elements:
            self._elements.add(element)
            self._last_s = now_s

    def trigger(self, now_s: float) -> None:
        """Ends the window now, or soon if there were many triggers."""
        self._triggers_s = [at_s for at_s in self._triggers_s if at_s > now_s - _MINUTE_S]
        too_many = len(self._triggers_s) - _TRIGGERS_MAX
        wait_s = min(2.0**too_many, _SLOWEST_S) if too_many >= 0 else 0.0
        if self._triggered_s is None:
            self._triggered_s = now_s + wait_s

    def ends_s(self) -> float | None:
        """When the window ends; None: no window is open."""
        ends = [] if self._triggered_s is None else [self._triggered_s]
        if self._elements:
            ends.append(min(self._last_s + self.idle_s, self._opened_s + self.longest_s))
        return min(ends, default=None)

    def close(self, now_s: float) -> None:
        if self._triggered_s is not None:
            self._triggers_s.append(now_s)
        self._elements.clear()
        self._triggered_s = None
