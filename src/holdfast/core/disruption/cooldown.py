"""Which pods consolidation evicted a short while ago: it does not evict their replacements again before the cool-down ends.

A pod that is evicted is created anew, so it is known by its shape and by when it was created: while pods of its shape
were evicted, or right after.
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
    60  # a pod that is created so soon after a pod of its shape was evicted is its replacement
)


@dataclass(frozen=True, slots=True)
class RecentMoves:
    """The moves of consolidation that still matter."""

    moves: tuple[Move, ...]
    cooldown_s: int
    now_s: int

    def why_not(self, one: Candidate) -> Reason | None:
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
        """What is to be remembered once a command is carried out; what is too old is forgotten."""
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
    """The moves as they are known now: a drain that takes hours is a move for hours."""
    deleting = {
        node.name
        for node in cluster.snapshot.nodes
        if node.deleting or (node.name in cluster.facts and cluster.facts[node.name].queued)
    }
    return tuple(replace(move, until_s=cluster.now_s) if move.nodes & deleting else move for move in moves)


def moves_before(cluster: DisruptionInput, cooldown_s: int) -> tuple[Move, ...]:
    """The moves that a process assumes when it starts: if consolidation moved pods a short while ago, every young pod, and
    every pod of a node that is being deleted."""
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
    """Its shape without where it is: Kubernetes writes zone and region of a node on the pods that are bound to it."""
    labels = tuple(label for label in pod.shape.labels if label[0] not in (names.ZONE, names.REGION))
    return pod.shape._replace(labels=labels)
