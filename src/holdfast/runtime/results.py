"""The reconciler protocol and its results.

A reconcile observes, decides, acts and reports, in this order. It is level-triggered: it gets a key, not the event that
added it. It is idempotent.
"""

from dataclasses import dataclass
from typing import Protocol

Key = tuple[str, str]  # namespace (empty for cluster-scoped kinds) and name


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do until an object changes. `did` is the action, which becomes the log message."""

    did: str = ""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Reconcile again after this time, even if nothing changes. `why` is the reason for that."""

    seconds: float
    why: str
    did: str = ""


class Reconciler(Protocol):
    @property
    def name(self) -> str:
        """Such as `nodeclaim.lifecycle`; the label `controller` in logs and metrics."""

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        """Moves the actual state of the key towards the desired one, or raises one of `holdfast.errors`."""
