"""Which offerings one launch goes for: pure, from what a claim asks for and what can be had.

The rules: a claim that allows `reserved` goes into reservations before anything else,
and then into nothing but reservations (Q-20, Q-21); ordinary reservations, capacity blocks and interruptible
reservations never share a request, the set with the cheapest offering is taken and on a tie the capacity
block (Q-36); a request has each pair of type and zone once, with the reservation that has most free slots (Q-22).

Differs from Karpenter (aws-5.2.5): a slot that is paid for is never passed over because its type is exotic.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast import errors, names
from holdfast.api import aws
from holdfast.cloud.aws.catalog import capacity
from holdfast.cloud.aws.catalog.labels import CLOUD_LABELS
from holdfast.cloud.aws.reservations import capacity_reservation
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.prices import OrderKey
from holdfast.model.requirements import Requirements
from holdfast.model.snapshot import ClaimView

TYPES_MAX: Final = 60
POOLS_MAX: Final = 300  # as many overrides as EC2 takes
_METAL: Final = "metal"
_EXOTIC: Final = (
    capacity.NVIDIA_GPU,
    capacity.AMD_GPU,
    capacity.GAUDI,
    capacity.NEURON,
    capacity.NEURON_CORE,
)


class Market(enum.Enum):
    """What a request may hold only one of."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"  # an ordinary one: an on-demand launch that targets it
    BLOCK = "capacity-block"
    INTERRUPTIBLE = "interruptible-capacity-reservation"


# Which set goes first when the cheapest offerings of two cost the same.
_TIE: Final = {Market.BLOCK: 0, Market.RESERVATION: 1, Market.INTERRUPTIBLE: 2}
_RESERVED_MARKETS: Final = {
    (capacity_reservation.DEFAULT, "false"): Market.RESERVATION,
    (capacity_reservation.DEFAULT, "true"): Market.INTERRUPTIBLE,
    (capacity_reservation.CAPACITY_BLOCK, "false"): Market.BLOCK,
}


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """One instance type in one zone."""

    instance_type: InstanceType
    offering: Offering

    @property
    def order_key(self) -> OrderKey:
        return self.instance_type.order_key(self.offering)

    @property
    def zone_id(self) -> str | None:
        """The same for all accounts; None where no subnet has it."""
        named = self.offering.requirements.by_key.get(aws.ZONE_ID)
        return named.any_value() if named else None


@dataclass(frozen=True, slots=True)
class Choice:
    """What one fleet request offers EC2 to choose from."""

    market: Market
    options: tuple[LaunchOption, ...]  # cheapest first

    @property
    def capacity_type(self) -> str:
        return self.options[0].offering.capacity_type

    @property
    def reservation_ids(self) -> tuple[str, ...]:
        return tuple(sorted({p.offering.reservation_id for p in self.options if p.offering.reservation_id}))

    def option(self, instance_type: str, zone: str) -> LaunchOption | None:
        found = (p for p in self.options if (p.instance_type.name, p.offering.zone) == (instance_type, zone))
        return next(found, None)


def choose(
    types: Iterable[InstanceType],
    wanted: ClaimView,
    *,
    free: Mapping[str, int] | None = None,
    spot: bool = True,
    best_effort: bool = False,
) -> Choice:
    """InsufficientCapacity when nothing that will do can be had. `free` are counts of reservations that are
    newer than those of the types; without `spot` no spot offering is chosen; `best_effort`: minValues may be
    missed."""
    options = [
        LaunchOption(known, offering)
        for known, offering in wanted.offerings(types, CLOUD_LABELS, free or {})
        if spot or offering.capacity_type != names.SPOT
    ]
    reserved = [option for option in options if option.offering.capacity_type == names.RESERVED]
    chosen = _reserved(reserved) if reserved else _unreserved(options, wanted)
    if chosen is None:
        raise errors.InsufficientCapacity(
            f"none of the instance types that will do can be had in {wanted.requirements}"
        )
    return _at_most(chosen, wanted.requirements, best_effort=best_effort)


# --- Reservations -----------------------------------------------------------------------------------


def market(reserved: Offering) -> Market | None:
    """Of a reserved offering; None: a kind of reservation that this module cannot launch into."""
    kind = _label(reserved, aws.CAPACITY_RESERVATION_TYPE)
    return _RESERVED_MARKETS.get((kind, _label(reserved, aws.CAPACITY_RESERVATION_INTERRUPTIBLE)))


def _reserved(options: Iterable[LaunchOption]) -> Choice | None:
    by_market: dict[Market, list[LaunchOption]] = {}
    for option in options:
        kind = market(option.offering)
        if kind is not None:
            by_market.setdefault(kind, []).append(option)
    if not by_market:
        return None
    best = min(by_market, key=lambda kind: (by_market[kind][0].order_key, _TIE[kind]))
    return Choice(best, _one_block(by_market[best]) if best is Market.BLOCK else _one_a_pool(by_market[best]))


def _one_block(options: Iterable[LaunchOption]) -> tuple[LaunchOption, ...]:
    """A request can hold one capacity block: the cheapest, then the one with fewest free slots, then by id."""
    return (min(options, key=lambda p: (p.order_key, p.offering.count, p.offering.reservation_id or "")),)


def _one_a_pool(options: Iterable[LaunchOption]) -> tuple[LaunchOption, ...]:
    """EC2 refuses a pair of type and zone that is there twice."""
    best: dict[tuple[str, str], LaunchOption] = {}
    for option in options:
        pool = (option.instance_type.name, option.offering.zone)
        if pool not in best or _has_more_slots(option.offering, best[pool].offering):
            best[pool] = option
    return tuple(best.values())


def _has_more_slots(a: Offering, b: Offering) -> bool:
    return (-a.count, a.reservation_id or "") < (-b.count, b.reservation_id or "")


def _label(offering: Offering, key: str) -> str:
    return offering.requirements.get(key).any_value() or ""


# --- Unreserved: on demand and spot -----------------------------------------------------------------


def _unreserved(options: list[LaunchOption], wanted: ClaimView) -> Choice | None:
    if not any(r.min_values for r in wanted.requirements):
        options = _without_dear_spot(_without_exotic(options))
    spot = [option for option in options if option.offering.capacity_type == names.SPOT]
    if spot:
        return Choice(Market.SPOT, tuple(spot))
    return Choice(Market.ON_DEMAND, tuple(options)) if options else None


def _without_exotic(options: list[LaunchOption]) -> list[LaunchOption]:
    """Bare metal and accelerators only where nothing else will do."""
    return [option for option in options if not _is_exotic(option.instance_type)] or options


def _is_exotic(instance_type: InstanceType) -> bool:
    size = instance_type.name.partition(".")[2]
    return _METAL in size or any(instance_type.capacity[name] for name in _EXOTIC)


def _without_dear_spot(options: list[LaunchOption]) -> list[LaunchOption]:
    """Spot that costs more than the cheapest on-demand offering has nothing to recommend it."""
    on_demand = (option.order_key for option in options if option.offering.capacity_type == names.ON_DEMAND)
    cheapest = min(on_demand, default=None)
    if cheapest is None:
        return options
    return [p for p in options if p.offering.capacity_type != names.SPOT or p.order_key <= cheapest]


def _at_most(choice: Choice, wanted: Requirements, *, best_effort: bool) -> Choice:
    """The cheapest types, as many as a request may name; they must still have as many different values as required, unless the
    policy of minValues is BestEffort."""
    types: dict[str, InstanceType] = {}
    for option in choice.options:
        if len(types) < TYPES_MAX:
            types.setdefault(option.instance_type.name, option.instance_type)
    values = {
        r.key: {value for t in types.values() for value in t.requirements.get(r.key).values}
        for r in wanted
        if r.min_values
    }
    gaps = () if best_effort else wanted.min_values_gaps(values)
    if gaps:
        words = ", ".join(f"{gap.key}: {gap.found} of {gap.wanted}" for gap in gaps)
        raise errors.InsufficientCapacity(f"too few different values are left to choose from ({words})")
    options = [option for option in choice.options if option.instance_type.name in types]
    return Choice(choice.market, tuple(options[:POOLS_MAX]))
