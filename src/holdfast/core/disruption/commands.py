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


class Code(enum.StrEnum):
    """Why a node stays. Stable: alerts match on these."""

    NOT_OURS = "NotOurs"
    QUEUED = "Queued"
    REBOOTING = "Rebooting"
    UNINITIALIZED = "Uninitialized"
    DELETING = "Deleting"
    UNREADABLE = "Unreadable"
    NOMINATED = "Nominated"
    DO_NOT_DISRUPT = "DoNotDisrupt"
    DO_NOT_REPAIR = "DoNotRepair"
    NO_NODE_POOL = "NoNodePool"
    POD_DO_NOT_DISRUPT = "PodDoNotDisrupt"
    BUDGET_OF_PODS = "PodDisruptionBudget"
    BUDGET = "Budget"
    NOTHING_TO_DO = "NothingToDo"
    STATIC = "Static"
    UNKNOWN_TYPE = "UnknownInstanceType"
    NO_LABELS = "MissingLabels"
    CONSOLIDATION_OFF = "ConsolidationOff"
    WHEN_EMPTY = "WhenEmptyOnly"
    UNSETTLED = "NotYetConsolidatable"
    COOLING_DOWN = "CoolingDown"
    PODS_WITHOUT_PLACE = "PodsWithoutPlace"
    ON_STARTING_NODE = "OnStartingNode"
    NOT_CHEAPER = "NotCheaper"
    TOO_MANY = "TooManyReplacements"
    SPOT_TO_SPOT = "SpotToSpot"
    MIN_VALUES = "MinValues"
    BALANCE = "NotWorthIt"
    WAITS_FOR_SLOT = "WaitsForSlot"
    DRAIN_NEVER_ENDS = "DrainNeverEnds"
    BREAKER = "TooManyUnhealthy"
    TOLERATED = "Tolerated"
    NOT_REACHED = "NotReached"
    UNCHANGED = "Unchanged"
    ANOTHER_FIRST = "AnotherFirst"


# What users are told with an event; the rest is only shown when somebody asks (D-4, D-21).
SILENT: Final = frozenset(
    {
        Code.NOT_OURS,
        Code.UNINITIALIZED,
        Code.QUEUED,
        Code.NOTHING_TO_DO,
        Code.STATIC,
        Code.UNSETTLED,
        Code.TOLERATED,
        Code.NOT_REACHED,
        Code.UNCHANGED,
        Code.ANOTHER_FIRST,
    }
)


@dataclass(frozen=True, slots=True)
class Why:
    code: Code
    text: str
    method: Method | None = None  # None: whatever the method
    subject: str = ""  # a pod, a budget, a reservation


@dataclass(frozen=True, slots=True)
class Kept:
    """A node that stays."""

    node: str
    whys: tuple[Why, ...]


class Whys:
    """Why nodes stay, as methods find out."""

    def __init__(self) -> None:
        self._found: dict[str, list[Why]] = {}

    def add(self, node: str, why: Why) -> None:
        known = self._found.setdefault(node, [])
        if why not in known:
            known.append(why)

    def of(self, node: str) -> tuple[Why, ...]:
        """All that keeps it; that a method had nothing to do says little where another had."""
        found = self._found.get(node, [])
        return tuple(why for why in found if why.code is not Code.NOTHING_TO_DO) or tuple(found)


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
    kept: tuple[Kept, ...]  # by name of the node
    memory: Memory
    allowances: tuple[Allowance, ...]  # for metrics and events (D-13)
