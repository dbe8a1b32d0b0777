"""Instance types and their offerings.

Cloud adapters build them; `core` reads them. Health and count are separate values. An offering whose reservation is full
stays healthy with count 0, since a slot may become free; only a *launchable* offering, healthy with a count above 0,
counts for prices and order.
"""

import functools
import re
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from holdfast import errors, names
from holdfast.model import prices, resources
from holdfast.model.requirements import Requirements
from holdfast.model.resources import NOTHING, Resources

UNLIMITED: Final = 2**32 - 1  # the value for "unlimited" on the wire
_UNLIMITED_WORD: Final = "unlimited"
_COUNT: Final = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Offering:
    """An instance type in a zone with a capacity type and, if reserved, a reservation."""

    requirements: Requirements  # capacity type, zone, and all labels of the cloud for reservations
    capacity_type: str
    zone: str
    # The spot or on-demand price. For a reserved offering the on-demand price of its type, which sorts slots; its own
    # price is derived (see prices.near_zero). None: unknown.
    price_nano_usd_per_hour: int | None
    surcharge_nano_usd_per_hour: int = 0  # what sustained use adds: the CPU credits of a burstable type
    healthy: bool = True  # selected, compatible, active, not about to end, zone usable
    count: int = UNLIMITED  # how many more can be launched
    reservation_id: str | None = None
    capacity_override: Resources = NOTHING
    overhead_override: Resources = NOTHING

    def __post_init__(self) -> None:
        assert 0 <= self.count <= UNLIMITED, "a count is what is left; it is never negative"
        reserved = self.capacity_type == names.RESERVED
        assert reserved == (self.reservation_id is not None), "reserved offerings, and only they, have an id"
        for key, value in ((names.CAPACITY_TYPE, self.capacity_type), (names.ZONE, self.zone)):
            assert self.requirements.get(key).values == {value}, (
                "the requirements name capacity type and zone"
            )

    @property
    def launchable(self) -> bool:
        return self.healthy and self.count > 0

    @property
    def cost_nano_usd_per_hour(self) -> int | None:
        """Price plus surcharge, for comparing offerings."""
        price, surcharge = self.price_nano_usd_per_hour, self.surcharge_nano_usd_per_hour
        return min(prices.MAX, price + surcharge) if price and surcharge else price

    @property
    def available(self) -> int:
        """The count, or 0 if it is not healthy: availability as one number for the wire (Q-18)."""
        return self.count if self.healthy else 0


@dataclass(frozen=True)
class InstanceType:
    """No `slots=True`, since derived values are cached on the instance."""

    name: str
    requirements: Requirements
    capacity: Resources
    overhead: Resources  # kube-reserved, system-reserved and eviction threshold together
    offerings: tuple[Offering, ...]
    volume_limits: tuple[tuple[str, int], ...] = ()  # by storage driver, if known

    @functools.cached_property
    def allocatable(self) -> Resources:
        """Allocatable of a node of this type, without overrides of offerings."""
        return _allocatable(self.capacity, self.overhead)

    def allocatable_of(self, offering: Offering) -> Resources:
        """Allocatable of a node of this offering (S-55)."""
        if not offering.capacity_override.amounts and not offering.overhead_override.amounts:
            return self.allocatable
        return _allocatable(
            self.capacity.replace(offering.capacity_override),
            self.overhead.replace(offering.overhead_override),
        )

    def order_key(self, offering: Offering) -> prices.OrderKey:
        """Sorts an offering of this type among all offerings of all types, cheapest first."""
        return prices.order_key(offering.capacity_type, offering.cost_nano_usd_per_hour, *self._size)

    @functools.cached_property
    def reserved_offerings(self) -> tuple[Offering, ...]:
        """Those of reservations: few of a thousand types have any."""
        return tuple(offering for offering in self.offerings if offering.reservation_id is not None)

    @functools.cached_property
    def _size(self) -> tuple[int, int]:
        return self.capacity[resources.CPU], self.capacity[resources.MEMORY]

    def cheapest(self, wanted: Requirements, well_known: AbstractSet[str]) -> Offering | None:
        """The cheapest launchable offering; None where Karpenter's price is infinite (R-33, R-34)."""
        return min(self._launchable(wanted, well_known), key=self.order_key, default=None)

    def worst_launch(self, wanted: Requirements, well_known: AbstractSet[str]) -> Offering | None:
        """The most expensive offering of the capacity type that a launch would use (R-35)."""
        found = self._launchable(wanted, well_known)
        for capacity_type in names.CAPACITY_TYPES:
            of_type = [offering for offering in found if offering.capacity_type == capacity_type]
            if of_type:
                return max(of_type, key=self.order_key)
        return None

    def _launchable(self, wanted: Requirements, well_known: AbstractSet[str]) -> list[Offering]:
        return [o for o in self.offerings if o.launchable and wanted.compatible(o.requirements, well_known)]


def parse_count(wire: str | int) -> int:
    """A count from a file: a number, or "unlimited"; more than UNLIMITED is UNLIMITED."""
    if wire == _UNLIMITED_WORD:
        return UNLIMITED
    if _COUNT.fullmatch(str(wire)):
        return min(int(wire), UNLIMITED)
    raise errors.InvalidInput(
        f"count {wire!r} is neither {_UNLIMITED_WORD!r} nor a number that is not negative"
    )


def _allocatable(capacity: Resources, overhead: Resources) -> Resources:
    left = capacity.subtract(overhead)
    huge = sum(amount for name, amount in capacity.amounts if name.startswith(resources.HUGEPAGES_PREFIX))
    if not huge:
        return left
    return left.replace(resources.of({resources.MEMORY: max(0, left[resources.MEMORY] - huge)}))
