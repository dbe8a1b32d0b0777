"""The values of a disruption decision: the `DisruptionCommand`, and for every other node why it is not disrupted.

Every node of the input is in a decision exactly once: in the command, or among `undisrupted`.
"""

import enum
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from holdfast.core.disruption.budgets import Allowance
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.core.scheduling.output.plan import Placed, PlannedClaim
from holdfast.model.pods import PodShape
from holdfast.model.reasons import BlockedCode, Reason


class Method(enum.StrEnum):
    """In the order in which a pass tries them (D-2)."""

    REPAIR = "repair"
    EMPTINESS = "emptiness"
    DRIFT = "drift"
    MULTI_NODE = "multi-node consolidation"
    SINGLE_NODE = "single-node consolidation"


class Action(enum.StrEnum):
    DELETE = "delete"  # its pods fit on other nodes
    REPLACE = "replace"  # the replacements are initialized before it is deleted
    TERMINATE_FIRST = "terminate-first"  # its replacement is launched into its slot
    REBOOT = "reboot"  # it keeps its instance, and with it its slot


_CONSOLIDATION_TYPES: Final = {
    Method.EMPTINESS: "empty",
    Method.MULTI_NODE: "multi",
    Method.SINGLE_NODE: "single",
}


def consolidation_type(method: Method) -> str:
    """The label of Karpenter's metrics; empty if the method is no consolidation."""
    return _CONSOLIDATION_TYPES.get(method, "")


# Codes that cause no event (D-4, D-21).
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


class Undisrupted(NamedTuple):
    """A node that is not in the command."""

    node: str
    blockers: tuple[Blocker, ...]


class Blockers:
    """Collects why the methods of one pass do not disrupt nodes."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[Blocker, ...]] = {}  # by node
        # Many nodes have the same reason alone, and share one tuple. It keeps the reason alive, and so its id.
        self._alone: dict[tuple[int, Method | None], tuple[Blocker]] = {}

    def add(self, node: str, reason: Reason, method: Method | None = None) -> None:
        key = id(reason), method
        alone = self._alone.get(key)
        if alone is None:
            alone = self._alone[key] = (Blocker(reason, method),)
        found = self.found.get(node)
        if found is None:
            self.found[node] = alone
        elif alone[0] not in found:
            self.found[node] = (*found, *alone)

    def of(self, node: str) -> tuple[Blocker, ...]:
        """All blockers of a node; NOTHING_TO_DO is left out if there are others."""
        found = self.found.get(node, ())
        if len(found) <= 1:
            return found
        return tuple(one for one in found if one.reason.code is not BlockedCode.NOTHING_TO_DO) or found


@dataclass(frozen=True, slots=True)
class Replacement:
    """A NodeClaim to create. With `waits_for_instance` it is launched into the slot of that instance, once the
    cloud counts the slot as free."""

    claim: PlannedClaim
    waits_for_instance: str | None = None


@dataclass(frozen=True, slots=True)
class DisruptionCommand:
    """Nodes to disrupt together, from the decision until their NodeClaims are deleted."""

    method: Method
    reason: DisruptionReason
    action: Action
    candidates: tuple[str, ...]  # nodes, in the order they were chosen
    why: str
    drain_bound_s: int | None = None  # limit of the drain; None: that of the NodeClaim

    # Of a command that the queue started. An annotation of each candidate's NodeClaim has these and the fields above,
    # but not `candidates`: the candidates are the NodeClaims with the annotation
    # (state/conversion/disruption_commands).
    id: str = ""
    started_s: int = 0
    replacement_names: tuple[str, ...] = ()  # the NodeClaims that replace the candidates

    # Of a command that was decided by this process.
    replacements: tuple[Replacement, ...] = ()
    placed: tuple[Placed, ...] = ()  # the candidates' pods on existing nodes, which are nominated for them
    saves_nano_usd_per_hour: int = 0
    frees_nano_usd_per_hour: int = 0  # the on-demand price of released slots minus that of used slots
    condition: str = ""  # of a repair: the condition of the Node that it repairs

    @property
    def consolidation_type(self) -> str:
        """The label of Karpenter's metrics: single, multi or empty."""
        return consolidation_type(self.method)

    @property
    def slots_needed(self) -> Counter[str]:
        """Free slots by reservation. A replacement that waits for the slot of a candidate needs none."""
        return Counter(
            one.claim.reservation_id
            for one in self.replacements
            if one.claim.reservation_id is not None and one.waits_for_instance is None
        )


@dataclass(frozen=True, slots=True)
class Move:
    """Consolidation evicts pods of these shapes from these nodes. The cool-down applies to the recreated pods."""

    at_s: int
    shapes: frozenset[PodShape]
    nodes: frozenset[str]
    until_s: int  # when one of the nodes last was deleting, or a candidate in the queue


@dataclass(frozen=True, slots=True)
class MethodResult:
    """The nodes for which a method found no command at this time, with this state of the cluster."""

    stamp: tuple[int | str, ...]
    at_s: int
    tried: frozenset[str] = frozenset()
    done: bool = False  # the method tried all of its candidates


@dataclass(frozen=True, slots=True)
class DecisionCache:
    """The cache between two decisions. A lost cache costs time, never correctness."""

    moves: tuple[Move, ...] | None = None  # None: unknown after a start of the program
    results: Mapping[Method, MethodResult] = field(default_factory=dict)
    unreached: tuple[str, ...] = ()  # NodePools with nodes that the last pass did not simulate


@dataclass(frozen=True, slots=True)
class Score:
    """The score of a consolidation in a Balanced NodePool."""

    pool: str
    value: float
    approved: bool


@dataclass(frozen=True, slots=True)
class Decision:
    command: DisruptionCommand | None
    undisrupted: tuple[Undisrupted, ...]  # by name of the node
    cache: DecisionCache
    allowances: tuple[Allowance, ...]  # for metrics and events (D-13)
    # For metrics alone.
    eligible: Mapping[DisruptionReason, int] = field(default_factory=dict)  # nodes, before budgets
    unfinished: tuple[Method, ...] = ()  # methods that did not simulate all of their candidates
    scores: tuple[Score, ...] = ()
