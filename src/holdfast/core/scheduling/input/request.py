"""The input of `solve`: a snapshot of the cluster and the planner's settings."""

import enum
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from holdfast.model.gangs import LABELLED
from holdfast.model.snapshot import Snapshot


class Packing(enum.StrEnum):
    KARPENTER = "karpenter"  # first fit only
    COST = "cost"  # first fit, then a fixed number of other packings; the cheapest plan wins


class PreferencePolicy(enum.StrEnum):
    RESPECT = "Respect"
    IGNORE = "Ignore"


class MinValuesPolicy(enum.StrEnum):
    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class ReservedMode(enum.StrEnum):
    FALLBACK = "fallback"  # no free slot: launch on demand or on spot, in the same run
    STRICT = "strict"  # no free slot: wait, as Karpenter's provisioner does


@dataclass(frozen=True, slots=True)
class Settings:
    """The planner's settings. They bound work by counts, never by time, so that the same request gives the same plan."""

    packing: Packing = Packing.COST
    packing_candidates: int = 16
    gang_candidates: int = 16  # sets of gangs that are tried if not all gangs fit
    gang_hold_s: int = 0  # how long slots are held for the first gang that does not fit, from its creation
    gangs_of: AbstractSet[str] = frozenset(LABELLED)  # sources of gangs in snapshots that pods name in labels
    reserved_capacity: bool = True  # the feature gate: if false, the planner uses no reserved offerings
    reserved_before_weight: bool = True  # a free slot comes before a heavier NodePool
    reserved_mode: ReservedMode = ReservedMode.FALLBACK
    reservation_wait_s: int = 0  # how long a pod waits for a slot that is held or being released
    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    node_cost_nano: int = 20_000_000  # what each node costs in addition to its instance
    max_instance_types: int = 600  # the most that one claim lists, cheapest first
    start_estimate_s: int = 300  # until a pod that gets a new node runs
    ledger_lag_s: int = 120  # how long the cloud's count may take to include a launch


@dataclass(frozen=True, slots=True)
class SolveRequest:
    snapshot: Snapshot
    settings: Settings = field(default_factory=Settings)
    explain_slots: bool = False  # whether the plan explains for each pod why it is not in a reservation
    explain_claims: bool = False  # the same for each claim
