"""Replacements that wait for the slot of an instance that terminates: which of them may launch, and which waited too
long.

The NodeClaim of the replacement is the hold: its annotations name the reservation and the instance it waits for, so a
restart loses nothing. If such an instance terminated and no slot is free, the slot was taken, and no second node of
that reservation is deleted for a replacement. The replacement that waited longest launches first, so a slot that was
taken delays one of them and not all. The wait is bounded.
"""

from dataclasses import dataclass

from holdfast import names
from holdfast.core.disruption.inputs import DisruptionInput
from holdfast.model import wording
from holdfast.model.instances import InstanceState
from holdfast.model.snapshot import ClaimView, Snapshot


@dataclass(frozen=True, slots=True)
class Overdue:
    """A NodeClaim that waited too long. It is deleted, and its pods are planned like all pending pods."""

    claim: str
    reservation: str
    why: str


def waiting(snapshot: Snapshot) -> tuple[ClaimView, ...]:
    """NodeClaims that wait for a slot, without launched and deleting ones."""
    return tuple(
        claim
        for claim in snapshot.claims
        if claim.waits_for_instance is not None and claim.launched_s is None and not claim.deleting
    )


def freed(snapshot: Snapshot) -> tuple[ClaimView, ...]:
    """Waiting NodeClaims whose instance terminated."""
    found = waiting(snapshot)
    if not found:
        return ()
    there = {one.provider_id for one in snapshot.instances if one.state is not InstanceState.GONE}
    return tuple(claim for claim in found if claim.waits_for_instance not in there)


def taken(snapshot: Snapshot, reservation: str) -> ClaimView | None:
    """A NodeClaim whose slot was taken, by the count of the reservation."""
    waits = [claim for claim in freed(snapshot) if claim.reservation_id == reservation]
    available = next((one.available for one in snapshot.reservations if one.id == reservation), 0)
    return waits[0] if len(waits) > available else None


def may_launch(snapshot: Snapshot, name: str) -> bool:
    """Whether a waiting NodeClaim may be launched: its instance terminated, and the count has a slot for it in addition
    to the slots of NodeClaims that do not wait, of launches since the count, and of replacements that waited longer.

    The count may miss a launch from before it. Then the cloud refuses this launch, and the NodeClaim still waits.
    """
    claim = next((one for one in freed(snapshot) if one.name == name), None)
    if claim is None:
        return False
    others = [
        one for one in snapshot.claims if one.reservation_id == claim.reservation_id and not one.deleting
    ]
    ahead = sum(
        one.launched_s >= snapshot.counts_read_s if one.launched_s is not None else not one.waits_for_instance
        for one in others
    )
    ahead += sum(
        (one.created_s, one.name) < (claim.created_s, name)
        for one in freed(snapshot)
        if one.reservation_id == claim.reservation_id
    )
    available = next((one.available for one in snapshot.reservations if one.id == claim.reservation_id), 0)
    return available > ahead


def overdue(cluster: DisruptionInput, bound_s: int, lag_s: int) -> tuple[Overdue, ...]:
    """NodeClaims to delete. The bound counts from the termination of the instance, since a drain has no bound. That
    time is an annotation of the NodeClaim, so a restart does not extend the wait. If the slot is free, the bound
    doubles: a launch may fail for some time. If the NodePool allows other capacity, the wait ends as soon as a count
    that was read a lag after the termination shows no free slot."""
    found = []
    for claim in freed(cluster.snapshot):
        if claim.reservation_id is None or claim.instance_gone_s is None:
            continue
        waited_s = cluster.now_s - claim.instance_gone_s
        is_taken = taken(cluster.snapshot, claim.reservation_id) is not None
        is_counted = cluster.snapshot.counts_read_s >= claim.instance_gone_s + lag_s
        is_certain = is_counted and _may_launch_otherwise(cluster.snapshot, claim)
        if waited_s < bound_s and not is_certain:
            continue
        if is_taken or waited_s >= 2 * bound_s:
            state = "was taken" if is_taken else "is free, but launches into it fail"
            why = f"the slot of reservation {claim.reservation_id} {state}; the NodeClaim waited {wording.duration(waited_s)}"
            found.append(Overdue(claim.name, claim.reservation_id, why))
    return tuple(found)


def _may_launch_otherwise(snapshot: Snapshot, claim: ClaimView) -> bool:
    """Whether the NodePool allows on-demand or spot capacity."""
    pool = next((one for one in snapshot.node_pools if one.name == claim.node_pool), None)
    allowed = pool.requirements.get(names.CAPACITY_TYPE) if pool is not None else None
    return allowed is not None and any(allowed.has(kind) for kind in (names.ON_DEMAND, names.SPOT))
