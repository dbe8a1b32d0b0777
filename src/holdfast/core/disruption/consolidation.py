"""Whether the world is cheaper with some nodes gone, and the command that makes it so.

Called by the two consolidation methods with the planner's answer. The rules: everybody has a place; at most one new node
is bought, any number may go into slots that are free (D-24, and m to n besides); and it must pay. What is paid by the
hour falls, or a node leaves a slot for one that is worth less, or for none, where `slot_release` allows it (D-25, D-30 to
D-32). An empty node that the move would keep up counts at its price.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from holdfast import names
from holdfast.core.disruption import candidates as candidates_
from holdfast.core.disruption import commands, costs, prices_of
from holdfast.core.disruption.candidates import Candidate, Survey
from holdfast.core.disruption.commands import Action, Code, Command, Method, Replacement, Why
from holdfast.core.disruption.costs import FREE, Cost
from holdfast.core.disruption.inputs import Policy, Reason, Settings, World
from holdfast.core.disruption.simulator import Answer, Simulator
from holdfast.core.disruption.slot_release import SlotRelease
from holdfast.core.scheduling.plan import PlannedClaim
from holdfast.model import prices, wording
from holdfast.model.pods import PodShape, PodView

_REPLACED_WITHIN_S: Final = 60  # a pod that is made so soon after its like was evicted is its replacement


@dataclass(frozen=True, slots=True)
class Judge:
    """Answers as commands, or as the reason why not."""

    survey: Survey
    simulator: Simulator
    settings: Settings
    release: SlotRelease

    def command(self, method: Method, found: Sequence[Candidate], answer: Answer) -> Command | Why:
        if answer.stuck is not None:
            return replace(answer.stuck, method=method)
        stays = self.release.why_not(found, answer)
        if stays is not None:
            return replace(stays, method=method)
        before = sum((one.cost for one in found), FREE)
        kept_nano = sum(self._kept_up(placed.node) for placed in answer.placed)
        if kept_nano:
            if kept_nano >= before.paid_nano:
                text = (
                    "its pods would go on empty nodes that cost as much, and that would be deleted otherwise"
                )
                return Why(Code.NOT_CHEAPER, text, method)
            before = Cost(before.paid_nano - kept_nano, before.slots_nano)
        claims = self._claims(method, found, answer.claims, before)
        if isinstance(claims, Why):
            return replace(claims, method=method)
        after = sum((self._cost(claim) for claim in claims), FREE)
        assert not claims or after < before, "a move pays"
        stays = self._saves_too_little(found, before, after)
        if stays is None and not claims:
            stays = self.simulator.crowded_out([one.node for one in found], answer.movers)
        if stays is not None:
            return replace(stays, method=method)
        return Command(
            method=method,
            reason=Reason.UNDERUTILIZED,
            action=Action.REPLACE if claims else Action.DELETE,
            candidates=tuple(one.name for one in found),
            why=_said(found, claims, before, after),
            replacements=tuple(Replacement(claim) for claim in claims),
            placed=answer.placed,
            saves_nano_usd_per_hour=before.paid_nano - after.paid_nano,
            frees_nano_usd_per_hour=before.slots_nano - after.slots_nano,
        )

    def _claims(
        self, method: Method, found: Sequence[Candidate], claims: Sequence[PlannedClaim], before: Cost
    ) -> list[PlannedClaim] | Why:
        """What is launched instead, narrowed to what pays; or why nothing is."""
        bought = [claim for claim in claims if claim.reservation_id is None]
        if len(bought) > 1:
            return Why(Code.TOO_MANY, f"its pods would need {len(bought)} nodes that are bought")
        if bought:
            narrowed = self._bought(method, found, bought[0], before)
            if isinstance(narrowed, Why):
                return narrowed
            return [narrowed if claim is bought[0] else claim for claim in claims]
        if claims and not before.paid_nano:
            # From slot to slot: another slot that would do as well may be as dear, so each keeps to its own.
            claims = [prices_of.pinned(claim, self.survey.world.snapshot.cloud_labels) for claim in claims]
        if claims and not sum((self._cost(claim) for claim in claims), FREE) < before:
            return Why(Code.NOT_CHEAPER, "the free slots that would hold its pods are worth no less")
        return list(claims)

    def _saves_too_little(self, found: Sequence[Candidate], before: Cost, after: Cost) -> Why | None:
        """Where a price is not known, and where a slot is left for a pending pod, nothing is asked for."""
        evicted = sum(one.rescheduling - costs.POD for one in found)
        wanted_nano = costs.saving_wanted_nano(evicted, self.settings.saving_per_pod_nano)
        saved_nano = before.paid_nano - after.paid_nano
        if not before.paid_nano or saved_nano >= wanted_nano:
            return None
        text = f"it would save {prices.text(saved_nano)} USD an hour; to evict its pods takes {prices.text(wanted_nano)}"
        return Why(Code.BALANCE, text)

    def _kept_up(self, node: str) -> int:
        """What an hour of an empty node costs that would be deleted if no pods were moved to it."""
        one = self.survey.candidates.get(node)
        if one is None or not one.is_empty or one.pods_block is not None:
            return 0
        rules = self.survey.world.pools.get(one.pool)
        if rules is None or rules.static or self.survey.pools[one.pool].consolidate_after_s is None:
            return 0
        return one.cost.paid_nano

    def _bought(
        self, method: Method, found: Sequence[Candidate], claim: PlannedClaim, before: Cost
    ) -> PlannedClaim | Why:
        pool = self.survey.pools[claim.node_pool]
        well_known = self.survey.world.snapshot.cloud_labels.well_known
        all_spot = all(one.labels.get(names.CAPACITY_TYPE) == names.SPOT for one in found)
        admits_spot = claim.requirements.get(names.CAPACITY_TYPE).has(names.SPOT)
        if all_spot and admits_spot:
            if not self.settings.spot_to_spot:
                return Why(Code.SPOT_TO_SPOT, "spot nodes are not replaced by spot nodes: the gate is off")
            claim = prices_of.only_spot(claim)
        limit_nano = prices_of.limit_nano(found, claim, before)
        narrowed = prices_of.cheaper(claim, pool, well_known, limit_nano)
        if narrowed is None:
            return Why(Code.NOT_CHEAPER, "it cannot be replaced by a cheaper node")
        if prices_of.breaks_min_values(narrowed, pool):
            return Why(Code.MIN_VALUES, "the cheaper instance types are fewer than minValues asks for")
        if all_spot and admits_spot:
            return narrowed if method is Method.MULTI_NODE else prices_of.flexible(narrowed, pool)
        return prices_of.spot_rather_than_on_demand(narrowed, pool, well_known)

    def _cost(self, claim: PlannedClaim) -> Cost:
        if claim.reservation_id is None:
            return Cost(claim.price_nano_usd_per_hour or 0)
        return Cost(0, prices_of.slot_nano(claim, self.survey.pools[claim.node_pool]))


def why_not(survey: Survey, one: Candidate, moved: "Recently", release: SlotRelease) -> Why | None:
    """Why consolidation does not look at a node (D-21); None: it does."""
    rules = survey.world.pools.get(one.pool)
    pool = survey.pools[one.pool]
    if rules is None or rules.static:
        return Why(Code.STATIC, "its NodePool has a fixed number of nodes")
    if one.pods_block is not None:
        return one.pods_block
    if survey.type_of(one.node) is None:
        return Why(Code.UNKNOWN_TYPE, "its instance type is not in the catalog of its NodePool")
    missing = [key for key in (names.CAPACITY_TYPE, names.ZONE) if key not in one.labels]
    if missing:
        return Why(Code.NO_LABELS, f"it has no label {missing[0]}", subject=missing[0])
    if pool.consolidate_after_s is None:
        return Why(Code.CONSOLIDATION_OFF, f"NodePool {one.pool} says consolidateAfter: Never")
    if rules.policy is Policy.WHEN_EMPTY:
        return Why(Code.WHEN_EMPTY, f"NodePool {one.pool} consolidates empty nodes only")
    if one.is_empty:
        return Why(Code.NOTHING_TO_DO, "it is empty")
    if not candidates_.is_settled(one.node, one.facts, pool.consolidate_after_s, survey.world.now_s):
        return Why(Code.UNSETTLED, f"pods came or went less than {pool.consolidate_after_s} s ago")
    return release.why_never(one) or moved.why_not(one)


@dataclass(frozen=True, slots=True)
class Recently:
    """What consolidation moved not long ago. A pod is made anew when it is moved, so it is known by its shape and by when
    it was made: while pods of its shape were evicted, or right after."""

    moves: tuple[commands.Move, ...]
    cooldown_s: int
    now_s: int

    def why_not(self, one: Candidate) -> Why | None:
        for pod in one.node.pods:
            if pod.reschedulable and pod.created_s + self.cooldown_s > self.now_s:
                for move in self.moves:
                    last_s = move.until_s + _REPLACED_WITHIN_S
                    if move.at_s <= pod.created_s <= last_s and _kind(pod) in move.shapes:
                        until = wording.moment(pod.created_s + self.cooldown_s, self.now_s)
                        return Why(
                            Code.COOLING_DOWN,
                            f"pod {pod.full_name} was moved a short while ago and is not moved until {until} (UTC)",
                            subject=pod.full_name,
                        )
        return None

    def after(self, command: Command, survey: Survey) -> tuple[commands.Move, ...]:
        """What is to be remembered once a command is carried out; what is too old is forgotten."""
        held_s = _REPLACED_WITHIN_S + self.cooldown_s
        kept = tuple(move for move in self.moves if move.until_s + held_s > self.now_s)
        shapes = frozenset(
            _kind(pod)
            for name in command.candidates
            for pod in survey.candidates[name].node.pods
            if pod.reschedulable
        )
        if not shapes:
            return kept
        return (*kept, commands.Move(self.now_s, shapes, frozenset(command.candidates), self.now_s))


def still_moving(moves: Sequence[commands.Move], world: World) -> tuple[commands.Move, ...]:
    """The moves as they are known now: a drain that takes hours is a move for hours."""
    leaving = {
        node.name
        for node in world.snapshot.nodes
        if node.deleting or (node.name in world.facts and world.facts[node.name].queued)
    }
    return tuple(replace(move, until_s=world.now_s) if move.nodes & leaving else move for move in moves)


def moves_before(world: World, cooldown_s: int) -> tuple[commands.Move, ...]:
    """What a program that has just begun takes for moved by the one before it: where consolidation was at work a short
    while ago, every pod that is young, and every pod that is still to leave."""
    since_s = world.now_s - cooldown_s
    if all((rules.consolidated_s or 0) <= since_s for rules in world.pools.values()):
        return ()
    young = (
        pod for node in world.snapshot.nodes for pod in node.pods if pod.created_s > since_s or node.deleting
    )
    shapes = frozenset(_kind(pod) for pod in (*young, *world.snapshot.pending))
    leaving = frozenset(node.name for node in world.snapshot.nodes if node.deleting)
    return (commands.Move(since_s, shapes, leaving, world.now_s),)


def _kind(pod: PodView) -> PodShape:
    """Its shape without where it is: Kubernetes writes zone and region of a node on the pods that are bound to it."""
    labels = tuple(label for label in pod.shape.labels if label[0] not in (names.ZONE, names.REGION))
    return replace(pod.shape, labels=labels)


def _said(found: Sequence[Candidate], claims: Sequence[PlannedClaim], before: Cost, after: Cost) -> str:
    nodes = f"{len(found)} node{'s' if len(found) > 1 else ''}"
    if not claims:
        paid = (
            f"that saves {prices.text(before.paid_nano)} USD an hour"
            if before.paid_nano
            else "that frees a slot"
        )
        return f"the pods of {nodes} fit on other nodes; {paid}"
    slots = sorted(claim.reservation_id for claim in claims if claim.reservation_id is not None)
    kinds = [f"{len(slots)} of slots ({', '.join(slots)})"] if slots else []
    kinds += [f"one {c.instance_type} at most" for c in claims if c.reservation_id is None]
    return (
        f"{nodes} at {prices.text(before.paid_nano)} USD an hour become {' and '.join(kinds)} "
        f"at {prices.text(after.paid_nano)}"
    )
