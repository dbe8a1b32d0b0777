"""Whether a command still is what it was, before it is acted on.

Called by the disruption controller some seconds after a decision, with the world as it is then. The rules: of nodes that
were empty those that are not any more are left out; every other command stands or falls as a whole (D-16, D-42). Unlike
in Karpenter (D-43), slots are counted again: one that is gone ends the command here, not at the cloud.
"""

from collections import Counter
from dataclasses import dataclass, replace

from holdfast.core.disruption import budgets, consolidation, emptiness
from holdfast.core.disruption.balanced import Balance
from holdfast.core.disruption.budgets import Purse
from holdfast.core.disruption.candidates import Candidate, Survey
from holdfast.core.disruption.commands import Action, Code, Command, Method
from holdfast.core.disruption.consolidation import Judge, Recently
from holdfast.core.disruption.inputs import Settings, World
from holdfast.core.disruption.simulation import Simulator
from holdfast.core.disruption.slot_release import SlotRelease
from holdfast.core.reservations import ledger
from holdfast.core.scheduling import columns


@dataclass(frozen=True, slots=True)
class Invalid:
    """Why a command is not acted on; the kind is what metrics and events call it (D-44)."""

    kind: str  # churn, budget or scheduling
    why: str


def still_valid(
    command: Command, world: World, settings: Settings, planner: columns.CatalogCache | None = None
) -> Command | Invalid:
    """The command as it is now; of empty nodes those that are still empty."""
    survey = Survey(world)
    if command.method is Method.EMPTINESS:
        return _still_empty(command, survey)
    gone = [name for name in command.candidates if name not in survey.candidates]
    if gone and command.method is not Method.REPAIR:
        refused = survey.refused.get(gone[0])
        nominated = refused is not None and refused.code is Code.NOMINATED
        text = refused.text if refused is not None else "it is gone"
        return Invalid("budget" if nominated else "churn", f"{gone[0]}: {text}")
    short = _over_budget(command, world)
    if short is not None:
        return short
    lost = _lost_slot(command, world, settings)
    if lost is not None:
        return lost
    if command.method in (Method.MULTI_NODE, Method.SINGLE_NODE):
        found = [survey.candidates[name] for name in command.candidates]
        return _still_pays(command, found, survey, Simulator(world, settings, planner), settings)
    return command


def _still_empty(command: Command, survey: Survey) -> Command | Invalid:
    purse = Purse(budgets.allowances(survey.world, command.reason))
    kept = [
        name
        for name in command.candidates
        if (one := survey.candidates.get(name)) is not None
        and emptiness.why_not(survey, one) is None
        and purse.spend(one.pool)
    ]
    if not kept:
        return Invalid("churn", "none of the nodes is empty, free to go and within budgets any more")
    return replace(command, candidates=tuple(kept))


def _over_budget(command: Command, world: World) -> Invalid | None:
    allowances = budgets.allowances(world, command.reason)
    pools = {node.name: node for node in world.snapshot.nodes}
    purse = Purse(allowances)
    for name in command.candidates:
        node = pools.get(name)
        if node is not None and node.initialized and not purse.spend(node.node_pool or ""):
            return Invalid("budget", f"the budgets of NodePool {node.node_pool} allow no more")
    return None


def _lost_slot(command: Command, world: World, settings: Settings) -> Invalid | None:
    """Slots that nobody has to leave first must still be free."""
    entries = ledger.ledger(world.snapshot, settings.solving.ledger_lag_s)
    wanted = Counter(
        one.claim.reservation_id
        for one in command.replacements
        if one.claim.reservation_id is not None and one.waits_for_instance is None
    )
    for id_, count in sorted(wanted.items()):
        free = entries[id_].free if id_ in entries else 0
        if free < count:
            return Invalid("scheduling", f"{id_} has {free} free slots, and {count} were counted on")
    return None


def _still_pays(
    command: Command, found: list[Candidate], survey: Survey, simulator: Simulator, settings: Settings
) -> Command | Invalid:
    release = SlotRelease(survey, simulator, settings)
    nobody = Recently((), settings.cooldown_s, survey.world.now_s)
    for one in found:
        why = consolidation.why_not(survey, one, nobody, release)
        if why is not None:
            return Invalid("churn", f"{one.name}: {why.text}")
    answer = simulator.ask([one.node for one in found], release.question(found))
    again = Judge(survey, simulator, settings, release).command(command.method, found, answer)
    if not isinstance(again, Command):
        return Invalid("scheduling", again.text)
    unworthy = Balance(survey).why_not(found, again)
    if unworthy is not None:
        return Invalid("scheduling", unworthy.text)
    if (again.action, len(again.replacements)) != (command.action, len(command.replacements)):
        return Invalid("scheduling", "it would be replaced by something else now")
    before = {name for one in command.replacements for name in one.claim.instance_types}
    after = {name for one in again.replacements for name in one.claim.instance_types}
    if command.action is Action.REPLACE and not before <= after:
        return Invalid("scheduling", f"{', '.join(sorted(before - after))} would not do any more")
    return command
