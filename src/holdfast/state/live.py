"""The world of a running cluster at one moment: watch caches and the Cloud door, as one snapshot.

Called by provisioning, by disruption and by whoever has to know which slots are free. The rules: nothing is asked of
the API server, and of the cloud only what its door serves from memory, but for the list of machines, which the ledger
needs where there are reservations; what did not change since the last snapshot is the same value again, so that what
was derived from it is not derived anew; a class that cannot be served keeps its own pools out of the snapshot, and no
others.
"""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from holdfast import errors, names
from holdfast.api.cluster import Namespace, PodDisruptionBudget, Service
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim, NodeClassReference
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.scheduler_config import DefaultConstraint
from holdfast.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from holdfast.api.workloads import DaemonSet, Deployment, ReplicaSet, ReplicationController, StatefulSet
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.plan import Unplaced
from holdfast.model import resources
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodView
from holdfast.model.resources import Resources
from holdfast.model.snapshot import CountBefore, NodePoolView, NodeView, Snapshot
from holdfast.ports import Clock, Cloud, ReservationCounts
from holdfast.runtime.cache import Caches
from holdfast.state import (
    claims,
    default_spreads,
    held_room,
    in_flight,
    nodepools,
    nodes,
    orders,
    pod_shapes,
    snapshot,
    volumes,
)
from holdfast.state.default_spreads import Defaults, Maker
from holdfast.state.node_terms import LabelRules
from holdfast.state.nominations import Nominations
from holdfast.state.pod_shapes import Surroundings
from holdfast.state.snapshot import Cluster, Marks, Supply
from holdfast.state.views import Views
from holdfast.state.watched_pods import WatchedPods

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
MAKERS: Final[tuple[type[Object], ...]] = (  # wanted only where the cluster spreads pods by itself (S-85)
    Service,
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
# Of a list of machines that will do while nothing comes or goes. Somebody reads one each minute; that one is taken.
_MAX_AGE_S: Final = 90.0
_SEEN_AT_ONCE: Final = 100  # nodes, in about 5 ms
_SURROUNDINGS: Final[tuple[type[Object], ...]] = (
    Namespace,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot, and what is not in it."""

    snapshot: Snapshot
    rejected: tuple[Unplaced, ...]  # pending pods that no plan can be made for
    unserved: tuple[tuple[str, str], ...] = ()  # NodePools whose class cannot be served now, and why


@dataclass(slots=True)
class _Supplied:
    types: dict[str, tuple[InstanceType, ...]] = field(default_factory=dict)  # by NodePool
    of_class: dict[str, tuple[InstanceType, ...]] = field(default_factory=dict)  # by name of class
    unserved: list[tuple[str, str]] = field(default_factory=list)


class Live:
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
        """`spreads`: what kube-scheduler gives to pods that have none; `MAKERS` are to be in the caches then."""
        self._caches = caches
        self._cloud = cloud
        self._clock = clock
        self._terms = cloud.node_classes
        self._ours = (self._terms.kind.api_version.partition("/")[0], self._terms.kind.kind)
        self._ledger_lag_s = ledger_lag_s
        self.nominations = Nominations(clock)
        self._views = Views()
        self._pods = WatchedPods(
            caches.of(Pod),
            LabelRules(cloud.labels.well_known, key_aliases),
            clock=clock,
            changed_on=self._views.nodes.forget,
        )
        self._supplied = _Supplied()  # as in the last snapshot
        self._nodes: dict[str, NodeView] = {}  # as in the last snapshot
        self._counts = ReservationCounts((), 0)  # the newest that could be read
        self._count_before: CountBefore | None = None  # what those before them were good for
        self._machines: tuple[Instance, ...] = ()  # likewise
        self._gone: dict[Instance, int] = {}  # machines that left a slot, with when they were missed
        self._spreads = tuple(map(pod_shapes.spread, spreads))
        self._surroundings_changed = True
        for kind in (*_SURROUNDINGS, *(MAKERS if spreads else ())):
            caches.of(kind).subscribe(self._on_surroundings)

    # --- What others ask ------------------------------------------------------------------------------

    async def take(self) -> Seen:
        """The world as it is known now."""
        self._supplied = await self._supply()
        counts = await self.counts()
        instances = await self._instances(counts)
        self._read_surroundings()
        await self._pods.convert_new()
        await self._see_nodes()
        return self._taken(counts, instances)

    async def counts(self, max_age_s: float | None = None) -> ReservationCounts:
        """The newest counts; those of before, where they cannot be read now."""
        with contextlib.suppress(errors.HoldfastError):
            newest = await self._cloud.reservations(max_age_s=max_age_s)
            if newest.read_began_s > self._counts.read_began_s:
                self._count_before = self._left_by(self._counts)
            self._counts = newest
        return self._counts

    def _left_by(self, counts: ReservationCounts) -> CountBefore | None:
        """What counts are good for once there are newer ones."""
        if not counts.reservations:
            return None
        return ledger.count_before(self._bare(counts, self._machines), self._ledger_lag_s)

    async def ledger(self) -> dict[str, ledger.Entry]:
        """Which slots are free, without anything else of the world."""
        return ledger.ledger(await self.slots(), self._ledger_lag_s)

    async def slots(self, max_age_s: float | None = None) -> Snapshot:
        """The world as far as slots are counted by it."""
        counts = await self.counts(max_age_s)
        return self._bare(counts, await self._instances(counts))

    def _bare(self, counts: ReservationCounts, instances: tuple[Instance, ...]) -> Snapshot:
        return Snapshot(
            taken_s=self._clock.now_s(),
            cloud_labels=self._cloud.labels,
            claims=tuple(self._views.claim(c, self._cloud.labels) for c in self._of(NodeClaim)),
            reservations=counts.reservations,
            counts_read_s=counts.read_began_s,
            count_before=self._count_before,
            instances=instances,
        )

    def pool(self, name: str) -> NodePoolView | None:
        """A NodePool as it is now, with what its nodes have now; None: it is gone, or going."""
        pool = self._caches.of(NodePool).get(("", name))
        if pool is None or pool.metadata.deletion_timestamp is not None:
            return None
        cluster = self._cluster(self._to_come())
        supply = Supply(self._cloud.labels, self._supplied.types)
        see = snapshot.Seeing(cluster, supply, self._pods.on_node, self._marks(cluster), self._views)
        return nodepools.view(pool, (), nodepools.used((*see.all(), *cluster.to_come), name))

    def node_class(self, reference: NodeClassReference) -> Object | None:
        """The class that a claim or a pool refers to, if it is one of ours and there."""
        found = self._terms.names(reference)
        return self._caches.of(self._terms.kind).get(("", found[0])) if found else None

    def is_ours(self, reference: NodeClassReference) -> bool:
        return (reference.group, reference.kind) == self._ours

    # --- Inside ---------------------------------------------------------------------------------------

    def _of(self, kind: type[K]) -> tuple[K, ...]:
        return tuple(self._caches.of(kind))

    def _on_surroundings(self, _before: Any, _after: Any) -> None:
        self._surroundings_changed = True

    def _cluster(self, to_come: tuple[NodeView, ...]) -> Cluster:
        return Cluster(
            node_pools=self._of(NodePool),
            node_claims=tuple(c for c in self._of(NodeClaim) if self.is_ours(c.spec.node_class_ref)),
            nodes=tuple(filter(nodes.is_known, self._of(Node))),
            daemon_sets=self._of(DaemonSet),
            budgets=self._of(PodDisruptionBudget),
            csi_nodes=self._of(CSINode),
            to_come=to_come,
        )

    def _marks(self, cluster: Cluster) -> Marks:
        return Marks(deleting=orders.going(cluster.node_claims), nominated=self.nominations.places())

    async def _see_nodes(self) -> None:
        """Nodes that are new, or whose pods changed, and claims: a few at a time, with others running in between."""
        cluster = self._cluster(())
        see = snapshot.Seeing(
            cluster,
            Supply(self._cloud.labels, self._supplied.types),
            self._pods.on_node,
            self._marks(cluster),
            self._views,
        )
        unseen = see.unseen()
        for start in range(0, len(unseen), _SEEN_AT_ONCE):
            await self._clock.sleep(0)
            for halves in unseen[start : start + _SEEN_AT_ONCE]:
                see.view(halves)
        for start in range(0, len(cluster.node_claims), _SEEN_AT_ONCE):
            await self._clock.sleep(0)
            for claim in cluster.node_claims[start : start + _SEEN_AT_ONCE]:
                self._views.claim(claim, self._cloud.labels)
        await self._clock.sleep(0)

    def _taken(self, counts: ReservationCounts, instances: tuple[Instance, ...]) -> Seen:
        self._read_surroundings()
        cluster, now_s = self._cluster(self._to_come()), self._clock.now_s()
        supply = Supply(
            self._cloud.labels,
            self._supplied.types,
            counts.reservations,
            counts.read_began_s,
            instances,
            self._count_before,
        )
        taken = snapshot.assembled(
            cluster,
            supply,
            self._pods.converter,
            self._pods.sorted_out(),
            now_s=now_s,
            marks=self._marks(cluster),
            views=self._views,
        )
        world = held_room.marked(self._with_promised(taken.snapshot))
        kept = tuple(self._same(node) for node in world.nodes)
        self._nodes = {node.name: node for node in kept}
        self._views.nodes.keep_only(self._nodes)
        claims_there = {claim.name for claim in world.claims}
        self._views.claims.keep_only(claims_there)
        self._views.to_come.keep_only(claims_there)
        return Seen(dataclasses.replace(world, nodes=kept), taken.rejected, tuple(self._supplied.unserved))

    def _same(self, node: NodeView) -> NodeView:
        known = self._nodes.get(node.name)
        return known if known is not None and (known is node or known == node) else node

    def _to_come(self) -> tuple[NodeView, ...]:
        """Claims that were written and not launched yet."""
        memory: in_flight.Memory = {}

        def view(claim: NodeClaim) -> NodeView:
            types = self._supplied.of_class.get(claim.spec.node_class_ref.name, ())
            return self._views.to_come.get(
                claim.metadata.name,
                (claim, types),
                lambda: in_flight.view(claim, types, self._cloud.labels, memory),
            )

        return tuple(
            view(claim)
            for claim in self._of(NodeClaim)
            if not claim.status.provider_id
            and claim.metadata.deletion_timestamp is None
            and self.is_ours(claim.spec.node_class_ref)
        )

    def _with_promised(self, world: Snapshot) -> Snapshot:
        """Pods that are on their way to a node count as being there."""
        if not len(self.nominations):
            return world
        by_place = {place: node for node in world.nodes for place in (node.name, node.claim) if place}

        def is_to_come(place: str) -> bool | None:
            node = by_place.get(place)
            return None if node is None or node.deleting else not node.initialized

        self.nominations.keep({pod.uid for pod in world.pending}, is_to_come)
        there: dict[str, list[PodView]] = {}
        left: list[PodView] = []
        free: dict[str, Resources] = {}
        for pod in world.pending:
            node = by_place.get(self.nominations.place_of(pod.uid) or "")
            room = free.get(node.name, node.free) if node is not None else resources.NOTHING
            if node is None or not pod.shape.requests.fits(room):
                self.nominations.forget(pod.uid)  # kube-scheduler gave the room to another
                left.append(pod)
            else:
                free[node.name] = room.subtract(pod.shape.requests)
                there.setdefault(node.name, []).append(pod)
        if not there:
            return world
        expecting = tuple(
            dataclasses.replace(
                node,
                nominated=True,
                pods=tuple(sorted((*node.pods, *there[node.name]), key=lambda pod: pod.full_name)),
            )
            if node.name in there
            else node
            for node in world.nodes
        )
        return dataclasses.replace(world, nodes=expecting, pending=tuple(left))

    def _read_surroundings(self) -> None:
        if not self._surroundings_changed:
            return
        self._surroundings_changed = False
        namespaces = {n.metadata.name: n.metadata.labels for n in self._of(Namespace)}
        known = volumes.storage(
            self._of(PersistentVolumeClaim), self._of(PersistentVolume), self._of(StorageClass)
        )
        self._pods.use(Surroundings(namespaces, known, self._defaults()))
        self._views.nodes.clear()

    def _defaults(self) -> Defaults:
        if not self._spreads:
            return Defaults()
        makers: tuple[Maker, ...] = (
            *self._of(Deployment),
            *self._of(ReplicaSet),
            *self._of(ReplicationController),
            *self._of(StatefulSet),
        )
        return default_spreads.defaults(self._spreads, self._of(Service), makers)

    async def _supply(self) -> _Supplied:
        found = _Supplied()
        for pool in sorted(self._of(NodePool), key=lambda p: p.metadata.name):
            reference = pool.spec.template.spec.node_class_ref
            ours = {(reference.group, reference.kind)} if self.is_ours(reference) else frozenset()
            if nodepools.why_no_nodes(pool, ours, needs_ready=True) is not None:
                continue
            try:
                found.types[pool.metadata.name] = await self._types_of(reference, found)
            except errors.HoldfastError as error:
                found.unserved.append((pool.metadata.name, str(error)))
        return found

    async def _types_of(self, reference: NodeClassReference, found: _Supplied) -> tuple[InstanceType, ...]:
        if reference.name not in found.of_class:
            node_class = self.node_class(reference)
            if node_class is None:
                raise errors.NotReady(f"its class {reference.name} is not there")
            found.of_class[reference.name] = await self._cloud.instance_types(node_class)
        return found.of_class[reference.name]

    async def _instances(self, counts: ReservationCounts) -> tuple[Instance, ...]:
        """Without reservations nobody counts by machines. Those of before, where they cannot be read now: the counts
        say what is free, and nobody waits for a node because a list of machines does not come. Those of before as
        well while nothing comes or goes: who looks every few seconds costs one call a minute."""
        if not counts.reservations:
            return ()
        with contextlib.suppress(errors.HoldfastError):
            listed = await self._cloud.instances(max_age_s=0 if self._is_in_motion() else _MAX_AGE_S)
            self._miss(listed, counts)
            self._machines = listed
        return *self._machines, *self._gone

    def _miss(self, listed: tuple[Instance, ...], counts: ReservationCounts) -> None:
        """Machines that were in slots and are not listed any more are gone, and told of until a count can show it: their
        slots are on their way back."""
        there, now_s = {one.provider_id for one in listed}, self._clock.now_s()
        missed = (one for one in self._machines if one.reservation_id and one.provider_id not in there)
        self._gone |= {dataclasses.replace(one, state=InstanceState.GONE): now_s for one in missed}
        self._gone = {
            one: at_s
            for one, at_s in self._gone.items()
            if counts.read_began_s < at_s + self._ledger_lag_s and one.provider_id not in there
        }

    def _is_in_motion(self) -> bool:
        """Whether a machine comes to a slot or leaves one, or a claim waits for one to go. What is bought comes and
        goes without a slot's being counted by it."""
        moving = (InstanceState.STARTING, InstanceState.ENDING)
        owned = {claim.status.provider_id for claim in self._caches.of(NodeClaim)}
        return any(
            one.reservation_id and (one.state in moving or one.provider_id not in owned)
            for one in self._machines
        ) or any(
            names.WAITS_FOR_INSTANCE in claim.metadata.annotations
            or (
                claims.has_slot(claim) and (not claim.status.provider_id or claim.metadata.deletion_timestamp)
            )
            for claim in self._caches.of(NodeClaim)
        )
