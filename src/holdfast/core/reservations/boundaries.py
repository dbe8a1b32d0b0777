"""When a reservation next starts, drains, is reclaimed or ends.

The controllers for the status of node classes and for expiration reconcile at that time. Pure: the result depends on
the dates alone, so a restart loses nothing.
"""

from collections.abc import Iterable
from typing import assert_never

from holdfast.model import reservations
from holdfast.model.reservations import Draining, Ended, Open, Reclaiming, Reservation, State, Upcoming


def next_change_s(known: Iterable[Reservation], now_s: int) -> int | None:
    """The first time after now at which a reservation starts, drains, is reclaimed or ends; None: there is none."""
    changes = [_next_s(one, now_s) for one in known if one.state is not State.GONE]
    return min((at_s for at_s in changes if at_s is not None), default=None)


def _next_s(one: Reservation, now_s: int) -> int | None:
    match reservations.window(one, now_s):
        case Upcoming(starts_s):
            return starts_s
        case Open(drains_s):
            return drains_s
        case Draining(reclaims_s):
            return reclaims_s
        case Reclaiming(ends_s):
            return ends_s
        case Ended():
            return None
        case never:
            assert_never(never)
