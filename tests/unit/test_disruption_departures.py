"""Reservations that end and take their machines along: who goes, from when, by when."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import MEDIUM, machine, world
from holdfast.core.disruption import departures
from holdfast.core.disruption.departures import Departure, Reading, skew
from holdfast.model.instances import InstanceState
from holdfast.model.notices import Notice
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import ClaimView, Snapshot
from planner_builders import reservation

END_S = 2_000_000
MINUTE_S = 60


def block(drain_min: int = 40, reclaim_min: int = 30, **more: Any) -> Reservation:
    return reservation(
        "cr-1",
        MEDIUM,
        available=0,
        total=1,
        end_s=END_S,
        drain_lead_s=drain_min * MINUTE_S,
        reclaim_lead_s=reclaim_min * MINUTE_S,
        **more,
    )


def claim(name: str) -> ClaimView:
    return ClaimView(
        f"claim-{name}", "default", NO_REQUIREMENTS, 0, slot="cr-1", launched_s=0, provider_id=f"id-{name}"
    )


def at(before_min: float, one: Reservation) -> Snapshot:
    nodes = [machine("a", slot="cr-1"), machine("b")]
    return world(
        *nodes,
        reservations=[one],
        claims=(claim("a"), claim("b")),
        now_s=END_S - round(before_min * MINUTE_S),
        pools=[],
        rules={},
    ).snapshot


@pytest.mark.fact("Q-37", "aws-6.2.1")
@pytest.mark.parametrize(
    ("one", "before_min", "deadline_min"),
    [
        (block(), 40.1, None),
        (block(), 40, 30),
        (block(), 31, 30),
        (block(), 29, 29),  # the cloud takes them already: at once
        (block(), -1, -1),
        (block(70, 60), 70.1, None),
        (block(70, 60), 70, 60),
        (block(70, 60), 45, 45),
    ],
)
def test_claims_leave_ahead_of_the_end_and_must_be_gone_when_machines_are_reclaimed(
    one: Reservation, before_min: float, deadline_min: int | None
) -> None:
    found = [(d.claim, d.reservation, d.deadline_s) for d in departures.departures(at(before_min, one))]
    expected = [] if deadline_min is None else [("claim-a", "cr-1", END_S - deadline_min * MINUTE_S)]
    assert found == expected


@pytest.mark.fact("Q-37")
def test_an_end_that_is_moved_is_followed() -> None:
    extended = replace(block(), end_s=END_S + 24 * 60 * MINUTE_S)
    assert departures.departures(at(35, block()))
    assert departures.departures(at(35, extended)) == ()


@pytest.mark.fact("Q-38", "aws-6.2.5")
@pytest.mark.parametrize("before_min", [35, 1, 0, -60])
def test_nobody_leaves_a_reservation_whose_instances_live_on(before_min: float) -> None:
    assert departures.departures(at(before_min, block(0, 0))) == ()


def test_the_machine_decides_not_the_claim() -> None:
    """A machine that the cloud moved out of the reservation stays where it is."""
    snapshot = at(35, block())
    moved = tuple(replace(one, reservation_id=None) for one in snapshot.instances)
    assert departures.departures(replace(snapshot, instances=moved)) == ()
    gone = tuple(replace(one, state=InstanceState.GONE) for one in snapshot.instances)
    assert departures.departures(replace(snapshot, instances=gone)) == ()


@pytest.mark.fact("aws-6.4.5")
def test_machines_that_are_interrupted_have_a_deadline() -> None:
    snapshot = at(600, block())
    notice = Notice(
        reason="capacity_reservation_interrupted",
        ends_machines=True,
        machines=("id-a", "id-unknown"),
        sent_s=1000,
        receipt="1",
    )
    (one,) = departures.interrupted(snapshot, notice)
    assert isinstance(one, Departure)
    assert (one.claim, one.reservation, one.deadline_s) == ("claim-a", "cr-1", 1120)
    (sooner,) = departures.interrupted(snapshot, replace(notice, ends_s=1060))
    assert sooner.deadline_s == 1060
    assert departures.interrupted(snapshot, replace(notice, ends_machines=False)) == ()


# --- Clocks ------------------------------------------------------------------------------------------------


def test_our_clock_is_corrected_by_the_clouds() -> None:
    late = skew([Reading(cloud_s=1100, asked_s=1000, answered_s=1001)])
    assert late.is_told
    assert late.corrected_s(2000) == pytest.approx(2100)
    early = skew([Reading(cloud_s=980, asked_s=1000, answered_s=1001)])
    assert not early.is_told
    assert early.corrected_s(2000) == pytest.approx(1980)


def test_a_difference_within_the_doubt_is_none() -> None:
    assert skew([Reading(1001, 1000, 1001)]).corrected_s(2000) == 2000
    assert skew([Reading(1005, 1000, 1012)]).corrected_s(2000) == 2000
    assert skew([]).corrected_s(2000) == 2000


def test_the_quickest_answer_is_believed() -> None:
    readings = [Reading(1000, 1000, 1030), Reading(1100, 1040, 1040.1)]
    assert skew(readings).corrected_s(0) == pytest.approx(60.45)
