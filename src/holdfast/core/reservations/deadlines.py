"""At the end of which reservations the cloud terminates the instances, and by when their nodes have to be drained.

Pure: it follows from the dates alone, so a restart changes nothing and a new end date is followed. The rule: only a
reservation that is drained ahead of its end has a deadline; the instances of any other run on after its end.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model import reservations
from holdfast.model.reservations import Draining, Ended, Reclaiming, Reservation


@dataclass(frozen=True, slots=True)
class Deadline:
    """Of the nodes of one reservation, whose drain has begun."""

    reservation_id: str
    since_s: int  # when it began
    until_s: int  # when the cloud begins to terminate instances
    ends_s: int


def due(known: Iterable[Reservation], now_s: int) -> dict[str, Deadline]:
    """By id, those whose nodes are to be drained now. One that has ended is among them: the program may not have run
    when its drain began."""
    return {one.id: _deadline(one) for one in known if _is_due(one, now_s)}


def until_s(deadline_s: int, *others_s: int | None) -> int:
    """A drain ends with the first of its deadlines."""
    return min((deadline_s, *(other for other in others_s if other is not None)))


def _is_due(one: Reservation, now_s: int) -> bool:
    window = reservations.window(one, now_s)
    return one.drain_lead_s > 0 and isinstance(window, Draining | Reclaiming | Ended)


def _deadline(one: Reservation) -> Deadline:
    assert one.end_s is not None, "only what ends is drained"
    return Deadline(one.id, one.end_s - one.drain_lead_s, one.end_s - one.reclaim_lead_s, one.end_s)
