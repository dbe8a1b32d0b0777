"""The state of the cluster and the cloud at one time: the input of the planner and of disruption.

`state` builds it, with every tuple sorted by name. It is immutable. What decisions share is derived here, once. The
label keys of the cloud are part of the snapshot.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from holdfast import names
from holdfast.model import prices, requirements, resources
from holdfast.model.gangs import Gang
from holdfast.model.instances import Instance
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.pods import Labels, PodShape, PodTerm, PodView
from holdfast.model.requirements import Requirements
from holdfast.model.reservations import Reservation
from holdfast.model.resources import NOTHING, Resources
from holdfast.model.selectors import LabelSelector
from holdfast.model.taints import Taint

_AS_LISTED: Final[Mapping[str, int]] = MappingProxyType({})
_NOTHING_LEFT: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NodePoolView:
    """A NodePool that may launch nodes: ready, managed by Holdfast, not being deleted (S-10)."""

    name: str
    requirements: Requirements
    labels: Labels = ()
    weight: int = 0
    taints: tuple[Taint, ...] = ()
    startup_taints: tuple[Taint, ...] = ()
    limits: Resources = NOTHING  # a resource that is not named has no limit
    used: Resources = NOTHING  # capacity of its nodes that are not being deleted, `nodes` included (S-70)
    consolidate_after_s: int | None = 0  # None: never
    reservation_wait_s: int | None = None  # how long its pods wait for a slot; None: the planner's setting
    instance_types: tuple[InstanceType, ...] = ()

    def without(self, nodes: Iterable["NodeView"]) -> "NodePoolView":
        """The NodePool as if these of its nodes did not count for its limits."""
        ours = [node for node in nodes if node.node_pool == self.name and not node.deleting]
        freed = resources.add(*(node.capacity for node in ours), resources.of({resources.NODES: len(ours)}))
        return replace(self, used=self.used.subtract(freed))


@dataclass(frozen=True)
class NodeView:
    """A node merged with its NodeClaim, or a launched NodeClaim without a node yet.

    No `slots=True`, since derived values are cached on the instance: a node that did not change costs little in the
    next decision.
    """

    name: str
    labels: Labels
    allocatable: Resources
    capacity: Resources
    taints: tuple[Taint, ...] = ()  # those that will last (taints.lasting) while it is starting
    pods: tuple[PodView, ...] = ()
    provider_id: str | None = None
    node_pool: str | None = None  # None: not managed by Holdfast; pods may still run there
    claim: str | None = None
    initialized: bool = True
    deleting: bool = False  # the node or its NodeClaim is being deleted
    nominated: bool = False  # pending pods should schedule on it
    last_pod_event_s: int | None = None
    volume_limits: tuple[tuple[str, int], ...] = ()  # by storage driver; a driver not named is unlimited

    def without(self, uids: AbstractSet[str]) -> "NodeView":
        """The node without these pods."""
        if self._uids.isdisjoint(uids):
            return self
        return replace(self, pods=tuple(pod for pod in self.pods if pod.uid not in uids))

    @functools.cached_property
    def label_map(self) -> Mapping[str, str]:
        return MappingProxyType(dict(self.labels))

    @functools.cached_property
    def label_requirements(self) -> Requirements:
        """The labels as requirements."""
        return requirements.from_labels(dict(self.labels))

    @functools.cached_property
    def free(self) -> Resources:
        """Allocatable minus the requests of its pods; it may be negative."""
        return self.allocatable.subtract(resources.add(*(pod.shape.requests for pod in self.pods)))

    @functools.cached_property
    def capacity_left(self) -> Mapping[str, int]:
        """What more pods can request, by resource: `free`, or nothing if any amount of it is negative (S-54)."""
        return self.free.by_name if all(amount >= 0 for _, amount in self.free.amounts) else _NOTHING_LEFT

    @functools.cached_property
    def planning_order(self) -> tuple[bool, bool, str]:
        """Plans try initialized nodes first, then reserved ones, which are paid for, then by name."""
        reserved = self.label_map.get(names.CAPACITY_TYPE) == names.RESERVED
        return not self.initialized, not reserved, self.name

    @functools.cached_property
    def pool_and_zone(self) -> tuple[str | None, str]:
        return self.node_pool, self.label_map.get(names.ZONE, "")

    @functools.cached_property
    def used_by_daemons(self) -> Resources:
        return resources.add(*(pod.shape.requests for pod in self.pods if pod.from_daemon_set))

    @functools.cached_property
    def attached(self) -> frozenset[tuple[str, str]]:
        """Storage driver and claim of every volume in use."""
        return frozenset(claim for pod in self.pods for claim in pod.shape.volumes.claims)

    @functools.cached_property
    def shapes(self) -> tuple[PodShape, ...]:
        """The different shapes of its pods."""
        return tuple({id(pod.shape): pod.shape for pod in self.pods}.values())

    @functools.cached_property
    def anti_affinity(self) -> tuple[PodTerm, ...]:
        """The different anti-affinity terms of its pods."""
        return tuple(dict.fromkeys(term for shape in self.shapes for term in shape.anti_affinity))

    @functools.cached_property
    def running_shapes(self) -> tuple[tuple[PodShape, int], ...]:
        """The shapes of its pods that are not terminating, with their counts."""
        shapes = {id(pod.shape): pod.shape for pod in self.pods}
        counts = Counter(id(pod.shape) for pod in self.pods if not pod.terminating)
        return tuple((shapes[key], count) for key, count in counts.items())

    @functools.cached_property
    def reschedulable_shapes(self) -> tuple[tuple[PodShape, int], ...]:
        """The shapes of its pods that need another node if it is removed, with their counts."""
        shapes = {id(pod.shape): pod.shape for pod in self.pods}
        counts = Counter(id(pod.shape) for pod in self.pods if pod.reschedulable)
        return tuple((shapes[key], count) for key, count in counts.items())

    @functools.cached_property
    def _uids(self) -> frozenset[str]:
        return frozenset(pod.uid for pod in self.pods)


@dataclass(frozen=True, slots=True)
class CloudLabels:
    """The label keys of the cloud in use."""

    well_known: frozenset[str]  # Karpenter's own included
    reservation_id: str | None = None  # the key under which a reserved offering names its reservation
    reserved: frozenset[str] = frozenset()  # keys that every offering states: a value, or DoesNotExist
    defaults: tuple[tuple[str, str], ...] = ()  # key and value: another value must be required explicitly

    def are_non_defaults_required(self, offered: Requirements, wanted: Requirements) -> bool:
        """Whether `wanted` has each key for which an offering has another value than the default."""
        return all(key in wanted or offered.get(key).has(value) for key, value in self.defaults)


@dataclass(frozen=True, slots=True)
class CountBefore:
    """What an earlier count of a reservation showed."""

    read_s: int  # when the read began
    free: int  # slots that were certainly free
    elsewhere: int  # the most slots that other clusters and accounts used
    here: int = 0  # how many of our instances were in slots


@dataclass(frozen=True, slots=True)
class ClaimView:
    """A NodeClaim: what it requires, the slot it holds, and how far its launch is.

    `offerings` returns the offerings that the claim can be launched as. The node planned for a claim in flight, the
    launch, the adoption of instances and drift all call it or `suits`, so a claim is launched as the plan expects.
    """

    name: str
    node_pool: str | None
    requirements: Requirements
    created_s: int = 0
    reservation_id: str | None = None  # the reservation whose slot it holds
    waits_for_instance: str | None = None  # its slot frees when this instance is gone
    instance_gone_s: int | None = None  # since when that instance is known to be gone
    held_for: frozenset[str] | None = None  # owners of the pods that its capacity is held for; None: all pods
    rebooting_s: int | None = None  # since when its instance reboots
    counted: CountBefore | None = None  # of its reservation, when the plan was made that created the claim
    launched_s: int | None = None
    provider_id: str | None = None
    deleting: bool = False
    requests: Resources = NOTHING  # of its pods and DaemonSets
    preferred_zone: str | None = None  # among zones of equal cost, the one to launch in
    invalid: str = ""  # why its spec cannot be parsed; such a claim is not launched

    def suits_type(self, known: InstanceType) -> bool:
        """Whether a node of the type can satisfy the claim. This depends on no price and no count."""
        return self._has_type(known) and self.requests.fits(known.allocatable)

    def suits(self, known: InstanceType, offering: Offering, labels: CloudLabels) -> bool:
        """Whether a node of the offering satisfies the claim, available or not."""
        return self._has_type(known) and self.suits_offering(known, offering, labels)

    def suits_offering(self, known: InstanceType, offering: Offering, labels: CloudLabels) -> bool:
        """The same for a type that suits."""
        return (
            self.reservation_id in (None, offering.reservation_id)
            and self.requirements.compatible(offering.requirements, labels.well_known)
            and labels.are_non_defaults_required(offering.requirements, self.requirements)
            and self.requests.fits(known.allocatable_of(offering))
        )

    def is_available(self, offering: Offering) -> bool:
        """Whether the offering can be launched for the claim. The slot that a claim holds is its own: the count of free
        slots does not include it."""
        return offering.launchable if self.reservation_id is None else offering.healthy

    def offerings(
        self, types: Iterable[InstanceType], labels: CloudLabels, free: Mapping[str, int] = _AS_LISTED
    ) -> list[tuple[InstanceType, Offering]]:
        """The offerings that the claim can be launched as, cheapest first. `free`: free slots by reservation, newer
        than the counts of the offerings."""
        if self.invalid:
            return []
        found = [
            (known, offering)
            for known in types
            if self._has_type(known)
            for offering in (_recounted(listed, free) for listed in known.offerings)
            if self.is_available(offering) and self.suits_offering(known, offering, labels)
        ]
        return sorted(found, key=self._order)

    def _has_type(self, known: InstanceType) -> bool:
        allowed = self.requirements.get(names.INSTANCE_TYPE)
        return allowed.has(known.name) and self.requirements.intersects(known.requirements)

    def _order(self, one: tuple[InstanceType, Offering]) -> tuple[prices.OrderKey, str, bool, str]:
        known, offering = one
        return known.order_key(offering), known.name, offering.zone != self.preferred_zone, offering.zone


@dataclass(frozen=True, slots=True)
class DaemonSetView:
    """A DaemonSet, with the pod that it runs on each node that it selects."""

    namespace: str
    name: str
    pod: PodShape  # of its newest pod, or of its template if there is none (S-56)


@dataclass(frozen=True, slots=True)
class BudgetView:
    """A PodDisruptionBudget."""

    namespace: str
    name: str
    selector: LabelSelector | None
    fully_blocking: bool  # it never allows a disruption (S-5)
    disruptions_allowed: int
    always_allows_unhealthy: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    taken_s: int
    cloud_labels: CloudLabels
    node_pools: tuple[NodePoolView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    claims: tuple[ClaimView, ...] = ()
    pending: tuple[PodView, ...] = ()
    gangs: tuple[Gang, ...] = ()
    daemon_sets: tuple[DaemonSetView, ...] = ()
    budgets: tuple[BudgetView, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    counts_read_s: int = 0  # when the read of the reservations' counts began
    # By reservation, of the read before.
    count_before: Mapping[str, CountBefore] = field(default_factory=dict, hash=False)
    instances: tuple[Instance, ...] = ()  # every instance of this cluster, as the cloud last described it
    # Values that decisions compute from a snapshot and need again. `replace` starts with an empty cache.
    cache: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)


def _recounted(offering: Offering, free: Mapping[str, int]) -> Offering:
    if offering.reservation_id is None or offering.reservation_id not in free:
        return offering
    return replace(offering, count=free[offering.reservation_id])
