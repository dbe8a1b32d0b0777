"""Reboots of a NodeClaim's instance: whether one goes on, and when there were some, as the claim says.

Written by the reboot controller, read by it and by disruption.
"""

from datetime import UTC, datetime
from typing import Final

from holdfast import names
from holdfast.api import conditions
from holdfast.api.claim_conditions import REBOOTING
from holdfast.api.nodeclaim import NodeClaim

FAILED: Final = "RebootFailed"  # why one is over
_REMEMBERED: Final = 4
_DIGITS_MAX: Final = 12  # of seconds since the epoch


def is_on(claim: NodeClaim) -> bool:
    return conditions.holds(claim.status.conditions, REBOOTING)


def has_failed(claim: NodeClaim) -> bool:
    """Whether the last one is over and the node did not come back."""
    found = conditions.find(claim.status.conditions, REBOOTING)
    return found is not None and (found.status, found.reason) == (conditions.FALSE, FAILED)


def of(claim: NodeClaim) -> tuple[int, ...]:
    """When it was rebooted for its repair, in seconds since the epoch. The last one was not begun where the condition says
    nothing of it: whoever wanted to begin it died between the two."""
    written = claim.metadata.annotations.get(names.REBOOTS, "")
    found = tuple(int(one) for one in written.split(",") if one.isdecimal() and len(one) <= _DIGITS_MAX)
    said = conditions.find(claim.status.conditions, REBOOTING)
    begun = found and said is not None and _epoch_s(said.last_transition_time) >= found[-1]
    return found if begun else found[:-1]


def and_one(claim: NodeClaim, at_s: int) -> str:
    """The annotation with one more."""
    return ",".join(map(str, (*of(claim), at_s)[-_REMEMBERED:]))


def _epoch_s(moment: datetime) -> float:
    """A time without a zone is UTC."""
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
