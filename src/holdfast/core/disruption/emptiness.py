"""Emptiness: deletes all empty nodes at once, as far as budgets allow.

Their price does not matter: an empty node in a slot is deleted like any other (D-15, D-16), unless pods move to it
(`slot_reuse`).
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from holdfast.core.disruption import budgets
from holdfast.core.disruption.budgets import RemainingBudget
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.commands import Action, Blockers, DisruptionCommand, Method
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.model import prices
from holdfast.model.reasons import BlockedCode, Reason

_NOT_EMPTY: Final = Reason(BlockedCode.NOTHING_TO_DO, "Node is not empty")


def command(
    candidate_set: CandidateSet, remaining: RemainingBudget, blockers: Blockers, kept: Mapping[str, Reason]
) -> DisruptionCommand | None:
    """The command that deletes all empty nodes except the `kept` ones, which have the reasons."""
    found = []
    for one in sorted(candidate_set.empty, key=attrgetter("order")):
        why = why_not(candidate_set, one) or kept.get(one.name)
        if why is None and not remaining.spend(one.pool):
            why = budgets.blocked(one.pool)
        if why is None:
            found.append(one)
        else:
            blockers.add(one.name, why, Method.EMPTINESS)
    if not found:
        return None
    saved = sum(one.cost.paid_nano for one in found)
    return DisruptionCommand(
        method=Method.EMPTINESS,
        reason=DisruptionReason.EMPTY,
        action=Action.DELETE,
        candidates=tuple(one.name for one in found),
        why=f"no pod needs the node; that saves {prices.text(saved)} USD an hour",
        saves_nano_usd_per_hour=saved,
        frees_nano_usd_per_hour=sum(one.cost.slots_nano for one in found),
    )


def why_not(candidate_set: CandidateSet, one: Candidate) -> Reason | None:
    """Why emptiness does not delete a node; None: it does."""
    if not one.is_empty:
        return _NOT_EMPTY
    rules = candidate_set.cluster.pools.get(one.pool)
    after_s = candidate_set.pools[one.pool].consolidate_after_s
    if rules is None or rules.static:
        return Reason(BlockedCode.STATIC, "NodePool has a fixed number of replicas")
    if after_s is None:
        text = f'NodePool "{one.pool}" has consolidation disabled'
        return Reason(BlockedCode.CONSOLIDATION_OFF, text)
    if one.pods_block is not None:
        return one.pods_block
    if not one.is_settled(after_s, candidate_set.cluster.now_s):
        return Reason(BlockedCode.UNSETTLED, f"a pod was added or removed less than {after_s} s ago")
    return None
