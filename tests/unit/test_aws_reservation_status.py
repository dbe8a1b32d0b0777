"""Reservation status of an EC2NodeClass: the cases that the simulated EC2 cannot produce."""

from typing import Any

import pytest

from aws_builders import reservation
from builders import ec2nodeclass
from holdfast.cloud.aws.nodeclass import reservation_status
from holdfast.cloud.aws.nodeclass.reservation_status import ReservationStatus
from holdfast.cloud.aws.reservations import capacity_reservation

NOW_S = 1_800_000_000


def resolve_status(
    *reservations: Any, now_s: int = NOW_S, zones: frozenset[str] | None = None
) -> ReservationStatus:
    node_class = ec2nodeclass(capacityReservationSelectorTerms=[{"ownerID": "111122223333"}])
    return reservation_status.resolve(node_class, reservations, zones=zones, placement_group="", now_s=now_s)


@pytest.mark.fact("aws-2.4.1")
@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"kind": "capacity-cube"}, "its type 'capacity-cube' is not supported"),
        ({"match_criteria": "shy"}, "its match criteria 'shy' are new to Holdfast"),
        ({"outpost": True}, "it is on an Outpost"),
        ({"launchable": False}, "its UltraServer cannot be launched into now"),
        ({"state": "pending"}, "it is pending"),
    ],
)
def test_unusable_reservation_is_reported_and_the_other_stays_active(
    fields: dict[str, Any], why: str
) -> None:
    status = resolve_status(reservation("cr-1", **fields), reservation("cr-2"))
    assert [entry.id for entry in status.active] == ["cr-2"]
    (problem,) = status.problems
    assert problem.startswith("cr-1 cannot be used: ")
    assert why in problem


@pytest.mark.fact("aws-2.4.3", "aws-14.2")
@pytest.mark.parametrize(("minutes_left", "state"), [(61, "active"), (60, "expiring"), (30, "expiring")])
def test_ultraserver_reservation_is_expiring_60_minutes_before_its_end(minutes_left: int, state: str) -> None:
    block = reservation(kind="capacity-block", ultraserver=True, end_s=NOW_S + minutes_left * 60)
    assert [entry.state for entry in resolve_status(block).active] == [state]


def test_upcoming_reservation_is_listed_with_its_start_and_count() -> None:
    status = resolve_status(reservation("cr-1", state="scheduled", start_s=NOW_S + 60, kind="capacity-block"))
    (upcoming,) = status.upcoming
    assert (upcoming.id, upcoming.type, upcoming.count) == ("cr-1", "capacity-block", 4)
    assert upcoming.start_time.timestamp() == NOW_S + 60
    assert status.active == ()
    assert status.problems == ()


def test_only_slots_of_usable_reservations_count_as_free() -> None:
    status = resolve_status(
        reservation("cr-1", available=1), reservation("cr-2", state="cancelled", available=3)
    )
    assert status.free == 1


def test_message_lists_at_most_20_problems() -> None:
    status = resolve_status(*(reservation(f"cr-{n}", outpost=True) for n in range(50)))
    assert len(status.problems) == 50
    assert status.message.count("Outpost") == 20
    assert status.message.endswith("and 30 more")


# --- Responses of DescribeCapacityReservations ------------------------------------------------------

RAW = {
    "CapacityReservationId": "cr-1",
    "InstanceType": "m5.large",
    "AvailabilityZone": "us-west-2a",
    "AvailableInstanceCount": 2,
}


@pytest.mark.fact("aws-2.4.1", "aws-2.4.2")
def test_fields_missing_in_the_response_get_defaults() -> None:
    one = capacity_reservation.from_description(RAW)
    assert (one.kind, one.interruptible, one.platform, one.tenancy) == (
        "default",
        False,
        "Linux/UNIX",
        "default",
    )
    assert (one.total, one.available, one.start_s, one.end_s) == (2, 2, None, None)
    assert (one.placement_group, one.outpost, one.launchable, one.ultraserver) == ("", False, True, False)


@pytest.mark.parametrize(
    ("more", "ultraserver", "launchable"),
    [
        ({"InstanceType": "p6e-gb200.36xlarge"}, True, True),
        ({"InstanceType": "trn2u.48xlarge"}, True, True),
        ({"InstanceType": "trn2.48xlarge"}, False, True),
        ({"LaunchStatus": "launchable"}, True, True),
        ({"LaunchStatus": "unlaunchable"}, True, False),
    ],
)
def test_ultraservers_are_recognized_by_instance_type_or_launch_status(
    more: dict[str, Any], *, ultraserver: bool, launchable: bool
) -> None:
    one = capacity_reservation.from_description(RAW | more)
    assert (one.ultraserver, one.launchable) == (ultraserver, launchable)
