"""When to plan: after a short silence, or at once when somebody is in a hurry.

Called by `provisioner`. The rules: a window ends when nothing new came for a while, or when it has been open for long
enough; what is in it already does not keep it open (P-2); a hurry that leads to the next one, such as launches that fail
again and again for a reason that no plan can know, is answered more and more slowly.
"""

from dataclasses import dataclass, field
from typing import Final

_HURRIES: Final = 10  # within a minute, that are answered at once
_MINUTE_S: Final = 60.0
_SLOWEST_S: Final = 30.0


@dataclass(slots=True)
class Batch:
    idle_s: float
    longest_s: float
    _elements: set[str] = field(default_factory=set)
    _opened_s: float = 0.0
    _last_s: float = 0.0
    _hurried_s: float | None = None  # when it ends, where somebody is in a hurry
    _hurries_s: list[float] = field(default_factory=list)  # when hurries were answered

    def add(self, element: str, now_s: float) -> None:
        if not self._elements:
            self._opened_s = now_s
        if element not in self._elements:
            self._elements.add(element)
            self._last_s = now_s

    def hurry(self, now_s: float) -> None:
        """The window ends now, whatever is in it; or soon, when there were many hurries."""
        self._hurries_s = [at_s for at_s in self._hurries_s if at_s > now_s - _MINUTE_S]
        too_many = len(self._hurries_s) - _HURRIES
        wait_s = min(2.0**too_many, _SLOWEST_S) if too_many >= 0 else 0.0
        if self._hurried_s is None:
            self._hurried_s = now_s + wait_s

    def ends_s(self) -> float | None:
        """When the window ends; None: it is not open."""
        ends = [] if self._hurried_s is None else [self._hurried_s]
        if self._elements:
            ends.append(min(self._last_s + self.idle_s, self._opened_s + self.longest_s))
        return min(ends, default=None)

    def close(self, now_s: float) -> None:
        if self._hurried_s is not None:
            self._hurries_s.append(now_s)
        self._elements.clear()
        self._hurried_s = None
