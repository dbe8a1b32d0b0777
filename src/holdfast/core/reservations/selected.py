"""Which reservations a NodePool may use, and whether one of them has a slot left.

Called for the condition CapacityReservationAvailable of a NodePool. Pure. The rule: a reservation that is full, or
left alone for a while, is selected all the same; what the pool's own requirements exclude, or starts later, is not.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from holdfast.model.offerings import InstanceType
from holdfast.model.requirements import Requirements


@dataclass(frozen=True, slots=True)
class Slots:
    selected: int  # reservations
    free: int  # slots of them that can be launched into now


def slots(
    wanted: Requirements,
    types: Iterable[InstanceType],
    well_known: AbstractSet[str],
    upcoming: AbstractSet[str] = frozenset(),
) -> Slots:
    """`wanted` is what every node of the pool is, `types` is all that its class could launch; `upcoming` are the
    reservations that start later."""
    found = {
        offering.reservation_id: offering.available
        for known in types
        for offering in known.offerings
        if offering.reservation_id is not None
        and offering.reservation_id not in upcoming
        and wanted.compatible(offering.requirements, well_known)
        and wanted.intersects(known.requirements)
    }
    return Slots(len(found), sum(found.values()))
