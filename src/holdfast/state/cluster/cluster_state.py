"""The snapshot of a running cluster, from the watch caches and `ports.Cloud`.

A snapshot never calls the API server. From the cloud it reads cached values, except the list of instances, which the
ledger needs where there are reservations. A value that did not change since the last snapshot stays the same object, so
that values derived from it are not computed again. A node class that cannot be resolved keeps only its own NodePools
out of the snapshot; a NodePool that cannot be parsed keeps only itself out.
"""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
from holdfast.core.reservations.slot_use import SlotUseCache
from holdfast.core.scheduling.output.plan import Unplaced
from holdfast.model.gangs import LABELLED, Gang
from holdfast.model.instances import Instance
from holdfast.model.offerings import InstanceType
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import CountBefore, NodePoolView, Snapshot
from holdfast.ports import NOT_READ, Clock, Cloud, ReservationCounts
from holdfast.runtime.cache import Caches
from holdfast.state.cluster import gang_topology, held_capacity
from holdfast.state.cluster.listed_instances import ListedInstances
from holdfast.state.cluster.nominated_pods import NominatedPods
from holdfast.state.cluster.nominations import Nominations
from holdfast.state.cluster.recent_reasons import RecentReasons
from holdfast.state.cluster.watched_claims import WatchedClaims
from holdfast.state.cluster.watched_gang_launches import WatchedGangLaunches
from holdfast.state.cluster.watched_gangs import WatchedGangs
from holdfast.state.cluster.watched_nodes import WatchedNodes
from holdfast.state.cluster.watched_pod_context import WatchedPodContext
from holdfast.state.cluster.watched_pods import WatchedPods
from holdfast.state.cluster.watched_requests import WatchedRequests
from holdfast.state.cluster.watched_run_times import WatchedRunTimes
from holdfast.state.conversion import claims, nodepools, snapshot
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.nodes import NodeAndClaim
from holdfast.state.conversion.snapshot import Cluster, Pods, Supply

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
# The maximum age of the list of instances while no slot changes. A controller lists instances each minute; that list is
# used.
_MAX_AGE_S: Final = 90.0
# The maximum age of the counts while an instance releases a slot. A slot that is free again must be in the plan, or the
# plan launches on demand. The counts are read after the list of instances, so they include its terminated instances.
_RECOUNT_S: Final = 2.0
_MOVING: Final = "moving"


@dataclass(frozen=True, slots=True)
class SnapshotResult:
    """A snapshot, the pending pods that are not in it and the NodePools that are not in it."""

    snapshot: Snapshot
    rejected: tuple[Unplaced, ...]  # pending pods that no plan can be made for
    unserved: tuple[
        tuple[str, str], ...
    ] = ()  # NodePools that cannot be read or whose class cannot be served, and why


@dataclass(frozen=True, slots=True)
class _Counted:
    """Counts, and the result of the previous counts that the ledger needs."""

    counts: ReservationCounts
    before: Mapping[str, CountBefore] = field(default_factory=dict)


@dataclass(slots=True)
class _Supplied:
    types: dict[str, tuple[InstanceType, ...]] = field(default_factory=dict)  # by NodePool
    of_class: dict[str, tuple[InstanceType, ...]] = field(default_factory=dict)  # by name of class
    unserved: list[tuple[str, str]] = field(default_factory=list)


class ClusterState:
    def __init__(  # noqa: PLR0913 - ports, and one argument for each setting
        self,
        *,
        caches: Caches,
        cloud: Cloud,
        clock: Clock,
        key_aliases: Mapping[str, str],
        ledger_lag_s: int,
        spreads: Sequence[DefaultConstraint] = (),
        provisioning_requests: bool = False,
        gangs_of: AbstractSet[str] = frozenset(LABELLED),
    ) -> None:
        """`spreads`: kube-scheduler's default constraints for pods without their own. With these, the caches must have
        the kinds `watched_pod_context.MAKERS`. `provisioning_requests`: also those of Cluster Autoscaler's classes.
        `gangs_of`: the sources of gangs that labels of pods name."""
        self._caches = caches
        self._cloud = cloud
        self._clock = clock
        self._terms = cloud.node_classes
        self._ours = (self._terms.kind.api_version.partition("/")[0], self._terms.kind.kind)
        self._ledger_lag_s = ledger_lag_s
        self.nominations = Nominations(clock)
        self.reasons = RecentReasons()
        rules = LabelRules(cloud.labels.well_known, key_aliases)
        self._pods = WatchedPods(caches.of(Pod), rules, clock=clock)
        self._pod_context = WatchedPodContext(caches, self._pods, spreads)
        self._claims = WatchedClaims(
            caches.of(NodeClaim), clock=clock, labels=cloud.labels, is_ours=self.is_ours
        )
        self.gang_launches = WatchedGangLaunches(caches.of(NodeClaim))
        self._nodes = WatchedNodes(
            caches,
            self._pods,
            self.nominations,
            self.gang_launches,
            clock=clock,
            labels=cloud.labels,
            is_ours=self.is_ours,
        )
        self._gangs = WatchedGangs(caches, clock=clock, sources=gangs_of)
        self.run_times = WatchedRunTimes(caches, self._pods)
        self.requests = WatchedRequests(
            caches, self._pods.converter, self.nominations, with_standard_classes=provisioning_requests
        )
        self._nominated_pods = NominatedPods(self.nominations, clock=clock)
        self._pool_views = nodepools.PoolViews()
        self._moving = caches.of(NodeClaim).index(_is_moving)
        self._supplied = _Supplied()  # of the last snapshot
        self._counted = _Counted(NOT_READ)  # the last successful read
        self._listed = ListedInstances(caches.of(NodeClaim), clock=clock, ledger_lag_s=ledger_lag_s)
        self._slot_use = SlotUseCache()
        self._held: Counter[str] = Counter()  # slots of claims that are being written, by reservation

    # --- Public methods -------------------------------------------------------------------------------

    async def snapshot(self, *, lists_instances: bool = True) -> SnapshotResult:
        """The snapshot of the cluster now. Raises NotReady if a watch is silent: its cache may be stale. A caller that
        counts no slots sets `lists_instances` to false: while an instance starts in a slot, every list is a call."""
        self._caches.check_fresh()
        counts = await self.counts()
        instances = await self._instances(counts) if lists_instances else self._listed.all()
        counted = await self._count(_RECOUNT_S if self._are_slots_released() else None)
        self._supplied = await self._supply(counted.counts)
        self._nodes.use(self._supplied.of_class)
        self._pod_context.read()
        await self._pods.convert_new()
        await self._nodes.see_changed()
        await self._claims.see_changed()
        waiting = self._waiting()
        await self._nominated_pods.refresh(self._nodes.all().nodes, waiting.pending, waiting.gangs)
        return self._build(counted, instances)

    def node_objects(self) -> Mapping[str, NodeAndClaim]:
        """The objects of the nodes of the last snapshot, by name, without nodes that are not launched. Read it before the
        event loop runs again. The same mapping is returned until one changes."""
        return self._nodes.pairs()

    async def counts(self, max_age_s: float | None = None) -> ReservationCounts:
        """The newest counts; the last ones if they cannot be read now."""
        return (await self._count(max_age_s)).counts

    async def recount(self, max_age_s: float | None) -> ReservationCounts:
        """The newest counts, at most this old. Raises the error if they cannot be read now."""
        newest, last = await self._cloud.reservations(max_age_s=max_age_s), self._counted
        is_newer = newest.read_began_s > last.counts.read_began_s
        self._counted = _Counted(newest, self._left_by(last) if is_newer else last.before)
        return newest

    async def _count(self, max_age_s: float | None = None) -> _Counted:
        with contextlib.suppress(errors.HoldfastError):
            await self.recount(max_age_s)
        return self._counted

    def _left_by(self, counted: _Counted) -> Mapping[str, CountBefore]:
        """The result of these counts that the ledger needs once there are newer counts."""
        return ledger.count_before(self._bare(counted, self._listed.all()), self._ledger_lag_s)

    async def last_slots(self) -> Snapshot | None:
        """The part of the snapshot that the count of slots needs, with the last counts and the last list of instances:
        for reports. Reads nothing from the cloud. None before the first of both."""
        counts = self._counted.counts
        if counts == NOT_READ or (counts.reservations and not self._listed.is_known):
            return None
        await self._claims.see_changed()
        return self._bare(self._counted, self._listed.all())

    def ledger_of(self, slots: Snapshot) -> Mapping[str, ledger.Entry]:
        """The ledger of `last_slots`. Pure, and slow with many reservations: run it in the compute thread."""
        return ledger.ledger(slots, self._ledger_lag_s)

    async def ledger(self) -> Mapping[str, ledger.Entry]:
        """Which slots are free, without the rest of the snapshot."""
        return ledger.ledger(await self.slots(), self._ledger_lag_s)

    async def slots(self, max_age_s: float | None = None) -> Snapshot:
        """The part of the snapshot that the count of slots needs."""
        counted = await self._count(max_age_s)
        await self._claims.see_changed()
        return self._bare(counted, await self._instances(counted.counts))

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        """Those of the last reading."""
        return self._counted.counts.reservations

    @property
    def types(self) -> Mapping[str, tuple[InstanceType, ...]]:
        """The instance types of the last snapshot, by name of node class."""
        return self._supplied.of_class

    @contextlib.contextmanager
    def holding(self, wanted: Counter[str], lag_s: int | None = None) -> Iterator[Counter[str]]:
        """Yields how many of the wanted slots are free now, by reservation, and holds them while the caller writes the
        NodeClaims. Provisioning and disruption plan at the same time, so a slot that is free in one's snapshot may
        already be held by the other. `lag_s`: of the ledger that the plan was made with, if that differs."""
        lag_s = self._ledger_lag_s if lag_s is None else lag_s
        bare = self._bare(self._counted, self._listed.all())
        chosen = tuple(one for one in bare.reservations if one.id in wanted)
        found = ledger.ledger(self._slot_use.give(dataclasses.replace(bare, reservations=chosen)), lag_s)
        granted = Counter(
            {id_: min(wanted[id_], max(0, entry.free - self._held[id_])) for id_, entry in found.items()}
        )
        self._held += granted
        try:
            yield granted
        finally:
            self._held -= granted

    def _bare(self, counted: _Counted, instances: tuple[Instance, ...]) -> Snapshot:
        bare = Snapshot(
            taken_s=self._clock.now_s(),
            cloud_labels=self._cloud.labels,
            claims=self._claims.all(),
            reservations=counted.counts.reservations,
            counts_read_s=counted.counts.read_began_s,
            count_before=counted.before,
            instances=instances,
        )
        return self._slot_use.give(bare)

    def gangs(self) -> tuple[Gang, ...]:
        """The gangs, sorted by rank. Nominated members do not count as members with a node yet."""
        found = (*self._gangs.all(), *(one.gang for one in self.requests.live()))
        return tuple(sorted(found, key=lambda gang: gang.rank))

    def gang_of(self, pod: Pod) -> Gang | None:
        """The gang that the labels of a pod name."""
        return self._gangs.of(pod)

    def pool(self, name: str) -> NodePoolView | None:
        """A NodePool with the current capacity of its nodes; None: it is deleted, deleting, or cannot be parsed."""
        pool = self._caches.of(NodePool).get(("", name))
        if pool is None or pool.metadata.deletion_timestamp is not None:
            return None
        try:
            return nodepools.view(pool, (), self._nodes.all().used.get(name, nodepools.NONE_USED))
        except errors.InvalidInput:
            return None

    def node_class(self, reference: NodeClassReference) -> Object | None:
        """The node class that a NodeClaim or NodePool refers to, if it is of our kind and exists."""
        found = self._terms.names(reference)
        return self._caches.of(self._terms.kind).get(("", found[0])) if found else None

    def is_ours(self, reference: NodeClassReference) -> bool:
        return (reference.group, reference.kind) == self._ours

    # --- Private methods ------------------------------------------------------------------------------

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
            self._waiting(),
            self._nodes.all(),
            self._claims.all(),
            now_s=self._clock.now_s(),
            pool_views=self._pool_views,
        )
        nominated = held_capacity.tainted(self._nominated_pods.applied(built.snapshot))
        tied = self._slot_use.give(gang_topology.tied(nominated))
        return SnapshotResult(tied, built.rejected, tuple(self._supplied.unserved))

    def _waiting(self) -> Pods:
        """The pods without a node, virtual ones included, with their gangs."""
        gangs = self._gangs.all()
        pods = self._pods.sorted_out()
        return self.requests.with_virtual(dataclasses.replace(pods, gangs=gangs) if gangs else pods)

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
                self._pool_views.parsed(pool)  # InvalidInput if the NodePool cannot be parsed
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
        """Empty without reservations: only the ledger needs instances. If the list fails, the previous list is used:
        the counts show the free slots, and no pod should wait for a list of instances. The previous list is also used
        while no slot changes, so that a caller that reads every few seconds causes one call a minute."""
        if not counts.reservations:
            return ()
        with contextlib.suppress(errors.HoldfastError):
            is_outdated = self._is_in_motion() or self._listed.has_more_used(counts.reservations)
            max_age_s = 0 if is_outdated else _MAX_AGE_S
            found = await self._cloud.instances(max_age_s=max_age_s)
            self._listed.listed(found, counts.read_began_s, counts.reservations)
        return self._listed.all()

    def _are_slots_released(self) -> bool:
        reservations = self._counted.counts.reservations
        return bool(reservations) and self._listed.are_slots_released(reservations)

    def _is_in_motion(self) -> bool:
        """Whether an instance starts or terminates in a slot, has no NodeClaim, or a NodeClaim waits for an instance to
        terminate."""
        return any(True for _ in self._moving.get(_MOVING)) or self._listed.are_in_motion()


def _is_moving(claim: NodeClaim) -> tuple[str, ...]:
    """Whether the claim waits for an instance to terminate, or its own instance starts or terminates in a slot."""
    waits = names.WAITS_FOR_INSTANCE in claim.metadata.annotations
    settled = claim.status.provider_id and claim.metadata.deletion_timestamp is None
    return (_MOVING,) if waits or (claims.has_slot(claim) and not settled) else ()
