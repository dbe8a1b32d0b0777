"""The cool-down of consolidation: a pod that consolidation evicted is not evicted again for some time.

An evicted pod is recreated with another name. So it is recognized by its shape and its creation time: during or
directly after the eviction of pods of its shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from holdfast import names
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.commands import DisruptionCommand, Move
from holdfast.core.disruption.inputs import DisruptionInput
from holdfast.model import wording
from holdfast.model.pods import PodShape, PodView
from holdfast.model.reasons import BlockedCode, Reason

_REPLACED_WITHIN_S: Final = (
    60  # a pod that is created within this time after an eviction replaces the evicted pod
)


@dataclass(frozen=True, slots=True)
class RecentMoves:
    """The moves of consolidation that the cool-down considers."""

    moves: tuple[Move, ...]
    cooldown_s: int
    now_s: int

    def why_not(self, one: Candidate) -> Reason | None:
        if not self.moves or one.newest_pod_s + self.cooldown_s <= self.now_s:
            return None
        for pod in one.node.pods:
            if pod.reschedulable and pod.created_s + self.cooldown_s > self.now_s:
                for move in self.moves:
                    last_s = move.until_s + _REPLACED_WITHIN_S
                    if move.at_s <= pod.created_s <= last_s and _kind(pod) in move.shapes:
                        until = wording.moment(pod.created_s + self.cooldown_s, self.now_s)
                        return Reason(
                            BlockedCode.COOLING_DOWN,
                            f"pod {pod.full_name} was evicted by consolidation and is not evicted again until {until} (UTC)",
                            subjects=(pod.full_name,),
                        )
        return None

    def after(self, command: DisruptionCommand, candidate_set: CandidateSet) -> tuple[Move, ...]:
        """The recent moves and the moves of a command; older ones are removed."""
        held_s = _REPLACED_WITHIN_S + self.cooldown_s
        recent = tuple(move for move in self.moves if move.until_s + held_s > self.now_s)
        shapes = frozenset(
            _kind(pod)
            for name in command.candidates
            for pod in candidate_set.candidates[name].node.pods
            if pod.reschedulable
        )
        if not shapes:
            return recent
        return (*recent, Move(self.now_s, shapes, frozenset(command.candidates), self.now_s))


def still_moving(moves: Sequence[Move], cluster: DisruptionInput) -> tuple[Move, ...]:
    """Extends moves whose nodes still drain: a drain may take hours."""
    moved = frozenset[str]().union(*(move.nodes for move in moves))
    if not moved:
        return tuple(moves)
    queued = {name for name in moved if name in cluster.facts and cluster.facts[name].queued}
    deleting = {
        node.name
        for node in cluster.snapshot.nodes
        if (node.deleting and node.name in moved) or (queued and node.name in queued)
    }
    return tuple(replace(move, until_s=cluster.now_s) if move.nodes & deleting else move for move in moves)


def moves_before(cluster: DisruptionInput, cooldown_s: int) -> tuple[Move, ...]:
    """The moves that a process assumes after its start: if consolidation moved pods recently, all young pods, pending
    pods and pods of deleting nodes."""
    since_s = cluster.now_s - cooldown_s
    if all((rules.consolidated_s or 0) <= since_s for rules in cluster.pools.values()):
        return ()
    young = (
        pod
        for node in cluster.snapshot.nodes
        for pod in node.pods
        if pod.created_s > since_s or node.deleting
    )
    shapes = frozenset(_kind(pod) for pod in (*young, *cluster.snapshot.pending))
    deleting = frozenset(node.name for node in cluster.snapshot.nodes if node.deleting)
    return (Move(since_s, shapes, deleting, cluster.now_s),)


def _kind(pod: PodView) -> PodShape:
    """The shape without zone and region: Kubernetes copies these labels from the node when it binds the pod."""
    labels = tuple(label for label in pod.shape.labels if label[0] not in (names.ZONE, names.REGION))
    return pod.shape._replace(labels=labels)
