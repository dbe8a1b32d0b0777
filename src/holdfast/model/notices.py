"""A message of the cloud about a future action.

Delivery is best effort: every condition that a notice reports must also be found without it, later.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    reason: str  # one word for metrics, such as "spot_interrupted"
    event: str = ""  # the reason of the event, such as "SpotInterrupted"
    message: str = ""  # the message of the event
    terminates_instances: bool  # their NodeClaims are deleted; if false, only an event is emitted
    instance_ids: tuple[str, ...] = ()  # the last part of their provider ids
    reservation_ids: tuple[str, ...] = ()
    sent_s: int = 0
    ends_s: int | None = None  # when the cloud terminates the instances, if the notice has a time
    receipt: str  # acknowledges the notice
