"""How many reservations a NodePool may use, and how many of their slots are free.

For the condition CapacityReservationAvailable of a NodePool. Pure. A reservation that is full or in a hold-down counts
as selected. A reservation that the requirements of the NodePool exclude, or that is upcoming, does not.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from holdfast.model.offerings import InstanceType
from holdfast.model.requirements import Requirements


@dataclass(frozen=True, slots=True)
class PoolSlots:
    selected: int  # reservations
    free: int  # slots of these reservations


def of_pool(
    pool: Requirements,
    types: Iterable[InstanceType],
    well_known: AbstractSet[str],
    upcoming: AbstractSet[str] = frozenset(),
) -> PoolSlots:
    """`pool`: the requirements of the NodePool's template. `types`: the instance types of its class. `upcoming`: the
    reservations that have not started."""
    free = free_slots(pool, types, well_known)
    started = [slots for id_, slots in free.items() if id_ not in upcoming]
    return PoolSlots(len(started), sum(started))


def free_slots(
    pool: Requirements, types: Iterable[InstanceType], well_known: AbstractSet[str]
) -> dict[str, int]:
    """The reservations that the NodePool may use, with their free slots."""
    return {
        offering.reservation_id: offering.available
        for known in types
        for offering in known.offerings
        if offering.reservation_id is not None
        and pool.compatible(offering.requirements, well_known)
        and pool.intersects(known.requirements)
    }
