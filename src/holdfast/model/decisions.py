"""A decision that was carried out, for the list of recent decisions."""

import enum
from dataclasses import dataclass


class DecisionType(enum.StrEnum):
    LAUNCH = "launch"  # a NodeClaim was created
    LAUNCHED = "launched"  # the cloud launched its instance
    LAUNCH_FAILED = "launch-failed"
    DISRUPTION = "disruption"  # nodes are replaced or deleted
    REMOVAL = "removal"  # a NodeClaim was deleted
    INTERRUPTION = "interruption"  # the cloud announced that it takes an instance back


@dataclass(frozen=True, slots=True)
class Decision:
    id: int  # of this process, growing
    at_s: int
    type: DecisionType
    kind: str  # of the object
    namespace: str
    name: str
    text: str
    reasons: tuple[str, ...] = ()
