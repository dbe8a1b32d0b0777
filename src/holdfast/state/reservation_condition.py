"""The condition CapacityReservationAvailable: whether a slot of the selected reservations is free (decision 11).

On NodeClaims, NodePools and node classes. The rule: only objects that select reservations have it, and it is never part
of Ready, since fallback must go on.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from holdfast.api import conditions
from holdfast.api.conditions import FALSE, TRUE, Condition

TYPE: Final = "CapacityReservationAvailable"
AVAILABLE: Final = "Available"
LIMIT_EXCEEDED: Final = "LimitExceeded"


def of_selected(
    known: Sequence[Condition], selected: int, free: int, *, now: datetime, generation: int
) -> tuple[Condition, ...]:
    """For a class or a NodePool: how many reservations it may use, and how many of their slots are free."""
    if not selected:
        return conditions.drop(known, TYPE)
    if free:
        return available(known, now=now, generation=generation)
    which = "the selected reservation" if selected == 1 else f"the {selected} selected reservations"
    return limit_exceeded(known, f"no slot of {which} is free", now=now, generation=generation)


def available(known: Sequence[Condition], *, now: datetime, generation: int) -> tuple[Condition, ...]:
    """For a NodeClaim too: it was launched into its slot."""
    return conditions.put(known, TYPE, TRUE, now=now, generation=generation, reason=AVAILABLE)


def limit_exceeded(
    known: Sequence[Condition], message: str, *, now: datetime, generation: int
) -> tuple[Condition, ...]:
    """For a NodeClaim too: written before it is deleted because every slot it may use is taken."""
    return conditions.put(
        known, TYPE, FALSE, now=now, generation=generation, reason=LIMIT_EXCEEDED, message=message
    )
