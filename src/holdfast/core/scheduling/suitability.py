"""Whether a class could use a reservation, and why not: one reason for each reservation.

Called by `waiting`, and on demand by whoever explains a plan. Equal pods have equal answers, so they are computed for
a class.
"""

from collections.abc import Iterator

from holdfast import names
from holdfast.core.scheduling.plan import NotReserved, Plan, Reason, ReasonCode
from holdfast.core.scheduling.problem import Problem
from holdfast.model import reservations
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirements import Requirements
from holdfast.model.reservations import State
from holdfast.model.snapshot import NodePoolView
from holdfast.model.taints import first_untolerated


def reservations_for(p: Problem, c: int, pool: NodePoolView) -> tuple[str, ...]:
    """The reservations of a pool that a pod of the class could go into if there were a free slot."""
    found = (
        (offering.reservation_id, _unsuited(p, c, pool, type_, offering))
        for type_, offering in _slots_of(pool)
    )
    return tuple(sorted({id_ for id_, why in found if id_ in p.ledger and why is None}))


def not_reserved(p: Problem, plan: Plan) -> tuple[NotReserved, ...]:
    """For each pod that got something else, or nothing, the reason of each reservation that some pool has."""
    in_slots = {uid for claim in plan.claims if claim.slot for uid in claim.pods}
    used = {id_: sum(claim.slot == id_ for claim in plan.claims) for id_ in p.ledger}
    found = []
    for c, pod_class in enumerate(p.classes):
        outside = [pod.uid for pod in pod_class.pods if pod.uid not in in_slots]
        reasons = tuple(_reasons(p, c, used)) if outside else ()
        if reasons:
            found += [NotReserved(uid, reasons) for uid in outside]
    return tuple(sorted(found, key=lambda one: one.pod))


def _reasons(p: Problem, c: int, used: dict[str, int]) -> Iterator[Reason]:
    best: dict[str, Reason] = {}
    for pool in p.pools:
        for type_, offering in _slots_of(pool):
            id_ = offering.reservation_id
            if id_ not in p.ledger:
                continue
            why = _unsuited(p, c, pool, type_, offering) or _not_free(p, id_, offering, used)
            if id_ not in best or best[id_].code is ReasonCode.POOL_EXCLUDES_RESERVED:
                best[id_] = why
    yield from (best[id_] for id_ in sorted(best))


def _slots_of(pool: NodePoolView) -> Iterator[tuple[InstanceType, Offering]]:
    for type_ in pool.instance_types:
        for offering in type_.offerings:
            if offering.reservation_id is not None:
                yield type_, offering


def _unsuited(
    p: Problem, c: int, pool: NodePoolView, type_: InstanceType, offering: Offering
) -> Reason | None:
    """What about the pod or the pool keeps it out of a reservation, free or not."""
    id_ = offering.reservation_id or ""
    rung, request = p.last_rung(c), p.classes[c].shape.requests
    slot = type_.requirements.union(offering.requirements)
    if not pool.requirements.compatible(slot, p.well_known):
        return Reason(ReasonCode.POOL_EXCLUDES_RESERVED, f"NodePool {pool.name} does not allow it", id_)
    taint = first_untolerated(pool.taints, rung.tolerations)
    if taint is not None:
        return Reason(ReasonCode.TAINT, f"it does not tolerate {taint} of NodePool {pool.name}", id_)
    code = _conflict(pool.requirements.union(slot), rung.strict, p.well_known)
    if code is not None:
        return Reason(code, f"it asks for {rung.strict}", id_)
    if not request.fits(type_.allocatable_of(offering)):
        room = type_.allocatable_of(offering)
        return Reason(ReasonCode.TOO_SMALL, f"it asks for {request}, {type_.name} has {room}", id_)
    return None


def _conflict(slot: Requirements, wanted: Requirements, well_known: frozenset[str]) -> ReasonCode | None:
    keys = {conflict.key for conflict in slot.incompatibilities(wanted, well_known)}
    if not keys:
        return None
    codes = {
        names.CAPACITY_TYPE: ReasonCode.EXCLUDES_RESERVED,
        names.ZONE: ReasonCode.WRONG_ZONE,
        names.INSTANCE_TYPE: ReasonCode.WRONG_INSTANCE_TYPE,
    }
    return next((code for key, code in codes.items() if key in keys), ReasonCode.WRONG_RESERVATION)


def _not_free(p: Problem, id_: str, offering: Offering, used: dict[str, int]) -> Reason:
    """Why a reservation that suits has no slot for it: its time, its health, its count, or where it stands."""
    entry = p.ledger[id_]
    match reservations.window(entry.reservation, p.snapshot.taken_s):
        case reservations.Upcoming(starts_s):
            in_s = starts_s - p.snapshot.taken_s
            return Reason(ReasonCode.NOT_STARTED, f"it starts in {in_s:,} seconds", id_)
        case reservations.Draining() | reservations.Reclaiming() | reservations.Ended():
            return Reason(ReasonCode.DRAINING, "its drain has begun", id_)
    if entry.reservation.state is not State.ACTIVE or not offering.healthy:
        return Reason(ReasonCode.UNHEALTHY, "it is not usable now", id_)
    if entry.free > used[id_]:
        return Reason(ReasonCode.TOPOLOGY, "a place that existed, or other pods, came first", id_)
    if used[id_]:
        return Reason(ReasonCode.HELD, "its free slots go to other nodes of this plan", id_)
    if entry.held:
        return Reason(ReasonCode.HELD, f"{entry.held} of its slots are held by other NodeClaims", id_)
    return Reason(ReasonCode.FULL, f"all of its {entry.reservation.total} slots are in use", id_)
