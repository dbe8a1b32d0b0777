"""Which reservations an EC2NodeClass selects, and how EC2's reservations map to the model."""

from typing import Any

import pytest

from aws_builders import reservation, status_entry
from builders import ec2nodeclass
from holdfast.cloud.aws.reservations import capacity_reservation, selection
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.model.reservations import Draining, Open, Reclaiming, State, launches_into, preference, window

MINUTE = 60
END = 1_000_000
RESERVATIONS = (
    reservation("cr-a", owner="111122223333", tags=(("team", "ml"), ("stage", "prod"))),
    reservation("cr-b", owner="444455556666", tags=(("team", "web"),), match_criteria="targeted"),
    reservation("cr-c", owner="444455556666", match_criteria="open"),
)


def selected(*terms: dict[str, Any], **status: Any) -> list[str]:
    node_class = ec2nodeclass(capacityReservationSelectorTerms=list(terms), status=status)
    return sorted(selection.selected(node_class, (one.traits for one in RESERVATIONS)))


@pytest.mark.fact("Q-1", "Q-5", "aws-1.2.6")
@pytest.mark.parametrize(
    ("terms", "ids"),
    [
        ([{"id": "cr-b"}], ["cr-b"]),
        ([{"id": "cr-unknown"}], []),
        ([{"ownerID": "444455556666"}], ["cr-b", "cr-c"]),
        ([{"tags": {"team": "ml"}}], ["cr-a"]),
        ([{"tags": {"team": "*"}}], ["cr-a", "cr-b"]),
        ([{"tags": {"team": "*", "stage": "prod"}}], ["cr-a"]),
        ([{"instanceMatchCriteria": "targeted"}], ["cr-b"]),
        ([{"instanceMatchCriteria": "open"}], ["cr-a", "cr-c"]),
        ([{"ownerID": "444455556666", "tags": {"team": "*"}}], ["cr-b"]),
        ([{"ownerID": "444455556666", "tags": {"team": "ml"}}], []),
        ([{"id": "cr-c"}, {"tags": {"team": "ml"}}], ["cr-a", "cr-c"]),
        ([{"id": "cr-c"}, {"ownerID": "444455556666"}, {"tags": {"team": "*"}}], ["cr-a", "cr-b", "cr-c"]),
        ([{"tags": {}}], []),
    ],
)
def test_terms_are_ored_and_the_fields_of_a_term_anded(terms: list[dict[str, Any]], ids: list[str]) -> None:
    assert selected(*terms) == ids


def test_no_class_and_no_terms_select_nothing() -> None:
    known = [one.traits for one in RESERVATIONS]
    assert selection.selected(None, known) == frozenset()
    assert selection.selected(ec2nodeclass(), known) == frozenset()


def test_reservations_of_the_status_override_selector_terms() -> None:
    assert selected({"tags": {"team": "*"}}, capacityReservations=[status_entry("cr-c")]) == ["cr-c"]


def block(**fields: Any) -> CapacityReservation:
    return reservation("cr-block", kind="capacity-block", end_s=END, **fields)


@pytest.mark.parametrize(
    ("minutes_left", "phase"), [(41, Open), (40, Draining), (31, Draining), (30, Reclaiming), (1, Reclaiming)]
)
def test_a_capacity_block_drains_40_minutes_before_its_end(minutes_left: int, phase: type) -> None:
    assert isinstance(window(block().model, END - minutes_left * MINUTE), phase)


@pytest.mark.parametrize(("minutes_left", "phase"), [(71, Open), (70, Draining), (60, Reclaiming)])
def test_ultraservers_are_drained_and_reclaimed_half_an_hour_earlier(minutes_left: int, phase: type) -> None:
    assert isinstance(window(block(ultraserver=True).model, END - minutes_left * MINUTE), phase)


def test_a_reservation_changes_when_it_starts_and_when_its_drain_begins() -> None:
    start = END - 90 * MINUTE
    assert capacity_reservation.turns_s(block(start_s=start)) == (start, END - 40 * MINUTE)
    assert capacity_reservation.turns_s(block(ultraserver=True)) == (END - 70 * MINUTE,)
    assert capacity_reservation.turns_s(reservation(start_s=start, end_s=END)) == (
        start,
    )  # an ODCR is never drained
    assert capacity_reservation.turns_s(reservation("cr-block", kind="capacity-block", end_s=None)) == ()


def test_odcr_is_launched_into_until_its_end() -> None:
    odcr = reservation(end_s=END).model
    assert launches_into(odcr, END - 1)
    assert not launches_into(odcr, END)


@pytest.mark.parametrize(
    ("ec2_state", "state"),
    [
        ("active", State.ACTIVE),
        ("scheduled", State.PENDING),
        ("payment-pending", State.PENDING),
        ("a word of next year", State.PENDING),
        ("expired", State.GONE),
        ("cancelled", State.GONE),
        ("payment-failed", State.GONE),
    ],
)
def test_ec2_reservation_states_map_to_three_states(ec2_state: str, state: State) -> None:
    assert reservation(state=ec2_state).model.state is state


def test_capacity_block_is_preferred_to_an_odcr() -> None:
    odcr, capacity_block = (r.model for r in (reservation(end_s=1), block()))
    assert sorted([odcr, capacity_block], key=preference) == [capacity_block, odcr]


def test_available_count_is_capped_at_the_total() -> None:
    assert reservation(total=1, available=3).model.available == 1


def test_shared_reservation_gets_the_zone_name_of_this_account() -> None:
    shared = reservation("cr-1", zone="us-west-2a", zone_id="usw2-az1", owner="444455556666")
    unknown_zone = reservation("cr-2", zone="us-west-2d", zone_id="usw2-az4")
    without_zone_id = reservation("cr-3")
    localized = capacity_reservation.localized(
        (shared, unknown_zone, without_zone_id), {"usw2-az1": "us-west-2b"}, 0
    )
    assert [one.zone for one in localized] == ["us-west-2b", "us-west-2d", "us-west-2a"]
