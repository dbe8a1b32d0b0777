"""The input of a disruption decision: a snapshot, values of NodePools and nodes that only disruption reads, and
settings.

Times are seconds since the epoch, durations are seconds, and `now_s` is the time of the snapshot.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.scheduling.input import request
from holdfast.model.snapshot import Snapshot


class DisruptionReason(enum.StrEnum):
    """Why a node is disrupted, as budgets and metrics name it (D-3)."""

    EMPTY = "Empty"
    DRIFTED = "Drifted"
    UNDERUTILIZED = "Underutilized"
    UNHEALTHY = "Unhealthy"


class Policy(enum.StrEnum):
    """The consolidationPolicy of a NodePool (D-49)."""

    WHEN_EMPTY = "WhenEmpty"
    WHEN_EMPTY_OR_UNDERUTILIZED = "WhenEmptyOrUnderutilized"
    BALANCED = "Balanced"


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget of a NodePool: how many of its nodes may be disrupted at once."""

    nodes: str  # a number, or a percentage such as 10%
    reasons: frozenset[str] | None = None  # None: all of them
    schedule: str | None = None  # cron, in UTC; None: always active
    duration_s: int = 0  # how long it is active from each time of the schedule


@dataclass(frozen=True, slots=True)
class PoolRules:
    """The disruption settings of a NodePool."""

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
    """Values of a node that only disruption reads."""

    ready: bool = True
    registered: bool = True
    rebooting: bool = False
    ending: bool = False  # its instance is terminating
    queued: bool = False  # a command that is being executed has it as candidate
    unreadable: bool = False  # the Node, the NodeClaim or a pod on the node cannot be decoded
    do_not_disrupt: bool = False
    do_not_repair: bool = False
    created_s: int = 0
    initialized_s: int | None = None
    expire_after_s: int | None = None  # None: never
    grace_period_s: int | None = None  # how long a drain may take; None: no bound
    drifted: Drifted | None = None
    conditions: tuple[NodeCondition, ...] = ()
    reboots_s: tuple[int, ...] = ()  # when it was rebooted for its repair
    rebooted_s: int | None = None  # when the last of these ended
    reboot_failed: bool = False  # the node was not ready in time after the last reboot


@dataclass(frozen=True, slots=True)
class DisruptionInput:
    snapshot: Snapshot
    pools: Mapping[str, PoolRules] = field(default_factory=dict)  # every NodePool, by name
    facts: Mapping[str, NodeFacts] = field(default_factory=dict)  # by node
    changed: int = 0  # changes whenever consolidation may give another result (ST-15)

    @property
    def now_s(self) -> int:
        return self.snapshot.taken_s


class MixedPools(enum.StrEnum):
    """How a full reservation is rolled if the NodePool also allows on-demand or spot capacity."""

    WAIT = "wait"  # one move: terminate first, and wait for the slot
    FALLBACK = "fallback"  # two moves: on demand, and back when there is a slot


class ReleaseSlots(enum.StrEnum):
    """When consolidation removes a node from its slot, which does not reduce the bill."""

    WHEN_WAITED_FOR = "when-waited-for"  # a pending pod gets the slot
    ALWAYS = "always"  # the pods fit on other nodes or in a slot of a smaller type


@dataclass(frozen=True, slots=True)
class Settings:
    """Bounds are counts, never durations of work, so the same cluster gives the same decision."""

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
        500_000  # an hour: the saving that consolidation requires for each ordinary pod it evicts
    )
    cooldown_s: int = 600  # a pod that consolidation moved is not moved again sooner
    slot_wait_s: int = 600  # how long a replacement waits for its slot after the instance terminated
    together_max: int = 100  # candidates of one multi-node consolidation
    nodes_simulated_max: int = (
        50_000  # nodes in all simulations of a pass; the next pass continues from there
    )
    retry_s: int = 300  # how long a method that found nothing is not tried again while nothing changes


DEFAULT_FACTS: Final = NodeFacts()
