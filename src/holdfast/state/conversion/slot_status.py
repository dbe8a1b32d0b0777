"""Converts the ledger into what the status of node classes and NodePools shows of it. Pure.

The number of reservations is bounded: an object has a limit of size, and every watch gets the whole object.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from holdfast.api.reservation_slots import (
    POOL_RESERVATIONS_MAX,
    RESERVATIONS_MAX,
    NodeClassSlots,
    NodePoolSlots,
    PoolReservation,
    ReservationSlots,
)
from holdfast.core.reservations import idle_cost
from holdfast.core.reservations.ledger import Entry
from holdfast.model import prices


@dataclass(frozen=True, slots=True)
class SlotReport:
    """The ledger with the prices and the time that idle costs depend on."""

    ledger: Mapping[str, Entry]
    list_prices: Mapping[str, int]  # by instance type
    now_s: int

    def of_class(self, selected: Collection[str]) -> NodeClassSlots | None:
        """None: the class selects no reservation."""
        found = self._entries(selected)
        if not found:
            return None
        return NodeClassSlots(
            summary=_summary(found),
            idle_usd_per_hour=self._idle(found),
            reservations=tuple(map(self._slots, found[:RESERVATIONS_MAX])),
            more=max(0, len(found) - RESERVATIONS_MAX),
        )

    def of_pool(self, usable: Collection[str], used: Mapping[str, int]) -> NodePoolSlots | None:
        """`usable`: the reservations that the NodePool can use. `used`: how many of its nodes are in each. None: it can
        use no reservation."""
        found = self._entries(usable)
        if not found:
            return None
        listed = [
            PoolReservation(id=one.reservation.id, used=used.get(one.reservation.id, 0), free=one.free)
            for one in found[:POOL_RESERVATIONS_MAX]
        ]
        return NodePoolSlots(
            summary=_summary(found),
            idle_usd_per_hour=self._idle(found),
            reservations=tuple(listed),
            more=max(0, len(found) - POOL_RESERVATIONS_MAX),
        )

    def _entries(self, ids: Collection[str]) -> list[Entry]:
        return [self.ledger[id_] for id_ in sorted(ids) if id_ in self.ledger]

    def _slots(self, one: Entry) -> ReservationSlots:
        end_s = one.reservation.end_s
        return ReservationSlots(
            id=one.reservation.id,
            total=one.reservation.total,
            used_here=one.used_here,
            used_elsewhere=one.used_elsewhere,
            held=one.waiting,
            releasing=one.releasing,
            free=one.free,
            idle_usd_per_hour=self._idle((one,)),
            end_time=None if end_s is None else datetime.fromtimestamp(end_s, UTC),
        )

    def _idle(self, entries: Iterable[Entry]) -> str | None:
        """None if a price is unknown: a sum without it would look complete."""
        total = 0
        for one in entries:
            price = self.list_prices.get(one.reservation.instance_type)
            idle = idle_cost.idle_nano_usd_per_hour(one, price, self.now_s)
            if idle is None:
                return None
            total += idle
        return prices.text(total)


def _summary(entries: Iterable[Entry]) -> str:
    found = tuple(entries)
    return f"{sum(one.free for one in found)}/{sum(one.reservation.total for one in found)}"
