"""Which empty nodes in slots emptiness does not delete, because consolidation can move pods to them.

A slot is paid for whether it is used or not. If pods of an on-demand or spot node fit on an empty node in a slot, the
deletion of the empty node saves nothing, and the pods would need a new instance in the same slot (ADR 0066). The check
never keeps a node whose slot a pending pod may need, and never with `ReleaseSlots.ALWAYS`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.core.disruption import consolidation, emptiness
from holdfast.core.disruption.budgets import Allowance
from holdfast.core.disruption.candidates import Candidate
from holdfast.core.disruption.commands import DisruptionCommand
from holdfast.core.disruption.consolidation import ConsolidationPass
from holdfast.model.reasons import BlockedCode, Reason

_SHARE: Final = 4  # one fourth of the simulations of a pass
REUSED: Final = Reason(
    BlockedCode.ANOTHER_FIRST,
    "the node is in a slot, and consolidation moves pods of on-demand or spot nodes to it first",
)


def reused(c: ConsolidationPass, allowances: Mapping[str, Allowance]) -> frozenset[str]:
    """Empty nodes in slots to which pods of on-demand and spot nodes can move now, or when a disruption that uses up a
    budget has ended. A budget of 0 allows no move, so it keeps no node."""
    empty = frozenset(one.name for one in c.candidate_set.empty if _is_idle_slot(c, one))
    if not empty:
        return empty

    def attempt(chosen: Sequence[Candidate]) -> DisruptionCommand | Reason | None:
        return c.attempt_some(chosen, _SHARE)

    movable = [
        one
        for one in c.eligible()
        if one.cost.paid_nano and _limit(allowances, one.pool) != 0 and _fits_on(c, one, empty)
    ]
    command = consolidation.largest(movable[: c.settings.together_max], attempt)
    return empty & {placed.node for placed in command.placed} if command is not None else frozenset()


def _is_idle_slot(c: ConsolidationPass, one: Candidate) -> bool:
    return (
        one.is_reserved
        and one.facts.drifted is None
        and emptiness.why_not(c.candidate_set, one) is None
        and c.release.why_never(one) is not None
    )


def _limit(allowances: Mapping[str, Allowance], pool: str) -> int | None:
    return allowances[pool].limit if pool in allowances else 0


def _fits_on(c: ConsolidationPass, one: Candidate, empty: frozenset[str]) -> bool:
    pods = (pod for pod in one.node.pods if pod.reschedulable)
    return any(c.simulator.targets.fits_on(pod.shape, empty) for pod in pods)
