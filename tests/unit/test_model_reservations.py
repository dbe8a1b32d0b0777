"""The phase of a reservation follows from its dates alone."""

import pytest

from holdfast.model import reservations
from holdfast.model.reservations import (
    Draining,
    Ended,
    Open,
    Reclaiming,
    Reservation,
    State,
    Upcoming,
    Window,
)

MINUTE = 60
START, END = 1_000_000, 1_100_000


def reservation(
    name: str = "slot-1",
    *,
    available: int = 2,
    state: State = State.ACTIVE,
    tie_rank: int = 0,
    start_s: int | None = START,
    end_s: int | None = END,
    drain_lead_s: int = 40 * MINUTE,
    reclaim_lead_s: int = 30 * MINUTE,
) -> Reservation:
    return Reservation(
        name,
        "block",
        "m.large",
        "a",
        "owner",
        total=4,
        available=available,
        state=state,
        tie_rank=tie_rank,
        start_s=start_s,
        end_s=end_s,
        drain_lead_s=drain_lead_s,
        reclaim_lead_s=reclaim_lead_s,
    )


@pytest.mark.parametrize(
    ("now_s", "window"),
    [
        (START - 1, Upcoming(START)),
        (START, Open(END - 40 * MINUTE)),
        (END - 40 * MINUTE - 1, Open(END - 40 * MINUTE)),
        (END - 40 * MINUTE, Draining(END - 30 * MINUTE, END)),
        (END - 30 * MINUTE - 1, Draining(END - 30 * MINUTE, END)),
        (END - 30 * MINUTE, Reclaiming(END)),
        (END - 1, Reclaiming(END)),
        (END, Ended(END)),
    ],
)
def test_each_phase_starts_at_its_exact_second(now_s: int, window: Window) -> None:
    assert reservations.window(reservation(), now_s) == window


def test_without_dates_a_reservation_is_always_open() -> None:
    assert reservations.window(reservation(start_s=None, end_s=None), 0) == Open(None)


def test_without_leads_a_reservation_is_open_until_it_ends() -> None:
    plain = reservation(drain_lead_s=0, reclaim_lead_s=0)
    assert reservations.window(plain, END - 1) == Open(END)
    assert reservations.window(plain, END) == Ended(END)


def test_no_launches_before_the_start_or_after_the_drain_starts() -> None:
    assert not reservations.launches_into(reservation(), START - 1)
    assert reservations.launches_into(reservation(), START)
    assert not reservations.launches_into(reservation(), END - 40 * MINUTE)
    assert not reservations.launches_into(reservation(state=State.PENDING), START)
    assert not reservations.launches_into(reservation(state=State.GONE), START)


def test_reservations_are_sorted_by_preference() -> None:
    wanted = [
        reservation("z", tie_rank=0, end_s=END, available=1),
        reservation("a", tie_rank=0, end_s=END, available=2),
        reservation("b", tie_rank=0, end_s=END, available=2),
        reservation("c", tie_rank=0, end_s=END + 1, available=1),
        reservation("d", tie_rank=0, end_s=None, available=1),
        reservation("e", tie_rank=1, end_s=START, available=1),
    ]
    by_id = sorted(wanted, key=lambda r: r.id)
    assert by_id != wanted
    assert sorted(by_id, key=reservations.preference) == wanted


def test_inconsistent_counts_and_leads_are_refused() -> None:
    with pytest.raises(AssertionError, match="free slots"):
        reservation(available=5)
    with pytest.raises(AssertionError, match="draining begins"):
        reservation(drain_lead_s=1, reclaim_lead_s=2)


def test_no_launches_into_a_reservation_with_a_reclaim_lead_and_no_end() -> None:
    assert not reservations.launches_into(reservation(end_s=None), START)
    assert reservations.launches_into(reservation(end_s=None, drain_lead_s=0, reclaim_lead_s=0), START)
