"""The doors between the program and the world, with what each promises.

Controllers hold these and never an adapter; `app` decides which world is behind them: a cluster and a cloud,
or the simulated ones. A door has only the calls we make. Every call may raise the errors named in
`holdfast.errors`, and no others.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from holdfast.api.answers import Unreadable
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClassReference
from holdfast.core.disruption.repair import RepairPolicy
from holdfast.model.instance_status import InstanceStatus
from holdfast.model.instances import Instance
from holdfast.model.notices import Notice
from holdfast.model.offerings import InstanceType
from holdfast.model.reservations import Reservation
from holdfast.model.resources import Resources
from holdfast.model.snapshot import CloudLabels

K = TypeVar("K", bound=Object)
K_co = TypeVar("K_co", bound=Object, covariant=True)
A = TypeVar("A")
R = TypeVar("R")


class Clock(Protocol):
    """Time. Nothing else in the program reads a clock or sleeps."""

    def now_s(self) -> int:
        """Seconds since the epoch. May jump when the host's clock is set; never use it for a duration."""

    def monotonic_s(self) -> float:
        """Seconds since some beginning; only ever grows."""

    async def sleep(self, seconds: float) -> None:
        """Returns after that long, or raises CancelledError. In simulation, time jumps there."""


class Ids(Protocol):
    """Randomness. Nothing else in the program rolls dice."""

    def token(self) -> str:
        """A new name of at least 128 bits that nobody else has; in simulation, the next of its seed."""

    def jitter(self, seconds: float) -> float:
        """A duration between 0 and that, to keep many from retrying at once."""


@dataclass(frozen=True, slots=True)
class Change(Generic[K_co]):
    """One event of a watch. `object` is the last state seen when it was deleted."""

    kind: str  # ADDED, MODIFIED, DELETED or BOOKMARK
    object: K_co


@dataclass(frozen=True, slots=True)
class Listing(Generic[K_co]):
    """Every object of a kind at one moment, and where a watch goes on from it."""

    items: tuple[K_co, ...]
    resource_version: str


class Kube(Protocol):
    """The Kubernetes API server.

    Reads may be behind our own writes; `runtime` waits for its own. Writes are patches that name only what
    they change, never whole objects, since our types do not know every field. A call that raises
    `Unreachable` may have taken effect.
    """

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        """The object, or NotFound."""

    async def list(self, kind: type[K], *, label_selector: str = "", field_selector: str = "") -> Listing[K]:
        """All of a kind at one moment, in every namespace, as the API server has them now: never from a cache of
        ours. Pages inside; all pages or an error."""

    def pages(self, kind: type[K]) -> AsyncIterator[Listing[K | Unreadable]]:
        """The same in pieces, for whoever need not hold it twice. All of one moment; it is complete when the
        iterator ends, and worth nothing when it raises. An object that cannot be decoded is there as an Unreadable."""

    def watch(self, kind: type[K], resource_version: str) -> AsyncIterator[Change[K | Unreadable]]:
        """Changes after that version, in order, without gaps. Ends when the server ends it; ResourceExpired
        means: list again. An object that cannot be decoded is there as an Unreadable."""

    async def create(self, obj: K) -> K:
        """The object as the server completed it, or AlreadyExists."""

    async def patch(
        self, obj: K, change: Mapping[str, Any], *, status: bool = False, only_if_unchanged: bool = False
    ) -> K:
        """A merge patch. A change that touches a list must be `only_if_unchanged`: Conflict when somebody else
        wrote since `obj` was read."""

    async def apply(self, obj: K, *, status: bool = False) -> K:
        """Server-side apply: what we own of the object becomes exactly this. Twice is once."""

    async def delete(self, obj: K, *, only_this: bool = True, grace_period_s: int | None = None) -> None:
        """Returns when the deletion is accepted; finalizers may hold the object. `only_this`: NotFound when
        another object has taken the name. NotFound is not raised for one that is being deleted already."""

    async def evict(self, namespace: str, pod: str, uid: str) -> None:
        """Asks for the end of that very pod; Throttled while a disruption budget forbids it, NotFound when it
        is gone or another pod has its name."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One instance to launch. The token was written on its NodeClaim before the call."""

    claim: Object
    node_class: Object
    token: str
    reservation_id: str | None  # the reservation whose slot it holds
    instance_types: tuple[InstanceType, ...]  # those that will do, best first


@dataclass(frozen=True, slots=True)
class ReservationCounts:
    """Every reservation the account can see, from one complete reading."""

    reservations: tuple[Reservation, ...]
    read_began_s: int  # a launch after this may be missing from the counts


NOT_READ: Final = ReservationCounts((), 0)
"""Before the first reading succeeded: which reservations there are is not known."""


@dataclass(frozen=True, slots=True)
class NodeClassTerms:
    """The kind of node class that a cloud launches from, and what it writes on objects because of them."""

    kind: type[Object]
    finalizer: str  # of a class, until what was made for it is gone
    hash_key: str  # annotations of classes and claims: the fingerprint of a class,
    hash_version_key: str  # and the version of how it was made; fingerprints of two versions are not compared
    hash_version: str

    def names(self, reference: NodeClassReference) -> tuple[str, ...]:
        """The class it refers to, by name; nothing when it is a class of another autoscaler."""
        ours = (self.kind.api_version.partition("/")[0], self.kind.kind)
        return (reference.name,) if (reference.group, reference.kind) == ours else ()


class Cloud(Protocol):
    """A cloud. Answers are eventually consistent unless a line says otherwise."""

    @property
    def labels(self) -> CloudLabels:
        """The label keys of this cloud; they do not change."""

    @property
    def node_classes(self) -> NodeClassTerms:
        """Its kind of node class; it does not change."""

    @property
    def repair_policies(self) -> tuple[RepairPolicy, ...]:
        """Which unhealthy nodes are repaired, and how; constant."""

    def fingerprint(self, node_class: Object) -> str:
        """Of what a class says about its instances: with another one, instances that were launched are out of date."""

    def never(self, pool: Object, node_class: Object) -> Sequence[str]:
        """Why no instance can ever come from a NodePool and its class together; nothing when one may (Q-44)."""

    async def instance_types(
        self, node_class: Object, counts: ReservationCounts | None = None
    ) -> tuple[InstanceType, ...]:
        """Everything the class could launch, with what is full or unhealthy now; NotReady before the class is
        resolved. Reserved offerings are a function of `counts`: pass the counts that the same plan counts slots by.
        None: those of the last reading. Served from a cache that is refreshed in the background: cheap."""

    async def reservations(self, *, max_age_s: float | None = None) -> ReservationCounts:
        """The newest complete reading, in every state, so that upcoming reservations are there, and those that nodes
        of this cluster are in; no older than `max_age_s`. A failed or incomplete answer is an error and leaves the
        last reading in place."""

    async def resolve(self, node_class: Object) -> Mapping[str, Any]:
        """The status of a node class as a patch. What could not be read is left out of it, not emptied."""

    async def release(self, node_class: Object) -> None:
        """Removes what was made for a class that is being deleted. Twice is once."""

    async def launch(
        self, requests: Sequence[LaunchRequest], *, owned: Collection[str] = ()
    ) -> Sequence[Instance | Exception]:
        """One answer a request, in order: the instance, InsufficientCapacity or ReservationExhausted, or another
        of our errors. A second call with the same token finds what the first one launched and launches nothing;
        `owned` are the provider ids that NodeClaims have already. Claims that share a token may share a call.
        After any error but Unreachable and NotReady an answer was read: the next try needs a new token."""

    async def instance(self, provider_id: str) -> Instance:
        """One instance, or NotFound when it is gone for good."""

    async def instances(self, *, max_age_s: float = 0) -> tuple[Instance, ...]:
        """Every instance that carries this cluster's tags, complete or an error. A list that was read for somebody else
        will do, if it is younger than that."""

    async def drift(self, claim: Object, node_class: Object) -> str | None:
        """Why the instance of a claim is no longer what its class would launch; None: it still is."""

    async def tag(self, claim: Object) -> Mapping[str, str]:
        """Writes on the instance which claim and node it is; what it says already stays. The annotations that
        say so, for the claim: one that has them costs nothing. Twice is once."""

    async def learn(self, claim: Object, node_class: Object, capacity: Resources) -> None:
        """The node of a claim came up with this capacity: later catalogs go by it. Kept in memory alone, so
        after a restart every node is told again."""

    async def terminate(self, provider_id: str) -> None:
        """Asks for its end; NotFound when it has ended. Twice is once. The slot is free when the counts say so."""

    async def reboot(self, provider_id: str, operation: str) -> None:
        """Restarts the instance in place, keeping its slot. Twice with one operation name is once."""

    async def notices(self) -> Sequence[Notice]:
        """What the cloud is about to do: what is there, or arrives within some seconds. At least once each, in
        no order, and again later while it is not acknowledged; where no queue is set up, nothing."""

    async def acknowledge(self, notice: Notice) -> None:
        """It was acted on. Twice is once."""

    async def instance_statuses(self) -> Sequence[InstanceStatus]:
        """Instances that fail, or that the cloud has plans for, ours among them. Where there are very many, each answer
        is about some of what there is to ask, in turn. Unauthorized where nobody allowed us to ask."""

    async def collect(self, node_classes: Iterable[Object], claims: Iterable[Object]) -> None:
        """Removes what was made for classes and is used neither by one of these nor by one of these claims,
        which are all that there are."""


class Compute(Protocol):
    """Where decisions that take long are made: a worker thread, or inline in simulation."""

    async def run(self, decide: Callable[[A], R], value: A) -> R:
        """The decision on the value. `decide` is pure, so where it runs changes nothing but the time it takes."""


class Recorder(Protocol):
    """What the outside is told. Never raises and never waits: losing a message must not lose a decision."""

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        """An event on an object; equal ones within a while are one."""

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Adds to a counter."""

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        """Adds a value to a histogram."""

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        """Sets a gauge."""
