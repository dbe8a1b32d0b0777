"""What disruption is asked about: the cluster at one moment, with what only disruption wants to know of it.

Built by `state` and the controllers, never written to; read by every module of this package. The rules: times are
seconds since the epoch, durations are seconds, and `now` is the moment at which the snapshot was taken.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.scheduling import request
from holdfast.model.snapshot import Snapshot


class DisruptionReason(enum.StrEnum):
    """Why a node is disrupted, as budgets and metrics name it (D-3)."""

    EMPTY = "Empty"
    DRIFTED = "Drifted"
    UNDERUTILIZED = "Underutilized"
    UNHEALTHY = "Unhealthy"


class Policy(enum.StrEnum):
    """Which nodes of a NodePool consolidation looks at (D-49)."""

    WHEN_EMPTY = "WhenEmpty"
    WHEN_EMPTY_OR_UNDERUTILIZED = "WhenEmptyOrUnderutilized"
    BALANCED = "Balanced"


@dataclass(frozen=True, slots=True)
class Budget:
    """How many nodes of a pool may be disrupted at once, as the NodePool says it."""

    nodes: str  # a number, or a share such as 10%
    reasons: frozenset[str] | None = None  # None: all of them
    schedule: str | None = None  # cron, in UTC; None: it always counts
    duration_s: int = 0  # for how long it counts from each beginning


@dataclass(frozen=True, slots=True)
class PoolRules:
    """What a NodePool says about disruption."""

    policy: Policy = Policy.WHEN_EMPTY_OR_UNDERUTILIZED
    budgets: tuple[Budget, ...] = (Budget("10%"),)
    static: bool = False  # a fixed number of nodes
    consolidated_s: int | None = None  # when consolidation last moved pods of its nodes


@dataclass(frozen=True, slots=True)
class Drifted:
    reason: str
    since_s: int


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A condition of a Node, for its repair."""

    type: str
    status: str
    reason: str
    since_s: int


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What only disruption wants to know of a node."""

    ready: bool = True
    registered: bool = True
    rebooting: bool = False
    ending: bool = False  # the cloud was told to end its machine
    queued: bool = False  # a command that is being carried out is about it
    unreadable: bool = False  # the Node, the NodeClaim or a pod on the node cannot be decoded
    do_not_disrupt: bool = False
    do_not_repair: bool = False
    created_s: int = 0
    initialized_s: int | None = None
    expire_after_s: int | None = None  # None: never
    grace_period_s: int | None = None  # how long a drain may take; None: as long as it takes
    drifted: Drifted | None = None
    conditions: tuple[NodeCondition, ...] = ()
    reboots_s: tuple[int, ...] = ()  # when it was rebooted for its repair
    rebooted_s: int | None = None  # since when the last of these is over
    reboot_failed: bool = False  # and it did not come back


@dataclass(frozen=True, slots=True)
class DisruptionInput:
    snapshot: Snapshot
    pools: Mapping[str, PoolRules] = field(default_factory=dict)  # every NodePool, by name
    facts: Mapping[str, NodeFacts] = field(default_factory=dict)  # by node
    changed: int = 0  # another number after every change that could make consolidation worth a try (ST-15)

    @property
    def now_s(self) -> int:
        return self.snapshot.taken_s


class MixedPools(enum.StrEnum):
    """How a full reservation is rolled where the NodePool could also buy a node."""

    WAIT = "wait"  # one move: terminate first, and wait for the slot
    FALLBACK = "fallback"  # two moves: on demand, and back when there is a slot


class ReleaseSlots(enum.StrEnum):
    """When consolidation takes a node out of its slot, which saves nothing on the bill."""

    WHEN_WAITED_FOR = "when-waited-for"  # a pending pod gets the slot
    ALWAYS = "always"  # the pods fit on other nodes or in a slot of a smaller type


@dataclass(frozen=True, slots=True)
class Settings:
    """How to decide. Counts, never clocks: the same cluster gives the same decision."""

    solving: request.Settings = field(
        default_factory=lambda: request.Settings(packing=request.Packing.KARPENTER)
    )
    spot_to_spot: bool = False
    terminate_first_drift: bool = True
    terminate_first_repair: bool = True
    roll_mixed_pools: MixedPools = MixedPools.WAIT
    release_slots: ReleaseSlots = ReleaseSlots.WHEN_WAITED_FOR
    node_repair: bool = False
    saving_per_pod_nano: int = (
        500_000  # an hour, that a consolidation has to save for each ordinary pod it evicts
    )
    cooldown_s: int = 600  # a pod that consolidation moved is not moved again sooner
    slot_wait_s: int = (
        600  # how long a replacement waits for a slot that is free of its instance and not for us
    )
    together_max: int = 100  # nodes that are looked at together
    nodes_asked_max: int = 50_000  # that the planner looks at in a pass; the next pass goes on from there
    memo_s: int = 300  # how long a method that found nothing is not asked again while nothing changes


DEFAULT_FACTS: Final = NodeFacts()
