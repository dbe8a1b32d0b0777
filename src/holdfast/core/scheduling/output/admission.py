"""Checks NodePool limits again just before a NodeClaim is created, since the snapshot of the plan may be stale.

Only usage above a limit refuses a claim. The planner charged the claim itself to the limits, and nodes launched since
then by other programs cannot be predicted (S-73).
"""

from holdfast.model.reasons import NODE_POOL, Reason, ReasonCode
from holdfast.model.snapshot import NodePoolView


def why_refused(pool: NodePoolView) -> Reason | None:
    """Why no claim of this NodePool may be created, or None. Pass the current NodePool, not that of the snapshot."""
    above = pool.used.first_above(pool.limits)
    if above is None:
        return None
    text = f"its nodes have more {above} than its limits of {pool.limits}"
    return Reason(ReasonCode.LIMITS, text, (pool.name,), NODE_POOL)
