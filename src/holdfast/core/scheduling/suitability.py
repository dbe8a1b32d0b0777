"""Whether a class could use a reservation, and why not: one reason for each reservation.

Called by `waiting`, and on demand by whoever explains a plan. Equal pods have equal answers, so they are computed for
a class.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from holdfast import names
from holdfast.core.scheduling import daemons
from holdfast.core.scheduling.classes import Rung
from holdfast.core.scheduling.plan import NotReserved, Plan, Reason, ReasonCode
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.world import Ints
from holdfast.model import reservations, resources
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirements import Requirements
from holdfast.model.reservations import State
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodePoolView
from holdfast.model.taints import first_untolerated

# Where a pod and a slot do not go together, by the label; any other label: WrongReservation.
_CODES: Final = {
    names.CAPACITY_TYPE: ReasonCode.EXCLUDES_RESERVED,
    names.ZONE: ReasonCode.WRONG_ZONE,
    names.INSTANCE_TYPE: ReasonCode.WRONG_INSTANCE_TYPE,
    names.OS: ReasonCode.WRONG_PLATFORM,
    names.ARCH: ReasonCode.WRONG_PLATFORM,
}
_SUITED: Final = 2  # how near a pod came to a slot: kept out by the pool, by itself, or only by what is free


@dataclass(frozen=True)
class _Settled:
    """What the plan came to, as far as reasons depend on it."""

    limits: Ints  # [pool, limited resource] what is left of them
    slots_used: Counter[str | None]  # by reservation, by nodes of this plan
    node_of: dict[str, str]  # the node that exists on which a pod goes
    pool_of: dict[str, str]  # the NodePool of the node that is bought for a pod


def reservations_for(p: Problem, c: int, pool: NodePoolView) -> tuple[str, ...]:
    """The reservations of a pool that a pod of the class could go into if there were a free slot."""
    found = (
        (offering.reservation_id, _unsuited(p, c, pool, type_, offering))
        for type_, offering in _slots_of(pool)
        if offering.healthy
    )
    return tuple(sorted({id_ for id_, why in found if id_ in p.ledger and why is None}))


def can_buy(p: Problem, c: int, pool: NodePoolView) -> bool:
    """Whether the pool has something else than slots for a pod of the class."""
    return any(
        offering.launchable and offering.reservation_id is None
        for type_ in pool.instance_types
        for offering in type_.offerings
        if _unsuited(p, c, pool, type_, offering) is None
    )


def not_reserved(p: Problem, plan: Plan, limits: Ints) -> tuple[NotReserved, ...]:
    """For each pod that is in no slot, the reason of each reservation; nothing where reservations are not used."""
    if not p.settings.reserved_capacity:
        return ()
    settled = _settled(plan, limits)
    reserved_nodes = {
        node.name for node in p.nodes if dict(node.labels).get(names.CAPACITY_TYPE) == names.RESERVED
    }
    in_slots = {uid for claim in plan.claims if claim.slot for uid in claim.pods}
    in_slots |= {uid for uid, node in settled.node_of.items() if node in reserved_nodes}
    found = []
    for c, pod_class in enumerate(p.classes):
        by_place: dict[tuple[str | None, str | None], list[str]] = {}
        for pod in pod_class.pods:
            if pod.uid not in in_slots:
                place = settled.node_of.get(pod.uid), settled.pool_of.get(pod.uid)
                by_place.setdefault(place, []).append(pod.uid)
        for uids in by_place.values():
            reasons = tuple(_reasons(p, c, uids[0], settled))
            found += [NotReserved(uid, reasons) for uid in uids if reasons]
    return tuple(sorted(found, key=lambda one: one.pod))


def _settled(plan: Plan, limits: Ints) -> _Settled:
    return _Settled(
        limits=limits,
        slots_used=Counter(claim.slot for claim in plan.claims),
        node_of={uid: placed.node for placed in plan.placed for uid in placed.pods},
        pool_of={uid: claim.node_pool for claim in plan.claims for uid in claim.pods},
    )


def _reasons(p: Problem, c: int, pod: str, settled: _Settled) -> Iterator[Reason]:
    """One for each reservation: of the pool in which least was missing."""
    best: dict[str, tuple[int, Reason]] = {}
    for index, pool in enumerate(p.pools):
        for type_, offering in _slots_of(pool):
            id_ = offering.reservation_id
            if id_ not in p.ledger:
                continue
            why = _unsuited(p, c, pool, type_, offering)
            if why is not None:
                near = int(why.code is not ReasonCode.POOL_EXCLUDES_RESERVED)
            else:
                why = _not_free(p, id_, offering, settled) or _passed_by(p, index, pod, type_, id_, settled)
                near = _SUITED
            if id_ not in best or near > best[id_][0]:
                best[id_] = near, why
    unselected = "the class of no NodePool selects it"
    for id_ in p.ledger:
        yield best[id_][1] if id_ in best else Reason(ReasonCode.NO_RESERVATION_SELECTED, unselected, id_)


def _slots_of(pool: NodePoolView) -> Iterator[tuple[InstanceType, Offering]]:
    for type_ in pool.instance_types:
        for offering in type_.offerings:
            if offering.reservation_id is not None:
                yield type_, offering


def _unsuited(
    p: Problem, c: int, pool: NodePoolView, type_: InstanceType, offering: Offering
) -> Reason | None:
    """What about the pod or the pool keeps it from an offering, free or not; of slots it is told."""
    id_ = offering.reservation_id or ""
    slot = type_.requirements.union(offering.requirements)
    if not pool.requirements.compatible(slot, p.well_known):
        return Reason(ReasonCode.POOL_EXCLUDES_RESERVED, f"NodePool {pool.name} does not allow it", id_)
    taint = first_untolerated(pool.taints, p.rungs[c][-1].tolerations)
    if taint is not None:
        return Reason(ReasonCode.TAINT, f"it does not tolerate {taint} of NodePool {pool.name}", id_)
    code = _conflict(pool.requirements.union(slot), p.rungs[c], p.well_known)
    if code is not None:
        return Reason(code, f"it asks for {p.rungs[c][-1].strict}", id_)
    request, room = p.classes[c].shape.requests, _room(p, pool, type_, offering)
    if not request.fits(room):
        return Reason(ReasonCode.TOO_SMALL, f"it asks for {request}, {type_.name} has {room}", id_)
    return None


def _conflict(slot: Requirements, rungs: Iterable[Rung], well_known: frozenset[str]) -> ReasonCode | None:
    """Why no alternative of what a pod requires goes together with a slot, by the last of them."""
    code = None
    for wanted in dict.fromkeys(rung.strict for rung in rungs):
        keys = {conflict.key for conflict in slot.incompatibilities(wanted, well_known)}
        if not keys:
            return None
        code = next((code for key, code in _CODES.items() if key in keys), ReasonCode.WRONG_RESERVATION)
    return code


def _room(p: Problem, pool: NodePoolView, type_: InstanceType, offering: Offering) -> Resources:
    """What pods can have in a slot once DaemonSets have theirs."""
    suiting = [d for d in p.snapshot.daemon_sets if daemons.suits_pool(d, pool, p.well_known)]
    taken = daemons.requests(daemons.of_type(suiting, pool, type_, p.well_known))
    return type_.allocatable_of(offering).subtract(taken)


def _not_free(p: Problem, id_: str, offering: Offering, settled: _Settled) -> Reason | None:
    """Why a reservation that suits has no slot for it: its time, its health or its count."""
    entry, used = p.ledger[id_], settled.slots_used[id_]
    match reservations.window(entry.reservation, p.snapshot.taken_s):
        case reservations.Upcoming(starts_s):
            in_s = starts_s - p.snapshot.taken_s
            return Reason(ReasonCode.NOT_STARTED, f"it starts in {in_s:,} seconds", id_)
        case reservations.Draining() | reservations.Reclaiming() | reservations.Ended():
            return Reason(ReasonCode.DRAINING, "its drain has begun", id_)
    if entry.reservation.state is not State.ACTIVE:
        return Reason(ReasonCode.UNHEALTHY, f"it is {entry.reservation.state}, not active", id_)
    if not offering.healthy:
        return Reason(ReasonCode.UNHEALTHY, "nothing can be launched into it at the moment", id_)
    if entry.free > used:
        return None
    if used:
        return Reason(ReasonCode.HELD, f"its {used} free slots go to other nodes of this plan", id_)
    if entry.held:
        return Reason(ReasonCode.HELD, f"{entry.held} of its slots are held by other NodeClaims", id_)
    return Reason(ReasonCode.FULL, f"all of its {entry.reservation.total} slots are in use", id_)


def _passed_by(p: Problem, pool: int, pod: str, type_: InstanceType, id_: str, settled: _Settled) -> Reason:
    """Why a pod that suits a slot that is still free is not in it."""
    node, got = settled.node_of.get(pod), settled.pool_of.get(pod)
    if node is not None:
        return Reason(ReasonCode.EXISTING_NODE, f"node {node} has room for it", id_)
    capacity = np.array([1 if name == resources.NODES else type_.capacity[name] for name in p.limited])
    if (capacity > settled.limits[pool]).any():
        of = p.pools[pool]
        return Reason(ReasonCode.LIMITS, f"the limits of NodePool {of.name}, {of.limits}, are reached", id_)
    before = [one.name for one in p.pools[:pool]]
    if got in before and not p.settings.reserved_before_weight:
        return Reason(ReasonCode.HEAVIER_POOL, f"NodePool {got} comes before {p.pools[pool].name}", id_)
    return Reason(ReasonCode.TOPOLOGY, "where other pods are keeps it from there", id_)
