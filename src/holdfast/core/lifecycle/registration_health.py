"""Whether the instances of a NodePool register as nodes, judged by its last launches.

Two failures among the last four launches make a NodePool unhealthy; one failure changes nothing (P-17).
"""

from dataclasses import dataclass
from typing import Final

LAUNCHES_MAX: Final = 4
_UNHEALTHY_FROM: Final = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one launch, with the reason if it failed."""

    registered: bool
    reason: str = ""
    message: str = ""


SUCCESS: Final = Outcome(registered=True)


@dataclass(frozen=True, slots=True)
class History:
    """The last outcomes, oldest first."""

    outcomes: tuple[Outcome, ...] = ()

    def with_outcome(self, outcome: Outcome) -> "History":
        return History((*self.outcomes, outcome)[-LAUNCHES_MAX:])

    @property
    def verdict(self) -> Outcome | None:
        """SUCCESS, or the latest failure if there are too many; None: the condition stays as it is."""
        failures = [outcome for outcome in self.outcomes if not outcome.registered]
        if len(failures) >= _UNHEALTHY_FROM:
            return failures[-1]
        return SUCCESS if self.outcomes and self.outcomes[-1].registered else None


NO_LAUNCHES: Final = History()


def from_condition(*, healthy: bool, reason: str = "", message: str = "") -> History:
    """A history that gives the same verdict as the NodePool's condition, for the first launch after a restart."""
    if healthy:
        return NO_LAUNCHES.with_outcome(SUCCESS)
    return History((Outcome(registered=False, reason=reason, message=message),) * _UNHEALTHY_FROM)
