"""What is asked once more when a claim is about to be written: a plan is only as fresh as its snapshot.

Called by whoever writes NodeClaims. The rule (S-73): only use that is above a limit already refuses a claim. What a
claim itself may add was charged when it was planned; what others launched since is not ours to guess.
"""

from holdfast.model.reasons import NODE_POOL, Reason, ReasonCode
from holdfast.model.snapshot import NodePoolView


def why_refused(pool: NodePoolView) -> Reason | None:
    """Why no claim of this pool may be written now, or None; the pool is as it is now, not as it was planned with."""
    above = pool.used.first_above(pool.limits)
    if above is None:
        return None
    text = f"its nodes have more {above} than its limits of {pool.limits}"
    return Reason(ReasonCode.LIMITS, text, (pool.name,), NODE_POOL)
