"""The condition CapacityReservationAvailable: whether a slot of the selected reservations is free (decision 11).

NodeClaims, NodePools and node classes that select reservations have it. It is never part of Ready: without free slots,
nodes are still launched on demand or on spot.
"""

from typing import Final

from holdfast.api.conditions import FALSE, TRUE, ConditionSet

TYPE: Final = "CapacityReservationAvailable"
AVAILABLE: Final = "Available"
LIMIT_EXCEEDED: Final = "LimitExceeded"


def put(found: ConditionSet, selected: int, free: int) -> None:
    """Sets the condition of a node class or a NodePool. `selected` is the number of its reservations, `free` the number
    of their free slots."""
    if not selected:
        found.drop(TYPE)
    elif free:
        found.put(TYPE, TRUE, AVAILABLE)
    else:
        which = "the selected reservation" if selected == 1 else f"the {selected} selected reservations"
        found.put(TYPE, FALSE, LIMIT_EXCEEDED, f"no slot of {which} is free")
