"""Explains why a reservation has no slot for a pod that fits it: its state, its dates, its health or its count.

Called by `reasons` and `suitability`. A text has no count of free slots: it changes with every instance, which would make
new events, and the ledger reports it. A text states whether the reservation can take nodes later, and uses the cloud's word for the
state.
"""

from collections.abc import Iterable
from typing import Final

from holdfast.core.reservations.ledger import Entry
from holdfast.core.scheduling.input import lasting
from holdfast.core.scheduling.input.problem import Problem
from holdfast.model import reservations, wording
from holdfast.model.reasons import BLOCK, RESERVATION, Reason, ReasonCode
from holdfast.model.reservations import Draining, Ended, Reclaiming, State, Upcoming

CodeAndText = tuple[ReasonCode, str]

# For a pod that waits: one text for all uses of the slots, since the use changes while the pod waits.
FULL: Final = "has no free slot; one becomes free when an instance in it terminates"
_UNKNOWN: CodeAndText = (ReasonCode.UNHEALTHY, "is not among the reservations that the cloud reports")


def reservation_kind(p: Problem, id_: str) -> str:
    entry = p.ledger.get(id_)
    return BLOCK if entry is not None and entry.reservation.drain_lead_s else RESERVATION


def why_no_slot(p: Problem, id_: str, *, healthy: bool, used: int) -> CodeAndText | None:
    """Why no slot is free; None if one is. `used` is the number of slots that nodes of this plan use."""
    entry = p.ledger.get(id_)
    if entry is None:
        return _UNKNOWN
    closed = _closed(entry, p.snapshot.taken_s)
    if closed is not None:
        return closed
    if not healthy:
        return ReasonCode.UNHEALTHY, "takes no launches at the moment, and is tried again later"
    return None if entry.free > used else _full_or_held(entry, used)


def ends_too_soon(p: Problem, id_: str, c: int) -> CodeAndText:
    """Why a reservation does not last for the pods of a class. A drain that has begun is the plainer reason."""
    closed = _closed(p.ledger[id_], p.snapshot.taken_s)
    if closed is not None and closed[0] is ReasonCode.DRAINING:
        return closed
    reservation, pods = p.ledger[id_].reservation, p.classes[c].pods
    return ReasonCode.ENDS_TOO_SOON, lasting.why(reservation, pods, p.snapshot.taken_s)


def starts_later(p: Problem, id_: str, c: int) -> CodeAndText:
    """Why pods of a class wait for the start of a reservation that suits them, and whether it lasts for them."""
    reservation, pods = p.ledger[id_].reservation, p.classes[c].pods
    return ReasonCode.NOT_STARTED, lasting.from_start(reservation, pods, p.snapshot.taken_s)


def _closed(entry: Entry, now_s: int) -> CodeAndText | None:
    """Why nothing is launched into a reservation even if it has free slots."""
    one = entry.reservation
    state = one.state_name or str(one.state)
    if one.state is State.GONE:
        return ReasonCode.UNHEALTHY, f"is {state} and takes no nodes any more"
    stands = reservations.window(one, now_s)
    match stands:
        case Upcoming(starts_s):
            slots = wording.count(one.total, "slot")
            return ReasonCode.NOT_STARTED, f"starts at {wording.moment(starts_s, now_s)} (UTC) with {slots}"
        case Ended(since_s):
            return ReasonCode.DRAINING, f"ended at {wording.moment(since_s, now_s)} (UTC)"
        case Draining(_, ends_s) | Reclaiming(ends_s):
            since = wording.moment(ends_s - one.drain_lead_s, now_s)
            text = f"ends at {wording.moment(ends_s, now_s)} and takes no new nodes since {since} (UTC)"
            return ReasonCode.DRAINING, text
    if one.state is not State.ACTIVE:
        return ReasonCode.UNHEALTHY, f"is {state} and takes nodes once it is active"
    return None


def _full_or_held(entry: Entry, used: int) -> CodeAndText:
    if used:
        return ReasonCode.HELD, "has no free slot left: other nodes of this plan use it"
    if entry.held:
        return ReasonCode.HELD, "has no free slot: NodeClaims that are being launched hold it"
    if entry.releasing:
        return ReasonCode.FULL, "has no free slot; instances in it are terminating, which frees slots soon"
    return ReasonCode.FULL, FULL


def group_by_cause(p: Problem, reasons: Iterable[tuple[str, ReasonCode, str]]) -> tuple[Reason, ...]:
    """One reason for all reservations of a kind with the same code and text."""
    groups: dict[tuple[ReasonCode, str, str], list[str]] = {}
    for id_, code, text in reasons:
        groups.setdefault((code, text, reservation_kind(p, id_)), []).append(id_)
    return tuple(Reason(code, text, tuple(ids), of) for (code, text, of), ids in groups.items())
