"""What if some nodes went: the snapshot that `solve` is asked about.

Called by whoever decides about disruption. The rules: a candidate is treated as a node that is being deleted, so its
pods are planned for, it is given none, and limits do not count it, though it is there until its replacement is
(S-74); its pods wait for no slot, for they have a place; and a node that only just changed is left in peace by pods that have to move only because we want it (S-25).
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from holdfast.core.scheduling.displaced import needs_another_place
from holdfast.model import requirement, requirements, resources
from holdfast.model.pods import PodView
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodePoolView, NodeView, Snapshot

# Only within a simulation: no node has this label, and no claim asks for it.
_UNSETTLED: Final = "holdfast.dev/unsettled"
_SETTLED: Final = requirements.of(requirement.of(_UNSETTLED, Operator.DOES_NOT_EXIST))


def without(
    snapshot: Snapshot,
    candidates: Collection[str],
    *,
    consolidating: bool = False,
    avoided: Collection[str] = (),
) -> Snapshot:
    """The snapshot as if the candidates were being deleted. Their pods are placed on none of the avoided nodes and, when
    consolidating, on no unsettled one."""
    going = {node.name for node in snapshot.nodes if node.name in candidates and not node.deleting}
    fresh = (unsettled(snapshot) if consolidating else set()) | set(avoided)
    fresh -= going
    nodes = tuple(_changed(node, going, fresh, snapshot) for node in snapshot.nodes)
    gone = [node for node in snapshot.nodes if node.name in going]
    pools = tuple(replace(pool, used=_used(pool, gone), reservation_wait_s=0) for pool in snapshot.node_pools)
    return replace(snapshot, nodes=nodes, node_pools=pools)


def _changed(node: NodeView, going: set[str], fresh: set[str], snapshot: Snapshot) -> NodeView:
    """Most nodes stay the very value they are, and with it all that was derived from them."""
    if node.name in going:
        pods = tuple(
            _settled_only(pod) if fresh and needs_another_place(pod, snapshot.budgets) else pod
            for pod in node.pods
        )
        return replace(node, deleting=True, pods=pods)
    if node.name in fresh:
        return replace(node, labels=tuple(sorted((*node.labels, (_UNSETTLED, "true")))))
    return node


def unsettled(snapshot: Snapshot) -> set[str]:
    """Nodes on which pods came or went so recently that their pool does not consolidate them yet."""
    after_s = {pool.name: pool.consolidate_after_s for pool in snapshot.node_pools}
    return {
        node.name
        for node in snapshot.nodes
        if node.last_pod_event_s is not None
        and (window_s := after_s.get(node.node_pool or "")) is not None
        and snapshot.taken_s < node.last_pod_event_s + window_s
    }


def _settled_only(pod: PodView) -> PodView:
    """Said like the place of a volume: it is asked of the node, and changes nothing about which nodes count (S-98)."""
    volumes = pod.shape.volumes
    places = tuple(place.union(_SETTLED) for place in volumes.alternatives or (NO_REQUIREMENTS,))
    return replace(pod, shape=replace(pod.shape, volumes=replace(volumes, alternatives=places)))


def _used(pool: NodePoolView, gone: Collection[NodeView]) -> Resources:
    ours = [node for node in gone if node.node_pool == pool.name]
    freed = resources.add(*(node.capacity for node in ours), resources.of({resources.NODES: len(ours)}))
    return pool.used.subtract(freed)
