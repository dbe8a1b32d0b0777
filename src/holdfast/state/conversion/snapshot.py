"""Builds a snapshot from the objects of a cluster and the values of a cloud, for the controllers and `holdfast plan`.

Everything in a snapshot is sorted by name, so that it does not depend on the order of the objects. A pending pod that
cannot be planned is left out and returned with its reasons.

Pods on deleting nodes stay on their nodes in the snapshot: the planner decides which of them need another node (S-3,
with budgets).
"""

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.scheduling import PodGroup
from holdfast.api.storage import CSINode
from holdfast.api.workloads import DaemonSet
from holdfast.core.scheduling.output.plan import Unplaced
from holdfast.model.gangs import LABELLED, Gang
from holdfast.model.instances import Instance
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodView
from holdfast.model.reservations import Reservation
from holdfast.model.resources import Resources
from holdfast.model.snapshot import ClaimView, CloudLabels, CountBefore, NodeView, Snapshot
from holdfast.state.conversion import (
    budgets,
    claims,
    daemonsets,
    gangs,
    labelled_gangs,
    nodepools,
    nodes,
    pod_states,
)
from holdfast.state.conversion.labelled_gangs import LabelledGangs
from holdfast.state.conversion.pods import PodConverter


@dataclass(frozen=True, slots=True)
class Cluster:
    """The objects of a cluster; `PodConverter` has the namespaces and the storage objects."""

    node_pools: tuple[NodePool, ...] = ()
    node_claims: tuple[NodeClaim, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    csi_nodes: tuple[CSINode, ...] = ()
    pod_groups: tuple[PodGroup, ...] = ()


@dataclass(frozen=True, slots=True)
class Supply:
    """Instance types and reservations of the cloud. A snapshot has only the NodePools in `instance_types`."""

    labels: CloudLabels
    instance_types: Mapping[str, tuple[InstanceType, ...]] = field(default_factory=dict)  # by NodePool
    reservations: tuple[Reservation, ...] = ()
    counts_read_s: int = 0
    instances: tuple[Instance, ...] = ()
    count_before: Mapping[str, CountBefore] = field(default_factory=dict)
    # By name of class. NodeClaims in flight of other classes are not nodes of the snapshot.
    types_of_class: Mapping[str, tuple[InstanceType, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PendingDecisions:
    """Names of nodes with decisions that are not written to the API server yet."""

    deleting: frozenset[str] = frozenset()
    nominated: frozenset[str] = frozenset()


_PROVIDER_ID: Final = operator.attrgetter("provider_id")
NO_DECISIONS: Final = PendingDecisions()


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of a cluster without a node."""

    pending: tuple[PodView, ...]
    rejected: tuple[Unplaced, ...]
    newest: Callable[[DaemonSet], Pod | None]  # of a DaemonSet
    gangs: tuple[Gang, ...] = ()


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes, sorted by name, and their total capacity."""

    nodes: tuple[NodeView, ...] = ()
    used: Mapping[str, Resources] = field(default_factory=dict)  # by NodePool that has nodes


@dataclass(frozen=True, slots=True)
class SnapshotAndRejected:
    snapshot: Snapshot
    rejected: tuple[Unplaced, ...]  # pending pods that no plan can be made for (S-7, S-9, S-100)


def build(  # noqa: PLR0913 - objects, values of the cloud, and how they are read
    cluster: Cluster,
    supply: Supply,
    converter: PodConverter,
    *,
    now_s: int,
    decisions: PendingDecisions = NO_DECISIONS,
    is_pending: Callable[[Pod], bool] = pod_states.is_provisionable,
    uid_of: Callable[[Pod], str] = lambda pod: pod.metadata.uid,
    gangs_of: AbstractSet[str] = frozenset(LABELLED),
) -> SnapshotAndRejected:
    """The snapshot, and the pending pods that are not in it. `gangs_of`: the sources of gangs that labels of pods name."""
    pending, bound, rejected = _sorted_out(cluster.pods, converter, now_s, is_pending, uid_of)
    labelled = LabelledGangs(gangs_of).by_key(cluster.pods)
    found = (
        *gangs.gangs(cluster.pod_groups, gangs.by_group(cluster.pods), uid_of),
        *labelled_gangs.all_of(labelled, uid_of, now_s=now_s),
    )
    newest = daemonsets.newest_pods(cluster.pods) if cluster.daemon_sets else {}
    pods = Pods(
        pending,
        rejected,
        newest=lambda d: newest.get((d.metadata.namespace or "default", d.metadata.name)),
        gangs=tuple(sorted(found, key=lambda gang: gang.key)),
    )
    views = sorted(_nodes(cluster, supply, bound, decisions), key=lambda node: node.name)
    claimed = sorted((claims.view(c, supply.labels) for c in cluster.node_claims), key=lambda c: c.name)
    there = Nodes(tuple(views), nodepools.used(views))
    supply = replace(supply, instances=tuple(sorted(supply.instances, key=_PROVIDER_ID)))
    return assemble(
        cluster, supply, converter, pods, there, tuple(claimed), now_s=now_s, pool_views=nodepools.PoolViews()
    )


def assemble(  # noqa: PLR0913 - each is one part of a snapshot
    cluster: Cluster,
    supply: Supply,
    converter: PodConverter,
    pods: Pods,
    there: Nodes,
    claimed: tuple[ClaimView, ...],
    *,
    now_s: int,
    pool_views: nodepools.PoolViews,
) -> SnapshotAndRejected:
    """Builds a snapshot from converted and sorted pods, nodes, claims and instances."""
    daemon_sets = [daemonsets.view(d, pods.newest(d), converter)[0] for d in cluster.daemon_sets]
    snapshot = Snapshot(
        taken_s=now_s,
        cloud_labels=supply.labels,
        node_pools=tuple(
            pool_views.view(
                pool,
                supply.instance_types[pool.metadata.name],
                there.used.get(pool.metadata.name, nodepools.NONE_USED),
            )
            for pool in sorted(cluster.node_pools, key=lambda p: p.metadata.name)
            if pool.metadata.name in supply.instance_types
        ),
        nodes=there.nodes,
        claims=claimed,
        pending=pods.pending,
        gangs=pods.gangs,
        daemon_sets=tuple(sorted(daemon_sets, key=lambda d: (d.namespace, d.name))),
        budgets=tuple(sorted(map(budgets.view, cluster.budgets), key=lambda b: (b.namespace, b.name))),
        reservations=tuple(sorted(supply.reservations, key=lambda r: r.id)),
        counts_read_s=supply.counts_read_s,
        count_before=supply.count_before,
        instances=supply.instances,
    )
    return SnapshotAndRejected(snapshot, pods.rejected)


def _sorted_out(
    pods: Iterable[Pod],
    converter: PodConverter,
    now_s: int,
    is_pending: Callable[[Pod], bool],
    uid_of: Callable[[Pod], str],
) -> tuple[tuple[PodView, ...], dict[str, list[PodView]], tuple[Unplaced, ...]]:
    """Pending pods, bound pods by node, and rejected pods."""
    pending: list[PodView] = []
    bound: dict[str, list[PodView]] = {}
    rejected: list[tuple[str, Unplaced]] = []
    for pod in pods:
        if pod.spec.node_name:
            if not pod_states.is_terminal(pod):
                view, _ = converter.view(pod, now_s=now_s, uid=uid_of(pod))
                bound.setdefault(pod.spec.node_name, []).append(view)
        elif is_pending(pod):
            view, reasons = converter.view(pod, now_s=now_s, uid=uid_of(pod))
            if reasons:
                rejected.append((view.full_name, Unplaced(view.uid, reasons)))
            else:
                pending.append(view)
    pending.sort(key=lambda pod: pod.full_name)
    rejected.sort(key=lambda item: item[0])
    return tuple(pending), bound, tuple(unplaced for _, unplaced in rejected)


def _nodes(
    cluster: Cluster, supply: Supply, bound: Mapping[str, Iterable[PodView]], decisions: PendingDecisions
) -> Iterator[NodeView]:
    """Nodes, launched claims without a Node, and the expected nodes of claims that are not launched yet."""
    csi_nodes = {c.metadata.name: c for c in cluster.csi_nodes}
    limits = nodes.stated_limits(supply.instance_types.values())
    for pair in nodes.pairs(cluster.nodes, cluster.node_claims):
        name = pair.name
        yield nodes.view(
            pair,
            bound.get(name, ()) if pair.node is not None else (),
            to_delete=name in decisions.deleting,
            nominated=name in decisions.nominated,
            volume_limits=nodes.volume_limits(csi_nodes.get(name), limits.get(pair.instance_type, ())),
        )
    for claim in cluster.node_claims:
        types = supply.types_of_class.get(claim.spec.node_class_ref.name)
        is_deleting = claim.metadata.deletion_timestamp is not None
        if types is not None and not claim.status.provider_id and not is_deleting:
            yield claims.in_flight_node(claim, types, supply.labels)
