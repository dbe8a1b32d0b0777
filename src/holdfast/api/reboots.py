"""Reads and writes the reboots of a NodeClaim's instance: its condition Rebooting, and the annotation with their times."""

from datetime import UTC, datetime
from typing import Final

from holdfast import names
from holdfast.api import conditions
from holdfast.api.claim_conditions import REBOOTING
from holdfast.api.nodeclaim import NodeClaim

FAILED: Final = "RebootFailed"  # the reason of the condition after a reboot that failed
_REMEMBERED: Final = 4
_DIGITS_MAX: Final = 12  # of seconds since the epoch


def is_on(claim: NodeClaim) -> bool:
    return conditions.holds(claim.status.conditions, REBOOTING)


def has_failed(claim: NodeClaim) -> bool:
    """Whether the node was not ready in time after the last reboot."""
    found = conditions.find(claim.status.conditions, REBOOTING)
    return found is not None and (found.status, found.reason) == (conditions.FALSE, FAILED)


def of(claim: NodeClaim) -> tuple[int, ...]:
    """When the instance was rebooted for a repair, in seconds since the epoch. Without the condition the last reboot was
    not requested: the process exited between the two writes."""
    written = claim.metadata.annotations.get(names.REBOOTS, "")
    found = tuple(int(one) for one in written.split(",") if one.isdecimal() and len(one) <= _DIGITS_MAX)
    condition = conditions.find(claim.status.conditions, REBOOTING)
    has_begun = found and condition is not None and _epoch_s(condition.last_transition_time) >= found[-1]
    return found if has_begun else found[:-1]


def and_one(claim: NodeClaim, at_s: int) -> str:
    """The annotation with one more reboot."""
    return ",".join(map(str, (*of(claim), at_s)[-_REMEMBERED:]))


def _epoch_s(moment: datetime) -> float:
    """A time without a zone is UTC."""
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
