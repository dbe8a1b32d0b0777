"""The snapshot of a running cluster, from the watch caches and `ports.Cloud`.

The rules: a snapshot never calls the API server, and reads from the cloud only cached values, except for the
list of instances, which the ledger needs where there are reservations; what did not change since the last
snapshot is the same value again, so that what was derived from it is not derived anew; a class that cannot be
served keeps its own pools out of the snapshot, and no others; and so does a pool that cannot be read.
"""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from holdfast import errors, names
from holdfast.api.cluster import Namespace, PodDisruptionBudget
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim, NodeClassReference
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.scheduler_config import DefaultConstraint
from holdfast.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from holdfast.api.workloads import DaemonSet
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.output.plan import Unplaced
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType
from holdfast.model.snapshot import CountBefore, NodePoolView, Snapshot
from holdfast.ports import NOT_READ, Clock, Cloud, ReservationCounts
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.state.cluster import held_capacity
from holdfast.state.cluster.nominated_pods import NominatedPods
from holdfast.state.cluster.nominations import Nominations
from holdfast.state.cluster.watched_claims import WatchedClaims
from holdfast.state.cluster.watched_nodes import WatchedNodes
from holdfast.state.cluster.watched_pod_context import WatchedPodContext
from holdfast.state.cluster.watched_pods import WatchedPods
from holdfast.state.conversion import claims, nodepools, snapshot
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.snapshot import Cluster, Supply

K = TypeVar("K", bound=Object)

KINDS: Final[tuple[type[Object], ...]] = (
    Pod,
    Node,
    NodeClaim,
    NodePool,
    DaemonSet,
    PodDisruptionBudget,
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    CSINode,
)
# The age of a list of instances that is enough while no slot changes. A controller lists each minute; that list is used.
_MAX_AGE_S: Final = 90.0
# Of counts while instances of ours leave slots: a slot that is free again must be in a plan before a launch on demand.
# The read begins after the list of instances, so it shows what that list shows as terminated.
_RECOUNT_S: Final = 2.0
_MOVING: Final = "moving"


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """A snapshot, and what is not in it."""

    snapshot: Snapshot
    rejected: tuple[Unplaced, ...]  # pending pods that no plan can be made for
    unserved: tuple[
        tuple[str, str], ...
    ] = ()  # NodePools that cannot be read or whose class cannot be served, and why


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts, and what the ledger keeps of the counts before them."""

    counts: ReservationCounts
    before: CountBefore | None = None


@dataclass(slots=True)
class _Supplied:
    types: dict[str, tuple[InstanceType, ...]] = field(default_factory=dict)  # by NodePool
    of_class: dict[str, tuple[InstanceType, ...]] = field(default_factory=dict)  # by name of class
    unserved: list[tuple[str, str]] = field(default_factory=list)


class ClusterState:
    def __init__(
        self,
        *,
        caches: Caches,
        cloud: Cloud,
        clock: Clock,
        key_aliases: Mapping[str, str],
        ledger_lag_s: int,
        spreads: Sequence[DefaultConstraint] = (),
    ) -> None:
        """`spreads`: what kube-scheduler gives to pods that have none; what makes pods (`watched_pod_context.MAKERS`) is
        to be in the caches then."""
        self._caches = caches
        self._cloud = cloud
        self._clock = clock
        self._terms = cloud.node_classes
        self._ours = (self._terms.kind.api_version.partition("/")[0], self._terms.kind.kind)
        self._ledger_lag_s = ledger_lag_s
        self.nominations = Nominations(clock)
        rules = LabelRules(cloud.labels.well_known, key_aliases)
        self._pods = WatchedPods(caches.of(Pod), rules, clock=clock)
        self._pod_context = WatchedPodContext(caches, self._pods, spreads)
        self._claims = WatchedClaims(
            caches.of(NodeClaim), clock=clock, labels=cloud.labels, is_ours=self.is_ours
        )
        self._nodes = WatchedNodes(
            caches, self._pods, self.nominations, clock=clock, labels=cloud.labels, is_ours=self.is_ours
        )
        self._nominated_pods = NominatedPods(self.nominations, clock=clock)
        self._by_provider_id = caches.of(NodeClaim).index(indexes.by_provider_id)
        self._moving = caches.of(NodeClaim).index(_is_moving)
        self._supplied = _Supplied()  # as in the last snapshot
        self._counted = _Counted(NOT_READ)  # the newest that could be read
        self._listed_instances: tuple[Instance, ...] = ()  # likewise
        self._gone: dict[Instance, int] = {}  # instances that left a slot, with when a list first lacked them
        self._held: Counter[str] = Counter()  # slots of claims that are being written, by reservation

    # --- What others ask ------------------------------------------------------------------------------

    async def snapshot(self) -> SnapshotResult:
        """The snapshot of the cluster now. NotReady when a watch is silent: its cache may be old."""
        self._caches.check_fresh()
        instances = await self._instances(await self.counts())
        counted = await self._count(_RECOUNT_S if _leave_slots(instances) else None)
        self._supplied = await self._supply(counted.counts)
        self._nodes.use(self._supplied.of_class)
        self._pod_context.read()
        await self._pods.convert_new()
        await self._nodes.see_changed()
        await self._claims.see_changed()
        await self._nominated_pods.refresh(self._nodes.all().nodes, self._pods.sorted_out().pending)
        return self._build(counted, instances)

    async def counts(self, max_age_s: float | None = None) -> ReservationCounts:
        """The newest counts; the last ones, where they cannot be read now."""
        return (await self._count(max_age_s)).counts

    async def _count(self, max_age_s: float | None = None) -> _Counted:
        with contextlib.suppress(errors.HoldfastError):
            newest, last = await self._cloud.reservations(max_age_s=max_age_s), self._counted
            is_newer = newest.read_began_s > last.counts.read_began_s
            self._counted = _Counted(newest, self._left_by(last) if is_newer else last.before)
        return self._counted

    def _left_by(self, counted: _Counted) -> CountBefore | None:
        """What the ledger keeps of counts once there are newer ones."""
        if not counted.counts.reservations:
            return None
        return ledger.count_before(
            self._bare(counted, (*self._listed_instances, *self._gone)), self._ledger_lag_s
        )

    async def ledger(self) -> Mapping[str, ledger.Entry]:
        """Which slots are free, without the rest of the snapshot."""
        return ledger.ledger(await self.slots(), self._ledger_lag_s)

    async def slots(self, max_age_s: float | None = None) -> Snapshot:
        """The part of the snapshot that the count of slots needs."""
        counted = await self._count(max_age_s)
        await self._claims.see_changed()
        return self._bare(counted, await self._instances(counted.counts))

    @contextlib.contextmanager
    def holding(self, wanted: Counter[str]) -> Iterator[Counter[str]]:
        """Of the wanted slots, as many as are free now, by reservation. They are held while the claims for them are being
        written: provisioning and disruption plan at the same time, so a slot that was free in the snapshot of one may be
        the other's by now."""
        bare = self._bare(self._counted, (*self._listed_instances, *self._gone))
        chosen = tuple(one for one in bare.reservations if one.id in wanted)
        found = ledger.ledger(dataclasses.replace(bare, reservations=chosen), self._ledger_lag_s)
        granted = Counter(
            {id_: min(wanted[id_], max(0, entry.free - self._held[id_])) for id_, entry in found.items()}
        )
        self._held += granted
        try:
            yield granted
        finally:
            self._held -= granted

    def _bare(self, counted: _Counted, instances: tuple[Instance, ...]) -> Snapshot:
        return Snapshot(
            taken_s=self._clock.now_s(),
            cloud_labels=self._cloud.labels,
            claims=self._claims.all(),
            reservations=counted.counts.reservations,
            counts_read_s=counted.counts.read_began_s,
            count_before=counted.before,
            instances=instances,
        )

    def pool(self, name: str) -> NodePoolView | None:
        """A NodePool as it is now, with what its nodes have now; None: it is gone, or going, or cannot be read."""
        pool = self._caches.of(NodePool).get(("", name))
        if pool is None or pool.metadata.deletion_timestamp is not None:
            return None
        try:
            return nodepools.view(pool, (), self._nodes.all().used.get(name, nodepools.NONE_USED))
        except errors.InvalidInput:
            return None

    def node_class(self, reference: NodeClassReference) -> Object | None:
        """The class that a claim or a pool refers to, if it is one of ours and there."""
        found = self._terms.names(reference)
        return self._caches.of(self._terms.kind).get(("", found[0])) if found else None

    def is_ours(self, reference: NodeClassReference) -> bool:
        return (reference.group, reference.kind) == self._ours

    # --- Inside ---------------------------------------------------------------------------------------

    def _of(self, kind: type[K]) -> tuple[K, ...]:
        return tuple(self._caches.of(kind))

    def _build(self, counted: _Counted, instances: tuple[Instance, ...]) -> SnapshotResult:
        self._pod_context.read()
        cluster = Cluster(
            node_pools=self._of(NodePool),
            daemon_sets=self._of(DaemonSet),
            budgets=self._of(PodDisruptionBudget),
        )
        supply = Supply(
            self._cloud.labels,
            self._supplied.types,
            counted.counts.reservations,
            counted.counts.read_began_s,
            instances,
            counted.before,
        )
        built = snapshot.assemble(
            cluster,
            supply,
            self._pods.converter,
            self._pods.sorted_out(),
            self._nodes.all(),
            self._claims.all(),
            now_s=self._clock.now_s(),
        )
        nominated = held_capacity.tainted(self._nominated_pods.applied(built.snapshot))
        return SnapshotResult(nominated, built.rejected, tuple(self._supplied.unserved))

    async def _supply(self, counts: ReservationCounts) -> _Supplied:
        """Reserved offerings and the ledger of a snapshot come from the same counts. With counts of two readings a plan
        could use a reservation that its ledger does not have."""
        found = _Supplied()
        for pool in sorted(self._of(NodePool), key=lambda p: p.metadata.name):
            reference = pool.spec.template.spec.node_class_ref
            ours = {(reference.group, reference.kind)} if self.is_ours(reference) else frozenset()
            if nodepools.why_no_nodes(pool, ours, needs_ready=True) is not None:
                continue
            try:
                nodepools.view(pool, (), nodepools.NONE_USED)  # InvalidInput where it cannot be read
                found.types[pool.metadata.name] = await self._types_of(reference, counts, found)
            except errors.HoldfastError as error:
                found.unserved.append((pool.metadata.name, str(error)))
        return found

    async def _types_of(
        self, reference: NodeClassReference, counts: ReservationCounts, found: _Supplied
    ) -> tuple[InstanceType, ...]:
        if reference.name not in found.of_class:
            node_class = self.node_class(reference)
            if node_class is None:
                raise errors.NotReady(f"its class {reference.name} is not there")
            found.of_class[reference.name] = await self._cloud.instance_types(node_class, counts)
        return found.of_class[reference.name]

    async def _instances(self, counts: ReservationCounts) -> tuple[Instance, ...]:
        """Empty without reservations: only the ledger needs instances. If EC2 cannot list them now, the previous
        list: the counts show what is free, and no pod should wait for a list of instances. Also the previous
        list while no slot changes, so that a caller that reads every few seconds costs one call a minute."""
        if not counts.reservations:
            return ()
        with contextlib.suppress(errors.HoldfastError):
            listed = await self._cloud.instances(max_age_s=0 if self._is_in_motion() else _MAX_AGE_S)
            self._miss(listed, counts)
            self._listed_instances = listed
        return *self._listed_instances, *self._gone

    def _miss(self, listed: tuple[Instance, ...], counts: ReservationCounts) -> None:
        """Instances that were in slots and are no longer listed have terminated. They stay in the snapshot
        until a count can show it: their slots are being released."""
        there, now_s = {one.provider_id for one in listed}, self._clock.now_s()
        missed = (
            one for one in self._listed_instances if one.reservation_id and one.provider_id not in there
        )
        self._gone |= {dataclasses.replace(one, state=InstanceState.GONE): now_s for one in missed}
        self._gone = {
            one: at_s
            for one, at_s in self._gone.items()
            if counts.read_began_s < at_s + self._ledger_lag_s and one.provider_id not in there
        }

    def _is_in_motion(self) -> bool:
        """Whether an instance starts in a slot or leaves one, or a claim waits for an instance to terminate.
        On-demand and spot instances do not count: they hold no slot."""
        moving = (InstanceState.STARTING, InstanceState.ENDING)
        owned, coming_or_going = self._by_provider_id, self._moving.get(_MOVING)
        return any(coming_or_going) or any(
            one.reservation_id and (one.state in moving or not owned.get(one.provider_id))
            for one in self._listed_instances
        )


def _leave_slots(instances: Iterable[Instance]) -> bool:
    """Whether an instance in a slot is terminating, or terminated so lately that a count may not show the slot as free."""
    return any(
        one.reservation_id and one.state in (InstanceState.ENDING, InstanceState.GONE) for one in instances
    )


def _is_moving(claim: NodeClaim) -> tuple[str, ...]:
    """Whether the claim waits for an instance to terminate, or its instance starts in a slot or leaves one."""
    waits = names.WAITS_FOR_INSTANCE in claim.metadata.annotations
    settled = claim.status.provider_id and claim.metadata.deletion_timestamp is None
    return (_MOVING,) if waits or (claims.has_slot(claim) and not settled) else ()
