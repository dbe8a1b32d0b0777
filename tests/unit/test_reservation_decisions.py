"""When the phase of a reservation changes next, and which reservations a NodePool may use."""

import pytest

from holdfast import names
from holdfast.core.reservations import boundaries, pool_slots
from holdfast.core.reservations.pool_slots import PoolSlots
from holdfast.model import requirements
from holdfast.model.requirement import Requirement
from holdfast.model.reservations import Reservation, State
from planner_builders import RESERVATION_ID, WELL_KNOWN, instance_type, is_in, reservation

BLOCK = {"start_s": 1000, "end_s": 9000, "drain_lead_s": 2400, "reclaim_lead_s": 1800}


def block(**more: object) -> Reservation:
    return reservation("cr-1", "small", **(BLOCK | more))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("now_s", "next_s"),
    [(0, 1000), (999, 1000), (1000, 6600), (6599, 6600), (6600, 7200), (7200, 9000), (9000, None)],
)
def test_a_reservation_changes_when_it_starts_drains_is_reclaimed_and_ends(
    now_s: int, next_s: int | None
) -> None:
    assert boundaries.next_change_s([block()], now_s) == next_s


def test_the_earliest_change_is_returned_and_ended_reservations_have_none() -> None:
    assert boundaries.next_change_s([], 0) is None
    assert boundaries.next_change_s([block(start_s=None, end_s=None)], 0) is None
    assert boundaries.next_change_s([block(), block(start_s=500)], 0) == 500
    assert boundaries.next_change_s([block(state=State.GONE), block()], 0) == 1000


@pytest.mark.fact("Q-42")
@pytest.mark.parametrize(
    ("wanted", "slots"),
    [
        ((), PoolSlots(2, 3)),
        ((is_in(names.CAPACITY_TYPE, "reserved"),), PoolSlots(2, 3)),
        ((is_in(names.CAPACITY_TYPE, "spot", "on-demand"),), PoolSlots(0, 0)),
        ((is_in(RESERVATION_ID, "cr-full"),), PoolSlots(1, 0)),
        ((is_in(names.ZONE, "z2"),), PoolSlots(1, 3)),
        ((is_in(names.INSTANCE_TYPE, "big"),), PoolSlots(0, 0)),
        ((is_in(names.ARCH, "arm64"),), PoolSlots(0, 0)),
    ],
)
def test_a_nodepool_may_use_the_reservations_that_its_requirements_allow(
    wanted: tuple[Requirement, ...], slots: PoolSlots
) -> None:
    known = [
        reservation("cr-full", "small", "z1", available=0),
        reservation("cr-free", "small", "z2", available=3),
    ]
    types = [instance_type("small", 2, 8, 0.1, known), instance_type("big", 8, 32, 0.4, known)]
    assert pool_slots.total(pool_slots.usable(requirements.of(*wanted), types, WELL_KNOWN)) == slots
