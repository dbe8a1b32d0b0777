"""Whether what is saved is worth the trouble: the policy Balanced.

Called for every consolidation that a NodePool with that policy is part of. The rule: the share of the pool's cost that
is saved, beside the share of its disruption that it takes, must be at least half (D-40, D-41). A slot costs next to
nothing, so in a pool that also pays for nodes no slot is worth being left (D-33).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from holdfast.core.disruption import costs
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.commands import DisruptionCommand
from holdfast.core.disruption.costs import FREE, Cost
from holdfast.core.disruption.inputs import Policy
from holdfast.model.reasons import BlockedCode, Reason

THRESHOLD: Final = Fraction(1, 2)


class Balance:
    """The totals of every Balanced pool, over all of its nodes."""

    def __init__(self, candidate_set: CandidateSet) -> None:
        balanced = {
            name for name, rules in candidate_set.cluster.pools.items() if rules.policy is Policy.BALANCED
        }
        self._cost = dict.fromkeys(balanced, 0)
        self._trouble = dict.fromkeys(balanced, 0)
        for node in candidate_set.cluster.snapshot.nodes:
            if node.node_pool in balanced and node.claim is not None:
                self._cost[node.node_pool] += candidate_set.cost(node).scaled
                self._trouble[node.node_pool] += costs.rescheduling_cost(node)

    def score(self, pool: str, saved: Fraction, trouble: int) -> Fraction:
        if saved <= 0 or not self._cost[pool] or not self._trouble[pool] or not trouble:
            return Fraction(0)
        return (saved / self._cost[pool]) / Fraction(trouble, self._trouble[pool])

    def why_not(self, found: Sequence[Candidate], command: DisruptionCommand) -> Reason | None:
        """Every Balanced pool must approve its share of the command; other pools do not matter."""
        saved = Cost(command.saves_nano_usd_per_hour, command.frees_nano_usd_per_hour).scaled
        total = sum((one.cost for one in found), FREE).scaled
        for pool in sorted({one.pool for one in found} & set(self._cost)):
            ours = [one for one in found if one.pool == pool]
            of_pool = sum((one.cost for one in ours), FREE).scaled
            share = saved * Fraction(of_pool, total) if total else Fraction(0)
            score = self.score(pool, share, sum(one.rescheduling for one in ours))
            if score < THRESHOLD:
                return Reason(
                    BlockedCode.BALANCE,
                    f'NodePool "{pool}" is Balanced: a score of {float(score):.2f} is below {float(THRESHOLD)}',
                    subjects=(pool,),
                )
        return None

    def never_worth_it(self, one: Candidate) -> bool:
        """Whether even to have it for nothing would not be worth the trouble (D-38)."""
        if one.pool not in self._cost:
            return False
        return self.score(one.pool, Fraction(one.cost.scaled), one.rescheduling) < THRESHOLD
