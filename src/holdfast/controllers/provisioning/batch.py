"""When to plan: after a short silence, or at once when somebody is in a hurry.

Called by `provisioner`. The rule (P-2): a window ends when nothing new came for a while, or when it has been open for
long enough; what is in it already does not keep it open.
"""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Batch:
    idle_s: float
    longest_s: float
    _elements: set[str] = field(default_factory=set)
    _opened_s: float = 0.0
    _last_s: float = 0.0
    _hurried: bool = False

    def add(self, element: str, now_s: float) -> None:
        if not self._elements:
            self._opened_s = now_s
        if element not in self._elements:
            self._elements.add(element)
            self._last_s = now_s

    def hurry(self) -> None:
        """The window ends now, whatever is in it."""
        self._hurried = True

    def ends_s(self) -> float | None:
        """When the window ends; None: it is not open."""
        if self._hurried:
            return 0.0
        if not self._elements:
            return None
        return min(self._last_s + self.idle_s, self._opened_s + self.longest_s)

    def close(self) -> None:
        self._elements.clear()
        self._hurried = False
