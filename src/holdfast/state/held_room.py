"""Room of a node to come that is held: a claim that waits for the slot of a node that drains is for its pods alone.

Called when a snapshot of a running cluster is taken. When such a claim becomes a node nobody knows: a drain takes as
long as it takes. The rules: whoever has nothing to do with it is never promised room there, and so gets a node as if it
were not on its way; those that were evicted, and those still to be, find the room they were counted for. Whose it is is
read from the claim, so a restart sees the same.

It is said as a taint, and those pods tolerate it; DaemonSets do too, since they will be there. No Node ever has it.
"""

from dataclasses import replace

from holdfast import names
from holdfast.model.pods import PodShape, PodView
from holdfast.model.snapshot import NodeView, Snapshot
from holdfast.model.taints import Effect, Taint, Toleration, TolerationOperator


def marked(world: Snapshot) -> Snapshot:
    """The world with that room tainted, and tolerated by those it is held for."""
    holds = {claim.name: claim.held_for for claim in world.claims if claim.held_for}
    if not holds:
        return world
    tolerant = _Tolerant(holds)
    return replace(
        world,
        nodes=tuple(_node(node, tolerant) for node in world.nodes),
        pending=tuple(map(tolerant.pod, world.pending)),
        daemon_sets=tuple(
            replace(one, pod=tolerant.shape(one.pod, tuple(holds))) for one in world.daemon_sets
        ),
    )


class _Tolerant:
    """Pods as they are on the way to claims that wait; equal shapes stay one object."""

    def __init__(self, holds: dict[str, frozenset[str]]) -> None:
        self.holds = holds
        self._shapes: dict[tuple[int, tuple[str, ...]], PodShape] = {}

    def pod(self, pod: PodView) -> PodView:
        claims = tuple(name for name, owners in self.holds.items() if pod.owner in owners)
        return replace(pod, shape=self.shape(pod.shape, claims)) if claims else pod

    def shape(self, shape: PodShape, claims: tuple[str, ...]) -> PodShape:
        found = self._shapes.get((id(shape), claims))
        if found is None:
            own = tuple(Toleration(names.HELD_TAINT, TolerationOperator.EQUAL, one) for one in claims)
            found = replace(shape, tolerations=(*shape.tolerations, *own))
            self._shapes[id(shape), claims] = found
        return found


def _node(node: NodeView, tolerant: _Tolerant) -> NodeView:
    if node.claim in tolerant.holds:
        return replace(node, taints=(*node.taints, Taint(names.HELD_TAINT, Effect.NO_SCHEDULE, node.claim)))
    return replace(node, pods=tuple(map(tolerant.pod, node.pods))) if node.deleting else node
