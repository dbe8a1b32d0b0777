"""decide(cluster, settings, memory) -> Decision: one pass over the disruption methods.

Pure: the same cluster, settings and memory give the same decision. The methods are tried in order, and the first command
ends the pass (D-2). The decision has the reasons of every node that is not disrupted.
"""

import functools
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.core.disruption import budgets, consolidation, emptiness, targets
from holdfast.core.disruption.balanced import Balance
from holdfast.core.disruption.budgets import Allowance, RemainingBudget
from holdfast.core.disruption.candidates import Survey
from holdfast.core.disruption.commands import (
    Blocker,
    Blockers,
    Decision,
    DisruptionCommand,
    Memo,
    Memory,
    Method,
    Undisrupted,
)
from holdfast.core.disruption.consolidation import ConsolidationPass, RecentMoves
from holdfast.core.disruption.inputs import DisruptionInput, DisruptionReason, Settings
from holdfast.core.disruption.repair import Repair, RepairPolicy
from holdfast.core.disruption.rolling import Rolling
from holdfast.core.disruption.simulation import Simulator
from holdfast.core.disruption.slot_release import SlotRelease
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.input import columns
from holdfast.model.reasons import BlockedCode, Reason

DEFAULT_SETTINGS: Final = Settings()
NOTHING_REMEMBERED: Final = Memory()


def decide(
    cluster: DisruptionInput,
    settings: Settings = DEFAULT_SETTINGS,
    memory: Memory = NOTHING_REMEMBERED,
    *,
    repair_policies: tuple[RepairPolicy, ...] = (),
    planner: columns.CatalogCache | None = None,
) -> Decision:
    """One pass. `planner` is the cache of the planner; it speeds up the next pass and never changes the decision."""
    one = _Pass(cluster, settings, memory, planner)
    command = one.run(repair_policies)
    return Decision(command, one.undisrupted(command), one.memory, tuple(one.allowances))


@dataclass
class _Pass:
    cluster: DisruptionInput
    settings: Settings
    memory: Memory
    planner: columns.CatalogCache | None
    blockers: Blockers = field(default_factory=Blockers)
    allowances: list[Allowance] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.survey = Survey(self.cluster)
        self.simulator = Simulator(self.cluster, self.settings, self.planner)
        moves = self.memory.moves
        if moves is None:
            moves = consolidation.moves_before(self.cluster, self.settings.cooldown_s)
        self.memory = replace(self.memory, moves=consolidation.still_moving(moves, self.cluster))

    def run(self, repair_policies: tuple[RepairPolicy, ...]) -> DisruptionCommand | None:
        rolling = Rolling(self.survey, self.simulator, self.settings)
        reboot_failed = any(
            facts.reboot_failed for facts in self.cluster.facts.values()
        )  # is replaced although the gate is off
        if not self.settings.node_repair:
            repair_policies = ()
        if repair_policies or reboot_failed:
            repair = Repair(self.survey, rolling, self.settings, repair_policies)
            command = repair.command(self._remaining(DisruptionReason.UNHEALTHY), self.blockers)
            if command is not None:
                return command
        return (
            emptiness.command(self.survey, self._remaining(DisruptionReason.EMPTY), self.blockers)
            or rolling.drifted(self._remaining(DisruptionReason.DRIFTED), self.blockers)
            or self._consolidated()
        )

    def _consolidated(self) -> DisruptionCommand | None:
        recently = RecentMoves(self.memory.moves or (), self.settings.cooldown_s, self.cluster.now_s)
        c = ConsolidationPass(
            self.survey,
            self.simulator,
            self.settings,
            recently,
            self.blockers,
            Balance(self.survey),
            SlotRelease(self.survey, self.simulator, self.settings),
        )
        found = c.eligible()
        allowed = self._allowed(DisruptionReason.UNDERUTILIZED)
        command, some = None, c.within(found, RemainingBudget(allowed))
        these, memo = frozenset(one.name for one in some), self._memo(Method.MULTI_NODE)
        if not memo.done or memo.tried != these:  # time or a budget may let others in
            command = consolidation.together(c, some)
            self._remember(Method.MULTI_NODE, these, done=command is None)
        if command is None:
            tried = self._memo(Method.SINGLE_NODE).tried
            command, tried, unreached = consolidation.one_by_one(
                c, found, RemainingBudget(allowed), tried, self.memory.unreached
            )
            self._remember(Method.SINGLE_NODE, tried, done=False)
            self.memory = replace(self.memory, unreached=unreached)
        if command is not None:
            self.memory = replace(self.memory, moves=recently.after(command, self.survey))
        return command

    def undisrupted(self, command: DisruptionCommand | None) -> tuple[Undisrupted, ...]:
        """Every node that is no candidate of the command, with its reasons."""
        candidates = set(command.candidates) if command is not None else set()
        idle = Blocker(Reason(BlockedCode.NOTHING_TO_DO, "no method has a reason to disrupt the node"))
        if command is not None:
            text = f"{command.method} disrupts other nodes first: {', '.join(command.candidates)}"
            idle = Blocker(Reason(BlockedCode.ANOTHER_FIRST, text))
        found = []
        for node in self.cluster.snapshot.nodes:
            if node.name not in candidates:
                refused = self.survey.refused.get(node.name)
                blockers = self.blockers.of(node.name)
                if refused is not None and all(one.reason != refused for one in blockers):
                    blockers = (Blocker(refused), *blockers)
                if all(one.reason.code is BlockedCode.NOTHING_TO_DO for one in blockers):
                    blockers = (idle,) if command is not None or not blockers else blockers
                found.append(Undisrupted(node.name, blockers))
        return tuple(found)

    def _allowed(self, reason: DisruptionReason) -> dict[str, Allowance]:
        found = budgets.allowances(self.cluster, reason)
        self.allowances += found.values()
        return found

    def _remaining(self, reason: DisruptionReason) -> RemainingBudget:
        return RemainingBudget(self._allowed(reason))

    def _memo(self, method: Method) -> Memo:
        """What a method tried while the cluster was the same; nothing if it changed, or if that is too long ago (D-28)."""
        known = self.memory.memos.get(method)
        fresh = Memo(self._stamp, self.cluster.now_s)
        if known is None or known.stamp != fresh.stamp:
            return fresh
        return known if self.cluster.now_s < known.at_s + self.settings.memo_s else fresh

    def _remember(self, method: Method, tried: frozenset[str], *, done: bool) -> None:
        memo = replace(self._memo(method), tried=tried, done=done)
        self.memory = replace(self.memory, memos={**self.memory.memos, method: memo})

    @functools.cached_property
    def _stamp(self) -> tuple[int | str, ...]:
        """Changes with the cluster. Unlike in Karpenter, a slot that becomes free is a change too (D-35), and so is a node
        that may take pods because its consolidateAfter passed (S-25)."""
        snapshot = self.cluster.snapshot
        entries = ledger.ledger(snapshot, self.settings.solving.ledger_lag_s)
        free = (entry.free for entry in entries.values())
        return self.cluster.changed, *free, *sorted(targets.unsettled(snapshot))
