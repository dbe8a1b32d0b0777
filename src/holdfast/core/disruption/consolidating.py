"""The two consolidation methods: several nodes at once, then one at a time.

Called after drift. The rules: nodes are looked at in the order of what is saved for the trouble, as far as budgets
allow; free slots are filled first, several nodes into several slots; and the work of a pass is bounded by counts, so
that a large cluster takes more passes rather than a longer one (D-36, D-38).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from holdfast.core.disruption import consolidation, hopes
from holdfast.core.disruption.balanced import Balance
from holdfast.core.disruption.budgets import Purse
from holdfast.core.disruption.candidates import Candidate, Survey
from holdfast.core.disruption.commands import Code, Command, Method, Why, Whys
from holdfast.core.disruption.consolidation import Judge, Recently
from holdfast.core.disruption.inputs import Settings
from holdfast.core.disruption.simulator import Simulator
from holdfast.core.disruption.slot_release import SlotRelease

_TRIES_MAX: Final = 24  # sets of nodes that are tried for one command
_TOGETHER_MIN: Final = 2

Try = Callable[[Sequence[Candidate]], "Command | Why | None"]
"""What becomes of a set of nodes; None: nothing more is tried."""


@dataclass
class Consolidating:
    """What both methods share in one pass."""

    survey: Survey
    simulator: Simulator
    settings: Settings
    recently: Recently
    whys: Whys
    balance: Balance
    release: SlotRelease

    def eligible(self) -> list[Candidate]:
        """Nodes that consolidation looks at, the most worth it first; the others get their reasons."""
        found = []
        for one in self.survey.candidates.values():
            why = consolidation.why_not(self.survey, one, self.recently, self.release)
            if why is None and self.balance.never_worth_it(one):
                why = Why(Code.BALANCE, f"NodePool {one.pool} is Balanced: even to delete it is not worth it")
            if why is None:
                found.append(one)
            else:
                self.whys.add(one.name, why)
        return sorted(found, key=lambda one: one.order)

    def within(self, found: Sequence[Candidate], purse: Purse) -> list[Candidate]:
        """Those that are looked at together."""
        return [one for one in found if purse.spend(one.pool)][: self.settings.together_max]

    def attempt(self, method: Method, found: Sequence[Candidate]) -> Command | Why:
        question = self.release.question(found)
        answer = self.simulator.ask([one.node for one in found], question)
        command = Judge(self.survey, self.simulator, self.settings, self.release).command(
            method, found, answer
        )
        if isinstance(command, Command):
            return self.balance.why_not(found, command) or command
        return command


def together(c: Consolidating, some: Sequence[Candidate]) -> Command | None:
    """Several nodes at once: into free slots, or into one node that is cheaper, or onto what is there."""

    def attempt(chosen: Sequence[Candidate]) -> Command | Why | None:
        # Half of what a pass may ask is left for single nodes.
        return None if c.simulator.is_spent(2) else c.attempt(Method.MULTI_NODE, chosen)

    some = [one for one in some if not c.release.needs_waiting_pod(one)]
    slots = hopes.Slots(c.survey, c.settings)
    into_slots = [one for one in some if one.cost.paid_nano and slots.could_hold(one, c.simulator.targets)]
    if into_slots:
        command = largest(into_slots, attempt)
        if command is not None and command.replacements:
            return command
    command = largest(some, attempt) if len(some) >= _TOGETHER_MIN else None
    return command if command is not None and len(command.candidates) >= _TOGETHER_MIN else None


def largest(found: Sequence[Candidate], attempt: Try) -> Command | None:
    """The command that saves most, of sets that grow: as many as possible are added at a time, half as many where that
    does not do, and one that does not go with the others is left out."""
    best: Command | None = None
    chosen: list[Candidate] = []
    at, step = 0, len(found)
    for _ in range(_TRIES_MAX):
        more = found[at : at + step]
        if not more:
            break
        command = attempt([*chosen, *more])
        if command is None:
            break
        if isinstance(command, Command) and (best is None or _gain(command) > _gain(best)):
            best = command
            chosen += more
            at += len(more)
            step = min(2 * step, len(found))
        elif len(more) > 1:
            step = (len(more) + 1) // 2
        else:
            at += 1
    return best


def one_by_one(
    c: Consolidating, found: Sequence[Candidate], purse: Purse, tried: frozenset[str], first: Sequence[str]
) -> tuple[Command | None, frozenset[str], tuple[str, ...]]:
    """The first node that alone gives a command; with the nodes that were tried, and the pools that were not reached."""
    hope = hopes.Hope(c.survey, c.simulator.targets, c.settings)
    seen = set(tried)
    waiting: list[str] = []
    for one in interleaved(found, first):
        if purse.left(one.pool) == 0:
            text = f"the budgets of NodePool {one.pool} allow no more"
            c.whys.add(one.name, Why(Code.BUDGET, text, Method.SINGLE_NODE, one.pool))
            continue
        if one.name in tried:
            c.whys.add(
                one.name,
                Why(Code.UNCHANGED, "nothing changed since it was last looked at", Method.SINGLE_NODE),
            )
            continue
        why: Command | Why | None = hope.why_not(one)
        if why is None and c.simulator.is_spent():
            waiting.append(one.pool)
            why = Why(Code.NOT_REACHED, "this pass looks at other nodes first", Method.SINGLE_NODE)
            c.whys.add(one.name, why)
            continue
        if why is None:
            why = c.attempt(Method.SINGLE_NODE, [one])
        if isinstance(why, Command):
            return why, frozenset(seen), ()
        seen.add(one.name)
        c.whys.add(one.name, why)
    return None, frozenset(seen), tuple(dict.fromkeys(waiting))


def interleaved(found: Sequence[Candidate], first: Sequence[str]) -> list[Candidate]:
    """One of each pool in turn; pools that were not reached the last time go first (D-38)."""
    by_pool: dict[str, list[Candidate]] = {pool: [] for pool in first}
    for one in found:
        by_pool.setdefault(one.pool, []).append(one)
    return [one for row in zip_longest(*by_pool.values()) for one in row if one is not None]


def _gain(command: Command) -> tuple[int, int]:
    return command.saves_nano_usd_per_hour, command.frees_nano_usd_per_hour
