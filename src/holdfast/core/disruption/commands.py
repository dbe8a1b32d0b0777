"""What disruption answers: what to do and why, and of every node that stays why it stays.

Read by the controllers that carry a command out, and by whoever explains. Every node of the world is in a decision
exactly once: in the command, or among those that stay.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.disruption.budgets import Allowance
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.core.scheduling.plan import Placed, PlannedClaim
from holdfast.model.pods import PodShape
from holdfast.model.reasons import BlockedCode, Reason


class Method(enum.StrEnum):
    """In the order they are asked (D-2)."""

    REPAIR = "repair"
    EMPTINESS = "emptiness"
    DRIFT = "drift"
    MULTI_NODE = "multi-node consolidation"
    SINGLE_NODE = "single-node consolidation"


class Action(enum.StrEnum):
    DELETE = "delete"  # its pods have a place already
    REPLACE = "replace"  # replacements are ready before it goes
    TERMINATE_FIRST = "terminate-first"  # its own slot is the home of its replacement
    REBOOT = "reboot"  # it keeps its machine, and with it its slot


# What users are told with an event; the rest is only shown when somebody asks (D-4, D-21).
SILENT: Final = frozenset(
    {
        BlockedCode.NOT_OURS,
        BlockedCode.UNINITIALIZED,
        BlockedCode.QUEUED,
        BlockedCode.NOTHING_TO_DO,
        BlockedCode.STATIC,
        BlockedCode.UNSETTLED,
        BlockedCode.TOLERATED,
        BlockedCode.NOT_REACHED,
        BlockedCode.UNCHANGED,
        BlockedCode.ANOTHER_FIRST,
    }
)


@dataclass(frozen=True, slots=True)
class Blocker:
    """Why one method does not disrupt a node; without a method: why no method may."""

    reason: Reason
    method: Method | None = None


@dataclass(frozen=True, slots=True)
class Undisrupted:
    """A node that is not in the command."""

    node: str
    blockers: tuple[Blocker, ...]


class Blockers:
    """What the methods of one pass find against the disruption of nodes."""

    def __init__(self) -> None:
        self._found: dict[str, dict[Blocker, None]] = {}

    def add(self, node: str, reason: Reason, method: Method | None = None) -> None:
        self._found.setdefault(node, {})[Blocker(reason, method)] = None

    def of(self, node: str) -> tuple[Blocker, ...]:
        """Everything that was found; without the methods that had nothing to do, if another method found something."""
        found = tuple(self._found.get(node, ()))
        return tuple(one for one in found if one.reason.code is not BlockedCode.NOTHING_TO_DO) or found


@dataclass(frozen=True, slots=True)
class Replacement:
    """A claim to write. One that waits is written first, and launched when that machine is gone and its slot free."""

    claim: PlannedClaim
    waits_for_instance: str | None = None


@dataclass(frozen=True, slots=True)
class Command:
    method: Method
    reason: DisruptionReason
    action: Action
    candidates: tuple[str, ...]  # nodes, in the order they were chosen
    why: str
    replacements: tuple[Replacement, ...] = ()
    placed: tuple[Placed, ...] = ()  # their pods on nodes that exist: those are spoken for
    saves_nano_usd_per_hour: int = 0
    frees_nano_usd_per_hour: int = 0  # what slots are worth that are left, less those that are taken
    drain_bound_s: int | None = None  # how long the drain may take; None: as the claim says
    condition: str = ""  # of a repair: the node condition that it answers


@dataclass(frozen=True, slots=True)
class Move:
    """Consolidation evicts pods of these shapes from these nodes: their replacements are not evicted for a while."""

    at_s: int
    shapes: frozenset[PodShape]
    nodes: frozenset[str]
    until_s: int  # when one of the nodes was last seen to drain, or to be about to


@dataclass(frozen=True, slots=True)
class Memo:
    """A method looked at a world of this stamp then, and these nodes gave nothing."""

    stamp: tuple[int | str, ...]
    at_s: int
    tried: frozenset[str] = frozenset()
    done: bool = False  # it looked at all there was


@dataclass(frozen=True, slots=True)
class Memory:
    """What one decision leaves for the next. To lose it costs time, never correctness."""

    moves: tuple[Move, ...] | None = None  # None: nobody knows, the program has just begun
    memos: Mapping[Method, Memo] = field(default_factory=dict)
    unreached: tuple[str, ...] = ()  # NodePools that the last pass had no time for


@dataclass(frozen=True, slots=True)
class Decision:
    command: Command | None
    undisrupted: tuple[Undisrupted, ...]  # by name of the node
    memory: Memory
    allowances: tuple[Allowance, ...]  # for metrics and events (D-13)
