"""Parses messages of the interruption queue: announced actions of EC2 on instances and reservations. Pure.

A message is an EventBridge event. One table has the known events, by source and detail type as in EventBridge
(aws-6.4.2). A message that is not an event is InvalidInput; the caller counts and deletes it. An unknown event becomes
an empty notice. Delivery is best effort, so nothing depends on an event that polling would not show later.
"""

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from holdfast import errors
from holdfast.cloud.aws.client import answers

_BODY_MAX: Final = 2**20  # characters; the limit of SQS
_WARNING_S: Final = 120  # from the warning to the interruption of a spot or interruptible instance
_RESERVATION_ID: Final = re.compile(r"\bcr-[0-9a-z]+")
_INSTANCE_ID: Final = re.compile(r"i-[0-9a-f]+")
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Kind(enum.StrEnum):
    """The kind of a message; the value is the metric label."""

    SPOT_INTERRUPTED = "spot_interrupted"
    RESERVATION_INTERRUPTED = "capacity_reservation_interrupted"
    REBALANCE = "rebalance_recommendation"
    INSTANCE_STOPPED = "instance_stopped"
    INSTANCE_TERMINATED = "instance_terminated"
    SCHEDULED_CHANGE = "scheduled_change"
    RESERVATION_CHANGED = "capacity_reservation_changed"  # of its state or size: count again
    BLOCK_EXPIRING = "capacity_block_expiring"
    NOTHING = "no_op"


@dataclass(frozen=True, slots=True)
class Notice:
    kind: Kind
    instance_ids: tuple[str, ...] = ()
    reservation_ids: tuple[str, ...] = ()
    sent_s: int = 0
    ends_s: int | None = None  # when EC2 reclaims the instance or the reservation, if the event has it


class _Event(msgspec.Struct, frozen=True, rename={"detail_type": "detail-type"}):
    """The EventBridge envelope."""

    source: str
    detail_type: str
    time: _Time
    detail: dict[str, Any] = {}
    resources: tuple[str, ...] = ()
    version: str = "0"


def read(body: str) -> Notice:
    if len(body) > _BODY_MAX:
        raise errors.InvalidInput(f"a message of the interruption queue has {len(body):,} characters")
    try:
        with answers.reading("ReceiveMessage"):
            event = msgspec.json.decode(body, type=_Event)
            reader = _READERS.get((event.source, event.detail_type)) if event.version == "0" else None
            found = reader(event) if reader else None
            return found or Notice(Kind.NOTHING, sent_s=_sent_s(event))
    except errors.Unreachable as error:
        raise errors.InvalidInput(f"a message of the interruption queue is no event: {error}") from error


def _spot(event: _Event) -> Notice:
    return Notice(
        Kind.SPOT_INTERRUPTED, _instance(event), sent_s=_sent_s(event), ends_s=_sent_s(event) + _WARNING_S
    )


def _interruptible(event: _Event) -> Notice:
    named = event.detail.get("instance-termination-time")
    ends_s = _time_s(named) if named else _sent_s(event) + _WARNING_S
    return Notice(
        Kind.RESERVATION_INTERRUPTED, _instance(event), _reservations(event), _sent_s(event), ends_s
    )


def _rebalance(event: _Event) -> Notice:
    return Notice(Kind.REBALANCE, _instance(event), sent_s=_sent_s(event))


def _state_change(event: _Event) -> Notice | None:
    kind = _ENDING_STATES.get(str(event.detail.get("state")))
    return Notice(kind, _instance(event), sent_s=_sent_s(event)) if kind else None


def _health(event: _Event) -> Notice | None:
    about = (event.detail.get("service"), event.detail.get("eventTypeCategory"))
    if about != ("EC2", "scheduledChange"):
        return None
    entities = event.detail.get("affectedEntities")
    values = [
        entity.get("entityValue")
        for entity in (entities if isinstance(entities, Sequence) else ())
        if isinstance(entity, Mapping)
    ]
    ids = tuple(value for value in values if isinstance(value, str) and _INSTANCE_ID.fullmatch(value))
    return Notice(Kind.SCHEDULED_CHANGE, ids, sent_s=_sent_s(event))


def _reservation_changed(event: _Event) -> Notice:
    return Notice(
        Kind.RESERVATION_CHANGED, reservation_ids=_reservations(event, needed=False), sent_s=_sent_s(event)
    )


def _block_expiring(event: _Event) -> Notice:
    named = event.detail.get("end-date") or event.detail.get("endDate")
    return Notice(
        Kind.BLOCK_EXPIRING,
        reservation_ids=_reservations(event, needed=True),
        sent_s=_sent_s(event),
        ends_s=_time_s(named) if named else None,
    )


_ENDING_STATES: Final = {
    "stopping": Kind.INSTANCE_STOPPED,
    "stopped": Kind.INSTANCE_STOPPED,
    "shutting-down": Kind.INSTANCE_TERMINATED,
    "terminated": Kind.INSTANCE_TERMINATED,
}
_RESERVATION_STATES: Final = (
    "Scheduled",
    "Active",
    "Delayed",
    "Unsupported",
    "Failed",
    "Expired",
    "Cancelled",
)
_EC2: Final = "aws.ec2"
_READERS: Final[dict[tuple[str, str], Callable[[_Event], Notice | None]]] = {
    (_EC2, "EC2 Spot Instance Interruption Warning"): _spot,
    (_EC2, "EC2 Capacity Reservation Instance Interruption Warning"): _interruptible,
    (_EC2, "EC2 Instance Rebalance Recommendation"): _rebalance,
    (_EC2, "EC2 Instance State-change Notification"): _state_change,
    ("aws.health", "AWS Health Event"): _health,
    **{(_EC2, f"EC2 Capacity Reservation {state}"): _reservation_changed for state in _RESERVATION_STATES},
    (_EC2, "EC2 Interruptible Capacity Reservation Allocation Reclamation Completed"): _reservation_changed,
    # AWS's documentation has two spellings of these.
    (_EC2, "Capacity Block Delivered"): _reservation_changed,
    (_EC2, "Capacity Block Reservation Delivered"): _reservation_changed,
    (_EC2, "Capacity Block Expiration Warning"): _block_expiring,
    (_EC2, "Capacity Block Reservation Expiration Warning"): _block_expiring,
}


def _instance(event: _Event) -> tuple[str, ...]:
    value = event.detail.get("instance-id")
    if not isinstance(value, str) or not value:
        raise errors.InvalidInput(f"{event.detail_type}: no instance-id")
    return (value,)


def _reservations(event: _Event, *, needed: bool = False) -> tuple[str, ...]:
    """The reservation ids anywhere in the event: its detail has more than one spelling."""
    texts = [*event.resources, *(value for value in event.detail.values() if isinstance(value, str))]
    found = tuple(sorted({match for text in texts for match in _RESERVATION_ID.findall(text)}))
    if needed and not found:
        raise errors.InvalidInput(f"{event.detail_type}: no capacity reservation is named")
    return found


def _sent_s(event: _Event) -> int:
    return answers.epoch_s(event.time)


def _time_s(written: Any) -> int:
    return answers.epoch_s(msgspec.convert(written, _Time))
