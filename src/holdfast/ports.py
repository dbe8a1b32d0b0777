"""The ports: the interfaces between the controllers and the cluster, the cloud, the clock and other adapters.

Controllers use ports only; `app` connects them to the adapters, real or simulated. A port has only the calls that the
controllers make. Every call may raise the errors of `holdfast.errors`, and no others.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from holdfast.api.answers import Unreadable
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClassReference
from holdfast.model.instance_status import InstanceStatus
from holdfast.model.instances import Instance
from holdfast.model.notices import Notice
from holdfast.model.offerings import InstanceType
from holdfast.model.reservations import Reservation
from holdfast.model.resources import Resources
from holdfast.model.snapshot import CloudLabels

if TYPE_CHECKING:  # it imports the planner, which commands that only ask the API server do not need
    from holdfast.core.disruption.repair import RepairPolicy

K = TypeVar("K", bound=Object)
K_co = TypeVar("K_co", bound=Object, covariant=True)
A = TypeVar("A")
R = TypeVar("R")


class Clock(Protocol):
    """Time. No other code reads a clock or sleeps."""

    def now_s(self) -> int:
        """Seconds since the epoch. May jump when the system clock is set; never use it for a duration."""

    def monotonic_s(self) -> float:
        """Seconds of a monotonic clock."""

    async def sleep(self, seconds: float) -> None:
        """Returns after that time, or raises CancelledError. A simulated clock jumps forward."""


class Ids(Protocol):
    """Randomness. No other code uses random numbers."""

    def token(self) -> str:
        """A unique name of at least 128 bits; in simulation, the next one of the seed."""

    def jitter(self, seconds: float) -> float:
        """A random duration between 0 and `seconds`, so that many clients do not retry at once."""


@dataclass(frozen=True, slots=True)
class Change(Generic[K_co]):
    """One event of a watch. For DELETED, `object` is the last state."""

    kind: str  # ADDED, MODIFIED, DELETED or BOOKMARK
    object: K_co


@dataclass(frozen=True, slots=True)
class Listing(Generic[K_co]):
    """Objects of a kind at one moment, and the version from which a watch continues."""

    items: tuple[K_co, ...]
    resource_version: str


class Kube(Protocol):
    """The Kubernetes API server.

    Reads may be older than this process's own writes; `runtime.cache` handles that. Writes are patches with the changed
    fields, never whole objects, because our types do not have every field. A call that raises `Unreachable` may have
    taken effect.
    """

    async def get(self, kind: type[K], name: str, namespace: str = "") -> K:
        """The object, or NotFound."""

    async def list(self, kind: type[K], *, label_selector: str = "", field_selector: str = "") -> Listing[K]:
        """All objects of a kind in all namespaces, read from the API server and not from a cache. All pages or an
        error."""

    def pages(self, kind: type[K]) -> AsyncIterator[Listing[K | Unreadable]]:
        """The same page by page, to save memory. The list is complete only when the iterator ends without an error. An
        object that cannot be decoded is an Unreadable."""

    def watch(self, kind: type[K], resource_version: str) -> AsyncIterator[Change[K | Unreadable]]:
        """Changes after that version, in order, without gaps. Ends when the server ends it; after ResourceExpired list
        again. An object that cannot be decoded is an Unreadable."""

    async def create(self, obj: K) -> K:
        """The created object, with the server's defaults; or AlreadyExists."""

    async def patch(
        self, obj: K, change: Mapping[str, Any], *, status: bool = False, only_if_unchanged: bool = False
    ) -> K:
        """A merge patch. A change of a list must be `only_if_unchanged`, which raises Conflict if the object changed
        since `obj` was read: merge patches replace lists as a whole."""

    async def apply(self, obj: K, *, status: bool = False) -> K:
        """Server-side apply of the fields that Holdfast owns. Idempotent."""

    async def delete(self, obj: K, *, only_this: bool = True, grace_period_s: int | None = None) -> None:
        """Returns when the deletion is accepted; finalizers may delay it. `only_this`: raises NotFound if another object
        has the name now. Does not raise NotFound for an object that is being deleted."""

    async def evict(self, namespace: str, pod: str, uid: str) -> None:
        """Evicts the pod with this uid; Throttled while a PodDisruptionBudget does not allow it, NotFound if it does not
        exist or another pod has its name."""


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One instance to launch. The token was written to its NodeClaim before the call."""

    claim: Object
    node_class: Object
    token: str
    reservation_id: str | None  # the reservation whose slot it uses
    instance_types: tuple[InstanceType, ...]  # compatible ones, best first
    gang: str = ""  # requests with the same value are launched all or none


@dataclass(frozen=True, slots=True)
class ReservationCounts:
    """Every reservation that the account can see, from one complete list."""

    reservations: tuple[Reservation, ...]
    read_began_s: int  # a launch after this may be missing from the counts


NOT_READ: Final = ReservationCounts((), 0)
"""Before the first reading succeeded: which reservations there are is not known."""


@dataclass(frozen=True, slots=True)
class NodeClassTerms:
    """The cloud's kind of node class, with its finalizer and hash annotations."""

    kind: type[Object]
    finalizer: str  # of a node class, until its cloud resources are deleted
    hash_key: str  # annotation of node classes and NodeClaims: the hash of the class
    hash_version_key: (
        str  # annotation: the version of the hash; hashes of different versions are not compared
    )
    hash_version: str
    label: str  # of NodeClaims and Nodes: the name of the class

    def names(self, reference: NodeClassReference) -> tuple[str, ...]:
        """The name of the class; nothing if it is of another autoscaler's kind."""
        ours = (self.kind.api_version.partition("/")[0], self.kind.kind)
        return (reference.name,) if (reference.group, reference.kind) == ours else ()


class Cloud(Protocol):
    """A cloud. Responses are eventually consistent unless stated otherwise."""

    @property
    def labels(self) -> CloudLabels:
        """The label keys of this cloud; constant."""

    @property
    def node_classes(self) -> NodeClassTerms:
        """Its kind of node class; constant."""

    @property
    def repair_policies(self) -> "tuple[RepairPolicy, ...]":
        """The repair policies for unhealthy nodes; constant."""

    def fingerprint(self, node_class: Object) -> str:
        """The hash of a node class; instances that were launched with another hash have drifted."""

    def never(self, pool: Object, node_class: Object) -> Sequence[str]:
        """Why a NodePool and its class can never launch an instance; nothing if they can (Q-44)."""

    def selected_reservations(self, node_class: Object, *, upcoming: bool = False) -> Collection[str]:
        """The ids of the started reservations that the status of a class lists; with `upcoming` also of the others."""

    def list_prices(self) -> Mapping[str, int]:
        """The on-demand price by instance type, in nano-USD an hour, as last read. Served from a cache."""

    async def instance_types(
        self, node_class: Object, counts: ReservationCounts | None = None
    ) -> tuple[InstanceType, ...]:
        """Every instance type that the class could launch, with its offerings and which are unavailable now. NotReady
        before the class is resolved. Reserved offerings are a function of `counts`: pass the counts that the same plan
        counts slots by. None: those of the last reading. Served from a cache that a background task refreshes, so the
        call is cheap."""

    async def reservations(self, *, max_age_s: float | None = None) -> ReservationCounts:
        """The newest complete list, at most `max_age_s` old: reservations in every state, so that upcoming ones are
        included, and those that this cluster's instances use. A failed or incomplete response is an error and keeps the
        last list."""

    async def resolve(self, node_class: Object) -> Mapping[str, Any]:
        """The status of a node class as a patch. Fields that could not be read are left out, not emptied."""

    async def release(self, node_class: Object) -> None:
        """Deletes the cloud resources of a node class that is being deleted. Idempotent."""

    async def launch(
        self, requests: Sequence[LaunchRequest], *, owned: Collection[str] = ()
    ) -> Sequence[Instance | Exception]:
        """One result per request, in order: the instance, InsufficientCapacity, ReservationExhausted, or another of our
        errors. A second call with the same token returns what the first one launched and launches nothing; `owned` are
        the provider ids of existing NodeClaims. Claims with the same token may share a call. After any error other than
        Unreachable and NotReady a response was read: the next attempt needs a new token, except for a gang. Requests of a
        gang need several calls if they differ: then some may have an instance and the others an error. The caller
        repeats the launch, or terminates the instances."""

    async def instance(self, provider_id: str) -> Instance:
        """One instance, or NotFound when it is terminated."""

    async def instances(self, *, max_age_s: float = 0) -> tuple[Instance, ...]:
        """Every instance with this cluster's tags, or an error. May return a cached list that is at most `max_age_s` old:
        then it is the same tuple. An instance that did not change may be the same object in every list."""

    async def drift(self, claim: Object, node_class: Object) -> str | None:
        """Why the instance of a claim has drifted from its class; None if it has not."""

    async def undrifted(self, claims: Sequence[Object], node_class: Object) -> Collection[str]:
        """The uids of those claims of a class whose instances have certainly not drifted from it, by recent responses.
        Sends no call. About the others `drift` has to be asked."""

    async def tag(self, claim: Object) -> Mapping[str, str]:
        """Tags the instance with its claim and node, keeps existing tags, and returns annotations for the claim that
        record it. A claim with these annotations needs no call. Idempotent."""

    async def record_capacity(self, claim: Object, node_class: Object, capacity: Resources) -> None:
        """Records the actual capacity of a claim's node for later catalogs. It is cached in memory only, so after a
        restart every node is recorded again."""

    async def terminate(self, provider_id: str) -> None:
        """Terminates the instance; NotFound when it is terminated. Idempotent. Its slot is free when the counts of the
        reservation show it."""

    async def reboot(self, provider_id: str, operation: str) -> None:
        """Reboots the instance, which keeps its slot. Idempotent for one operation name."""

    async def notices(self) -> Sequence[Notice]:
        """Interruption notices: those in the queue, or that arrive within some seconds. Each is delivered at least once, in
        any order, and again until it is acknowledged. Empty without a queue."""

    async def acknowledge(self, notice: Notice) -> None:
        """The notice was handled. Idempotent."""

    async def instance_statuses(self) -> Sequence[InstanceStatus]:
        """Instances with failing status checks or scheduled events, of this cluster and others. With very many
        instances, each call covers a part of them, in turn. Unauthorized without the permission."""

    async def collect(self, node_classes: Iterable[Object], claims: Iterable[Object]) -> None:
        """Deletes cloud resources of node classes that none of these classes and claims uses; they must be all that
        exist."""


class Compute(Protocol):
    """Runs long decisions: in a worker thread, or inline in simulation."""

    async def run(self, decide: Callable[[A], R], value: A) -> R:
        """Returns `decide(value)`. `decide` is pure, so the result does not depend on where it runs."""


class Recorder(Protocol):
    """Events, recent decisions and metrics. Never raises or blocks: a lost event must not stop a reconcile."""

    def event(self, about: Object, reason: str, message: str, *, warning: bool = False) -> None:
        """Emits an event on an object. Equal events within two minutes are sent once; a later one is counted in the same
        event. So a text must not change while its reason stays the same."""

    def decision(self, type_: str, about: Object, text: str, reasons: Iterable[str] = ()) -> None:
        """Adds to the list of recent decisions, after a decision was carried out. `type_`: model.decisions.DecisionType."""

    def count(self, metric: str, labels: Mapping[str, str], by: float = 1) -> None:
        """Adds to a counter."""

    def observe(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        """Adds a value to a histogram."""

    def gauge(self, metric: str, labels: Mapping[str, str], value: float) -> None:
        """Sets a gauge."""

    def replace(self, metric: str, series: dict[tuple[str, ...], float]) -> None:
        """Sets all series of a gauge, by the values of its labels in the declared order; other series are removed. The
        caller must not change the series afterwards: there may be 100,000, which are not copied."""

    def forget(self, label: str, value: str) -> None:
        """Removes the series of an object that does not exist any more: all with this value of a label."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports that controllers use, as one value."""

    kube: Kube
    cloud: Cloud
    compute: Compute
    clock: Clock
    ids: Ids
    recorder: Recorder
