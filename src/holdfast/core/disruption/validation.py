"""Validates a command against a new snapshot, some seconds after the decision and before the queue starts it.

Candidates of emptiness that are not empty any more are removed from the command; every other command is valid or
invalid as a whole (D-16, D-42). Unlike in Karpenter, slots are counted again (D-43): a command whose slot was taken is
invalid here, and does not fail at the launch.
"""

from dataclasses import dataclass, replace

from holdfast.core.disruption import budgets, consolidation, emptiness
from holdfast.core.disruption.balanced import Balance
from holdfast.core.disruption.budgets import RemainingBudget
from holdfast.core.disruption.candidates import Candidate, CandidateCache, CandidateSet
from holdfast.core.disruption.commands import Action, DisruptionCommand, Method
from holdfast.core.disruption.consolidation import CommandBuilder
from holdfast.core.disruption.cooldown import RecentMoves
from holdfast.core.disruption.inputs import DisruptionInput, Settings
from holdfast.core.disruption.simulation import Simulator
from holdfast.core.disruption.slot_release import SlotRelease
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.input import columns
from holdfast.model.reasons import BlockedCode


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a command is not started. The kind is the label of metrics and events (D-44)."""

    kind: str  # churn, budget or scheduling
    why: str


def still_valid(
    command: DisruptionCommand,
    cluster: DisruptionInput,
    settings: Settings,
    planner: columns.CatalogCache | None = None,
    candidates: CandidateCache | None = None,
) -> DisruptionCommand | Invalid:
    """The command to start; for emptiness, with the candidates that are still empty. `planner` and `candidates` are
    those of `decide`."""
    candidate_set = CandidateSet(cluster, candidates)
    if command.method is Method.EMPTINESS:
        return _still_empty(command, candidate_set)
    gone = [name for name in command.candidates if name not in candidate_set.candidates]
    if gone and command.method is not Method.REPAIR:
        refused = candidate_set.refused.get(gone[0])
        nominated = refused is not None and refused.code is BlockedCode.NOMINATED
        text = refused.text if refused is not None else "the node was deleted"
        return Invalid("budget" if nominated else "churn", f"{gone[0]}: {text}")
    short = _over_budget(command, candidate_set)
    if short is not None:
        return short
    lost = _lost_slot(command, cluster, settings)
    if lost is not None:
        return lost
    if command.method in (Method.MULTI_NODE, Method.SINGLE_NODE):
        found = [candidate_set.candidates[name] for name in command.candidates]
        simulator = Simulator(cluster, settings, planner, candidate_set.columns)
        return _still_pays(command, found, candidate_set, simulator, settings)
    return command


def _still_empty(command: DisruptionCommand, candidate_set: CandidateSet) -> DisruptionCommand | Invalid:
    remaining = RemainingBudget(
        budgets.allowances(candidate_set.cluster, command.reason, candidate_set.counts)
    )
    still_empty = [
        name
        for name in command.candidates
        if (one := candidate_set.candidates.get(name)) is not None
        and emptiness.why_not(candidate_set, one) is None
        and remaining.spend(one.pool)
    ]
    if not still_empty:
        return Invalid("churn", "no candidate is still empty and within budgets")
    return replace(command, candidates=tuple(still_empty))


def _over_budget(command: DisruptionCommand, candidate_set: CandidateSet) -> Invalid | None:
    cluster = candidate_set.cluster
    allowances = budgets.allowances(cluster, command.reason, candidate_set.counts)
    pools = {node.name: node for node in cluster.snapshot.nodes}
    remaining = RemainingBudget(allowances)
    for name in command.candidates:
        node = pools.get(name)
        if node is not None and node.initialized and not remaining.spend(node.node_pool or ""):
            return Invalid("budget", budgets.blocked(node.node_pool or "").text)
    return None


def _lost_slot(command: DisruptionCommand, cluster: DisruptionInput, settings: Settings) -> Invalid | None:
    """Whether a slot that was free at the decision was taken since."""
    entries = ledger.ledger(cluster.snapshot, settings.solving.ledger_lag_s)
    for id_, count in sorted(command.slots_needed.items()):
        free = entries[id_].free if id_ in entries else 0
        if free < count:
            return Invalid("scheduling", f"{id_} has {free} free slots, the command needs {count}")
    return None


def _still_pays(
    command: DisruptionCommand,
    found: list[Candidate],
    candidate_set: CandidateSet,
    simulator: Simulator,
    settings: Settings,
) -> DisruptionCommand | Invalid:
    release = SlotRelease(candidate_set, simulator, settings)
    no_moves = RecentMoves((), settings.cooldown_s, candidate_set.cluster.now_s)
    pools = consolidation.PoolReasons(candidate_set)
    for one in found:
        why = consolidation.why_not(pools, one, no_moves, release)
        if why is not None:
            return Invalid("churn", f"{one.name}: {why.text}")
    result = simulator.simulate([one.node for one in found], release.simulation_options(found))
    again = CommandBuilder(candidate_set, simulator, settings, release).command(command.method, found, result)
    if not isinstance(again, DisruptionCommand):
        return Invalid("scheduling", again.text)
    unworthy = Balance(candidate_set).why_not(found, again)
    if unworthy is not None:
        return Invalid("scheduling", unworthy.text)
    if (again.action, len(again.replacements)) != (command.action, len(command.replacements)):
        return Invalid("scheduling", "the replacements would be different now")
    before = {name for one in command.replacements for name in one.claim.instance_types}
    after = {name for one in again.replacements for name in one.claim.instance_types}
    if command.action is Action.REPLACE and not before <= after:
        return Invalid("scheduling", f"{', '.join(sorted(before - after))} do not fit or pay any more")
    return command
