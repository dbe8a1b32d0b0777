"""The ledger of slots: what of every reservation is used, held, on its way back, and free.

Called by the planner, by disruption and by reports; all count the same slots. A pure function of the cloud's
counts, our NodeClaims and our instances, so a restart loses nothing. The rules: a slot is never free before the
cloud's count says so; and a launch of ours counts against every count that was read less than a lag after it, unless
that count shows it. A count names no instances, so this is how it is known: what was free when the count before was
read, less what we launched since, is still free; if the new count shows no more than that, it shows our launches.

That holds as long as nobody else takes a slot between two counts. Where somebody does, the same slot may be counted on
once too often until a count is a lag old; the cloud refuses that launch, as it does when somebody is quicker anyway.
"""

from dataclasses import dataclass
from typing import Final

from holdfast.model import reservations
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import ClaimView, CountBefore, Snapshot

_LEAVING: Final = (InstanceState.ENDING, InstanceState.GONE)


@dataclass(frozen=True, slots=True)
class Entry:
    """The slots of one reservation."""

    reservation: Reservation
    usable: bool  # delivered, begun, and its drain has not
    used_here: int  # by instances of this cluster
    used_elsewhere: int  # by other clusters and accounts
    releasing: int  # the instance is ending, or gone so lately that the count may not show it
    held: int  # by NodeClaims that the count does not show yet
    free: int  # what a plan may use; 0 when it is not usable
    upcoming: int  # what will be there when it starts


def ledger(snapshot: Snapshot, lag_s: int) -> dict[str, Entry]:
    """An entry a reservation, by id."""
    return {
        reservation.id: _entry(reservation, snapshot, lag_s)
        for reservation in sorted(snapshot.reservations, key=lambda r: r.id)
    }


def count_before(snapshot: Snapshot, lag_s: int) -> CountBefore:
    """What this snapshot's count leaves for the next one. Claims that may be launching right now are taken off: which
    of the two counts shows them is not known."""
    free = {
        one.id: _free_when_counted(one, snapshot, lag_s)
        - sum(claim.slot == one.id and _waits_to_be_launched(claim, snapshot) for claim in snapshot.claims)
        for one in snapshot.reservations
    }
    return CountBefore(snapshot.counts_read_s, free)


def _free_when_counted(one: Reservation, snapshot: Snapshot, lag_s: int) -> int:
    """How many slots certainly were free when the count was read, whatever of our launches it shows."""
    read_s, before = snapshot.counts_read_s, snapshot.count_before
    launches = [c.launched_s for c in snapshot.claims if c.slot == one.id and c.launched_s is not None]
    certain = one.available - sum(read_s - lag_s < at_s < read_s for at_s in launches)
    if before is not None and one.id in before.free:
        kept = before.free[one.id] - sum(before.read_s <= at_s < read_s for at_s in launches)
        certain = max(certain, kept)
    return min(certain, one.available)


def _entry(reservation: Reservation, snapshot: Snapshot, lag_s: int) -> Entry:
    ours = [one for one in snapshot.instances if one.reservation_id == reservation.id]
    here = [one for one in ours if one.state is not InstanceState.GONE]
    held = sum(_holds(claim, snapshot) for claim in snapshot.claims if claim.slot == reservation.id)
    held += reservation.available - _free_when_counted(reservation, snapshot, lag_s)
    usable = reservations.launches_into(reservation, snapshot.taken_s)
    window = reservations.window(reservation, snapshot.taken_s)
    return Entry(
        reservation=reservation,
        usable=usable,
        used_here=len(here),
        used_elsewhere=max(0, reservation.total - reservation.available - len(here)),
        releasing=sum(one.state in _LEAVING for one in ours),
        held=held,
        free=max(0, reservation.available - held) if usable else 0,
        upcoming=reservation.total if isinstance(window, reservations.Upcoming) else 0,
    )


def _holds(claim: ClaimView, snapshot: Snapshot) -> bool:
    """Whether a claim takes a slot that was free when the count was read: it was launched since, or will be."""
    if claim.launched_s is not None:
        return claim.launched_s >= snapshot.counts_read_s
    return _waits_to_be_launched(claim, snapshot)


def _waits_to_be_launched(claim: ClaimView, snapshot: Snapshot) -> bool:
    """One that waits for an instance which still sits in the slot does not yet."""
    if claim.launched_s is not None:
        return False
    if claim.waits_for_instance is not None:
        return not any(_occupies(i, claim.waits_for_instance) for i in snapshot.instances)
    return not claim.deleting


def _occupies(instance: Instance, provider_id: str) -> bool:
    return instance.provider_id == provider_id and instance.state is not InstanceState.GONE
