"""An instance that is unhealthy, or for which the cloud has scheduled an event."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    instance_id: str  # by the last part of its provider id
    category: str  # one word for metrics, such as "system_status"
    message: str
    failing_since_s: int | None  # None: nothing fails yet, and the cloud has scheduled an event
