"""holdfast.dev/v1alpha1 World: a simulated AWS, defined in a file.

`holdfast validate` and simulations parse it from manifests; it is never an object of a cluster. The schema of the
format is generated from these types. `sim.world_reading` checks what depends on the shipped data.
"""

from datetime import datetime
from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import field

from holdfast.api import patterns
from holdfast.api.meta import Object, Wire
from holdfast.api.scenario import COUNT_MAX, RESERVATION_TYPES
from holdfast.api.schema import Rule, about

# Each kind of fault, with the fields that only this kind has.
FAULT_FIELDS: Final = {
    "Lost": ("operation",),
    "Throttled": ("operation",),
    "Denied": ("operation",),
    "Broken": ("operation",),
    "Stale": ("operation", "lag"),
    "NoCapacity": ("instanceType", "zone", "capacityType", "code"),
    "Taken": ("reservation", "count"),
    "Partial": ("atMost",),
    "NeverBoots": (),
    "Silent": (),
    "HostFails": ("after",),
    "Dies": ("after",),
}
_NEEDED: Final = {"Taken": "reservation", "Partial": "atMost"}

InstanceTypeName = Annotated[str, about("The instance type.", min_length=1)]
ZoneName = Annotated[
    str, about("The availability zone, by the name our own account knows it by.", min_length=1)
]
AccountId = Annotated[str, about("The number of an account.", pattern=patterns.ACCOUNT)]


def _duration(what: str) -> msgspec.Meta:
    return about(what, pattern=patterns.DURATION)


class Account(Wire, frozen=True, kw_only=True):
    id: AccountId
    vcpu_limit: Annotated[
        int | None,
        about("How many on-demand processors it may run; unset: no limit.", minimum=1, maximum=COUNT_MAX),
    ] = None


class Reservation(Wire, frozen=True, kw_only=True):
    id: Annotated[str, about("The id of the reservation.", pattern=patterns.RESERVATION_ID)]
    instance_type: InstanceTypeName
    zone: ZoneName
    total: Annotated[int, about("How many instances it holds.", minimum=1, maximum=COUNT_MAX)]
    used_elsewhere: Annotated[
        int, about("How many slots are in use outside of the simulation.", minimum=0, maximum=COUNT_MAX)
    ] = 0
    owner_id: Annotated[
        str | None, about("The account that owns it; unset: our own.", pattern=patterns.ACCOUNT)
    ] = field(default=None, name="ownerID")
    shared_with: Annotated[tuple[AccountId, ...], about("The other accounts that may use it.")] = ()
    type: Annotated[str, about("What kind of reservation it is.", enum=RESERVATION_TYPES)] = "default"
    instance_match_criteria: Annotated[
        str,
        about(
            "Whether it takes any matching instance or only those that target it.", enum=("open", "targeted")
        ),
    ] = "open"
    start: Annotated[datetime | None, about("When it can be used; unset: from the beginning.")] = None
    end: Annotated[datetime | None, about("When it ends; unset: it does not.")] = None
    ultra_server: Annotated[bool, about("Whether it is of an UltraServer.")] = False
    lent_from: Annotated[
        str | None,
        about(
            "The reservation whose slots these are: EC2 can take them back, so this one is interruptible.",
            pattern=patterns.RESERVATION_ID,
        ),
    ] = None
    tags: Annotated[dict[str, str], about("Its tags, which selector terms look at.")] = {}


class Capacity(Wire, frozen=True, kw_only=True):
    instance_type: InstanceTypeName
    zone: ZoneName
    capacity_type: Annotated[str, about("The capacity type.", enum=("on-demand", "spot"))] = "on-demand"
    left: Annotated[int, about("How many can still be launched there.", minimum=0, maximum=COUNT_MAX)]


class Price(Wire, frozen=True, kw_only=True):
    instance_type: InstanceTypeName
    capacity_type: Annotated[str, about("The capacity type.", enum=("on-demand", "spot"))] = "on-demand"
    zone: Annotated[str | None, about("Of spot: the zone it holds in; unset: in every zone.")] = None
    price: Annotated[str, about("USD an hour, in quotes.", pattern=patterns.PRICE)]


class Timings(Wire, frozen=True, kw_only=True):
    boot: Annotated[str | None, _duration("From pending to running.")] = None
    shutdown: Annotated[str | None, _duration("From shutting-down to terminated.")] = None
    slot_release: Annotated[
        str | None, _duration("From the end of an instance to its slot being counted as available.")
    ] = None
    reservation_pending: Annotated[str | None, _duration("How long a new reservation is pending.")] = None
    reservation_expiry: Annotated[
        str | None, _duration("How long after its end date an ordinary reservation ends.")
    ] = None
    forget: Annotated[str | None, _duration("How long a terminated instance is described.")] = None
    stale: Annotated[str | None, _duration("How old every answer of a Describe call is.")] = None
    interruption: Annotated[str | None, _duration("From an interruption warning to the end.")] = None
    join: Annotated[str | None, _duration("From running to the node being registered.")] = None
    ready: Annotated[str | None, _duration("From there to the node being ready.")] = None
    devices: Annotated[str | None, _duration("From there to its devices being counted.")] = None


class Fault(Wire, frozen=True, kw_only=True):
    type: Annotated[str, about("The kind of fault.", enum=tuple(FAULT_FIELDS))]
    from_: Annotated[
        str | None, _duration("When the fault starts, after the simulation; unset: at once.")
    ] = field(default=None, name="from")
    until: Annotated[str | None, _duration("When it is over; unset: never.")] = None
    chance_percent: Annotated[int, about("How often it strikes where it can.", minimum=1, maximum=100)] = 100
    times: Annotated[int | None, about("How often it strikes at most.", minimum=1, maximum=COUNT_MAX)] = None
    operation: Annotated[
        str | None, about("The call it is about, such as CreateFleet; unset: every one.")
    ] = None
    lag: Annotated[str | None, _duration("How old the answers are; unset: 30s.")] = None
    instance_type: Annotated[str | None, about("The instance type that is not there; unset: any.")] = None
    zone: Annotated[str | None, about("The zone where it is not there; unset: any.")] = None
    capacity_type: Annotated[
        str | None,
        about(
            "The unavailable capacity type; unset: on-demand and spot, not reserved.",
            enum=("on-demand", "spot", "reserved"),
        ),
    ] = None
    code: Annotated[
        str | None, about("The code of the error; unset: InsufficientInstanceCapacity.", min_length=1)
    ] = None
    reservation: Annotated[
        str | None,
        about("The reservation whose slots are taken just before a launch.", pattern=patterns.RESERVATION_ID),
    ] = None
    count: Annotated[int | None, about("How many slots; unset: one.", minimum=1, maximum=COUNT_MAX)] = None
    at_most: Annotated[
        int | None, about("How many instances a launch gets at most.", minimum=0, maximum=COUNT_MAX)
    ] = None
    after: Annotated[str | None, _duration("How long an instance runs; unset: 60s.")] = None


_FAULT_RULES: Final = tuple(
    Rule(
        f"!has(self.{name}) || self.type in {[kind for kind, names in FAULT_FIELDS.items() if name in names]}",
        f"{name} is only allowed with the type {' or '.join(k for k, names in FAULT_FIELDS.items() if name in names)}",
    )
    for name in sorted({name for names in FAULT_FIELDS.values() for name in names})
) + tuple(
    Rule(f"self.type != '{kind}' || has(self.{name})", f"{kind} needs the field {name}")
    for kind, name in _NEEDED.items()
)
_RESERVATION_RULES: Final = (
    Rule("self.usedElsewhere <= self.total", "usedElsewhere cannot be more than total"),
    Rule("self.type != 'capacity-block' || has(self.end)", "a capacity-block needs an end"),
    Rule(
        "self.type != 'capacity-block' || self.instanceMatchCriteria == 'targeted'",
        "a capacity-block is targeted: write instanceMatchCriteria: targeted",
    ),
)
_LENT_WITHOUT: Final = ("start", "end", "ownerID", "sharedWith")
_LENT_RULES: Final = (
    Rule(
        "!has(self.lentFrom) || self.instanceMatchCriteria == 'targeted'",
        "a reservation that is lent is targeted: write instanceMatchCriteria: targeted",
    ),
    Rule("!has(self.lentFrom) || self.type == 'default'", "a capacity-block is not lent"),
    Rule(
        f"!has(self.lentFrom) || {' && '.join(f'!has(self.{name})' for name in _LENT_WITHOUT)}",
        f"a reservation that is lent has no {', '.join(_LENT_WITHOUT)}: it is as its source is",
    ),
)
_PRICE_RULES: Final = (
    Rule("!has(self.zone) || self.capacityType == 'spot'", "zone is only allowed with the capacityType spot"),
)


class WorldSpec(Wire, frozen=True, kw_only=True):
    start: Annotated[datetime | None, about("Start time of the simulation; unset: the current time.")] = None
    region: Annotated[str, about("A region whose instance types and prices are shipped.")] = "us-west-2"
    cluster: Annotated[
        str, about("The name of the cluster, of its queue, and in the tags of its subnets.", min_length=1)
    ] = "holdfast"
    kubernetes: Annotated[
        str, about("The version of Kubernetes, in quotes.", pattern=patterns.KUBERNETES_VERSION)
    ] = "1.36"
    roles: Annotated[tuple[str, ...], about("The IAM roles that nodes may have.")] = (
        "KarpenterNodeRole-holdfast",
    )
    accounts: Annotated[tuple[Account, ...], about("The accounts; the first is our own.", min_items=1)] = (
        Account(id="111122223333"),
    )
    subnet_addresses: Annotated[
        int, about("How many addresses each subnet has.", minimum=1, maximum=4091)
    ] = 4091
    throttled: Annotated[bool, about("Whether EC2's token buckets are on.")] = True
    page_size: Annotated[
        int | None,
        about(
            "How many items EC2 puts on a page at most, whatever is asked for; unset: its own.",
            minimum=1,
            maximum=COUNT_MAX,
        ),
    ] = None
    reservations: Annotated[
        tuple[Annotated[Reservation, about("", rules=_RESERVATION_RULES + _LENT_RULES)], ...],
        about("The capacity reservations that are there from the beginning."),
    ] = ()
    capacity: Annotated[
        tuple[Capacity, ...], about("What EC2 has to spare; what is not listed is unlimited.")
    ] = ()
    prices: Annotated[
        tuple[Annotated[Price, about("", rules=_PRICE_RULES)], ...],
        about("Prices that take the place of the shipped ones."),
    ] = ()
    timings: Annotated[Timings, about("How long things take.")] = Timings()
    faults: Annotated[tuple[Annotated[Fault, about("", rules=_FAULT_RULES)], ...], about("Faults.")] = ()


class World(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "holdfast.dev/v1alpha1"
    kind: ClassVar[str] = "World"
    plural: ClassVar[str] = "worlds"
    namespaced: ClassVar[bool] = False

    spec: Annotated[WorldSpec, about("The initial state of the simulated AWS, and its faults.")] = WorldSpec()
