"""Deletes a NodeClaim: writes the deadline of its drain, deletes the NodeClaim, counts it.

The deadline is written before the deletion, so after a crash between the two the next reconcile deletes the NodeClaim.
A deadline is never extended. A NodeClaim that is deleting was counted by the controller that deleted it.
"""

from typing import Final

from holdfast import errors, names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.reservations import deadlines
from holdfast.model.decisions import DecisionType
from holdfast.ports import Clock, Kube, Recorder
from holdfast.runtime.metrics import Metric
from holdfast.state.conversion import times

DISRUPTED: Final = "karpenter_nodeclaims_disrupted_total"
LABELS: Final = ("reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode")
METRICS: Final = (Metric(DISRUPTED, "counter", "NodeClaims that were deleted by us, and why.", LABELS),)


class ClaimEnd:
    def __init__(self, *, kube: Kube, clock: Clock, recorder: Recorder) -> None:
        self._kube = kube
        self._clock = clock
        self._recorder = recorder

    async def end(
        self,
        claim: NodeClaim,
        reason: str,
        *,
        until_s: int | None = None,
        why: str = "",
        consolidation_policy: str = "",
    ) -> bool:
        """Returns whether this call deleted the NodeClaim. `reason` is the label of the metric, `why` a sentence.
        `until_s`: when the cloud terminates the instance."""
        try:
            if until_s is not None:
                claim = await self._limited(claim, until_s)
            if claim.metadata.deletion_timestamp is not None:
                return False
            await self._kube.delete(claim)
        except errors.NotFound:
            return False
        self.count(claim, reason, consolidation_policy)
        node = f" with node {claim.status.node_name}" if claim.status.node_name else ""
        text = f"Deleted NodeClaim {claim.metadata.name}{node}: {why or reason}"
        self._recorder.decision(DecisionType.REMOVAL, claim, text)
        return True

    def count(self, claim: NodeClaim, reason: str, consolidation_policy: str = "") -> None:
        self._recorder.count(DISRUPTED, labels(claim, reason, consolidation_policy))

    async def _limited(self, claim: NodeClaim, until_s: int) -> NodeClaim:
        period = claim.spec.termination_grace_period
        grace_s = times.duration_s(period) if period is not None else None
        own_s = self._clock.now_s() + grace_s if grace_s is not None else None
        known_s = deadline_s(claim.metadata.annotations)
        until = times.text(deadlines.until_s(until_s, own_s, known_s))
        if claim.metadata.annotations.get(names.TERMINATION_TIMESTAMP) == until:
            return claim
        return await self._kube.patch(
            claim, {"metadata": {"annotations": {names.TERMINATION_TIMESTAMP: until}}}
        )


def labels(claim: NodeClaim, reason: str, consolidation_policy: str = "") -> dict[str, str]:
    """The labels of the metrics of disrupted NodeClaims and pods."""
    of_claim = claim.metadata.labels
    return {
        "reason": reason,
        "nodepool": of_claim.get(names.NODEPOOL, ""),
        "capacity_type": of_claim.get(names.CAPACITY_TYPE, ""),
        "consolidation_policy": consolidation_policy,
        "termination_mode": termination_mode(claim),
    }


def deadline_s(annotations: dict[str, str]) -> int | None:
    """The deadline of the drain, from the annotation of the claim; None: there is none."""
    return times.moment_s(annotations.get(names.TERMINATION_TIMESTAMP))


def termination_mode(claim: NodeClaim) -> str:
    """The value of Karpenter's metric label (M-9)."""
    period = claim.spec.termination_grace_period
    if period is None:
        return "graceful"
    return "eventual" if times.duration_s(period) else "forceful"
