"""holdfast.dev/v1alpha1 Catalog: instance types, offerings and reservations in a file.

`holdfast plan` and `holdfast validate` read it from manifests, `holdfast snapshot` writes one; it is never an object of a
cluster. `scenario_schema`
generates the schema from these types. `scenarios.catalog_documents` finds mistakes that the schema does not.
"""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final

import msgspec
from msgspec import field

from holdfast.api import patterns
from holdfast.api.meta import Object, Quantity, Wire
from holdfast.api.scheduler_config import SchedulerConfig
from holdfast.api.schema import about

COUNT_MAX: Final = 2**32 - 1  # of slots or instances: the value for "unlimited" on the wire
CAPACITY_TYPES: Final = ("reserved", "spot", "on-demand")
INSTANCE_STATES: Final = ("starting", "running", "ending", "gone")
RESERVATION_TYPES: Final = ("default", "capacity-block")
RESERVATION_STATES: Final = (
    "active",
    "pending",
    "scheduled",
    "payment-pending",
    "assessing",
    "delayed",
    "unavailable",
    "cancelling",
    "cancelled",
    "expired",
    "failed",
    "payment-failed",
    "unsupported",
)


class Settings(Wire, frozen=True, kw_only=True):
    packing: Annotated[
        str | None,
        about(
            "cost tries other packings after first fit and keeps the cheapest plan; karpenter stops at first fit.",
            enum=("karpenter", "cost"),
        ),
    ] = None
    packing_candidates: Annotated[
        int | None, about("How many other packings are tried.", minimum=0, maximum=1000)
    ] = None
    gang_candidates: Annotated[
        int | None, about("How many sets of gangs are tried if not all gangs fit.", minimum=0, maximum=1000)
    ] = None
    gang_hold: Annotated[
        str | None,
        about(
            "How long slots are held for the first gang that does not fit, from its creation.",
            pattern=patterns.DURATION,
        ),
    ] = None
    gangs_of: Annotated[
        str | None,
        about(
            "Whose pods are gangs by their labels.",
            enum=("JobSet,LeaderWorkerSet", "JobSet", "LeaderWorkerSet", "none"),
        ),
    ] = None
    node_cost: Annotated[
        str | None, about("USD an hour that each node costs beside its instance.", pattern=patterns.PRICE)
    ] = None
    reserved_capacity: Annotated[bool | None, about("Whether reservations are used at all.")] = None
    reserved_before_weight: Annotated[
        bool | None, about("Whether a free slot comes before a NodePool with more weight.")
    ] = None
    reserved_mode: Annotated[
        str | None,
        about(
            "What a pod does that finds no free slot: buy in the same run, or wait as Karpenter does.",
            enum=("fallback", "strict"),
        ),
    ] = None
    reservation_wait: Annotated[
        str | None,
        about("How long a pod waits for a slot that is held or being released.", pattern=patterns.DURATION),
    ] = None
    preference_policy: Annotated[
        str | None,
        about("Whether preferences of pods are tried before they are given up.", enum=("Respect", "Ignore")),
    ] = None
    min_values_policy: Annotated[
        str | None,
        about("Whether minValues is kept or given up when it cannot be met.", enum=("Strict", "BestEffort")),
    ] = None
    max_instance_types: Annotated[
        int | None, about("How many instance types one claim lists at most.", minimum=1, maximum=10000)
    ] = None
    start_estimate: Annotated[
        str | None,
        about(
            "How long until a pod that gets a new node runs, for pods with a known run time.",
            pattern=patterns.DURATION,
        ),
    ] = None
    ledger_lag: Annotated[
        str | None,
        about("How long after a launch a count may not show it yet.", pattern=patterns.DURATION),
    ] = None


Id = Annotated[
    str, about("The id of the reservation.", min_length=1, max_length=63, pattern=patterns.LABEL_VALUE)
]
Zone = Annotated[str, about("The availability zone, by name.", min_length=1)]
ZoneId = Annotated[str | None, about("The availability zone, by the id that all accounts share.")]


class Slots(Wire, frozen=True, kw_only=True):
    """A reservation without its instance type and zone."""

    id: Id
    type: Annotated[str, about("What kind of reservation it is.", enum=RESERVATION_TYPES)] = "default"
    interruptible: Annotated[bool, about("Whether its owner may take it back on short notice.")] = False
    owner_id: Annotated[str | None, about("The account that owns it.", pattern=patterns.ACCOUNT)] = field(
        default=None, name="ownerID"
    )
    tags: Annotated[dict[str, str], about("Its tags, which selector terms look at.")] = {}
    instance_match_criteria: Annotated[
        str,
        about(
            "Whether it takes any matching instance or only those that target it.", enum=("open", "targeted")
        ),
    ] = "open"
    total: Annotated[
        int | None,
        about("How many instances it holds; unset: as many as are free.", minimum=0, maximum=COUNT_MAX),
    ] = None
    available: Annotated[
        int | None, about("How many of them are free; unset: all.", minimum=0, maximum=COUNT_MAX)
    ] = None
    start: Annotated[datetime | None, about("When it can be used; unset: since ever.")] = None
    end: Annotated[datetime | None, about("When it ends; unset: it does not.")] = None
    state: Annotated[str, about("Its state in the cloud.", enum=RESERVATION_STATES)] = "active"
    tenancy: Annotated[str, about("The tenancy that its instances must have.", min_length=1)] = "default"
    drain_lead: Annotated[
        str | None,
        about(
            "How long before its end it takes no more nodes; unset: by its type.", pattern=patterns.DURATION
        ),
    ] = None
    reclaim_lead: Annotated[
        str | None,
        about(
            "How long before its end the cloud takes instances back; unset: by its type.",
            pattern=patterns.DURATION,
        ),
    ] = None


class CountBefore(Wire, frozen=True, kw_only=True):
    """What an earlier count of a reservation showed; see the ledger."""

    read: Annotated[datetime, about("When the read began.")]
    free: Annotated[int, about("Slots that were certainly free.")]
    elsewhere: Annotated[int, about("The most slots that other clusters used.", minimum=0)]
    here: Annotated[int, about("Slots that this cluster used.", minimum=0)] = 0


class Reservation(Slots, frozen=True, kw_only=True):
    instance_type: Annotated[str, about("The instance type it holds.", min_length=1)]
    zone: Zone
    zone_id: ZoneId = field(default=None, name="zoneID")
    count_before: Annotated[
        CountBefore | None, about("The count before this one. `holdfast snapshot` writes it.")
    ] = None


class Instance(Wire, frozen=True, kw_only=True):
    """An instance of the cluster in a slot. EC2's counts may not include it yet, or still include it."""

    provider_id: Annotated[str, about("Its id, as Nodes have it.", min_length=1)] = field(name="providerID")
    reservation_id: Id = field(name="reservationID")
    instance_type: Annotated[str, about("Its instance type.", min_length=1)]
    zone: Zone
    state: Annotated[str, about("Its state.", enum=INSTANCE_STATES)] = "running"
    launched: Annotated[datetime, about("When it was launched.")]


class Offering(Wire, frozen=True, kw_only=True):
    zone: Zone
    zone_id: ZoneId = field(default=None, name="zoneID")
    capacity_type: Annotated[str, about("The capacity type.", enum=CAPACITY_TYPES)]
    price: Annotated[
        str | int | None,
        about(
            'USD an hour, in quotes, e.g. "0.096"; unset: unknown. Of a reserved offering, the price on demand.'
        ),
    ] = None
    available: Annotated[
        str | int | None, about("How many more can be launched: a number or unlimited; unset: unlimited.")
    ] = None
    surcharge: Annotated[
        str | None,
        about("USD an hour that sustained use adds, as of a burstable type.", pattern=patterns.PRICE),
    ] = None
    healthy: Annotated[bool, about("Whether it can be launched at the moment.")] = True
    reservation: Annotated[
        Slots | None,
        about("Whose slots it is; one that is listed under reservations may be named by its id alone."),
    ] = None


_TEXTS: Final = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


class InstanceType(Wire, frozen=True, kw_only=True):
    name: Annotated[str, about("The name of the type.", min_length=1, max_length=63)]
    labels: Annotated[
        dict[str, Any],
        msgspec.Meta(
            extra_json_schema={
                "description": "Labels its nodes have: a value, or a list of values that are possible; an empty list: its nodes do not have the label. A well-known label that is not here may have any value.",
                "additionalProperties": _TEXTS,
            }
        ),
    ] = {}
    capacity: Annotated[dict[str, Quantity], about("What a node has in total: cpu, memory, pods and more.")]
    overhead: Annotated[dict[str, Quantity], about("What of it pods cannot have.")] = {}
    volume_limits: Annotated[
        dict[str, int], about("How many volumes can be attached, by storage driver; others are unlimited.")
    ] = {}
    offerings: Annotated[tuple[Offering, ...], about("The ways to get it.")] = ()
    node_classes: Annotated[
        tuple[str, ...],
        about(
            "The node classes whose nodes have this form. Labels and offerings are complete then. Unset: all classes."
        ),
    ] = ()


class CatalogSpec(Wire, frozen=True, kw_only=True):
    now: Annotated[datetime | None, about("When the plan is made; unset: the current time.")] = None
    settings: Annotated[Settings, about("How to plan. Flags of the command go before these.")] = Settings()
    scheduler_config: Annotated[
        SchedulerConfig, about("How the cluster's kube-scheduler is set up, as far as a plan depends on it.")
    ] = SchedulerConfig()
    region: Annotated[
        str | None,
        about("A region whose instance types and prices are shipped, beside or instead of instanceTypes."),
    ] = None
    instance_types: Annotated[tuple[InstanceType, ...], about("Instance types and their offerings.")] = ()
    counts_read: Annotated[
        datetime | None,
        about("When the counts of the reservations were read; unset: at the time of the plan."),
    ] = None
    instances: Annotated[
        tuple[Instance, ...], about("The instances of the cluster in slots. `holdfast snapshot` writes them.")
    ] = ()
    reservations: Annotated[
        tuple[Reservation, ...],
        about(
            "What is reserved: each is an offering of its type in its zone, to the classes that select it."
        ),
    ] = ()


class Catalog(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "holdfast.dev/v1alpha1"
    kind: ClassVar[str] = "Catalog"
    plural: ClassVar[str] = "catalogs"
    namespaced: ClassVar[bool] = False

    spec: Annotated[CatalogSpec, about("Instance types, reservations and settings of the planner.")] = (
        CatalogSpec()
    )
