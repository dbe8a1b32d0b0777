"""What the cloud says it is about to do.

Answered by the Cloud door, read by the controllers that act on it. Notices are best effort: nothing may depend
on one that would not be found out later without it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    reason: str  # one word for metrics, such as "spot_interrupted"
    event: str = ""  # what an event about it is called, such as "SpotInterrupted"
    message: str = ""  # and what it says
    ends_instances: bool  # their claims are deleted; else there is only an event
    instance_ids: tuple[str, ...] = ()  # by the last part of their provider ids
    reservation_ids: tuple[str, ...] = ()
    sent_s: int = 0
    ends_s: int | None = None  # when the cloud takes what it is about, where it says so
    receipt: str  # what acknowledges it
