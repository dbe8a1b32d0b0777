"""Repair: reboots or replaces one unhealthy node a pass, within budgets.

As in Karpenter, a condition must last longer than its repair policy tolerates, and nothing is repaired while more than
a fifth of the NodePool is unhealthy, since then the cause is elsewhere (NC-38 to NC-39a). Unlike in Karpenter, a
reserved node is rebooted before it is replaced, because a reboot keeps the slot (decisions 18). If the reboot does not
help, the node is replaced and its slot is held: at once if the node is not ready in time; otherwise if it is still
unhealthy some minutes later, since the agent that reports its conditions was rebooted too. A node that is not ready
after its reboot is replaced even if the gate is off: its pods are already evicted.
"""

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from holdfast import errors, names
from holdfast.core.disruption import budgets, costs
from holdfast.core.disruption.budgets import RemainingBudget
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.commands import Action, Blockers, DisruptionCommand, Method
from holdfast.core.disruption.inputs import DisruptionReason, NodeCondition, Settings
from holdfast.core.disruption.rolling import Need, Rolling
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.snapshot import NodeView

_STEP_S: Final = 30 * 60  # this time beyond the toleration counts as one step of priority
_REBOOTS_MAX: Final = 2
_DAY_S: Final = 24 * 60 * 60
_BREAKER_PERCENT: Final = 20
_PRIORITY_MAX: Final = 100
_SETTLES_S: Final = 5 * 60  # after a reboot


class RepairAction(enum.StrEnum):
    REPLACE = "ReplaceNode"
    REBOOT = "RebootNode"


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """Which condition is repaired, after how long, and how."""

    condition: str
    status: str
    tolerated_s: int
    reason: str | None = (
        None  # a pattern of the condition's reason; None: for all reasons that no other policy matches
    )
    drain_bound_s: int | None = None  # 0: the node is not drained
    priority: int = 0
    action: RepairAction = RepairAction.REPLACE


_NOT_BACK: Final = RepairPolicy("Rebooting", "False", 0)


def check(repair_policies: Sequence[RepairPolicy]) -> None:
    """Raises InvalidInput unless each condition has exactly one policy without a pattern, which replaces (NC-38)."""
    general = [one for one in repair_policies if one.reason is None]
    if len(general) != len({(one.condition, one.status) for one in repair_policies}):
        raise errors.InvalidInput("each condition has exactly one policy without a pattern")
    for one in repair_policies:
        if one.reason is None and one.action is not RepairAction.REPLACE:
            raise errors.InvalidInput(f"{one.condition}: the policy without a pattern replaces the node")
        if not 0 <= one.priority <= _PRIORITY_MAX or one.tolerated_s < 0 or (one.drain_bound_s or 0) < 0:
            raise errors.InvalidInput(f"{one.condition}: priorities go from 0 to 100, times are not negative")
        try:
            re.compile(one.reason or "")
        except re.error as error:
            raise errors.InvalidInput(f"{one.condition}: {one.reason!r} is no pattern") from error


@dataclass(frozen=True, slots=True)
class UnhealthyCondition:
    """A condition of a Node with the repair policy that matches it."""

    condition: NodeCondition
    policy: RepairPolicy

    @property
    def eligible_s(self) -> int:
        return self.condition.since_s + self.policy.tolerated_s


def unhealthy_conditions(
    conditions: Sequence[NodeCondition], repair_policies: Sequence[RepairPolicy]
) -> tuple[UnhealthyCondition, ...]:
    """The conditions that a policy matches, tolerated or not."""
    found = []
    for condition in conditions:
        about = [t for t in repair_policies if (t.condition, t.status) == (condition.type, condition.status)]
        special = [t for t in about if t.reason is not None and re.search(t.reason, condition.reason)]
        found += [
            UnhealthyCondition(condition, one) for one in special or [t for t in about if t.reason is None]
        ]
    return tuple(found)


def chosen(found: Sequence[UnhealthyCondition]) -> UnhealthyCondition:
    """The condition that decides: replace before reboot, then by priority, then the oldest (NC-38)."""
    return min(
        found,
        key=lambda one: (
            one.policy.action is not RepairAction.REPLACE,
            -one.policy.priority,
            one.eligible_s,
            one.condition.type,
        ),
    )


def drain_bound_s(found: Sequence[UnhealthyCondition], grace_period_s: int | None) -> int | None:
    """The shortest of all bounds; None: no bound (NC-38, NC-38b)."""
    bounds = [one.policy.drain_bound_s for one in found] + [grace_period_s]
    return min((one for one in bounds if one is not None), default=None)


@dataclass
class Repair:
    candidate_set: CandidateSet
    rolling: Rolling
    settings: Settings
    repair_policies: tuple[RepairPolicy, ...]
    eligible: int = 0  # unhealthy nodes that may be repaired now

    def command(self, remaining: RemainingBudget, blockers: Blockers) -> DisruptionCommand | None:
        snapshot = self.candidate_set.cluster.snapshot
        unhealthy = {
            node.name: found for node in snapshot.nodes if (found := self._unhealthy_conditions(node))
        }
        if not unhealthy:
            return None
        blocked_pools = self._blocked_pools(unhealthy)
        ready: list[tuple[Candidate, list[UnhealthyCondition]]] = []
        for node in snapshot.nodes:
            if node.name in unhealthy:
                due = self._due(node, unhealthy[node.name])
                why = self._why_not(node, due, blocked_pools, remaining)
                if why is None:
                    ready.append((self.candidate_set.candidate(node), due))
                else:
                    blockers.add(node.name, why, Method.REPAIR)
        self.eligible = len(ready)
        for one, due in self._ordered(ready):
            result = self._repair(one, due)
            if isinstance(result, DisruptionCommand):
                return replace(result, condition=chosen(due).condition.type)
            blockers.add(one.name, result, Method.REPAIR)
        return None

    def _unhealthy_conditions(self, node: NodeView) -> tuple[UnhealthyCondition, ...]:
        facts = self.candidate_set.facts(node)
        found = unhealthy_conditions(facts.conditions, self.repair_policies)
        if not facts.reboot_failed or facts.ready:
            return found
        since_s = facts.rebooted_s or 0
        return *found, UnhealthyCondition(
            NodeCondition("Rebooting", "False", "RebootFailed", since_s), _NOT_BACK
        )

    def _due(self, node: NodeView, unhealthy: tuple[UnhealthyCondition, ...]) -> list[UnhealthyCondition]:
        facts, now_s = self.candidate_set.facts(node), self.candidate_set.cluster.now_s
        settles_s = 0 if facts.rebooted_s is None or facts.reboot_failed else facts.rebooted_s + _SETTLES_S
        return [one for one in unhealthy if max(one.eligible_s, settles_s) <= now_s]

    def _blocked_pools(self, unhealthy: dict[str, tuple[UnhealthyCondition, ...]]) -> set[str]:
        """NodePools of which more than a fifth of the nodes match a policy, tolerated or not (NC-39)."""
        found = set()
        for pool in self.candidate_set.cluster.pools:
            ours = [
                n
                for n in self.candidate_set.cluster.snapshot.nodes
                if n.node_pool == pool and n.claim is not None
            ]
            if sum(node.name in unhealthy for node in ours) > -(-len(ours) * _BREAKER_PERCENT // 100):
                found.add(pool)
        return found

    def _why_not(
        self,
        node: NodeView,
        due: list[UnhealthyCondition],
        blocked_pools: set[str],
        remaining: RemainingBudget,
    ) -> Reason | None:
        if not due:
            return Reason(BlockedCode.TOLERATED, "the repair policy tolerates the condition for a while")
        why = self.candidate_set.why_never(node, repair=True)
        if why is not None:
            return why
        facts = self.candidate_set.facts(node)
        if facts.do_not_repair:
            return Reason(
                BlockedCode.DO_NOT_REPAIR, f'Repair is blocked through the "{names.DO_NOT_REPAIR}" annotation'
            )
        if node.node_pool in blocked_pools:
            text = f'More than {_BREAKER_PERCENT}% of the nodes of NodePool "{node.node_pool}" are unhealthy'
            return Reason(BlockedCode.BREAKER, text, (node.node_pool or "",))
        blocked = self.candidate_set.candidate(node).pods_block
        if blocked is not None and drain_bound_s(due, facts.grace_period_s) is None:
            return blocked
        if node.initialized and remaining.left(node.node_pool or "") == 0:
            return budgets.blocked(node.node_pool or "")
        return None

    def _ordered(
        self, ready: list[tuple[Candidate, list[UnhealthyCondition]]]
    ) -> list[tuple[Candidate, list[UnhealthyCondition]]]:
        """Most urgent first: by the rank of the priority plus one for every half hour beyond the toleration."""
        known = (*self.repair_policies, _NOT_BACK)
        ranks = {p: i for i, p in enumerate(sorted({t.priority for t in known}))}
        now_s = self.candidate_set.cluster.now_s

        def key(item: tuple[Candidate, list[UnhealthyCondition]]) -> tuple[int, float, str]:
            one, due = item
            unhealthy = chosen(due)
            urgency = ranks[unhealthy.policy.priority] + (now_s - unhealthy.eligible_s) // _STEP_S
            facts = one.facts
            cost = costs.disruption_cost(one.node, now_s, facts.created_s, facts.expire_after_s)
            return -urgency, cost, one.name

        return sorted(ready, key=key)

    def _repair(self, one: Candidate, due: list[UnhealthyCondition]) -> DisruptionCommand | Reason:
        unhealthy = chosen(due)
        bound_s = drain_bound_s(due, one.facts.grace_period_s)
        text = f"{unhealthy.condition.type} is {unhealthy.condition.status} ({unhealthy.condition.reason})"
        if self._reboots(one, unhealthy):
            return DisruptionCommand(
                method=Method.REPAIR,
                reason=DisruptionReason.UNHEALTHY,
                action=Action.REBOOT,
                candidates=(one.name,),
                why=f"{text}; a reboot keeps its instance" + (" and its slot" if one.is_reserved else ""),
                drain_bound_s=bound_s,
            )
        return self.rolling.replace(
            one,
            Need(
                Method.REPAIR,
                DisruptionReason.UNHEALTHY,
                text,
                unhealthy.eligible_s,
                self.settings.terminate_first_repair,
                forced=True,
                drain_bound_s=bound_s,
            ),
        )

    def _reboots(self, one: Candidate, unhealthy: UnhealthyCondition) -> bool:
        """A reserved node is rebooted once for any condition. After two reboots in a day a node is replaced."""
        today = [at_s for at_s in one.facts.reboots_s if at_s > self.candidate_set.cluster.now_s - _DAY_S]
        if len(today) >= _REBOOTS_MAX:
            return False
        return unhealthy.policy.action is RepairAction.REBOOT or (one.is_reserved and not today)
