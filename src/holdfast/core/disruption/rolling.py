"""Replaces nodes at any price: drifted nodes, and unhealthy nodes for repair.

The replacement is initialized before the node is deleted, unless it can only be launched into the slot of that node.
Then the node is deleted first and its slot is held for the replacement (terminate first). Its pods have no node during
that time. So all of them must fit in the slot, the drain must be able to end, and no earlier replacement of the
reservation may still wait for its slot (D-17 to D-19c, decisions 17 and 22).
"""

import dataclasses
from collections import Counter
from dataclasses import dataclass
from typing import Final

from holdfast.core.disruption import budgets, replacement_prices, waiting_replacements
from holdfast.core.disruption.budgets import RemainingBudget
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.commands import Action, Blockers, DisruptionCommand, Method, Replacement
from holdfast.core.disruption.inputs import DisruptionReason, MixedPools, Settings
from holdfast.core.disruption.simulation import SimulationOptions, SimulationResult, Simulator
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.input import displaced
from holdfast.model import wording
from holdfast.model.reasons import BlockedCode, Reason

# A node with one of these reasons terminates first some time later: until then no on-demand replacement is launched.
_PASSING: Final = (BlockedCode.BUDGET, BlockedCode.WAITS_FOR_SLOT)


@dataclass(frozen=True, slots=True)
class Need:
    """Why a node has to be replaced."""

    method: Method
    reason: DisruptionReason
    text: str
    since_s: int
    terminate_first: bool  # whether the gate is open
    forced: bool = False  # pods that must not be evicted now count as well
    drain_bound_s: int | None = None
    within_budgets: bool = True


@dataclass
class Rolling:
    candidate_set: CandidateSet
    simulator: Simulator
    settings: Settings

    def drifted(self, remaining: RemainingBudget, blockers: Blockers) -> DisruptionCommand | None:
        """The first drifted node that can be replaced: those without pods first, then the oldest drift (D-17)."""
        found = [one for one in self.candidate_set.candidates.values() if one.facts.drifted is not None]
        for one in sorted(found, key=_drift_order):
            why: DisruptionCommand | Reason | None = self._why_no_drift(one, remaining)
            if why is None and self.simulator.is_spent():
                why = Reason(BlockedCode.NOT_REACHED, "the pass ended before the node was simulated")
            if why is None:
                assert one.facts.drifted is not None
                why = self.replace(
                    one,
                    Need(
                        Method.DRIFT,
                        DisruptionReason.DRIFTED,
                        one.facts.drifted.reason,
                        one.facts.drifted.since_s,
                        self.settings.terminate_first_drift,
                    ),
                )
            if isinstance(why, DisruptionCommand):
                return why
            blockers.add(one.name, why, Method.DRIFT)
        return None

    def _why_no_drift(self, one: Candidate, remaining: RemainingBudget) -> Reason | None:
        rules = self.candidate_set.cluster.pools.get(one.pool)
        if rules is None or rules.static:
            return Reason(BlockedCode.STATIC, "NodePool has a fixed number of replicas")
        if one.pods_block is not None and one.facts.grace_period_s is None:
            return one.pods_block
        if remaining.left(one.pool) == 0:
            return budgets.blocked(one.pool)
        return None

    def replace(self, one: Candidate, need: Need) -> DisruptionCommand | Reason:
        """A command that replaces the node, or why there is none.

        Pods that must not be evicted stay until the node's termination grace period ends. No replacement is launched
        for them before that, but the slot is held for them: otherwise a node would be launched on demand."""
        if one.is_reserved and one.pods_block is not None and one.facts.grace_period_s is not None:
            found = self._replace(one, dataclasses.replace(need, forced=True))
            held = isinstance(found, DisruptionCommand) and found.action is Action.TERMINATE_FIRST
            if held or (isinstance(found, Reason) and found.code in _PASSING):
                return found
        return self._replace(one, need)

    def _replace(self, one: Candidate, need: Need) -> DisruptionCommand | Reason:
        result = self.simulator.simulate(
            [one.node], SimulationOptions(forced=need.forced, avoids_drifted=need.method is Method.DRIFT)
        )
        unreserved = [claim for claim in result.claims if claim.reservation_id is None]
        if result.stuck is None and not (unreserved and one.is_reserved):
            held = self.terminate_first(one, need, for_pending=True) if one.facts.reboot_failed else None
            return held if isinstance(held, DisruptionCommand) else self._replaced(one, need, result)
        can_wait = result.stuck is not None or self.settings.roll_mixed_pools is MixedPools.WAIT
        why = self.terminate_first(one, need) if can_wait else None
        if isinstance(why, DisruptionCommand):
            return why
        if result.stuck is not None:
            return why if why is not None and why.code is not BlockedCode.PODS_WITHOUT_PLACE else result.stuck
        if why is not None and why.code in _PASSING:
            return why
        return self._slot_comes_back(one, need) or self._replaced(one, need, result)

    def held(self, one: Candidate) -> Replacement | None:
        """The replacement for the slot of a node that is already deleting; None: its pods need no node on demand, or do
        not fit in the slot. Budgets are ignored, since the node is deleted anyway."""
        is_bounded = one.facts.grace_period_s is not None
        result = self.simulator.simulate([one.node], SimulationOptions(forced=is_bounded))
        if result.stuck is None and all(claim.reservation_id is not None for claim in result.claims):
            return None
        if result.stuck is None and self.settings.roll_mixed_pools is not MixedPools.WAIT:
            return None
        need = Need(
            Method.DRIFT,
            DisruptionReason.DRIFTED,
            "it is being deleted",
            since_s=0,
            terminate_first=True,
            forced=is_bounded,
            within_budgets=False,
        )
        found = self.terminate_first(one, need)
        if not isinstance(found, DisruptionCommand):
            return None
        return next(one for one in found.replacements if one.waits_for_instance is not None)

    def terminate_first(
        self, one: Candidate, need: Need, *, for_pending: bool = False
    ) -> DisruptionCommand | Reason:
        """Terminates the node and holds its slot for the replacement; or why not. `for_pending`: its pods were
        evicted before and are pending, so the slot is held for those pending pods that the planner would place
        in it."""
        snapshot = self.candidate_set.cluster.snapshot
        entry = self._entry(one) if one.is_reserved else None
        no = Reason(
            BlockedCode.PODS_WITHOUT_PLACE,
            "the pods do not fit in the slot of the node, or the slot cannot be launched into",
        )
        if not need.terminate_first or entry is None or not entry.usable or entry.free > 0:
            return no
        id_ = entry.reservation.id
        first = waiting_replacements.taken(snapshot, id_)
        if first is not None:
            text = f"NodeClaim {first.name} still waits for its slot of {id_}; no second node is deleted until it has one"
            return Reason(BlockedCode.WAITS_FOR_SLOT, text, (id_,))
        blocked = self._too_many_starting(one, need, id_) if need.within_budgets else None
        if blocked is not None:
            return blocked
        options = SimulationOptions(
            credited=id_,
            avoids_drifted=need.method is Method.DRIFT,
            alone=not for_pending,
            forced=need.forced,
        )
        result = self.simulator.simulate([one.node], options)
        claims = (
            tuple(c for c in result.plan.claims if c.reservation_id == id_) if for_pending else result.claims
        )
        slots = [claim.reservation_id for claim in claims]
        if result.stuck is not None or None in slots or id_ not in slots:
            return no
        endless = self._drain_never_ends(one, need, result)
        if endless is not None:
            return endless
        replacements = tuple(
            Replacement(replacement_prices.pinned(claim, snapshot.cloud_labels), one.node.provider_id)
            if claim.reservation_id == id_
            else Replacement(claim)
            for claim in claims
        )
        return DisruptionCommand(
            method=need.method,
            reason=need.reason,
            action=Action.TERMINATE_FIRST,
            candidates=(one.name,),
            why=f"{need.text}; no-reserved-capacity: its own slot of {id_} is held for its replacement",
            replacements=replacements,
            placed=result.placed,
            drain_bound_s=need.drain_bound_s,
        )

    def _too_many_starting(self, one: Candidate, need: Need, id_: str) -> Reason | None:
        """Budgets do not count a terminated node, so its replacement counts until it is initialized."""
        snapshot = self.candidate_set.cluster.snapshot
        allowed = budgets.allowances(self.candidate_set.cluster, need.reason, self.candidate_set.counts).get(
            one.pool
        )
        key = snapshot.cloud_labels.reservation_id or ""
        waiting = {
            claim.name
            for claim in waiting_replacements.waiting(snapshot)
            if (claim.reservation_id, claim.node_pool) == (id_, one.pool)
        }
        starting = {
            node.claim
            for node in snapshot.nodes
            if not node.initialized and node.node_pool == one.pool and dict(node.labels).get(key) == id_
        }
        not_initialized = len(waiting | starting)
        if allowed is None or allowed.limit is None or not_initialized < allowed.limit:
            return None
        text = f"No allowed disruptions due to blocking budget (NodePool={one.pool}): nodes of {id_} are not initialized"
        return Reason(BlockedCode.BUDGET, text, (one.pool,))

    def _drain_never_ends(self, one: Candidate, need: Need, result: SimulationResult) -> Reason | None:
        """Pods that fit on no node before the old one terminates stay pending until then. Their disruption
        budgets must allow all of them to be evicted at once, or the drain waits for the slot and the slot for
        the drain. No other pod of the node may block the drain."""
        if one.facts.grace_period_s is not None or need.drain_bound_s is not None:
            return None
        for pod in one.node.pods:
            if displaced.blocks_drain(pod, self.candidate_set.cluster.snapshot.budgets):
                text = f"the drain never ends: Pod {pod.full_name} is not evicted"
                return Reason(BlockedCode.DRAIN_NEVER_ENDS, text, (pod.full_name,))
        without_node = {uid for claim in result.claims for uid in claim.pods}
        evictions = Counter(
            budget
            for pod in one.node.pods
            if pod.uid in without_node and displaced.is_evictable(pod)
            for budget in self.candidate_set.budgets.about(pod)
            if pod.ready or not budget.always_allows_unhealthy
        )
        for budget, count in evictions.items():
            if count > budget.disruptions_allowed:
                return Reason(
                    BlockedCode.DRAIN_NEVER_ENDS,
                    f"Pdb prevents pod evictions (PodDisruptionBudget={budget.namespace}/{budget.name}): the evicted pods have no node until the slot is free",
                    (budget.name,),
                )
        return None

    def _entry(self, one: Candidate) -> ledger.Entry | None:
        """The ledger's entry for the reservation that the node is in."""
        snapshot = self.candidate_set.cluster.snapshot
        found = ledger.ledger(snapshot, self.settings.solving.ledger_lag_s)
        return found.get(one.labels.get(snapshot.cloud_labels.reservation_id or "", ""))

    def _slot_comes_back(self, one: Candidate, need: Need) -> Reason | None:
        """Whether a slot of the reservation is releasing that no claim waits for. The command then waits for that slot,
        up to the limit of the settings, before a node is launched on demand or on spot."""
        snapshot, entry = self.candidate_set.cluster.snapshot, self._entry(one)
        patience_s = self.candidate_set.pools[one.pool].reservation_wait_s
        if patience_s is None:
            patience_s = self.settings.solving.reservation_wait_s
        until_s = need.since_s + patience_s
        if entry is None or not entry.usable or self.candidate_set.cluster.now_s >= until_s:
            return None
        id_ = entry.reservation.id
        awaited = sum(claim.reservation_id == id_ for claim in waiting_replacements.waiting(snapshot))
        if entry.releasing <= awaited:
            return None
        until = wording.moment(until_s, self.candidate_set.cluster.now_s)
        text = f"a slot of {id_} is being released; the replacement waits for it until {until} (UTC)"
        return Reason(BlockedCode.WAITS_FOR_SLOT, text, (id_,))

    def _replaced(self, one: Candidate, need: Need, result: SimulationResult) -> DisruptionCommand:
        claims = result.claims
        into = ", ".join(
            f"a {c.instance_type} {'in ' + c.reservation_id if c.reservation_id else c.capacity_type}"
            for c in claims
        )
        return DisruptionCommand(
            method=need.method,
            reason=need.reason,
            action=Action.REPLACE if claims else Action.DELETE,
            candidates=(one.name,),
            why=f"{need.text}; replaced by {into}" if claims else f"{need.text}; its pods fit on other nodes",
            replacements=self.simulator.replacements(result, claims),
            placed=result.placed,
            drain_bound_s=need.drain_bound_s,
        )


def _drift_order(one: Candidate) -> tuple[bool, int, str]:
    assert one.facts.drifted is not None
    return any(pod.reschedulable for pod in one.node.pods), one.facts.drifted.since_s, one.name
