"""Whether the instances of a NodePool become nodes: its last few launches, and what they say.

Called by `controllers/nodepool`. Pure. Two failures among the last four make a pool unhealthy; one alone says nothing
(P-17).
"""

from dataclasses import dataclass
from typing import Final

REMEMBERED: Final = 4
_UNHEALTHY_FROM: Final = 2


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one launch. Of one that failed, why."""

    registered: bool
    reason: str = ""
    message: str = ""


SUCCESS: Final = Outcome(registered=True)


@dataclass(frozen=True, slots=True)
class History:
    """The last outcomes, the latest at the end."""

    outcomes: tuple[Outcome, ...] = ()

    def and_then(self, outcome: Outcome) -> "History":
        return History((*self.outcomes, outcome)[-REMEMBERED:])

    @property
    def verdict(self) -> Outcome | None:
        """Healthy, or the latest failure of too many; None: nothing that would change what was said before."""
        failures = [outcome for outcome in self.outcomes if not outcome.registered]
        if len(failures) >= _UNHEALTHY_FROM:
            return failures[-1]
        return SUCCESS if self.outcomes and self.outcomes[-1].registered else None


UNHEARD: Final = History()


def recalled(*, healthy: bool, reason: str = "", message: str = "") -> History:
    """What a verdict that was written down stands for, after a restart."""
    if healthy:
        return UNHEARD.and_then(SUCCESS)
    return History((Outcome(registered=False, reason=reason, message=message),) * _UNHEALTHY_FROM)
