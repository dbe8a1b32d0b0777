"""How messages of the interruption queue are read."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors
from holdfast.cloud.aws.instances import interruption
from holdfast.cloud.aws.instances.interruption import Kind, Notice

SENT = "2026-11-15T10:00:00Z"
SENT_S = 1794736800
HEALTH = {"service": "EC2", "eventTypeCategory": "scheduledChange"}


def event(detail_type: str, source: str = "aws.ec2", **fields: Any) -> str:
    plain = {"version": "0", "id": "1", "account": "111122223333", "region": "us-west-2", "resources": []}
    return json.dumps(
        plain | {"detail-type": detail_type, "source": source, "time": SENT, "detail": {}} | fields
    )


@pytest.mark.fact("aws-6.4.2", "aws-6.4.3")
@pytest.mark.parametrize(
    ("body", "notice"),
    [
        (
            event(
                "EC2 Spot Instance Interruption Warning",
                detail={"instance-id": "i-1", "instance-action": "terminate"},
            ),
            Notice(Kind.SPOT_INTERRUPTED, ("i-1",), sent_s=SENT_S, ends_s=SENT_S + 120),
        ),
        (
            event("EC2 Instance Rebalance Recommendation", detail={"instance-id": "i-1"}),
            Notice(Kind.REBALANCE, ("i-1",), sent_s=SENT_S),
        ),
        (
            event(
                "EC2 Instance State-change Notification", detail={"instance-id": "i-1", "state": "stopped"}
            ),
            Notice(Kind.INSTANCE_STOPPED, ("i-1",), sent_s=SENT_S),
        ),
        (
            event(
                "EC2 Instance State-change Notification",
                detail={"instance-id": "i-1", "state": "shutting-down"},
            ),
            Notice(Kind.INSTANCE_TERMINATED, ("i-1",), sent_s=SENT_S),
        ),
        (
            event(
                "EC2 Capacity Reservation Instance Interruption Warning",
                detail={
                    "instance-id": "i-1",
                    "instance-action": "terminate",
                    "instance-termination-time": "2026-11-15T10:02:00Z",
                },
            ),
            Notice(Kind.RESERVATION_INTERRUPTED, ("i-1",), sent_s=SENT_S, ends_s=SENT_S + 120),
        ),
        (
            event(
                "AWS Health Event",
                "aws.health",
                detail=HEALTH | {"affectedEntities": [{"entityValue": "i-1"}, {"entityValue": "vol-2"}]},
            ),
            Notice(Kind.SCHEDULED_CHANGE, ("i-1",), sent_s=SENT_S),
        ),
        (
            event("EC2 Capacity Reservation Expired", detail={"capacityReservationId": "cr-1"}),
            Notice(Kind.RESERVATION_CHANGED, reservation_ids=("cr-1",), sent_s=SENT_S),
        ),
        (
            event(
                "Capacity Block Reservation Expiration Warning",
                resources=["arn:aws:ec2:us-west-2:111122223333:capacity-reservation/cr-1"],
                detail={"capacity-reservation-id": "cr-1", "end-date": "2026-11-15T10:40:00Z"},
            ),
            Notice(Kind.BLOCK_EXPIRING, reservation_ids=("cr-1",), sent_s=SENT_S, ends_s=SENT_S + 2400),
        ),
    ],
)
def test_event_is_read_as_a_notice(body: str, notice: Notice) -> None:
    assert interruption.read(body) == notice


@pytest.mark.parametrize(
    "words", ["Capacity Block Expiration Warning", "Capacity Block Reservation Expiration Warning"]
)
def test_both_spellings_of_the_capacity_block_warning_are_read(words: str) -> None:
    body = event(words, resources=["arn:aws:ec2:us-west-2:111122223333:capacity-reservation/cr-0a"])
    assert interruption.read(body) == Notice(Kind.BLOCK_EXPIRING, reservation_ids=("cr-0a",), sent_s=SENT_S)


@pytest.mark.fact("aws-6.4.1")
@pytest.mark.parametrize(
    "body",
    [
        event("EC2 Instance State-change Notification", detail={"instance-id": "i-1", "state": "running"}),
        event("AWS Health Event", "aws.health", detail=HEALTH | {"service": "RDS"}),
        event("EC2 Spot Instance Interruption Warning", "somebody.else", detail={"instance-id": "i-1"}),
        event("EC2 Spot Instance Interruption Warning", version="7", detail={"instance-id": "i-1"}),
        event("An Event Of Next Year"),
    ],
)
def test_irrelevant_event_is_read_as_nothing(body: str) -> None:
    assert interruption.read(body).kind is Kind.NOTHING


@pytest.mark.fact("aws-6.4.1")
@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "[]",
        "not json",
        event("EC2 Spot Instance Interruption Warning"),
        event("EC2 Spot Instance Interruption Warning", detail={"instance-id": 7}),
        event("EC2 Spot Instance Interruption Warning", time="yesterday"),
        event("Capacity Block Expiration Warning"),
        event(
            "EC2 Capacity Reservation Instance Interruption Warning",
            detail={"instance-id": "i-1", "instance-termination-time": "soon"},
        ),
    ],
)
def test_malformed_message_is_rejected(body: str) -> None:
    with pytest.raises(errors.InvalidInput):
        interruption.read(body)


# Wrong values for fields of an event; shallow, because nothing is read deeper. The list replaces st.text(), which
# makes hypothesis load all of Unicode first: that takes seconds on a busy host.
WRONG_VALUES: tuple[Any, ...] = (
    *(None, True, 7, -1.5, "", "\x00", "\u00fc", "i-1", "cr-1", "EC2", "scheduledChange", "stopped", SENT),
    *([], [None], ["i-1"], [{"entityValue": "i-1"}], {}, {"entityValue": 7}, {"i-1": []}),
)
KEYS = ("instance-id", "state", "service", "eventTypeCategory", "affectedEntities", "end-date", "endDate")


@given(
    st.sampled_from(sorted(interruption._READERS)),
    st.dictionaries(st.sampled_from(KEYS), st.sampled_from(WRONG_VALUES), max_size=5),
)
def test_event_with_wrong_values_is_a_notice_or_invalid_input(
    key: tuple[str, str], detail: dict[str, Any]
) -> None:
    try:
        notice = interruption.read(event(key[1], key[0], detail=detail))
    except errors.InvalidInput:
        return
    assert notice.sent_s == SENT_S
