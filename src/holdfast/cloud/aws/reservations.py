"""Capacity reservations as EC2 describes them, which of them a class may use, and what they are to core.

Called by `catalog` and by whoever fills a snapshot. The rules: the lead times before a capacity block's
end, and that a capacity block comes before an ordinary reservation on a tie, are AWS's and stand here as
values; a reservation that two terms select is selected once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.selectors import CapacityReservationSelectorTerm
from holdfast.model.reservations import Reservation, State

DEFAULT: Final = "default"
CAPACITY_BLOCK: Final = "capacity-block"
TIE_RANKS: Final = {CAPACITY_BLOCK: 0, DEFAULT: 1}
ANY_VALUE: Final = "*"

_MINUTE_S: Final = 60


@dataclass(frozen=True, slots=True)
class LeadTimes:
    """How long before the end of a reservation its nodes are drained, and EC2 takes them back."""

    drain_s: int = 0
    reclaim_s: int = 0


NO_LEAD: Final = LeadTimes()  # instances outlive an ordinary reservation, as on-demand ones
BLOCK_LEAD: Final = LeadTimes(40 * _MINUTE_S, 30 * _MINUTE_S)
ULTRASERVER_LEAD: Final = LeadTimes(70 * _MINUTE_S, 60 * _MINUTE_S)

# EC2's words. One that is not here is taken as pending: nothing is launched into it, and it stays.
STATES: Final = {
    "active": State.ACTIVE,
    "cancelled": State.GONE,
    "cancelling": State.GONE,
    "expired": State.GONE,
    "failed": State.GONE,
    "payment-failed": State.GONE,
    "unsupported": State.GONE,
    "assessing": State.PENDING,
    "delayed": State.PENDING,
    "payment-pending": State.PENDING,
    "pending": State.PENDING,
    "scheduled": State.PENDING,
    "unavailable": State.PENDING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityReservation:
    """What DescribeCapacityReservations says of one, as far as anything here depends on it."""

    id: str
    instance_type: str
    zone: str  # by the name this account knows it by
    total: int
    available: int
    kind: str = DEFAULT
    owner: str = ""
    state: str = "active"  # EC2's word
    interruptible: bool = False
    match_criteria: str = "open"
    tags: tuple[tuple[str, str], ...] = ()
    start_s: int | None = None
    end_s: int | None = None
    ultraserver: bool = False  # a capacity block of UltraServers, which EC2 takes back earlier


def to_model(reservation: CapacityReservation) -> Reservation:
    """What core is told of it."""
    lead = lead_times(reservation)
    return Reservation(
        id=reservation.id,
        kind=reservation.kind,
        instance_type=reservation.instance_type,
        zone=reservation.zone,
        owner=reservation.owner,
        total=reservation.total,
        available=min(reservation.available, reservation.total),  # EC2 may lag when it shrinks
        state=STATES.get(reservation.state, State.PENDING),
        interruptible=reservation.interruptible,
        tie_rank=TIE_RANKS.get(reservation.kind, len(TIE_RANKS)),
        start_s=reservation.start_s,
        end_s=reservation.end_s,
        drain_lead_s=lead.drain_s,
        reclaim_lead_s=lead.reclaim_s,
    )


def lead_times(reservation: CapacityReservation) -> LeadTimes:
    if reservation.kind != CAPACITY_BLOCK:
        return NO_LEAD
    return ULTRASERVER_LEAD if reservation.ultraserver else BLOCK_LEAD


def selected(
    node_class: EC2NodeClass | None, reservations: Iterable[CapacityReservation]
) -> tuple[CapacityReservation, ...]:
    """Those that a class may use, by id: what its status lists or, where it lists none yet, what its terms
    select. No class, or one without terms, may use none."""
    if node_class is None:
        return ()
    by_id = {reservation.id: reservation for reservation in reservations}
    ordered = [by_id[reservation_id] for reservation_id in sorted(by_id)]
    listed = {entry.id for entry in node_class.status.capacity_reservations}
    if listed:
        return tuple(reservation for reservation in ordered if reservation.id in listed)
    terms = node_class.spec.capacity_reservation_selector_terms
    return tuple(reservation for reservation in ordered if matches_any(terms, reservation))


def matches_any(terms: Sequence[CapacityReservationSelectorTerm], reservation: CapacityReservation) -> bool:
    return any(matches(term, reservation) for term in terms)


def matches(term: CapacityReservationSelectorTerm, reservation: CapacityReservation) -> bool:
    """Whether all that a term names is so. A term that names nothing selects nothing."""
    tags = dict(reservation.tags)
    named = [
        wanted == found
        for wanted, found in (
            (term.id, reservation.id),
            (term.owner_id, reservation.owner),
            (term.instance_match_criteria, reservation.match_criteria),
        )
        if wanted
    ]
    named += [key in tags and value in (ANY_VALUE, tags[key]) for key, value in term.tags.items()]
    return bool(named) and all(named)
