"""EventBridge events that Holdfast reads from the interruption queue, one for each row of its table, and a matcher of
event patterns."""

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.cloud.aws.instances import interruption
from holdfast.cloud.aws.instances.interruption import Kind

INSTANCE = "i-0123456789abcdef0"
RESERVATION = "cr-0123456789abcdef0"
RESOURCE = f"arn:aws:ec2:us-west-2:111122223333:capacity-reservation/{RESERVATION}"
HEALTH = {
    "service": "EC2",
    "eventTypeCategory": "scheduledChange",
    "affectedEntities": [{"entityValue": INSTANCE}],
}
STATES = ("pending", "running", "stopping", "stopped", "shutting-down", "terminated")


def event(source: str, detail_type: str, detail: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": detail_type,
        "source": source,
        "account": "111122223333",
        "time": "2026-11-15T10:00:00Z",
        "region": "us-west-2",
        "resources": [RESOURCE] if "Capacity" in detail_type else [],
        "detail": dict(detail),
    }


def candidates() -> list[dict[str, Any]]:
    """Events of every source and detail-type that Holdfast reads, with details that it handles and that it ignores."""
    found = []
    for source, detail_type in sorted(interruption._READERS):
        details: list[Mapping[str, Any]] = [{"instance-id": INSTANCE}]
        if detail_type == "EC2 Instance State-change Notification":
            details = [{"instance-id": INSTANCE, "state": state} for state in STATES]
        elif source == "aws.health":
            details = [HEALTH, HEALTH | {"service": "RDS"}, HEALTH | {"eventTypeCategory": "issue"}]
        found += [event(source, detail_type, detail) for detail in details]
    return found


def is_handled(one: Mapping[str, Any]) -> bool:
    return interruption.read(msgspec.json.encode(one).decode()).kind is not Kind.NOTHING


def handled() -> list[dict[str, Any]]:
    return [one for one in candidates() if is_handled(one)]


def ignored() -> list[dict[str, Any]]:
    """Events that Holdfast deletes from the queue without effect."""
    others = [
        event("aws.ec2", "EBS Volume Notification", {"event": "createVolume"}),
        event("aws.ec2", "EC2 AMI State Change", {"State": "available"}),
        event("aws.autoscaling", "EC2 Instance Launch Successful", {"EC2InstanceId": INSTANCE}),
        event("custom", "EC2 Spot Instance Interruption Warning", {"instance-id": INSTANCE}),
    ]
    return [one for one in candidates() + others if not is_handled(one)]


def matches(pattern: Mapping[str, Any], one: Mapping[str, Any]) -> bool:
    """Whether EventBridge sends an event to the target of a rule. Only exact values are supported, as the rules have them."""
    return all(_field_matches(wanted, one.get(key)) for key, wanted in pattern.items())


def _field_matches(wanted: Any, value: Any) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(value, Mapping) and matches(wanted, value)
    if not isinstance(wanted, list) or not all(isinstance(one, str) for one in wanted):
        raise TypeError(f"not supported in an event pattern: {wanted!r}")
    return any(one in wanted for one in (value if isinstance(value, list) else [value]))
