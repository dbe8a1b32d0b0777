"""What a reconciler is and what it answers. Callers: every controller.

One reconcile has four beats, always in this order: observe, decide, act, report. It is keyed by name, looks at the
level and not at the event that woke it, and doing it twice does it once.
"""

from dataclasses import dataclass
from typing import Protocol

Key = tuple[str, str]  # namespace, which is empty for cluster-wide kinds, and name


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing to do until something changes. `did` says what was changed in the world, if anything was."""

    did: str = ""


@dataclass(frozen=True, slots=True)
class RequeueAfter:
    """Look again after that long, even if nothing changes."""

    seconds: float
    why: str
    did: str = ""


class Reconciler(Protocol):
    @property
    def name(self) -> str:
        """Its path, such as `nodeclaim.launch`: in logs and in metrics."""

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        """Brings the world nearer to what is wanted of this key, or raises one of `holdfast.errors`."""
