"""Taints capacity that is held for evicted pods: on a NodeClaim that waits for the slot of a draining node, and on a
node that reboots.

When such a node will be ready is unknown, since a drain has no bound. So other pods are not planned onto it; they get
another node. The evicted pods, and those still to be evicted, keep the capacity that was planned for them. They wait
for a reboot for a bounded time. An annotation of the NodeClaim lists the owners of those pods, so a restart gives the
same result.

The taint exists in snapshots only. The pods that the capacity is held for tolerate it, and so do DaemonSets.
"""

from dataclasses import replace
from typing import Final

from holdfast import names
from holdfast.model.pods import PodShape, PodView
from holdfast.model.snapshot import ClaimView, NodeView, Snapshot
from holdfast.model.taints import Effect, Taint, Toleration, TolerationOperator

REBOOT_WAIT_S: Final = 10 * 60


def tainted(snapshot: Snapshot) -> Snapshot:
    """The snapshot with held capacity tainted, and the taint tolerated by the pods it is held for."""
    holds = {
        claim.name: frozenset() if _is_late(claim, snapshot.taken_s) else claim.held_for
        for claim in snapshot.claims
        if claim.held_for is not None
    }
    if not holds:
        return snapshot
    tolerations_ = _Tolerations(holds)
    return replace(
        snapshot,
        nodes=tuple(_node(node, tolerations_) for node in snapshot.nodes),
        pending=tuple(map(tolerations_.pod, snapshot.pending)),
        daemon_sets=tuple(
            replace(one, pod=tolerations_.shape(one.pod, tuple(holds))) for one in snapshot.daemon_sets
        ),
    )


def _is_late(claim: ClaimView, now_s: int) -> bool:
    """Whether a reboot takes so long that its pods are planned like other pending pods."""
    return claim.rebooting_s is not None and now_s >= claim.rebooting_s + REBOOT_WAIT_S


class _Tolerations:
    """Adds tolerations to pods; equal shapes stay one object."""

    def __init__(self, holds: dict[str, frozenset[str]]) -> None:
        self.holds = holds
        self._shapes: dict[tuple[int, tuple[str, ...]], PodShape] = {}

    def pod(self, pod: PodView) -> PodView:
        claims = tuple(name for name, owners in self.holds.items() if pod.owner in owners)
        return pod._replace(shape=self.shape(pod.shape, claims)) if claims else pod

    def shape(self, shape: PodShape, claims: tuple[str, ...]) -> PodShape:
        found = self._shapes.get((id(shape), claims))
        if found is None:
            own = tuple(Toleration(names.HELD_TAINT, TolerationOperator.EQUAL, one) for one in claims)
            found = shape._replace(tolerations=(*shape.tolerations, *own))
            self._shapes[id(shape), claims] = found
        return found


def _node(node: NodeView, tolerations_: _Tolerations) -> NodeView:
    if node.deleting:
        return replace(node, pods=tuple(map(tolerations_.pod, node.pods)))
    if node.claim not in tolerations_.holds:
        return node
    return replace(node, taints=(*node.taints, Taint(names.HELD_TAINT, Effect.NO_SCHEDULE, node.claim)))
