"""The deadlines of drains: by when the nodes of an ending reservation must be drained.

Pure: the deadlines depend on the dates alone, so a restart changes nothing and a changed end date is used. Only a
reservation with a drain lead has a deadline; instances of other reservations continue to run after its end.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model import reservations
from holdfast.model.reservations import Draining, Ended, Reclaiming, Reservation


@dataclass(frozen=True, slots=True)
class Deadline:
    """The deadline of the nodes of one reservation whose drain started."""

    reservation_id: str
    since_s: int  # when the drain started
    until_s: int  # when the cloud starts to terminate instances
    ends_s: int


def due(known: Iterable[Reservation], now_s: int) -> dict[str, Deadline]:
    """By id, the reservations whose nodes must be drained now. Ended reservations are included: the program may not
    have run when the drain started."""
    return {one.id: _deadline(one) for one in known if _is_due(one, now_s)}


def until_s(deadline_s: int, *others_s: int | None) -> int:
    """The earliest of the deadlines of a drain."""
    return min((deadline_s, *(other for other in others_s if other is not None)))


def _is_due(one: Reservation, now_s: int) -> bool:
    window = reservations.window(one, now_s)
    return one.drain_lead_s > 0 and isinstance(window, Draining | Reclaiming | Ended)


def _deadline(one: Reservation) -> Deadline:
    assert one.end_s is not None, "only what ends is drained"
    return Deadline(one.id, one.end_s - one.drain_lead_s, one.end_s - one.reclaim_lead_s, one.end_s)
