"""Replacements that wait for the slot of a machine that ends.

Called by drift and repair before another node is given up, by whoever launches, and by whoever ends a wait. The hold is
the replacement NodeClaim itself: it names its slot and the machine it waits for, so a restart loses nothing. The rules:
while such a claim finds its machine gone and no slot free, somebody else took the slot, and no second node of that
reservation is given up; those that wait are served in the order of their age, so a slot that was taken keeps one of them
waiting and not all; and the wait has a bound.
"""

from dataclasses import dataclass

from holdfast import names
from holdfast.core.disruption.inputs import DisruptionInput
from holdfast.model import wording
from holdfast.model.instances import InstanceState
from holdfast.model.snapshot import ClaimView, Snapshot


@dataclass(frozen=True, slots=True)
class Overdue:
    """A claim that has waited long enough: it is given up, and its pods are planned for as any others."""

    claim: str
    reservation: str
    why: str


def waiting(snapshot: Snapshot) -> tuple[ClaimView, ...]:
    """Claims that wait for a slot, launched ones and those that are deleted apart."""
    return tuple(
        claim
        for claim in snapshot.claims
        if claim.waits_for_instance is not None and claim.launched_s is None and not claim.deleting
    )


def freed(snapshot: Snapshot) -> tuple[ClaimView, ...]:
    """Those whose machine is gone."""
    there = {one.provider_id for one in snapshot.instances if one.state is not InstanceState.GONE}
    return tuple(claim for claim in waiting(snapshot) if claim.waits_for_instance not in there)


def taken(snapshot: Snapshot, reservation: str) -> ClaimView | None:
    """A claim whose slot somebody else took, as far as the count says."""
    waits = [claim for claim in freed(snapshot) if claim.reservation_id == reservation]
    available = next((one.available for one in snapshot.reservations if one.id == reservation), 0)
    return waits[0] if len(waits) > available else None


def goes_now(snapshot: Snapshot, name: str) -> bool:
    """Whether it is the turn of a claim that waits: its machine is gone, and the count has a slot for it beside those of
    claims that do not wait, of what was launched since, and of whoever has waited longer.

    A launch from before the count may be missing from it too, but is not held against anybody: then the cloud refuses,
    and the claim goes on waiting.
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
    """Claims to give up. The bound counts from when the machine was gone, for a drain takes as long as it takes; that time
    is on the claim, so a restart does not extend the wait. Where the slot came free again the bound is as long once more: a
    launch may fail for a while. Where the NodePool may launch something else, the wait ends as soon as a count that was
    read a lag after the instance was gone shows no free slot."""
    found = []
    for claim in freed(cluster.snapshot):
        if claim.reservation_id is None or claim.instance_gone_s is None:
            continue
        waited_s = cluster.now_s - claim.instance_gone_s
        is_taken = taken(cluster.snapshot, claim.reservation_id) is not None
        is_counted = cluster.snapshot.counts_read_s >= claim.instance_gone_s + lag_s
        is_certain = is_taken and is_counted and _may_launch_otherwise(cluster.snapshot, claim)
        if waited_s < bound_s and not is_certain:
            continue
        if is_taken or waited_s >= 2 * bound_s:
            went = "went to somebody else" if is_taken else "is free, and nothing can be launched into it"
            why = f"the slot of {claim.reservation_id} {went}; it waited {wording.duration(waited_s)}"
            found.append(Overdue(claim.name, claim.reservation_id, why))
    return tuple(found)


def _may_launch_otherwise(snapshot: Snapshot, claim: ClaimView) -> bool:
    """Whether the NodePool of a claim allows more than reserved capacity."""
    pool = next((one for one in snapshot.node_pools if one.name == claim.node_pool), None)
    allowed = pool.requirements.get(names.CAPACITY_TYPE) if pool is not None else None
    return allowed is not None and any(allowed.has(kind) for kind in (names.ON_DEMAND, names.SPOT))
