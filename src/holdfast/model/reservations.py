"""Reservations, and the phase of their lifetime at a given time.

Times are integer seconds since the epoch, `now_s` is always an argument, and the phase follows only from the dates. What
is particular to a cloud is a value: the name of the kind, its rank on a tie, and how long before its end a reservation is
drained and reclaimed.
"""

import enum
from dataclasses import dataclass
from typing import Final, TypeAlias

_NEVER_S: Final = 2**63 - 1


class State(enum.StrEnum):
    """The state that the cloud reports, independent of the dates."""

    PENDING = "pending"  # purchased or announced, not delivered
    ACTIVE = "active"
    GONE = "gone"  # expired, cancelled or failed: it will not come back


@dataclass(frozen=True, slots=True)
class Reservation:
    """Identified by its id: all offerings with this id share one count (R-3)."""

    id: str
    kind: str  # the cloud's own word; compared, never interpreted
    instance_type: str
    zone: str
    owner: str
    total: int
    available: int  # free slots by the cloud's count
    state: State = State.ACTIVE
    interruptible: bool = False
    tie_rank: int = 0  # lower first among kinds, when the price does not decide
    start_s: int | None = None  # None: it has started
    end_s: int | None = None  # None: no end date
    drain_lead_s: int = 0  # nothing is launched and nodes are drained from this long before the end
    reclaim_lead_s: int = 0  # the cloud takes instances back from this long before the end
    state_name: str = ""  # the cloud's own word for the state; shown, never interpreted
    tenancy: str = "default"  # that its instances must have

    def __post_init__(self) -> None:
        assert 0 <= self.available <= self.total, "free slots are some of all slots"
        assert self.drain_lead_s >= self.reclaim_lead_s >= 0, "draining begins before the cloud reclaims"


@dataclass(frozen=True, slots=True)
class Upcoming:
    starts_s: int


@dataclass(frozen=True, slots=True)
class Open:
    drains_s: int | None  # None: it has no end


@dataclass(frozen=True, slots=True)
class Draining:
    reclaims_s: int
    ends_s: int


@dataclass(frozen=True, slots=True)
class Reclaiming:
    ends_s: int


@dataclass(frozen=True, slots=True)
class Ended:
    since_s: int


Window: TypeAlias = Upcoming | Open | Draining | Reclaiming | Ended


def window(reservation: Reservation, now_s: int) -> Window:
    """The phase of a reservation at a time, and when the phase changes. Each phase includes its first second."""
    start_s, end_s = reservation.start_s, reservation.end_s
    if end_s is not None and now_s >= end_s:
        return Ended(end_s)
    if start_s is not None and now_s < start_s:
        return Upcoming(start_s)
    if end_s is None:
        return Open(None)
    if now_s >= end_s - reservation.reclaim_lead_s:
        return Reclaiming(end_s)
    if now_s >= end_s - reservation.drain_lead_s:
        return Draining(end_s - reservation.reclaim_lead_s, end_s)
    return Open(end_s - reservation.drain_lead_s)


def launches_into(reservation: Reservation, now_s: int) -> bool:
    """Whether nodes may be launched into it: it is active, has started, and its drain has not, whatever its count. Nothing
    is launched into one that the cloud reclaims at an unknown time: its nodes would terminate without a drain."""
    if ends_unannounced(reservation):
        return False
    return reservation.state is State.ACTIVE and isinstance(window(reservation, now_s), Open)


def ends_unannounced(reservation: Reservation) -> bool:
    """Whether the cloud reclaims it at an unknown time."""
    return reservation.end_s is None and reservation.drain_lead_s > 0


def preference(reservation: Reservation) -> tuple[int, int, int, str]:
    """Sorts reservations of equal price in the order of use: the preferred kind, the earliest end, the fewest free slots,
    then the id, so that the order is total."""
    end_s = _NEVER_S if reservation.end_s is None else reservation.end_s
    return reservation.tie_rank, end_s, reservation.available, reservation.id
