"""Room that is held for pods that were evicted: on a claim that waits for the slot of a node that drains, and on a node
that is being rebooted.

Called when a snapshot of a running cluster is taken. When such a node is there nobody knows: a drain takes as long as it
takes. The rules: whoever has nothing to do with it is never promised room there, and so gets a node as if it were not on
its way; those that were evicted, and those still to be, find the room they had or were counted for. They wait for a
reboot no longer than a while. Whose the room is is read from the claim, so a restart sees the same.

It is said as a taint, and those pods tolerate it; DaemonSets do too, since they will be there. No Node ever has it.
"""

from dataclasses import replace
from typing import Final

from holdfast import names
from holdfast.model.pods import PodShape, PodView
from holdfast.model.snapshot import ClaimView, NodeView, Snapshot
from holdfast.model.taints import Effect, Taint, Toleration, TolerationOperator

REBOOT_WAIT_S: Final = 10 * 60


def marked(world: Snapshot) -> Snapshot:
    """The world with that room tainted, and tolerated by those it is held for."""
    holds = {
        claim.name: frozenset() if _is_late(claim, world.taken_s) else claim.held_for
        for claim in world.claims
        if claim.held_for is not None
    }
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


def _is_late(claim: ClaimView, now_s: int) -> bool:
    """Whether a reboot takes so long that its pods get nodes as anybody does."""
    return claim.rebooting_s is not None and now_s >= claim.rebooting_s + REBOOT_WAIT_S


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
    if node.deleting:
        return replace(node, pods=tuple(map(tolerant.pod, node.pods)))
    if node.claim not in tolerant.holds:
        return node
    return replace(node, taints=(*node.taints, Taint(names.HELD_TAINT, Effect.NO_SCHEDULE, node.claim)))
