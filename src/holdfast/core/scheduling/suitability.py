"""Whether a class could use a reservation, and why not: one reason for each reservation.

Called by `waiting`, and on demand by whoever explains a plan. Equal pods have equal answers, so they are computed for
a class; what classes have in common is computed once.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
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


@dataclass(frozen=True, eq=False)
class _Way:
    """An offering of a pool, with what pods are compared with."""

    pool: int
    type: InstanceType
    offering: Offering
    id: str  # of its reservation; empty: it is bought
    allowed: bool  # by the pool
    node: Requirements  # what a node there is
    room: Resources  # what pods can have there once DaemonSets have theirs


@dataclass(frozen=True)
class _Settled:
    """What the plan came to, as far as reasons depend on it."""

    limits: Ints  # [pool, limited resource] what is left of them
    slots_used: Counter[str | None]  # by reservation, by nodes of this plan
    node_of: dict[str, str]  # the node that exists on which a pod goes
    pool_of: dict[str, str]  # the NodePool of the node that is launched for a pod


class Suitability:
    """Answers about the reservations of one problem."""

    def __init__(self, p: Problem) -> None:
        self._problem = p
        self._known: dict[tuple[int, bool], tuple[_Way, ...]] = {}
        self._misfits: dict[tuple[int, _Way], Reason | None] = {}

    def reservations_for(self, c: int, pool: int) -> tuple[str, ...]:
        """The reservations of a pool that a pod of the class could go into if there were a free slot."""
        slots = [way for way in self._ways(pool, reserved=True) if way.offering.healthy]
        return tuple(sorted({way.id for way in slots if self._unsuited(c, way) is None}))

    def can_buy(self, c: int, pool: int) -> bool:
        """Whether the pool has something else than slots for a pod of the class."""
        bought = self._ways(pool, reserved=False)
        return any(way.offering.launchable and self._unsuited(c, way) is None for way in bought)

    def not_reserved(self, plan: Plan, limits: Ints) -> tuple[NotReserved, ...]:
        """For each pod that is in no slot, the reason of each reservation; none where reservations are not used."""
        p = self._problem
        if not p.settings.reserved_capacity:
            return ()
        settled = _settled(plan, limits)
        in_slots = _in_slots(p, plan)
        found = []
        for c, pod_class in enumerate(p.classes):
            by_place: dict[tuple[str | None, str | None], list[str]] = {}
            for pod in pod_class.pods:
                if pod.uid not in in_slots:
                    place = settled.node_of.get(pod.uid), settled.pool_of.get(pod.uid)
                    by_place.setdefault(place, []).append(pod.uid)
            for uids in by_place.values():
                reasons = tuple(self._reasons(c, uids[0], settled))
                found += [NotReserved(uid, reasons) for uid in uids if reasons]
        return tuple(sorted(found, key=lambda one: one.pod))

    def _reasons(self, c: int, pod: str, settled: _Settled) -> Iterator[Reason]:
        """One for each reservation: of the pool in which least was missing."""
        p = self._problem
        best: dict[str, tuple[int, Reason]] = {}
        for way in (way for pool in range(len(p.pools)) for way in self._ways(pool, reserved=True)):
            why = self._unsuited(c, way)
            if why is not None:
                near = int(why.code is not ReasonCode.POOL_EXCLUDES_RESERVED)
            else:
                why, near = _not_free(p, way, settled) or _passed_by(p, way, pod, settled), _SUITED
            if way.id not in best or near > best[way.id][0]:
                best[way.id] = near, why
        unselected = "the class of no NodePool selects it"
        for id_ in p.ledger:
            yield best[id_][1] if id_ in best else Reason(ReasonCode.NO_RESERVATION_SELECTED, unselected, id_)

    def _ways(self, pool: int, *, reserved: bool) -> tuple[_Way, ...]:
        """The slots of a pool that are counted, or what it can buy."""
        key = pool, reserved
        if key not in self._known:
            found = _ways(self._problem, pool, reserved=reserved)
            self._known[key] = tuple(way for way in found if not reserved or way.id in self._problem.ledger)
        return self._known[key]

    def _unsuited(self, c: int, way: _Way) -> Reason | None:
        """What about the pod or the pool keeps it from an offering, free or not; of slots it is told."""
        p, request = self._problem, self._problem.classes[c].shape.requests
        key = (p.ladder_of[c], way)  # classes that differ in size alone share a ladder
        if key not in self._misfits:
            self._misfits[key] = _misfit(p, p.ladders[p.ladder_of[c]].rungs, way)
        why = self._misfits[key]
        if why is None and not request.fits(way.room):
            return Reason(
                ReasonCode.TOO_SMALL, f"it asks for {request}, {way.type.name} has {way.room}", way.id
            )
        return why


def _ways(p: Problem, pool: int, *, reserved: bool) -> Iterator[_Way]:
    """The slots of a pool, or what it can buy."""
    of_pool = p.pools[pool]
    kinds = (names.RESERVED,) if reserved else (names.ON_DEMAND, names.SPOT)
    runs = {kind: daemons.by_type(p.snapshot.daemon_sets, of_pool, p.well_known, kind) for kind in kinds}
    for i, type_ in enumerate(of_pool.instance_types):
        taken = {kind: daemons.requests(found[i]) for kind, found in runs.items()}
        for offering in type_.offerings:
            if (offering.reservation_id is not None) != reserved:
                continue
            there = type_.requirements.union(offering.requirements)
            yield _Way(
                pool=pool,
                type=type_,
                offering=offering,
                id=offering.reservation_id or "",
                allowed=of_pool.requirements.intersects(type_.requirements)
                and of_pool.requirements.compatible(offering.requirements, p.well_known)
                and p.snapshot.cloud_labels.are_asked_for(offering.requirements, of_pool.requirements),
                node=of_pool.requirements.union(there),
                room=type_.allocatable_of(offering).subtract(taken[offering.capacity_type]),
            )


def _misfit(p: Problem, rungs: Sequence[Rung], way: _Way) -> Reason | None:
    """What keeps pods of any size from an offering: the pool, its taints, or what they ask for."""
    pool = p.pools[way.pool]
    if not way.allowed:
        return Reason(ReasonCode.POOL_EXCLUDES_RESERVED, f"NodePool {pool.name} does not allow it", way.id)
    taint = first_untolerated(pool.taints, rungs[-1].tolerations)
    if taint is not None:
        return Reason(ReasonCode.TAINT, f"it does not tolerate {taint} of NodePool {pool.name}", way.id)
    code = _conflict(way.node, rungs, p.well_known)
    return None if code is None else Reason(code, f"it asks for {rungs[-1].strict}", way.id)


def _conflict(slot: Requirements, rungs: Iterable[Rung], well_known: frozenset[str]) -> ReasonCode | None:
    """Why no alternative of what a pod requires goes together with a slot, by the last of them."""
    code = None
    for wanted in dict.fromkeys(one for rung in rungs for one in rung.alternatives):
        keys = {conflict.key for conflict in slot.incompatibilities(wanted, well_known)}
        if not keys:
            return None
        code = next((code for key, code in _CODES.items() if key in keys), ReasonCode.WRONG_RESERVATION)
    return code


def _settled(plan: Plan, limits: Ints) -> _Settled:
    return _Settled(
        limits=limits,
        slots_used=Counter(claim.slot for claim in plan.claims),
        node_of={uid: placed.node for placed in plan.placed for uid in placed.pods},
        pool_of={uid: claim.node_pool for claim in plan.claims for uid in claim.pods},
    )


def _in_slots(p: Problem, plan: Plan) -> set[str]:
    """Pods whose node is reserved, to be launched or there already."""
    reserved = {node.name for node in p.nodes if dict(node.labels).get(names.CAPACITY_TYPE) == names.RESERVED}
    found = {uid for claim in plan.claims if claim.slot for uid in claim.pods}
    return found | {uid for placed in plan.placed if placed.node in reserved for uid in placed.pods}


def _not_free(p: Problem, way: _Way, settled: _Settled) -> Reason | None:
    """Why a reservation that suits has no slot for it: its time, its health or its count."""
    entry, used = p.ledger[way.id], settled.slots_used[way.id]
    match reservations.window(entry.reservation, p.snapshot.taken_s):
        case reservations.Upcoming(starts_s):
            in_s = starts_s - p.snapshot.taken_s
            return Reason(ReasonCode.NOT_STARTED, f"it starts in {in_s:,} seconds", way.id)
        case reservations.Draining() | reservations.Reclaiming() | reservations.Ended():
            return Reason(ReasonCode.DRAINING, "its drain has begun", way.id)
    if entry.reservation.state is not State.ACTIVE:
        return Reason(ReasonCode.UNHEALTHY, f"it is {entry.reservation.state}, not active", way.id)
    if not way.offering.healthy:
        return Reason(ReasonCode.UNHEALTHY, "nothing can be launched into it at the moment", way.id)
    if entry.free > used:
        return None
    if used:
        return Reason(ReasonCode.HELD, f"its free slots ({used}) go to other nodes of this plan", way.id)
    if entry.held:
        return Reason(ReasonCode.HELD, f"{entry.held} of its slots are held by other NodeClaims", way.id)
    return Reason(ReasonCode.FULL, f"all of its {entry.reservation.total} slots are in use", way.id)


def _passed_by(p: Problem, way: _Way, pod: str, settled: _Settled) -> Reason:
    """Why a pod that suits a slot that is still free is not in it."""
    node, got, pool = settled.node_of.get(pod), settled.pool_of.get(pod), p.pools[way.pool]
    if node is not None:
        return Reason(ReasonCode.EXISTING_NODE, f"node {node} has room for it", way.id)
    capacity = np.array([1 if name == resources.NODES else way.type.capacity[name] for name in p.limited])
    if (capacity > settled.limits[way.pool]).any():
        text = f"the limits of NodePool {pool.name}, {pool.limits}, are reached"
        return Reason(ReasonCode.LIMITS, text, way.id)
    if not p.settings.reserved_before_weight and got in [one.name for one in p.pools[: way.pool]]:
        return Reason(ReasonCode.HEAVIER_POOL, f"NodePool {got} comes before {pool.name}", way.id)
    return Reason(ReasonCode.TOPOLOGY, "where other pods are keeps it from there", way.id)
