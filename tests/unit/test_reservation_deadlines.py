"""Which reservations must be drained before they end, and by when."""

import pytest

from holdfast.core.reservations import deadlines
from holdfast.core.reservations.deadlines import Deadline
from holdfast.model.reservations import Reservation, State
from planner_builders import reservation

BLOCK = {"start_s": 1000, "end_s": 9000, "drain_lead_s": 2400, "reclaim_lead_s": 1800}
DUE = {"cr-1": Deadline("cr-1", since_s=6600, until_s=7200, ends_s=9000)}


def block(**more: object) -> Reservation:
    return reservation("cr-1", "small", **(BLOCK | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now_s", "due"), [(0, {}), (1000, {}), (6599, {}), (6600, DUE), (7200, DUE), (8999, DUE), (9000, DUE)]
)
def test_a_drain_is_due_from_its_exact_second_on(now_s: int, due: dict[str, Deadline]) -> None:
    assert deadlines.due([block()], now_s) == due


def test_reservations_without_a_drain_lead_or_an_end_have_no_deadline() -> None:
    ordinary = block(drain_lead_s=0, reclaim_lead_s=0)
    endless = block(end_s=None)
    for now_s in (0, 6600, 7200, 8999, 9000, 90_000):
        assert deadlines.due([ordinary, endless], now_s) == {}


@pytest.mark.fact("aws-6.2.4")
def test_a_reservation_stays_due_after_its_end() -> None:
    assert deadlines.due([block(state=State.GONE)], 20_000) == DUE


def test_a_later_end_moves_the_deadline() -> None:
    assert deadlines.due([block(end_s=12_600)], 6600) == {}
    assert deadlines.due([block(end_s=12_600)], 10_200)["cr-1"].until_s == 10_800


def test_a_drain_ends_with_the_first_of_its_deadlines() -> None:
    assert deadlines.until_s(7200) == 7200
    assert deadlines.until_s(7200, None, 7100, 9999) == 7100
    assert deadlines.until_s(7200, 9999) == 7200
