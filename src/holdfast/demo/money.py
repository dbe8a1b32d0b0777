"""What the demo costs with its reservations, and what the same nodes would cost without them.

Reads the ledger of the simulated EC2. A reservation costs its list price whether it is used or not; an instance in a
slot costs nothing on top. Without reservations the same instance would be paid for on demand. So the difference of
both is the cost of idle slots: a reservation guarantees capacity and is not a discount.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from holdfast.sim.ec2 import prices
from holdfast.sim.ec2.entities import CAPACITY_BLOCK
from holdfast.sim.ec2.ledger import Charge
from holdfast.sim.ec2.region_state import RegionState

_RESERVATIONS: Final = ("reservation", CAPACITY_BLOCK)
_UNRESERVED: Final = ("spot", "on-demand")
_IN_SLOT: Final = "reserved"


@dataclass(frozen=True, slots=True)
class Cost:
    """Nano-USD, of an hour or of an interval."""

    reservations: int = 0  # used or not
    used: int = 0  # the part of the reservations that running instances use
    unreserved: int = 0  # spot and on-demand instances

    @property
    def paid(self) -> int:
        return self.reservations + self.unreserved

    @property
    def without_reservations(self) -> int:
        """The same instances, those in slots on demand."""
        return self.used + self.unreserved

    @property
    def idle(self) -> int:
        return max(0, self.reservations - self.used)


def _sum(amounts: Iterable[tuple[Charge, int]]) -> Cost:
    """The amounts by kind. Those of charges in slots are list prices."""
    by_kind: Counter[str] = Counter()
    for charge, nano_usd in amounts:
        by_kind[charge.kind] += nano_usd
    return Cost(
        reservations=sum(by_kind[kind] for kind in _RESERVATIONS),
        used=by_kind[_IN_SLOT],
        unreserved=sum(by_kind[kind] for kind in _UNRESERVED),
    )


class Meter:
    """Reads costs. EC2 removes terminated instances after an hour, so their types are kept here."""

    def __init__(self, ec2: RegionState) -> None:
        self._ec2 = ec2
        self._types: dict[str, str] = {}  # by instance id

    def per_hour(self) -> Cost:
        """Of what runs now."""
        return _sum((one, one.nano_usd_per_hour) for one in self._charges(self._ec2.ledger.open.values()))

    def total(self, from_s: int, until_s: int) -> Cost:
        charges = self._charges(self._ec2.ledger.charges())
        return _sum((one, one.nano_usd(from_s, until_s)) for one in charges)

    def _charges(self, charges: Iterable[Charge]) -> Iterator[Charge]:
        """The charges; those of instances in slots have the list price of their type."""
        self._types |= {one.id: one.instance_type for one in self._ec2.instances}
        for one in charges:
            if one.kind != _IN_SLOT:
                yield one
            elif one.what in self._types:
                price = prices.on_demand(self._ec2.setup, self._types[one.what])
                yield replace(one, nano_usd_per_hour=price or 0)
