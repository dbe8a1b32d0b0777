"""Calls that create and change interruptible reservations. Called by `service`.

Free slots return at once. An instance in a reclaimed slot gets a warning, and the slot returns when the instance is
terminated. The source reservation counts the slots as used.
"""

from typing import Any

from holdfast.sim.ec2 import control, instances, reservation_calls, reservations
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Reservation
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, invalid


def lend(region: RegionState, request: Request) -> dict[str, Any]:
    """CreateInterruptibleCapacityReservationAllocation: moves free slots to an interruptible reservation."""
    source, count = reservation_calls.owned(region, request), request.need("InstanceCount")
    if not source.active or source.end_s or source.lent_to or source.kind == CAPACITY_BLOCK:
        raise reservation_calls.wrong_state(source)
    if not 1 <= count <= source.available:
        raise invalid(f"InstanceCount must be between 1 and the {source.available} that are not in use")
    request.proceed()
    control.lend(region, source.id, count, tags=request.tags("capacity-reservation"))
    return {
        "SourceCapacityReservationId": source.id,
        "TargetInstanceCount": count,
        "Status": "active",
        "InterruptionType": "adhoc",
    }


def take_back(region: RegionState, request: Request) -> dict[str, Any]:
    """UpdateInterruptibleCapacityReservationAllocation: more slots, or fewer, with a warning to the instances in
    them."""
    source, wanted = reservation_calls.owned(region, request), request.need("TargetInstanceCount")
    lent = region.reservations.get(source.lent_to)
    if lent is None or lent.target >= 0:
        raise reservation_calls.wrong_state(source)
    if not 0 <= wanted <= lent.total + source.available:
        raise invalid(f"TargetInstanceCount must be between 0 and {lent.total + source.available}")
    request.proceed()
    if wanted >= lent.total:
        more = wanted - lent.total
        region.put_reservation(source, available=source.available - more, lent=source.lent + more)
        region.put_reservation(lent, total=wanted, available=lent.available + more)
    else:
        _shrink(region, lent, wanted)
    return {
        "InterruptibleCapacityReservationId": lent.id,
        "SourceCapacityReservationId": source.id,
        "InstanceCount": lent.total,
        "TargetInstanceCount": wanted,
        "Status": "updating" if wanted != lent.total else "active",
        "InterruptionType": "adhoc",
    }


def _shrink(region: RegionState, lent: Reservation, wanted: int) -> None:
    lent = region.put_reservation(lent, target=wanted)
    free = min(lent.available, lent.total - wanted)
    to_end = lent.total - free - wanted
    for instance in reversed(reservations.inside(region, lent)):
        if to_end > 0:
            instances.warn_interruptible(region, instance)
            to_end -= 1
    if free:
        instances.give_back(region, lent, free)
