"""The ledger of slots: what of every reservation is used, held, on its way back, and free.

Called by the planner, by disruption and by reports; all count the same slots. A pure function of the cloud's
counts, our NodeClaims and our instances, so a restart loses nothing. The rule: a slot is never free before the
cloud's count says so, and a count that may not show our latest launches yet is never believed about them.
"""

from dataclasses import dataclass

from holdfast.model import reservations
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import ClaimView, Snapshot


@dataclass(frozen=True, slots=True)
class Entry:
    """The slots of one reservation."""

    reservation: Reservation
    usable: bool  # delivered, begun, and its drain has not
    used_here: int  # by instances of this cluster
    used_elsewhere: int  # by other clusters and accounts
    releasing: int  # of those used here: the instance is ending
    held: int  # by NodeClaims that the count does not show yet
    free: int  # what a plan may use; 0 when it is not usable
    upcoming: int  # what will be there when it starts


def ledger(snapshot: Snapshot, lag_s: int) -> dict[str, Entry]:
    """An entry a reservation, by id."""
    return {
        reservation.id: _entry(reservation, snapshot, lag_s)
        for reservation in sorted(snapshot.reservations, key=lambda r: r.id)
    }


def _entry(reservation: Reservation, snapshot: Snapshot, lag_s: int) -> Entry:
    here = [
        instance
        for instance in snapshot.instances
        if instance.reservation_id == reservation.id and instance.state is not InstanceState.GONE
    ]
    held = sum(
        _hides_a_slot(claim, snapshot, lag_s) for claim in snapshot.claims if claim.slot == reservation.id
    )
    usable = reservations.launches_into(reservation, snapshot.taken_s)
    window = reservations.window(reservation, snapshot.taken_s)
    return Entry(
        reservation=reservation,
        usable=usable,
        used_here=len(here),
        used_elsewhere=max(0, reservation.total - reservation.available - len(here)),
        releasing=sum(instance.state is InstanceState.ENDING for instance in here),
        held=held,
        free=max(0, reservation.available - held) if usable else 0,
        upcoming=reservation.total if isinstance(window, reservations.Upcoming) else 0,
    )


def _hides_a_slot(claim: ClaimView, snapshot: Snapshot, lag_s: int) -> bool:
    """Whether a claim takes a slot that the count still shows as free.

    Before it is launched it does, unless it waits for an instance that still sits in the slot. After, it does
    until a count was read long enough after the launch to show it.
    """
    if claim.launched_s is not None:
        return snapshot.counts_read_s < claim.launched_s + lag_s
    if claim.waits_for_instance is not None:
        return not any(_occupies(i, claim.waits_for_instance) for i in snapshot.instances)
    return not claim.deleting


def _occupies(instance: Instance, provider_id: str) -> bool:
    return instance.provider_id == provider_id and instance.state is not InstanceState.GONE
