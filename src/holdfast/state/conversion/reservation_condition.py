"""The condition CapacityReservationAvailable: whether a slot of the selected reservations is free (decision 11).

On NodeClaims, NodePools and node classes. The rule: only objects that select reservations have it, and it is never part
of Ready, since fallback must go on.
"""

from typing import Final

from holdfast.api.conditions import FALSE, TRUE, ConditionSet

TYPE: Final = "CapacityReservationAvailable"
AVAILABLE: Final = "Available"
LIMIT_EXCEEDED: Final = "LimitExceeded"


def put(found: ConditionSet, selected: int, free: int) -> None:
    """On a class or a NodePool: how many reservations it may use, and how many of their slots are free."""
    if not selected:
        found.drop(TYPE)
    elif free:
        found.put(TYPE, TRUE, AVAILABLE)
    else:
        which = "the selected reservation" if selected == 1 else f"the {selected} selected reservations"
        found.put(TYPE, FALSE, LIMIT_EXCEEDED, f"no slot of {which} is free")
