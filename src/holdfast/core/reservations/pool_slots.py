"""Which reservations a NodePool may use, and how many of their slots are free.

Called for the condition CapacityReservationAvailable of a NodePool. Pure. The rule: a reservation that is full, or
that no launch is tried into for a while, counts as selected; one that the pool's own requirements exclude, or that starts
later, does not.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from holdfast.model.offerings import InstanceType
from holdfast.model.requirements import Requirements


@dataclass(frozen=True, slots=True)
class PoolSlots:
    selected: int  # reservations
    free: int  # slots of them that can be launched into now


def of_pool(
    pool: Requirements,
    types: Iterable[InstanceType],
    well_known: AbstractSet[str],
    upcoming: AbstractSet[str] = frozenset(),
) -> PoolSlots:
    """`pool` are the requirements of the pool's template, `types` is all that its class could launch; `upcoming` are the
    reservations that start later."""
    free = {
        offering.reservation_id: offering.available
        for known in types
        for offering in known.offerings
        if offering.reservation_id is not None
        and offering.reservation_id not in upcoming
        and pool.compatible(offering.requirements, well_known)
        and pool.intersects(known.requirements)
    }
    return PoolSlots(len(free), sum(free.values()))
