"""A machine that is not well, or that the cloud will not leave alone.

Answered by the Cloud door, read by the controller that acts on it.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    machine: str  # by the last part of its provider id
    category: str  # one word for metrics, such as "system_status"
    message: str
    failing_since_s: int | None  # None: nothing fails yet, and the cloud has said what it is going to do
