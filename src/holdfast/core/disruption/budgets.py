"""How many nodes of a NodePool may be disrupted now, for each disruption reason.

Of the budgets that are active now, the smallest applies. Nodes that are not ready, rebooting or deleting count against
it. A budget that cannot be parsed allows no disruption (D-10 to D-12).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast import errors
from holdfast.core.disruption import cron
from holdfast.core.disruption.inputs import (
    DEFAULT_FACTS,
    Budget,
    DisruptionInput,
    DisruptionReason,
    NodeFacts,
)
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.snapshot import NodeView

_DIGITS_MAX: Final = 12  # of a number of nodes; int() refuses thousands of digits


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many disruptions the budgets of one NodePool allow for one reason. `limit` None: no budget is active."""

    pool: str
    reason: DisruptionReason
    nodes: int  # all nodes that count
    consumed: int  # nodes that are not ready, rebooting or deleting
    limit: int | None

    @property
    def allowed(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.consumed)


def blocked(pool: str) -> Reason:
    """Why a node is not disrupted when the budgets of its NodePool allow no more."""
    return Reason(
        BlockedCode.BUDGET, f"No allowed disruptions due to blocking budget (NodePool={pool})", (pool,)
    )


class RemainingBudget:
    """The remaining disruptions while a method selects nodes."""

    def __init__(self, allowances: dict[str, Allowance]) -> None:
        self._left = {pool: one.allowed for pool, one in allowances.items()}

    def left(self, pool: str) -> int | None:
        return self._left.get(pool, 0)

    def spend(self, pool: str) -> bool:
        """Uses up one disruption; False: none is left."""
        left = self.left(pool)
        if left == 0:
            return False
        if left is not None:
            self._left[pool] = left - 1
        return True


@dataclass(frozen=True, slots=True)
class PoolCount:
    """The nodes of one NodePool that count for budgets."""

    nodes: int = 0
    disrupted: int = 0  # deleting, queued or rebooting
    down: int = 0  # not ready, and not disrupted


class NodeCounts:
    """How many nodes count for budgets, updated node by node."""

    def __init__(self) -> None:
        self._of_pool: dict[str, PoolCount] = {}
        self._of_node: dict[str, tuple[str, PoolCount]] = {}  # its NodePool, and what it adds

    def add(self, node: NodeView, facts: NodeFacts) -> None:
        if node.claim is None or facts.ending or not (node.initialized or facts.rebooting):
            return
        disrupted = node.deleting or facts.queued or facts.rebooting
        self._change(node.node_pool or "", found := _COUNTED[disrupted, facts.ready], 1)
        self._of_node[node.name] = node.node_pool or "", found

    def remove(self, node: str) -> None:
        if node in self._of_node:
            self._change(*self._of_node.pop(node), -1)

    def of(self, pools: Iterable[str]) -> Mapping[str, PoolCount]:
        return {pool: self._of_pool.get(pool, PoolCount()) for pool in pools}

    def _change(self, pool: str, by: PoolCount, sign: int) -> None:
        old = self._of_pool.get(pool, PoolCount())
        self._of_pool[pool] = PoolCount(
            old.nodes + sign * by.nodes, old.disrupted + sign * by.disrupted, old.down + sign * by.down
        )


_COUNTED: Final = {
    (disrupted, ready): PoolCount(1, int(disrupted), int(not disrupted and not ready))
    for disrupted in (False, True)
    for ready in (False, True)
}


def counts(cluster: DisruptionInput) -> Mapping[str, PoolCount]:
    """By NodePool."""
    found = NodeCounts()
    for node in cluster.snapshot.nodes:
        found.add(node, cluster.facts.get(node.name, DEFAULT_FACTS))
    return found.of(cluster.pools)


def allowances(
    cluster: DisruptionInput, reason: DisruptionReason, counted: Mapping[str, PoolCount] | None = None
) -> dict[str, Allowance]:
    """By NodePool. Budgets restrict voluntary disruption only (D-14). `counted`: the result of `counts`, if known."""
    counted = counts(cluster) if counted is None else counted
    found = {}
    for pool, rules in sorted(cluster.pools.items()):
        of_pool = counted[pool]
        down = of_pool.down if reason is not DisruptionReason.UNHEALTHY else 0
        allowed = limit(rules.budgets, reason, of_pool.nodes, cluster.now_s)
        found[pool] = Allowance(pool, reason, of_pool.nodes, of_pool.disrupted + down, allowed)
    return found


def limit(budgets: tuple[Budget, ...], reason: DisruptionReason, nodes: int, now_s: int) -> int | None:
    """The smallest of the active budgets for the reason; None: no budget is active, so there is no limit."""
    found = [
        _nodes(one, nodes, now_s) for one in budgets if one.reasons is None or reason.value in one.reasons
    ]
    return min((one for one in found if one is not None), default=None)


def _nodes(budget: Budget, nodes: int, now_s: int) -> int | None:
    """None: the budget is not active now. A budget that cannot be parsed allows nothing (D-11)."""
    try:
        if budget.schedule is not None and not cron.is_open(
            cron.parse(budget.schedule), budget.duration_s, now_s
        ):
            return None
        return _amount(budget.nodes, nodes)
    except errors.InvalidInput:
        return 0


def _amount(text: str, nodes: int) -> int:
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS_MAX):
        raise errors.InvalidInput(f"{text[:40]!r} is neither a number of nodes nor a percentage")
    if digits == text:
        return int(digits)
    return -(-nodes * int(digits) // 100)
