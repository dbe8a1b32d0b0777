"""How many reservations a NodePool may use, and how many of their slots are free.

For the condition CapacityReservationAvailable and the status of a NodePool. Pure. A reservation that is full or in a hold-down counts
as selected. A reservation that the requirements of the NodePool exclude, or that is upcoming, does not.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from holdfast.model.offerings import InstanceType
from holdfast.model.requirements import Requirements


@dataclass(frozen=True, slots=True)
class PoolSlots:
    selected: int  # reservations
    free: int  # slots of these reservations


def total(usable: Mapping[str, int], upcoming: AbstractSet[str] = frozenset()) -> PoolSlots:
    """The sum of slots that a NodePool may use. `upcoming`: the reservations that have not started."""
    found = [free for id_, free in usable.items() if id_ not in upcoming]
    return PoolSlots(len(found), sum(found))


def usable(pool: Requirements, types: Iterable[InstanceType], well_known: AbstractSet[str]) -> dict[str, int]:
    """The free slots of each reservation that the NodePool may use, also of those that have not started. `pool`: the
    requirements of the NodePool's template. `types`: the instance types of its class."""
    return {
        offering.reservation_id: offering.available
        for known in types
        for offering in known.reserved_offerings
        if offering.reservation_id is not None
        and pool.compatible(offering.requirements, well_known)
        and pool.intersects(known.requirements)
    }
