"""The result of a simulation: what one variant cost with one seed, and what happened.

`simulate` writes it, the report and the sizing read it. Times are seconds since the epoch unless a name says `after`,
money is US dollars. The same file and seed give the same bytes, so nothing here depends on the computer.
"""

from typing import ClassVar

from holdfast.api.meta import Wire


class Dollars(Wire, frozen=True, kw_only=True):
    """What was paid. `total` is the sum of the others."""

    total: float = 0.0
    reserved_used: float = 0.0  # slots of reservations while an instance of this cluster runs in them
    reserved_idle: float = 0.0  # slots that were not used
    reserved_elsewhere: float = (
        0.0  # slots that other clusters and accounts used, which this account pays for
    )
    on_demand: float = 0.0
    spot: float = 0.0
    savings_plan: float = 0.0  # the commitment; `on_demand` has what it does not cover


class ReservationResult(Wire, frozen=True, kw_only=True):
    id: str
    kind: str  # default, capacity-block or interruptible
    instance_type: str
    zone: str
    total: int  # slots
    begins: int  # within the simulation
    ends: int
    slot_hours: float  # that were paid for
    used_hours: float
    elsewhere_hours: float = 0.0
    idle_hours: float
    usd: float
    idle_usd: float


class Waiting(Wire, frozen=True, kw_only=True):
    """Seconds from the creation of a pod until it runs."""

    p50: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    longest: float = 0.0
    longest_pod: str = ""  # namespace/name


class PodsResult(Wire, frozen=True, kw_only=True):
    created: int = 0
    started: int = 0
    evicted: int = 0  # by drains of nodes
    lost: int = 0  # ran on a node that ended under them
    waiting: Waiting = Waiting()


class NodesResult(Wire, frozen=True, kw_only=True):
    launched: int = 0
    terminated: int = 0
    launches_failed: int = 0
    most: int = 0  # at one time
    disrupted: dict[str, int] = {}  # by the reason in karpenter_nodeclaims_disrupted_total


class Unplaced(Wire, frozen=True, kw_only=True):
    """A pod that waits at the end."""

    pod: str  # namespace/name
    since: int
    reason: str


class OnDemandUse(Wire, frozen=True, kw_only=True):
    """How many on-demand instances of one type ran in one zone."""

    instance_type: str
    zone: str
    usd_per_hour: float  # of one instance
    changes: tuple[tuple[int, int], ...] = ()  # when the number changed, and the number from then on


class Event(Wire, frozen=True, kw_only=True):
    """Something that a chart shows at its time."""

    at: int
    type: str  # reservation-begins, reservation-ends, block-drains, interruption, launch-failed
    text: str


class Timeline(Wire, frozen=True, kw_only=True):
    """Values at equal steps. All lists have the same length."""

    begins: int
    step: int  # seconds
    reserved_nodes: tuple[int, ...] = ()
    on_demand_nodes: tuple[int, ...] = ()
    spot_nodes: tuple[int, ...] = ()
    pods_running: tuple[int, ...] = ()
    pods_waiting: tuple[int, ...] = ()
    usd_reserved_used: tuple[float, ...] = ()  # an hour, at this time
    usd_reserved_idle: tuple[float, ...] = ()
    usd_on_demand: tuple[float, ...] = ()
    usd_spot: tuple[float, ...] = ()
    slots_used: dict[str, tuple[int, ...]] = {}  # by reservation


class SimulationResult(Wire, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "holdfast.dev/v1alpha1"
    kind: ClassVar[str] = "SimulationResult"

    study: str  # name of the Simulation
    input: str  # a digest of all input, the same for all variants of a study
    variant: str = "base"
    seed: int
    holdfast: str  # version
    begins: int
    ends: int  # as planned
    until: int  # simulated until then; earlier than `ends` if it was interrupted
    settings: dict[str, str] = {}  # of Holdfast, that the input sets
    changes: tuple[str, ...] = ()  # what the variant changes, a line each
    dollars: Dollars = Dollars()
    reservations: tuple[ReservationResult, ...] = ()
    pods: PodsResult = PodsResult()
    nodes: NodesResult = NodesResult()
    unplaced: tuple[Unplaced, ...] = ()  # some
    unplaced_total: int = 0
    on_demand: tuple[OnDemandUse, ...] = ()
    calls: dict[str, int] = {}  # to "kubernetes" and to "aws"
    events: tuple[Event, ...] = ()
    timeline: Timeline
    notes: tuple[str, ...] = ()  # what a reader should know, a sentence each
    study_variants: tuple[str, ...] = ()  # all variants of the study, the base first
    study_seeds: tuple[int, ...] = ()  # all seeds of the study; so a report can list results that are missing


class SizingResult(Wire, frozen=True, kw_only=True):
    """Slots that would have paid for themselves, all of one instance type, one zone and one period."""

    instance_type: str
    zone: str
    begins: int
    ends: int
    slots: int
    usd_cost: float  # of the reservation for the whole period
    usd_saved: float  # what less on-demand use saves, minus the cost; above 0
    marginal: tuple[
        float, ...
    ]  # what each further slot saves net, in order; the last one does not pay and is not recommended


class Sizing(Wire, frozen=True, kw_only=True):
    """What `simulate --size` recommends. Nothing was reserved."""

    results: tuple[SizingResult, ...] = ()
    notes: tuple[str, ...] = ()  # what was left out and why, a sentence each
