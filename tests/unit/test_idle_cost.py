"""The cost of idle slots: which slots count, and what they cost."""

import dataclasses

import pytest

from holdfast.core.reservations import idle_cost
from holdfast.core.reservations.ledger import Entry
from holdfast.model.reservations import Reservation, State

NOW_S = 1_000_000
BLOCK = Reservation(
    id="cr-1",
    kind="capacity-block",
    instance_type="p4d.24xlarge",
    zone="us-west-2a",
    owner="1",
    total=4,
    available=3,
    end_s=NOW_S + 86_400,
    drain_lead_s=2400,
    reclaim_lead_s=1800,
)


def entry(held: int = 0, **changed: object) -> Entry:
    one = dataclasses.replace(BLOCK, **changed)  # type: ignore[arg-type]
    return Entry(one, True, 1, 0, 0, held, one.available - held, 0)


@pytest.mark.parametrize(
    ("found", "slots"),
    [
        (entry(), 3),
        (entry(held=2), 1),
        (entry(held=4), 0),
        (entry(end_s=NOW_S + 2400), 3),  # it is drained, and still paid for
        (entry(end_s=NOW_S), 0),
        (entry(start_s=NOW_S + 1), 0),
        (entry(state=State.PENDING), 0),
        (entry(state=State.GONE), 0),
    ],
)
def test_idle_slots_are_paid_for_and_unused(found: Entry, slots: int) -> None:
    assert idle_cost.idle_slots(found, NOW_S) == slots
    assert idle_cost.idle_nano_usd_per_hour(found, 7, NOW_S) == 7 * slots


def test_unknown_price_is_no_price_unless_no_slot_is_idle() -> None:
    assert idle_cost.idle_nano_usd_per_hour(entry(), None, NOW_S) is None
    assert idle_cost.idle_nano_usd_per_hour(entry(held=3), None, NOW_S) == 0
