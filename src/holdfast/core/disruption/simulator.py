"""What would become of the pods if some nodes went: the question every method asks the planner.

Called by the methods; one simulator a decision. The rules: only the candidates' own pods must find a place, whatever
becomes of pods that had none before or of nodes that drain already, so one node that is slow to go stalls nobody
(D-19c); and a pod that is moved to a node that is not up yet has found none (D-23).
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from holdfast.core.disruption import simulation
from holdfast.core.disruption.commands import Code, Why
from holdfast.core.disruption.inputs import Settings, World
from holdfast.core.disruption.targets import Targets
from holdfast.core.scheduling import columns, displaced
from holdfast.core.scheduling.plan import Placed, Plan, PlannedClaim, sentences
from holdfast.core.scheduling.request import SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model.snapshot import NodeView, Snapshot

_A_QUESTION: Final = 300  # what a question costs whatever it is about, in nodes


@dataclass(frozen=True, slots=True)
class Answer:
    plan: Plan
    movers: frozenset[str]  # uids of the candidates' pods that need another place
    stuck: Why | None  # a mover that found none

    @property
    def claims(self) -> tuple[PlannedClaim, ...]:
        """New nodes that movers need; those that only pending pods need are not our business."""
        return tuple(one for one in self.plan.claims if not self.movers.isdisjoint(one.pods))

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Movers on nodes that exist."""
        found = (Placed(one.node, tuple(p for p in one.pods if p in self.movers)) for one in self.plan.placed)
        return tuple(one for one in found if one.pods)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked beside the nodes that go."""

    consolidating: bool = False  # pods avoid nodes that only just changed (S-25)
    credited: str | None = None  # a reservation that gets back the slot of the node that goes (R-14a)
    avoids_drifted: bool = False  # pods are placed on no drifted node: they would be evicted again there
    alone: bool = False  # nobody else is planned for: the place is held for these pods
    forced: bool = False  # pods that may not be evicted now count as well (NC-38a)


class Simulator:
    def __init__(self, world: World, settings: Settings, memory: columns.Memory | None = None) -> None:
        self.snapshot = snapshot = world.snapshot
        self._drifted = frozenset(name for name, facts in world.facts.items() if facts.drifted is not None)
        self.targets = Targets(snapshot, self._drifted)
        self.nodes_asked = 0
        self._settings = settings
        self._memory = memory or columns.Memory()
        self._starting = {node.name for node in snapshot.nodes if not node.initialized}
        self._others = [pod.shape for pod in (*snapshot.pending, *displaced.displaced(snapshot))]
        self._pods = {pod.uid: pod.full_name for node in snapshot.nodes for pod in node.pods}

    def is_spent(self, share: int = 1) -> bool:
        """Whether a pass has asked as much as it may; with a share, one in so many of it."""
        return self.nodes_asked * share >= self._settings.nodes_asked_max

    def ask(self, nodes: Sequence[NodeView], question: Question | None = None) -> Answer:
        question = question or Question()
        names = {node.name for node in nodes}
        snapshot = self._reduced(nodes, alone=question.alone)
        self.nodes_asked += _A_QUESTION + len(snapshot.nodes)
        if question.forced:
            snapshot = _forced(snapshot, names)
        movers = frozenset(
            pod.uid
            for node in snapshot.nodes
            if node.name in names
            for pod in node.pods
            if displaced.needs_another_place(pod, snapshot.budgets)
        )
        if question.credited is not None:
            snapshot = _credited(snapshot, question.credited)
        avoided = self._drifted if question.avoids_drifted else ()
        asked = simulation.without(snapshot, names, consolidating=question.consolidating, avoided=avoided)
        if question.alone:
            asked = _alone(asked, names)
        plan = solve(SolveRequest(asked, self._settings.solving), self._memory)
        return Answer(plan, movers, self._stuck(plan, movers))

    def crowded_out(self, nodes: Sequence[NodeView], movers: AbstractSet[str]) -> Why | None:
        """Why the movers may need another node although they all have a place in the plan."""
        pods = (pod for node in nodes for pod in node.pods if pod.uid in movers)
        found = self.targets.crowded_out({node.name for node in nodes}, pods)
        if found is None:
            return None
        text = f"kube-scheduler may place its pods so that {found.full_name} finds no capacity"
        return Why(Code.PODS_WITHOUT_PLACE, text, subject=found.full_name)

    def _reduced(self, nodes: Sequence[NodeView], *, alone: bool) -> Snapshot:
        shapes = [pod.shape for node in nodes for pod in node.pods if pod.reschedulable]
        found = self.targets.of(shapes if alone else shapes + self._others)
        if found is None:
            return self.snapshot
        kept = found | {node.name for node in nodes}
        return replace(
            self.snapshot, nodes=tuple(n for n in self.snapshot.nodes if n.deleting or n.name in kept)
        )

    def _stuck(self, plan: Plan, movers: frozenset[str]) -> Why | None:
        for one in plan.unplaced:
            if one.pod in movers:
                reasons = sentences(one.reasons)
                name = self._pods.get(one.pod, one.pod)
                return Why(
                    Code.PODS_WITHOUT_PLACE, f"pod {name} would have no place: {reasons}", subject=name
                )
        for placed in plan.placed:
            if placed.node in self._starting and not movers.isdisjoint(placed.pods):
                return Why(
                    Code.ON_STARTING_NODE,
                    f"its pods would go on {placed.node}, which is not up yet",
                    subject=placed.node,
                )
        return None


def _credited(snapshot: Snapshot, id_: str) -> Snapshot:
    """With the one slot that the node leaves, and no other: whoever else holds one, this one is not theirs."""
    found = tuple(replace(one, available=1) if one.id == id_ else one for one in snapshot.reservations)
    claims = tuple(claim for claim in snapshot.claims if claim.reservation_id != id_)
    return replace(snapshot, reservations=found, claims=claims)


def _alone(snapshot: Snapshot, names: set[str]) -> Snapshot:
    """Without anybody else who looks for a place: what is held for some pods is not for others to take (D-19c). Nor is
    a node that is not up yet: the pods it comes for may still be on theirs."""

    def others(node: NodeView) -> NodeView:
        if not node.initialized:
            return replace(node, allocatable=node.allocatable.subtract(node.free))
        if node.deleting and node.name not in names:
            return replace(node, pods=tuple(replace(pod, reschedulable=False) for pod in node.pods))
        return node

    return replace(snapshot, nodes=tuple(map(others, snapshot.nodes)), pending=())


def _forced(snapshot: Snapshot, names: set[str]) -> Snapshot:
    nodes = tuple(
        replace(node, pods=tuple(replace(pod, do_not_disrupt=False) for pod in node.pods))
        if node.name in names
        else node
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes, budgets=())
