"""The consolidation policy Balanced: whether a saving justifies the evictions.

The score of a command is its share of the NodePool's cost divided by its share of the NodePool's eviction cost. It must
be at least 0.5 (D-40, D-41). A slot costs nearly nothing, so in a NodePool with on-demand or spot nodes no node leaves
its slot (D-33).
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from holdfast.core.disruption import costs
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.commands import DisruptionCommand, Score
from holdfast.core.disruption.costs import FREE, Cost
from holdfast.core.disruption.inputs import Policy
from holdfast.model.reasons import BlockedCode, Reason

THRESHOLD: Final = Fraction(1, 2)


class Balance:
    """The total cost and eviction cost of every Balanced NodePool."""

    def __init__(self, candidate_set: CandidateSet) -> None:
        balanced = {
            name for name, rules in candidate_set.cluster.pools.items() if rules.policy is Policy.BALANCED
        }
        self.scores: list[Score] = []  # of the commands that were compared
        self._cost = dict.fromkeys(balanced, 0)
        self._trouble = dict.fromkeys(balanced, 0)
        for node in candidate_set.cluster.snapshot.nodes if balanced else ():
            if node.node_pool in balanced and node.claim is not None:
                self._cost[node.node_pool] += candidate_set.cost(node).scaled
                self._trouble[node.node_pool] += costs.rescheduling_cost(node)

    def score(self, pool: str, saved: Fraction, trouble: int) -> Fraction:
        if saved <= 0 or not self._cost[pool] or not self._trouble[pool] or not trouble:
            return Fraction(0)
        return (saved / self._cost[pool]) / Fraction(trouble, self._trouble[pool])

    def why_not(self, found: Sequence[Candidate], command: DisruptionCommand) -> Reason | None:
        """Every Balanced NodePool must reach the score with its share of the command; other NodePools do not count."""
        saved = Cost(command.saves_nano_usd_per_hour, command.frees_nano_usd_per_hour).scaled
        total = sum((one.cost for one in found), FREE).scaled
        for pool in sorted({one.pool for one in found} & set(self._cost)):
            ours = [one for one in found if one.pool == pool]
            of_pool = sum((one.cost for one in ours), FREE).scaled
            share = saved * Fraction(of_pool, total) if total else Fraction(0)
            score = self.score(pool, share, sum(one.rescheduling for one in ours))
            self.scores.append(Score(pool, float(score), approved=score >= THRESHOLD))
            if score < THRESHOLD:
                return Reason(
                    BlockedCode.BALANCE,
                    f'NodePool "{pool}" is Balanced: a score of {float(score):.2f} is below {float(THRESHOLD)}',
                    subjects=(pool,),
                )
        return None

    def never_worth_it(self, one: Candidate) -> bool:
        """Whether the score is too low even if the replacement costs nothing (D-38)."""
        if one.pool not in self._cost:
            return False
        return self.score(one.pool, Fraction(one.cost.scaled), one.rescheduling) < THRESHOLD
