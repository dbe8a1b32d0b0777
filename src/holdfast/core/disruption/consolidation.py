"""Consolidation: deletes or replaces several nodes at once, then single nodes, if this saves money.

The planner simulates where the pods of the chosen nodes would run. A command needs a node for every pod, and launches
at most one node on demand or on spot; any number may be launched into free slots (D-24). The price of all nodes must
fall, or a node moves to a slot that is worth less, if `slot_release` allows it (D-25, D-30 to D-32). The price of an
empty node that receives pods counts, since emptiness would delete that node otherwise.

Nodes are tried in the order of saving per eviction cost, within budgets, and free slots are filled first. The work of a
pass is bounded by counts, so a large cluster takes more passes, not longer ones (D-36, D-38).
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from operator import attrgetter
from typing import Final

from holdfast import names
from holdfast.core.disruption import budgets, costs, replacement_prices
from holdfast.core.disruption.balanced import Balance
from holdfast.core.disruption.budgets import RemainingBudget
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.commands import Action, Blockers, DisruptionCommand, Method
from holdfast.core.disruption.cooldown import RecentMoves
from holdfast.core.disruption.costs import FREE, Cost
from holdfast.core.disruption.inputs import DisruptionReason, Policy, PoolRules, Settings
from holdfast.core.disruption.prefilter import Prefilter
from holdfast.core.disruption.simulation import SimulationResult, Simulator
from holdfast.core.disruption.slot_release import SlotRelease
from holdfast.core.scheduling.output.plan import PlannedClaim
from holdfast.model import prices, wording
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.snapshot import NodePoolView

_TRIES_MAX: Final = 24  # sets of nodes that are tried for one command
_TOGETHER_MIN: Final = 2
_UNCHANGED: Final = Reason(
    BlockedCode.UNCHANGED, "the cluster did not change since the node was last simulated"
)
_NOT_REACHED: Final = Reason(BlockedCode.NOT_REACHED, "the pass ended before the node was simulated")
# Reasons that name no pod of the node.
_NAMELESS: Final = (BlockedCode.NOT_CHEAPER, BlockedCode.TOO_MANY, BlockedCode.ON_STARTING_NODE)

Try = Callable[[Sequence[Candidate]], "DisruptionCommand | Reason | None"]
"""The command for a set of nodes, or why there is none; None: no more sets are tried."""


@dataclass
class ConsolidationPass:
    """The inputs that multi-node and single-node consolidation share in one pass."""

    candidate_set: CandidateSet
    simulator: Simulator
    settings: Settings
    recently: RecentMoves
    blockers: Blockers
    balance: Balance
    release: SlotRelease
    _refused: dict[str | int, Reason] = field(default_factory=dict)
    _same_answer: dict[int, list[int]] = field(default_factory=dict)  # by `Alike.named`

    @functools.cached_property
    def filter(self) -> Prefilter:
        return Prefilter(self.candidate_set, self.simulator.targets, self.settings)

    def eligible(self) -> list[Candidate]:
        """The candidates of consolidation, highest saving per eviction cost first; other nodes get their reasons."""
        found = []
        pools, moved, release, add = (
            PoolReasons(self.candidate_set),
            self.recently,
            self.release,
            self.blockers.add,
        )
        for one in self.candidate_set.candidates.values():
            why = why_not(pools, one, moved, release)
            if why is None and self.balance.never_worth_it(one):
                why = Reason(
                    BlockedCode.BALANCE,
                    f'NodePool "{one.pool}" is Balanced: the price of the node is not worth its evictions',
                )
            if why is None:
                found.append(one)
            else:
                add(one.name, why)
        return sorted(found, key=attrgetter("order"))

    def within(self, found: Sequence[Candidate], remaining: RemainingBudget) -> list[Candidate]:
        """The candidates of multi-node consolidation."""
        return [one for one in found if remaining.spend(one.pool)][: self.settings.together_max]

    def attempt(self, method: Method, found: Sequence[Candidate]) -> DisruptionCommand | Reason:
        options = self.release.simulation_options(found)
        result = self.simulator.simulate([one.node for one in found], options)
        command = CommandBuilder(self.candidate_set, self.simulator, self.settings, self.release).command(
            method, found, result
        )
        if isinstance(command, DisruptionCommand):
            return self.balance.why_not(found, command) or command
        return command

    def attempt_some(self, found: Sequence[Candidate], share: int) -> DisruptionCommand | Reason | None:
        """None: the pass has used up this share of its simulations, one n-th of them."""
        if self.simulator.is_spent(share):
            return None
        why = self.filter.why_not(found)
        if why is not None:
            return why
        if len(found) == 1:
            return self.attempt_one(found[0], Method.MULTI_NODE)
        return self.attempt(Method.MULTI_NODE, found)

    def attempt_one(self, one: Candidate, method: Method = Method.SINGLE_NODE) -> DisruptionCommand | Reason:
        """Nodes that differ in their names alone get the same answer: only the first of them is simulated. A node that
        multi-node consolidation refuses gets no command from single-node consolidation, which requires more."""
        keys: list[str | int] = [one.name, *self._alike(one)]
        known = next((self._refused[key] for key in keys if key in self._refused), None)
        if known is not None:
            return known
        found = self.attempt(method, [one])
        if isinstance(found, Reason) and found.code is not BlockedCode.BALANCE:
            self._refused |= dict.fromkeys(keys if found.code in _NAMELESS else keys[:1], found)
        return found

    def _alike(self, one: Candidate) -> list[int]:
        """Numbers that only candidates with the same answer have."""
        named = one.alike.named
        if named not in self._same_answer:
            shapes, found = one.node.shapes, list[int]()
            if self.simulator.targets.are_loose(shapes):
                found = [named if self.simulator.are_selected(shapes) else one.alike.labelled]
            self._same_answer[named] = found
        return self._same_answer[named]


def together(c: ConsolidationPass, some: Sequence[Candidate]) -> DisruptionCommand | None:
    """Multi-node consolidation: into free slots, onto one cheaper node, or onto existing nodes."""

    def attempt(chosen: Sequence[Candidate]) -> DisruptionCommand | Reason | None:
        return c.attempt_some(chosen, share=2)  # half of the simulations are left for single nodes

    some = [one for one in some if not c.release.needs_waiting_pod(one)]
    into_slots = [one for one in some if one.cost.paid_nano]
    if into_slots:
        slots = c.filter.slots
        into_slots = [one for one in into_slots if slots.could_hold(one, c.simulator.targets)]
    command = largest(into_slots, attempt)
    if command is not None and command.replacements:
        return command
    command = largest(some, attempt) if len(some) >= _TOGETHER_MIN else None
    return command if command is not None and len(command.candidates) >= _TOGETHER_MIN else None


def largest(found: Sequence[Candidate], attempt: Try) -> DisruptionCommand | None:
    """The command with the largest saving. The set of nodes grows: many nodes are added at a time, half as many if that
    gives no better command, and a single node that gives none is left out."""
    best: DisruptionCommand | None = None
    chosen: list[Candidate] = []
    at, step = 0, len(found)
    for _ in range(_TRIES_MAX):
        more = found[at : at + step]
        if not more:
            break
        command = attempt([*chosen, *more])
        if command is None:
            break
        if isinstance(command, DisruptionCommand) and (best is None or _gain(command) > _gain(best)):
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
    c: ConsolidationPass,
    found: Sequence[Candidate],
    remaining: RemainingBudget,
    tried: frozenset[str],
    first: Sequence[str],
) -> tuple[DisruptionCommand | None, frozenset[str], tuple[str, ...]]:
    """The command of the first single node that has one; the nodes that were tried; the NodePools not reached."""
    examined = set(tried)
    waiting: list[str] = []
    for one in interleaved(found, first):
        if remaining.left(one.pool) == 0:
            c.blockers.add(one.name, budgets.blocked(one.pool), Method.SINGLE_NODE)
            continue
        if one.name in tried:
            c.blockers.add(one.name, _UNCHANGED, Method.SINGLE_NODE)
            continue
        why: DisruptionCommand | Reason | None = c.filter.why_not([one])
        if why is None and c.simulator.is_spent():
            waiting.append(one.pool)
            c.blockers.add(one.name, _NOT_REACHED, Method.SINGLE_NODE)
            continue
        if why is None:
            why = c.attempt_one(one)
        if isinstance(why, DisruptionCommand):
            return why, frozenset(examined), ()
        examined.add(one.name)
        c.blockers.add(one.name, why, Method.SINGLE_NODE)
    return None, frozenset(examined), tuple(dict.fromkeys(waiting))


def interleaved(found: Sequence[Candidate], first: Sequence[str]) -> list[Candidate]:
    """One node of each NodePool in turn; NodePools that the last pass did not reach come first (D-38)."""
    by_pool: dict[str, list[Candidate]] = {pool: [] for pool in first}
    for one in found:
        by_pool.setdefault(one.pool, []).append(one)
    return [one for row in zip_longest(*by_pool.values()) for one in row if one is not None]


def _gain(command: DisruptionCommand) -> tuple[int, int]:
    return command.saves_nano_usd_per_hour, command.frees_nano_usd_per_hour


@dataclass(frozen=True, slots=True)
class CommandBuilder:
    """Builds a command from a simulation result, or the reason why there is none."""

    candidate_set: CandidateSet
    simulator: Simulator
    settings: Settings
    release: SlotRelease

    def command(
        self, method: Method, found: Sequence[Candidate], result: SimulationResult
    ) -> DisruptionCommand | Reason:
        if result.stuck is not None:
            return result.stuck
        stays = self.release.why_not(found, result)
        if stays is not None:
            return stays
        before = sum((one.cost for one in found), FREE)
        still_paid_nano = sum(self._still_paid(placed.node) for placed in result.placed)
        if still_paid_nano:
            if still_paid_nano >= before.paid_nano:
                text = "Can't remove: the pods would move to empty nodes that cost as much and would be deleted otherwise"
                return Reason(BlockedCode.NOT_CHEAPER, text)
            before = Cost(before.paid_nano - still_paid_nano, before.slots_nano)
        claims = self._claims(method, found, result.claims, before)
        if isinstance(claims, Reason):
            return claims
        after = sum((self._cost(claim) for claim in claims), FREE)
        assert not claims or after < before, "a move pays"
        stays = self._saves_too_little(found, before, after)
        if stays is None and not claims:
            stays = self.simulator.crowded_out([one.node for one in found], result.movers)
        if stays is not None:
            return stays
        return DisruptionCommand(
            method=method,
            reason=DisruptionReason.UNDERUTILIZED,
            action=Action.REPLACE if claims else Action.DELETE,
            candidates=tuple(one.name for one in found),
            why=_explanation(found, claims, before, after),
            replacements=self.simulator.replacements(result, claims),
            placed=result.placed,
            saves_nano_usd_per_hour=before.paid_nano - after.paid_nano,
            frees_nano_usd_per_hour=before.slots_nano - after.slots_nano,
        )

    def _claims(
        self, method: Method, found: Sequence[Candidate], claims: Sequence[PlannedClaim], before: Cost
    ) -> list[PlannedClaim] | Reason:
        """The replacements, narrowed to cheaper offerings; or why there are none."""
        unreserved = [claim for claim in claims if claim.reservation_id is None]
        if len(unreserved) > 1:
            return Reason(BlockedCode.TOO_MANY, f"Can't remove without creating {len(unreserved)} candidates")
        if unreserved:
            narrowed = self._narrowed(method, found, unreserved[0], before)
            if isinstance(narrowed, Reason):
                return narrowed
            return [narrowed if claim is unreserved[0] else claim for claim in claims]
        if claims and not before.paid_nano:
            # From slot to slot: another listed reservation may be worth as much as before, so each claim keeps its own
            # slot.
            claims = [
                replacement_prices.pinned(claim, self.candidate_set.cluster.snapshot.cloud_labels)
                for claim in claims
            ]
        if claims and not sum((self._cost(claim) for claim in claims), FREE) < before:
            return Reason(
                BlockedCode.NOT_CHEAPER, "Can't replace with a cheaper node: the free slots are worth no less"
            )
        return list(claims)

    def _saves_too_little(self, found: Sequence[Candidate], before: Cost, after: Cost) -> Reason | None:
        """No saving is required if the price is unknown, or if a slot is released for a pending pod."""
        evicted = sum(one.rescheduling - costs.POD for one in found)
        wanted_nano = costs.saving_wanted_nano(evicted, self.settings.saving_per_pod_nano)
        saved_nano = before.paid_nano - after.paid_nano
        if not before.paid_nano or saved_nano >= wanted_nano:
            return None
        text = f"it would save {prices.text(saved_nano)} USD an hour, less than the {prices.text(wanted_nano)} that evicting its pods requires"
        return Reason(BlockedCode.BALANCE, text)

    def _still_paid(self, node: str) -> int:
        """The hourly price of a node that emptiness would delete if no pods were moved to it; 0 for other nodes."""
        one = self.candidate_set.candidates.get(node)
        if one is None or not one.is_empty or one.pods_block is not None:
            return 0
        rules = self.candidate_set.cluster.pools.get(one.pool)
        if rules is None or rules.static or self.candidate_set.pools[one.pool].consolidate_after_s is None:
            return 0
        return one.cost.paid_nano

    def _narrowed(
        self, method: Method, found: Sequence[Candidate], claim: PlannedClaim, before: Cost
    ) -> PlannedClaim | Reason:
        pool = self.candidate_set.pools[claim.node_pool]
        well_known = self.candidate_set.cluster.snapshot.cloud_labels.well_known
        all_spot = all(one.labels.get(names.CAPACITY_TYPE) == names.SPOT for one in found)
        admits_spot = claim.requirements.get(names.CAPACITY_TYPE).has(names.SPOT)
        if all_spot and admits_spot:
            if not self.settings.spot_to_spot:
                return Reason(
                    BlockedCode.SPOT_TO_SPOT,
                    "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node",
                )
            claim = replacement_prices.only_spot(claim)
        limit_nano = replacement_prices.limit_nano(found, claim, before)
        narrowed = replacement_prices.cheaper(claim, pool, well_known, limit_nano)
        if narrowed is None:
            return Reason(BlockedCode.NOT_CHEAPER, "Can't replace with a cheaper node")
        if replacement_prices.breaks_min_values(narrowed, pool):
            return Reason(
                BlockedCode.MIN_VALUES, "Can't replace with a cheaper node: minValues requirement is not met"
            )
        if all_spot and admits_spot:
            return narrowed if method is Method.MULTI_NODE else replacement_prices.flexible(narrowed, pool)
        return replacement_prices.spot_rather_than_on_demand(narrowed, pool, well_known)

    def _cost(self, claim: PlannedClaim) -> Cost:
        if claim.reservation_id is None:
            return Cost(claim.price_nano_usd_per_hour or 0)
        return Cost(0, replacement_prices.slot_nano(claim, self.candidate_set.pools[claim.node_pool]))


@dataclass(frozen=True, slots=True)
class _PoolReasons:
    """The reasons that all nodes of a NodePool share."""

    static: Reason | None = None
    off: Reason | None = None  # consolidation is disabled
    unsettled: Reason | None = None
    settled_s: int = 0  # a node whose pods did not change after this time is settled


class PoolReasons:
    """What keeps consolidation from a node beside the candidate itself: the rules of its NodePool, and its instance."""

    def __init__(self, candidate_set: CandidateSet) -> None:
        now_s, of = candidate_set.cluster.now_s, candidate_set.cluster.pools.get
        self.of = {name: _of_pool(pool, of(name), now_s) for name, pool in candidate_set.pools.items()}
        self.is_moved_into_slot = candidate_set.is_moved_into_slot


def _of_pool(pool: NodePoolView, rules: PoolRules | None, now_s: int) -> _PoolReasons:
    is_static = rules is None or rules.static
    static = Reason(BlockedCode.STATIC, "NodePool has a fixed number of replicas") if is_static else None
    after_s = pool.consolidate_after_s
    if after_s is None:
        text = f'NodePool "{pool.name}" has consolidation disabled'
        return _PoolReasons(static, Reason(BlockedCode.CONSOLIDATION_OFF, text))
    off = None
    if rules is not None and rules.policy is Policy.WHEN_EMPTY:
        text = f'NodePool "{pool.name}" has non-empty consolidation disabled'
        off = Reason(BlockedCode.WHEN_EMPTY, text)
    text = f"a pod was added or removed less than {after_s} s ago"
    return _PoolReasons(static, off, Reason(BlockedCode.UNSETTLED, text), now_s - after_s)


_EMPTY: Final = Reason(BlockedCode.NOTHING_TO_DO, "Node is empty")
_MOVED: Final = Reason(
    BlockedCode.MOVED_INTO_SLOT, "its instance is in a reservation now; the labels of the node follow first"
)


def why_not(pools: PoolReasons, one: Candidate, moved: RecentMoves, release: SlotRelease) -> Reason | None:
    """Why a node is no candidate of consolidation (D-21); None: it is. Each pass calls it for all nodes, so it calls
    other functions only if they may have a reason."""
    of_pool = pools.of[one.pool]
    why = of_pool.static or one.pods_block or one.unpriced or of_pool.off
    if why is not None:
        return why
    if one.is_empty:
        return _EMPTY
    if one.quiet_since_s > of_pool.settled_s or not one.node.initialized:
        return of_pool.unsettled
    if one.is_reserved:
        why = release.why_never(one)
    elif pools.is_moved_into_slot(one):
        why = _MOVED
    return why or (moved.why_not(one) if moved.moves else None)


def _explanation(
    found: Sequence[Candidate], claims: Sequence[PlannedClaim], before: Cost, after: Cost
) -> str:
    nodes = f"{len(found)} node{'s' if len(found) > 1 else ''}"
    if not claims:
        paid = (
            f"that saves {prices.text(before.paid_nano)} USD an hour"
            if before.paid_nano
            else "that frees a slot"
        )
        return f"the pods of {nodes} fit on other nodes; {paid}"
    slots = sorted(claim.reservation_id for claim in claims if claim.reservation_id is not None)
    kinds = [f"{len(slots)} {wording.plural('slot', len(slots))} of {', '.join(slots)}"] if slots else []
    kinds += [f"one {c.instance_type}" for c in claims if c.reservation_id is None]
    return (
        f"{nodes} at {prices.text(before.paid_nano)} USD an hour replaced by {' and '.join(kinds)} "
        f"at {prices.text(after.paid_nano)}"
    )
