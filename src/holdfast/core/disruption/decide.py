"""decide(cluster, settings, cache) -> Decision: one pass over the disruption methods.

Pure: the same cluster, settings and cache give the same decision. The methods are tried in order, and the first command
ends the pass (D-2). The decision has the reasons of every node that is not disrupted.
"""

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.core.disruption import budgets, consolidation, cooldown, emptiness, slot_reuse
from holdfast.core.disruption.balanced import Balance
from holdfast.core.disruption.budgets import Allowance, RemainingBudget
from holdfast.core.disruption.candidates import CandidateCache, CandidateSet
from holdfast.core.disruption.commands import (
    Blocker,
    Blockers,
    Decision,
    DecisionCache,
    DisruptionCommand,
    Method,
    MethodResult,
    Score,
    Undisrupted,
)
from holdfast.core.disruption.consolidation import ConsolidationPass
from holdfast.core.disruption.cooldown import RecentMoves
from holdfast.core.disruption.inputs import DisruptionInput, DisruptionReason, Settings
from holdfast.core.disruption.repair import Repair, RepairPolicy
from holdfast.core.disruption.rolling import Rolling
from holdfast.core.disruption.simulation import Simulator
from holdfast.core.disruption.slot_release import SlotRelease
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.input import columns
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import Snapshot

DEFAULT_SETTINGS: Final = Settings()
EMPTY_CACHE: Final = DecisionCache()


def decide(
    cluster: DisruptionInput,
    settings: Settings = DEFAULT_SETTINGS,
    cache: DecisionCache = EMPTY_CACHE,
    *,
    repair_policies: tuple[RepairPolicy, ...] = (),
    planner: columns.CatalogCache | None = None,
    candidates: CandidateCache | None = None,
) -> Decision:
    """One pass. `planner` is the cache of the planner, `candidates` the candidates of the last pass. They speed up the
    next pass and never change the decision."""
    one = _Pass(cluster, settings, cache, planner, candidates)
    command = one.run(repair_policies)
    return Decision(
        command,
        one.undisrupted(command),
        one.cache,
        tuple(one.allowances),
        one.eligible,
        tuple(one.unfinished),
        tuple(one.scores),
    )


@dataclass
class _Pass:
    cluster: DisruptionInput
    settings: Settings
    cache: DecisionCache
    planner: columns.CatalogCache | None
    candidates: CandidateCache | None
    blockers: Blockers = field(default_factory=Blockers)
    allowances: list[Allowance] = field(default_factory=list)
    eligible: dict[DisruptionReason, int] = field(default_factory=dict)
    unfinished: list[Method] = field(default_factory=list)
    scores: list[Score] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.candidate_set = CandidateSet(self.cluster, self.candidates)
        self.simulator = Simulator(self.cluster, self.settings, self.planner, self.candidate_set.columns)
        moves = self.cache.moves
        if moves is None:
            moves = cooldown.moves_before(self.cluster, self.settings.cooldown_s)
        self.cache = replace(self.cache, moves=cooldown.still_moving(moves, self.cluster))

    def run(self, repair_policies: tuple[RepairPolicy, ...]) -> DisruptionCommand | None:
        rolling = Rolling(self.candidate_set, self.simulator, self.settings)
        reboot_failed = any(
            facts.reboot_failed for facts in self.cluster.facts.values()
        )  # such a node is replaced even if the gate is off
        if not self.settings.node_repair:
            repair_policies = ()
        if repair_policies or reboot_failed:
            repair = Repair(self.candidate_set, rolling, self.settings, repair_policies)
            command = repair.command(self._remaining(DisruptionReason.UNHEALTHY), self.blockers)
            self.eligible[DisruptionReason.UNHEALTHY] = repair.eligible
            if command is not None:
                return command
        candidates = self.candidate_set.candidates.values()
        self.eligible[DisruptionReason.EMPTY] = sum(
            emptiness.why_not(self.candidate_set, one) is None for one in self.candidate_set.empty
        )
        self.eligible[DisruptionReason.DRIFTED] = sum(one.facts.drifted is not None for one in candidates)
        return (
            self._emptied()
            or rolling.drifted(self._remaining(DisruptionReason.DRIFTED), self.blockers)
            or self._consolidated()
        )

    @functools.cached_property
    def _consolidation(self) -> ConsolidationPass:
        recently = RecentMoves(self.cache.moves or (), self.settings.cooldown_s, self.cluster.now_s)
        return ConsolidationPass(
            self.candidate_set,
            self.simulator,
            self.settings,
            recently,
            self.blockers,
            Balance(self.candidate_set),
            SlotRelease(self.candidate_set, self.simulator, self.settings),
        )

    def _emptied(self) -> DisruptionCommand | None:
        allowances = budgets.allowances(
            self.cluster, DisruptionReason.UNDERUTILIZED, self.candidate_set.counts
        )
        kept = dict.fromkeys(slot_reuse.reused(self._consolidation, allowances), slot_reuse.REUSED)
        command = emptiness.command(
            self.candidate_set, self._remaining(DisruptionReason.EMPTY), self.blockers, kept
        )
        if kept and command is not None and not command.saves_nano_usd_per_hour:
            # It would use up the budgets that the moves need.
            return self._consolidated() or command
        return command

    def _consolidated(self) -> DisruptionCommand | None:
        c = self._consolidation
        found = c.eligible()
        self.eligible[DisruptionReason.UNDERUTILIZED] = len(found)
        allowed = self._allowed(DisruptionReason.UNDERUTILIZED)
        command, some = None, c.within(found, RemainingBudget(allowed))
        these, result = frozenset(one.name for one in some), self._result(Method.MULTI_NODE)
        if not result.done or result.tried != these:  # consolidateAfter or a budget may add candidates
            command = consolidation.together(c, some)
            self._remember(Method.MULTI_NODE, these, done=command is None)
            if command is None and c.simulator.is_spent(2):
                self.unfinished.append(Method.MULTI_NODE)
        if command is None:
            tried = self._result(Method.SINGLE_NODE).tried
            command, tried, unreached = consolidation.one_by_one(
                c, found, RemainingBudget(allowed), tried, self.cache.unreached
            )
            self._remember(Method.SINGLE_NODE, tried, done=False)
            self.cache = replace(self.cache, unreached=unreached)
            if unreached:
                self.unfinished.append(Method.SINGLE_NODE)
        self.scores += c.balance.scores
        if command is not None:
            self.cache = replace(self.cache, moves=c.recently.after(command, self.candidate_set))
        return command

    def undisrupted(self, command: DisruptionCommand | None) -> tuple[Undisrupted, ...]:
        """Every node that is not in the command, with its reasons."""
        candidates = set(command.candidates) if command is not None else set()
        idle = Blocker(Reason(BlockedCode.NOTHING_TO_DO, "no method has a reason to disrupt the node"))
        if command is not None:
            text = f"{command.method} disrupts other nodes first: {', '.join(command.candidates)}"
            idle = Blocker(Reason(BlockedCode.ANOTHER_FIRST, text))
        refused, known, of_node = self.candidate_set.refused, self.blockers.found, self.blockers.of
        found = []
        for node in self.cluster.snapshot.nodes:
            name = node.name
            if name in candidates:
                continue
            blockers = known.get(name, ())
            if len(blockers) > 1:
                blockers = of_node(name)
            if name in refused and all(one.reason != refused[name] for one in blockers):
                blockers = (Blocker(refused[name]), *blockers)
            if not blockers or (command is not None and _have_nothing_to_do(blockers)):
                blockers = (idle,)
            found.append(Undisrupted(name, blockers))
        return tuple(found)

    def _allowed(self, reason: DisruptionReason) -> dict[str, Allowance]:
        found = budgets.allowances(self.cluster, reason, self.candidate_set.counts)
        self.allowances += found.values()
        return found

    def _remaining(self, reason: DisruptionReason) -> RemainingBudget:
        return RemainingBudget(self._allowed(reason))

    def _result(self, method: Method) -> MethodResult:
        """The cached result of a method; empty if the cluster changed since, or the result is too old (D-28)."""
        known = self.cache.results.get(method)
        fresh = MethodResult(self._stamp, self.cluster.now_s)
        if known is None or known.stamp != fresh.stamp:
            return fresh
        return known if self.cluster.now_s < known.at_s + self.settings.retry_s else fresh

    def _remember(self, method: Method, tried: frozenset[str], *, done: bool) -> None:
        result = replace(self._result(method), tried=tried, done=done)
        self.cache = replace(self.cache, results={**self.cache.results, method: result})

    @functools.cached_property
    def _stamp(self) -> tuple[int | str, ...]:
        """A value that changes with the cluster. Unlike in Karpenter, it also changes when a slot becomes free (D-35),
        when a NodePool offers a reservation with free slots, which may be a minute after its count is known, and when
        consolidateAfter of a node ends, so that the node may receive pods (S-25)."""
        snapshot = self.cluster.snapshot
        entries = ledger.ledger(snapshot, self.settings.solving.ledger_lag_s)
        free = (entry.free for entry in entries.values())
        offered = _offered(snapshot, [entry.reservation for entry in entries.values() if entry.free])
        return self.cluster.changed, *free, *offered, *sorted(self.simulator.targets.unsettled)


def _offered(snapshot: Snapshot, reservations: Sequence[Reservation]) -> Iterator[str]:
    """Which NodePool offers which of these reservations."""
    ids, types = {one.id for one in reservations}, {one.instance_type for one in reservations}
    for pool in snapshot.node_pools if ids else ():
        for known in pool.instance_types:
            if known.name in types:
                for one in known.offerings:
                    if one.reservation_id in ids and one.healthy:
                        yield f"{pool.name} {one.reservation_id}"


def _have_nothing_to_do(blockers: tuple[Blocker, ...]) -> bool:
    return all(one.reason.code is BlockedCode.NOTHING_TO_DO for one in blockers)
