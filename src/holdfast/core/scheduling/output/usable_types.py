"""Whether a NodePool can launch anything that its class offers, whatever is available at the moment.

For the condition InstanceTypesReady of a NodePool. Pure. An offering that is full, unhealthy or not started counts: only
what the requirements of the NodePool exclude for good does not.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from holdfast import names
from holdfast.model.offerings import InstanceType
from holdfast.model.requirements import Requirements

NO_COMPATIBLE_TYPES: Final = "NoCompatibleInstanceTypes"
FILTERED: Final = "NodePool requirements filtered out all compatible available instance types"
NO_RESERVATIONS: Final = "NoCapacityReservations"
_ONLY_RESERVED: Final = (
    "NodePool allows only reserved capacity, and its class selects no capacity reservation that it can use"
)


def why_none(
    pool: Requirements, types: Iterable[InstanceType], well_known: AbstractSet[str]
) -> tuple[str, str] | None:
    """A reason and a message; None if some offering suits. `pool`: the requirements of the NodePool's template."""
    compatible: dict[tuple[str, str, str | None], bool] = {}  # what the requirements of an offering depend on
    for known in types:
        if not pool.intersects(known.requirements):
            continue
        for offering in known.offerings:
            key = offering.capacity_type, offering.zone, offering.reservation_id
            if key not in compatible:
                compatible[key] = pool.compatible(offering.requirements, well_known)
            if compatible[key]:
                return None
    if pool.get(names.CAPACITY_TYPE).values == {names.RESERVED}:
        return NO_RESERVATIONS, _ONLY_RESERVED
    return NO_COMPATIBLE_TYPES, FILTERED
