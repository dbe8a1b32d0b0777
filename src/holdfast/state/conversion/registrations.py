"""Outcomes of launches, from changes of NodeClaims.

Only a change that was watched counts. A NodeClaim that exists when the program starts was counted before.
"""

from datetime import datetime
from typing import Final

from holdfast.api import conditions
from holdfast.api.claim_conditions import LAUNCHED, REGISTERED
from holdfast.api.conditions import Condition
from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.lifecycle.registration_health import SUCCESS, Outcome
from holdfast.state.conversion import times

LAUNCH_TIMEOUT_S: Final = 300
REGISTRATION_TIMEOUT_S: Final = 900
_FAILED: Final = "RegistrationFailed"


def outcome(before: NodeClaim | None, after: NodeClaim | None) -> Outcome | None:
    """Whether the launch of a claim succeeded or failed with this change; None: neither."""
    if before is None or after is None or conditions.holds(before.status.conditions, REGISTERED):
        return None
    if conditions.holds(after.status.conditions, REGISTERED):
        return SUCCESS
    ends = after.metadata.deletion_timestamp
    if ends is None or before.metadata.deletion_timestamp is not None:
        return None
    return _timed_out(after, ends)


def _timed_out(claim: NodeClaim, ends: datetime) -> Outcome | None:
    """The failure of a claim that was deleted after the launch or registration timeout; None: it was deleted earlier,
    for lack of capacity, by a user or by disruption."""
    launched, registered = (conditions.find(claim.status.conditions, c) for c in (LAUNCHED, REGISTERED))
    if launched is None:
        return None
    if launched.status != conditions.TRUE:
        late = _age_s(launched, ends) >= LAUNCH_TIMEOUT_S
        return Outcome(False, launched.reason or _FAILED, launched.message or "") if late else None
    if registered is None or _age_s(registered, ends) < REGISTRATION_TIMEOUT_S:
        return None
    return Outcome(
        False, _FAILED, f"{claim.metadata.name} did not become a node in time: {registered.message or ''}"
    )


def _age_s(condition: Condition, now: datetime) -> int:
    return times.epoch_s(now) - times.epoch_s(condition.last_transition_time)
