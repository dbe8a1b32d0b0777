"""Nodes whose reservation ends and takes them along: which have to go, from when, and by when.

Called by whoever drains ahead of an end, every minute and after every restart: it follows from the dates alone, so
nothing is remembered, and an end that is moved is followed at once. The rules: draining begins `drain_lead_s` before the
end, and is over when the cloud reclaims its machines, `reclaim_lead_s` before the end, whatever disruption budgets say;
no budget of a NodePool and no price has a say (Q-37, decisions 6). Reservations whose instances live on when they end
have no such leads, and nobody leaves (Q-38).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.model import reservations
from holdfast.model.instances import InstanceState
from holdfast.model.notices import Notice
from holdfast.model.reservations import Draining, Ended, Reclaiming, Reservation
from holdfast.model.snapshot import Snapshot

WARNING_S: Final = 120  # what a machine of an interruptible reservation has from the notice on
_SKEW_TOLD_S: Final = 30


@dataclass(frozen=True, slots=True)
class Departure:
    """A claim that has to go, and when it must be gone: its drain is forced then."""

    claim: str
    reservation: str
    deadline_s: int
    why: str


def departures(snapshot: Snapshot) -> tuple[Departure, ...]:
    """Claims that have to go now, by name; those that are going already included, for their deadline may have moved."""
    now_s = snapshot.taken_s
    leaving = {
        one.id: leave
        for one in snapshot.reservations
        if one.drain_lead_s and (leave := _deadline_s(one, now_s)) is not None
    }
    seats = _seats(snapshot)
    return tuple(
        Departure(claim.name, id_, leaving[id_], f"{id_} takes its machines back from {leaving[id_]} on")
        for claim in snapshot.claims
        if (id_ := seats.get(claim.provider_id or "")) in leaving
    )


def interrupted(snapshot: Snapshot, notice: Notice) -> tuple[Departure, ...]:
    """Claims whose machines the cloud takes on short notice: the drain must be over before it does."""
    if not notice.ends_machines:
        return ()
    deadline_s = notice.ends_s if notice.ends_s is not None else notice.sent_s + WARNING_S
    named = set(notice.machines)
    seats = _seats(snapshot)
    return tuple(
        Departure(
            claim.name,
            seats.get(claim.provider_id, ""),
            deadline_s,
            f"{notice.reason}: its machine ends at {deadline_s}",
        )
        for claim in snapshot.claims
        if claim.provider_id and claim.provider_id.rpartition("/")[2] in named
    )


def _deadline_s(one: Reservation, now_s: int) -> int | None:
    match reservations.window(one, now_s):
        case Draining(reclaims_s):
            return reclaims_s
        case Reclaiming() | Ended():
            return now_s
        case _:
            return None


def _seats(snapshot: Snapshot) -> Mapping[str, str]:
    """By machine: the reservation it is in, as the cloud says; nobody leaves because of a label."""
    return {
        one.provider_id: one.reservation_id
        for one in snapshot.instances
        if one.reservation_id is not None and one.state is not InstanceState.GONE
    }


# --- Our clock beside the cloud's ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer of the cloud: what its clock said, and ours before and after the call."""

    cloud_s: float
    asked_s: float
    answered_s: float


@dataclass(frozen=True, slots=True)
class Skew:
    """How far the cloud's clock is ahead of ours; deadlines go by the cloud's."""

    ahead_s: float
    is_told: bool  # so far apart that somebody should know

    def corrected_s(self, now_s: float) -> float:
        return now_s + self.ahead_s


def skew(readings: Iterable[Reading]) -> Skew:
    """By the answer that took least time, for it leaves least doubt. Its clock shows whole seconds, so what lies within
    the doubt is no difference."""
    best = min(readings, key=lambda one: one.answered_s - one.asked_s, default=None)
    if best is None:
        return Skew(0, is_told=False)
    middle_s = (best.asked_s + best.answered_s) / 2
    doubt_s = (best.answered_s - best.asked_s) / 2 + 1
    ahead_s = best.cloud_s + 0.5 - middle_s
    if abs(ahead_s) <= doubt_s:
        return Skew(0, is_told=False)
    return Skew(ahead_s, is_told=abs(ahead_s) > _SKEW_TOLD_S)
