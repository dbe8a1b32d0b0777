"""decide(world, settings, memory) -> Decision: what to disrupt now, and why everything else stays.

Called by the disruption controller every few seconds, and by whoever explains. Pure: the same world, settings and memory
give the same decision. Methods are asked in order and the first command ends the pass (D-2); a node that no method takes
has its reasons in the answer.
"""

import functools
from dataclasses import dataclass, field, replace
from typing import Final

from holdfast.core.disruption import budgets, consolidation, emptiness, targets
from holdfast.core.disruption.balanced import Balance
from holdfast.core.disruption.budgets import Allowance, Purse
from holdfast.core.disruption.candidates import Survey
from holdfast.core.disruption.commands import Code, Command, Decision, Kept, Memo, Memory, Method, Why, Whys
from holdfast.core.disruption.consolidation import Consolidating, Recently
from holdfast.core.disruption.inputs import Reason, Settings, World
from holdfast.core.disruption.repair import Repair, Treatment
from holdfast.core.disruption.rolling import Rolling
from holdfast.core.disruption.simulation import Simulator
from holdfast.core.disruption.slot_release import SlotRelease
from holdfast.core.reservations import ledger
from holdfast.core.scheduling import columns

DEFAULT_SETTINGS: Final = Settings()
NOTHING_REMEMBERED: Final = Memory()


def decide(
    world: World,
    settings: Settings = DEFAULT_SETTINGS,
    memory: Memory = NOTHING_REMEMBERED,
    *,
    treatments: tuple[Treatment, ...] = (),
    planner: columns.CatalogCache | None = None,
) -> Decision:
    """One pass. `treatments` are the cloud's, for repair; `planner` keeps what planning leaves for the next pass."""
    one = _Pass(world, settings, memory, planner)
    command = one.run(treatments)
    return Decision(command, one.kept(command), one.memory, tuple(one.allowances))


@dataclass
class _Pass:
    world: World
    settings: Settings
    memory: Memory
    planner: columns.CatalogCache | None
    whys: Whys = field(default_factory=Whys)
    allowances: list[Allowance] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.survey = Survey(self.world)
        self.simulator = Simulator(self.world, self.settings, self.planner)
        moves = self.memory.moves
        if moves is None:
            moves = consolidation.moves_before(self.world, self.settings.cooldown_s)
        self.memory = replace(self.memory, moves=consolidation.still_moving(moves, self.world))

    def run(self, treatments: tuple[Treatment, ...]) -> Command | None:
        rolling = Rolling(self.survey, self.simulator, self.settings)
        begun = any(facts.reboot_failed for facts in self.world.facts.values())  # and is seen through
        if not self.settings.node_repair:
            treatments = ()
        if treatments or begun:
            repair = Repair(self.survey, rolling, self.settings, treatments)
            command = repair.command(self._purse(Reason.UNHEALTHY), self.whys)
            if command is not None:
                return command
        return (
            emptiness.command(self.survey, self._purse(Reason.EMPTY), self.whys)
            or rolling.drifted(self._purse(Reason.DRIFTED), self.whys)
            or self._consolidated()
        )

    def _consolidated(self) -> Command | None:
        recently = Recently(self.memory.moves or (), self.settings.cooldown_s, self.world.now_s)
        c = Consolidating(
            self.survey,
            self.simulator,
            self.settings,
            recently,
            self.whys,
            Balance(self.survey),
            SlotRelease(self.survey, self.simulator, self.settings),
        )
        found = c.eligible()
        allowed = self._allowed(Reason.UNDERUTILIZED)
        command, some = None, c.within(found, Purse(allowed))
        these, memo = frozenset(one.name for one in some), self._memo(Method.MULTI_NODE)
        if not memo.done or memo.tried != these:  # time or a budget may let others in
            command = consolidation.together(c, some)
            self._remember(Method.MULTI_NODE, these, done=command is None)
        if command is None:
            tried = self._memo(Method.SINGLE_NODE).tried
            command, tried, unreached = consolidation.one_by_one(
                c, found, Purse(allowed), tried, self.memory.unreached
            )
            self._remember(Method.SINGLE_NODE, tried, done=False)
            self.memory = replace(self.memory, unreached=unreached)
        if command is not None:
            self.memory = replace(self.memory, moves=recently.after(command, self.survey))
        return command

    def kept(self, command: Command | None) -> tuple[Kept, ...]:
        """Every node that the command is not about, with its reasons."""
        going = set(command.candidates) if command is not None else set()
        idle = Why(Code.NOTHING_TO_DO, "there is nothing to gain by its end")
        if command is not None:
            idle = Why(Code.ANOTHER_FIRST, f"{command.method} acts first, on {', '.join(command.candidates)}")
        found = []
        for node in self.world.snapshot.nodes:
            if node.name not in going:
                refused = self.survey.refused.get(node.name)
                whys = self.whys.of(node.name)
                if refused is not None and refused not in whys:
                    whys = (refused, *whys)
                if all(why.code is Code.NOTHING_TO_DO for why in whys):
                    whys = (idle,) if command is not None or not whys else whys
                found.append(Kept(node.name, whys))
        return tuple(found)

    def _allowed(self, reason: Reason) -> dict[str, Allowance]:
        found = budgets.allowances(self.world, reason)
        self.allowances += found.values()
        return found

    def _purse(self, reason: Reason) -> Purse:
        return Purse(self._allowed(reason))

    def _memo(self, method: Method) -> Memo:
        """What a method left for a world like this one; nothing when it changed, or when that is too long ago (D-28)."""
        known = self.memory.memos.get(method)
        fresh = Memo(self._stamp, self.world.now_s)
        if known is None or known.stamp != fresh.stamp:
            return fresh
        return known if self.world.now_s < known.at_s + self.settings.memo_s else fresh

    def _remember(self, method: Method, tried: frozenset[str], *, done: bool) -> None:
        memo = replace(self._memo(method), tried=tried, done=done)
        self.memory = replace(self.memory, memos={**self.memory.memos, method: memo})

    @functools.cached_property
    def _stamp(self) -> tuple[int | str, ...]:
        """Unlike in Karpenter, a slot that was freed is a change as well (D-35), and so is a node that may take pods now
        since its consolidateAfter has passed (S-25)."""
        snapshot = self.world.snapshot
        entries = ledger.ledger(snapshot, self.settings.solving.ledger_lag_s)
        free = (entry.free for entry in entries.values())
        return self.world.changed, *free, *sorted(targets.unsettled(snapshot))
