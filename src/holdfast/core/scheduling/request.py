"""What `solve` is asked: the world at one moment, and how to decide.

Built by `controllers`, by disruption for its simulations, and by `holdfast plan`.
"""

import enum
from dataclasses import dataclass, field

from holdfast.model.snapshot import Snapshot


class Packing(enum.StrEnum):
    KARPENTER = "karpenter"  # first fit, and nothing else
    COST = "cost"  # first fit, then a set number of other packings; the cheapest plan is kept


class PreferencePolicy(enum.StrEnum):
    RESPECT = "Respect"
    IGNORE = "Ignore"


class MinValuesPolicy(enum.StrEnum):
    STRICT = "Strict"
    BEST_EFFORT = "BestEffort"


class ReservedMode(enum.StrEnum):
    FALLBACK = "fallback"  # no free slot: buy, in the same run
    STRICT = "strict"  # no free slot: wait, as Karpenter's provisioner does


@dataclass(frozen=True, slots=True)
class Settings:
    """How to decide. Counts, never times: the same request gives the same plan to the byte."""

    packing: Packing = Packing.COST
    packing_candidates: int = 16
    reserved_capacity: bool = True  # the feature gate: off, no reserved offering exists
    reserved_before_weight: bool = True  # a free slot comes before a heavier NodePool
    reserved_mode: ReservedMode = ReservedMode.FALLBACK
    reservation_wait_s: int = 0  # how long a pod waits for a slot that is held or being released
    preference_policy: PreferencePolicy = PreferencePolicy.RESPECT
    min_values_policy: MinValuesPolicy = MinValuesPolicy.STRICT
    node_cost_nano: int = 20_000_000  # what each node costs beside its instance
    max_instance_types: int = 600  # that one claim lists, cheapest first
    ledger_lag_s: int = 120  # how long after a launch a count may not show it yet


@dataclass(frozen=True, slots=True)
class SolveRequest:
    snapshot: Snapshot
    settings: Settings = field(default_factory=Settings)
    explain_slots: bool = False  # say of each pod why it did not get a reserved slot
