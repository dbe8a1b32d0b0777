"""Where pods would run if some nodes were deleted: every disruption method runs the planner through a `Simulator`.

A candidate is planned as a deleting node: its pods are planned, it receives no pods, and limits do not count it,
although it runs until its replacement is ready (S-74). Its pods wait for no slot, since they run now. Consolidation
places no pods on a node whose pods changed recently (S-25).

Only the candidates' own pods must be placed. If they are members of a gang, enough members of the gang must be placed.
Other pending pods and pods of draining nodes block nothing (D-19c). A pod that is planned onto a node which is not
initialized counts as not placed (D-23).
"""

import functools
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Final

from holdfast.core.disruption import targets
from holdfast.core.disruption.commands import Replacement
from holdfast.core.disruption.inputs import DisruptionInput, Settings
from holdfast.core.disruption.node_columns import NodeColumns
from holdfast.core.disruption.targets import Targets
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.gangs import solve
from holdfast.core.scheduling.input import columns, displaced
from holdfast.core.scheduling.input.displaced import needs_new_node
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output.plan import Placed, Plan, PlannedClaim
from holdfast.model import requirement, requirements
from holdfast.model.pods import PodShape, PodView
from holdfast.model.reasons import BlockedCode, Reason, sentences
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import NodeView, Snapshot

_SIMULATION_COST: Final = 300  # fixed cost of a simulation, as a number of nodes


@dataclass(frozen=True, slots=True)
class SimulationResult:
    request: SolveRequest
    plan: Plan
    movers: frozenset[str]  # uids of the candidates' pods that need another node
    stuck: Reason | None  # why a mover has no node

    @property
    def claims(self) -> tuple[PlannedClaim, ...]:
        """New nodes for movers, without new nodes for pending pods alone."""
        return tuple(one for one in self.plan.claims if not self.movers.isdisjoint(one.pods))

    @property
    def placed(self) -> tuple[Placed, ...]:
        """Movers on existing nodes."""
        found = (Placed(one.node, tuple(p for p in one.pods if p in self.movers)) for one in self.plan.placed)
        return tuple(one for one in found if one.pods)


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """How a simulation differs from the deletion of the nodes alone."""

    consolidating: bool = False  # pods are not placed on nodes whose pods changed recently (S-25)
    credited: str | None = None  # the reservation in which the candidate's slot counts as free (R-14a)
    avoids_drifted: bool = False  # pods are not placed on drifted nodes: they would be evicted again
    alone: bool = False  # no other pods are planned: the slot is held for these pods
    forced: bool = False  # pods that must not be evicted now count as well (NC-38a)


class Simulator:
    def __init__(
        self,
        cluster: DisruptionInput,
        settings: Settings,
        cache: columns.CatalogCache | None = None,
        nodes: NodeColumns | None = None,
    ) -> None:
        self.snapshot = snapshot = cluster.snapshot
        self._drifted = frozenset(name for name, facts in cluster.facts.items() if facts.drifted is not None)
        self.targets = Targets(snapshot, self._drifted, nodes)
        self.nodes_simulated = 0
        self._settings = settings
        self._cache = cache or columns.CatalogCache()
        there = self.targets.columns
        self._deleting = there.where(there.deleting)
        self._starting = {node.name for node in there.where(~there.initialized)}
        self._results: dict[tuple[frozenset[str], SimulationOptions], SimulationResult] = {}
        self._explained: dict[int, tuple[SimulationResult, Plan]] = {}
        self._others = [pod.shape for pod in (*snapshot.pending, *displaced.displaced(snapshot))]

    def are_selected(self, shapes: Iterable[PodShape]) -> bool:
        """Whether the labels of these shapes matter to a running pod or to another pod that is planned."""
        return self.targets.are_selected(shapes, self._planned)

    @functools.cached_property
    def _planned(self) -> tuple[PodShape, ...]:
        """The different shapes of other pods that are planned."""
        return tuple({id(shape): shape for shape in self._others}.values())

    @functools.cached_property
    def _pods(self) -> dict[str, str]:
        """Full names, by uid."""
        return {pod.uid: pod.full_name for node in self.snapshot.nodes for pod in node.pods}

    def is_spent(self, share: int = 1) -> bool:
        """Whether the pass has simulated the maximum number of nodes. With a share of n: one n-th of it."""
        return self.nodes_simulated * share >= self._settings.nodes_simulated_max

    def simulate(
        self, nodes: Sequence[NodeView], options: SimulationOptions | None = None
    ) -> SimulationResult:
        """Methods of one pass simulate the same nodes; each of them counts for the maximum."""
        options = options or SimulationOptions()
        key = frozenset(node.name for node in nodes), options
        if key not in self._results:
            self._results[key] = self._simulate(nodes, options)
        result = self._results[key]
        self.nodes_simulated += _SIMULATION_COST + len(result.request.snapshot.nodes)
        return result

    def _simulate(self, nodes: Sequence[NodeView], options: SimulationOptions) -> SimulationResult:
        names = {node.name for node in nodes}
        snapshot = self._reduced(nodes, alone=options.alone)
        if options.forced:
            snapshot = _forced(snapshot, names)
        movers = frozenset(
            pod.uid
            for node in snapshot.nodes
            if node.name in names
            for pod in node.pods
            if displaced.needs_new_node(pod, snapshot.budgets)
        )
        if options.credited is not None:
            snapshot = _credited(snapshot, options.credited)
        avoided = self._drifted if options.avoids_drifted else ()
        remaining = without(snapshot, names, consolidating=options.consolidating, avoided=avoided)
        if options.alone:
            remaining = _alone(remaining, names)
        if options.credited is None:
            ledger.reuse(self.snapshot, remaining, self._settings.solving.ledger_lag_s)
        # Pending gangs need not be placed, so no solves are spent on the question which of them fit.
        request = SolveRequest(remaining, replace(self._settings.solving, gang_candidates=0))
        plan = solve(request, self._cache)
        return SimulationResult(request, plan, movers, self._stuck(plan, movers))

    def replacements(
        self, result: SimulationResult, claims: Sequence[PlannedClaim]
    ) -> tuple[Replacement, ...]:
        """Claims of the result with the reasons why those without a slot use no reservation. The reasons need a second
        solve, so only the claims of a command have them."""
        reasons: dict[tuple[str, ...], tuple[Reason, ...]] = {}
        if any(claim.reservation_id is None for claim in claims):
            plan = self._explained_plan(result)
            reasons = {claim.pods: claim.not_reserved for claim in plan.claims}
        return tuple(
            Replacement(claim._replace(not_reserved=reasons.get(claim.pods, ()))) for claim in claims
        )

    def _explained_plan(self, result: SimulationResult) -> Plan:
        known = self._explained.get(id(result))
        if known is None:
            plan = solve(replace(result.request, explain_claims=True), self._cache)
            known = self._explained[id(result)] = result, plan
        return known[1]

    def crowded_out(self, nodes: Sequence[NodeView], movers: AbstractSet[str]) -> Reason | None:
        """Why the movers may need another node although the plan places all of them."""
        pods = (pod for node in nodes for pod in node.pods if pod.uid in movers)
        found = self.targets.crowded_out({node.name for node in nodes}, pods)
        if found is None:
            return None
        text = f"Not all pods would schedule, {found.full_name} => kube-scheduler may bind the other pods so that it does not fit"
        return Reason(BlockedCode.PODS_WITHOUT_PLACE, text, subjects=(found.full_name,))

    def _reduced(self, nodes: Sequence[NodeView], *, alone: bool) -> Snapshot:
        shapes = [pod.shape for node in nodes for pod in node.pods if pod.reschedulable]
        found = self.targets.of(shapes if alone else shapes + self._others)
        if found is None:
            return self.snapshot
        remaining = {node.name: node for node in (*self._deleting, *found, *nodes)}
        return replace(self.snapshot, nodes=tuple(remaining[name] for name in sorted(remaining)))

    def _stuck(self, plan: Plan, movers: frozenset[str]) -> Reason | None:
        for one in plan.unplaced:
            if one.pod in movers:
                reasons = sentences(one.reasons)
                name = self._pods.get(one.pod, one.pod)
                return Reason(
                    BlockedCode.PODS_WITHOUT_PLACE,
                    f"Not all pods would schedule, {name} => {reasons}",
                    subjects=(name,),
                )
        for placed in plan.placed:
            if placed.node in self._starting and not movers.isdisjoint(placed.pods):
                return Reason(
                    BlockedCode.ON_STARTING_NODE,
                    f"Not all pods would schedule, would schedule against uninitialized node {placed.node}",
                    subjects=(placed.node,),
                )
        return None


def _credited(snapshot: Snapshot, id_: str) -> Snapshot:
    """The snapshot with just the slot that the node releases: other claims that hold slots do not use this one."""
    found = tuple(replace(one, available=1) if one.id == id_ else one for one in snapshot.reservations)
    claims = tuple(claim for claim in snapshot.claims if claim.reservation_id != id_)
    return replace(snapshot, reservations=found, claims=claims)


def _alone(snapshot: Snapshot, names: set[str]) -> Snapshot:
    """The snapshot without other pods that need a node: the slot is held for the candidate's pods only (D-19c). A node
    that is not initialized receives no pods: the pods that it was launched for may still run on their old nodes."""

    def others(node: NodeView) -> NodeView:
        if not node.initialized:
            return replace(node, allocatable=node.allocatable.subtract(node.free))
        if node.deleting and node.name not in names:
            return replace(node, pods=tuple(pod._replace(reschedulable=False) for pod in node.pods))
        return node

    return replace(snapshot, nodes=tuple(map(others, snapshot.nodes)), pending=())


def _forced(snapshot: Snapshot, names: set[str]) -> Snapshot:
    nodes = tuple(
        replace(node, pods=tuple(pod._replace(do_not_disrupt=False) for pod in node.pods))
        if node.name in names
        else node
        for node in snapshot.nodes
    )
    return replace(snapshot, nodes=nodes, budgets=())


# A label for simulations only: no real node has it, and no claim requires it.
_UNSETTLED: Final = "holdfast.dev/unsettled"
_SETTLED: Final = requirements.of(requirement.of(_UNSETTLED, Operator.DOES_NOT_EXIST))


def without(
    snapshot: Snapshot,
    candidates: Collection[str],
    *,
    consolidating: bool = False,
    avoided: Collection[str] = (),
) -> Snapshot:
    """The snapshot as if the candidates were deleting. Their pods are not placed on avoided nodes and, when
    consolidating, not on unsettled nodes."""
    removed = {node.name for node in snapshot.nodes if node.name in candidates and not node.deleting}
    fresh = (targets.unsettled(snapshot) if consolidating else set()) | set(avoided)
    fresh -= removed
    nodes = tuple(_changed(node, removed, fresh, snapshot) for node in snapshot.nodes)
    candidate_nodes = [node for node in snapshot.nodes if node.name in removed]
    pools = tuple(
        replace(pool.without(candidate_nodes), reservation_wait_s=0) for pool in snapshot.node_pools
    )
    return replace(snapshot, nodes=nodes, node_pools=pools)


def _changed(node: NodeView, removed: set[str], fresh: set[str], snapshot: Snapshot) -> NodeView:
    """Most nodes stay the same object, with their cached derived values."""
    if node.name in removed:
        pods = tuple(
            _settled_only(pod) if fresh and needs_new_node(pod, snapshot.budgets) else pod
            for pod in node.pods
        )
        return replace(node, deleting=True, pods=pods)
    if node.name in fresh:
        return replace(node, labels=tuple(sorted((*node.labels, (_UNSETTLED, "true")))))
    return node


def _settled_only(pod: PodView) -> PodView:
    """Adds the requirement to the volumes: there it is checked on the node, and does not change the topology (S-98)."""
    volumes = pod.shape.volumes
    alternatives = tuple(
        alternative.union(_SETTLED) for alternative in volumes.alternatives or (NO_REQUIREMENTS,)
    )
    return pod._replace(shape=pod.shape._replace(volumes=replace(volumes, alternatives=alternatives)))
