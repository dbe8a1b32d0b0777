"""Selects the offerings for one launch. Pure.

A claim that allows `reserved` is launched into reservations if one can be launched into, and then only into
reservations (Q-20, Q-21). Ordinary reservations, capacity blocks and interruptible reservations never share a request:
the set with the cheapest offering is used, on a tie the capacity block (Q-36). A request has each pair of type and zone
once, with the reservation that has most free slots (Q-22).

Differs from Karpenter (aws-5.2.5): a paid slot is used even if its type is exotic.
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
POOLS_MAX: Final = 300  # EC2's limit of overrides
_METAL: Final = "metal"
_EXOTIC: Final = (
    capacity.NVIDIA_GPU,
    capacity.AMD_GPU,
    capacity.GAUDI,
    capacity.NEURON,
    capacity.NEURON_CORE,
)


class Market(enum.Enum):
    """A request has offerings of one market only."""

    ON_DEMAND = "on-demand"
    SPOT = "spot"
    RESERVATION = "reservation"  # an ordinary reservation: an on-demand launch with a target
    BLOCK = "capacity-block"
    INTERRUPTIBLE = "interruptible-capacity-reservation"


# The order of sets whose cheapest offerings have the same price.
_TIE: Final = {Market.BLOCK: 0, Market.RESERVATION: 1, Market.INTERRUPTIBLE: 2}
_RESERVED_MARKETS: Final = {
    (capacity_reservation.DEFAULT, "false"): Market.RESERVATION,
    (capacity_reservation.DEFAULT, "true"): Market.INTERRUPTIBLE,
    (capacity_reservation.CAPACITY_BLOCK, "false"): Market.BLOCK,
}


@dataclass(frozen=True, slots=True)
class LaunchOption:
    """One instance type with one of its offerings."""

    instance_type: InstanceType
    offering: Offering

    @property
    def order_key(self) -> OrderKey:
        return self.instance_type.order_key(self.offering)

    @property
    def zone_id(self) -> str | None:
        """The zone id, which all accounts share; None if no subnet has it."""
        named = self.offering.requirements.by_key.get(aws.ZONE_ID)
        return named.any_value() if named else None


@dataclass(frozen=True, slots=True)
class Choice:
    """The offerings that one CreateFleet request contains."""

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
    """Raises InsufficientCapacity if no offering fits. `free` are newer counts of reservations than those of the types.
    Without `spot` no spot offering is selected. `best_effort`: minValues may be missed."""
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
    """The market of a reserved offering; None for an unknown kind of reservation."""
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
    """A request can have one capacity block: the cheapest, then the one with fewest free slots, then the first id."""
    return (min(options, key=lambda p: (p.order_key, p.offering.count, p.offering.reservation_id or "")),)


def _one_a_pool(options: Iterable[LaunchOption]) -> tuple[LaunchOption, ...]:
    """EC2 rejects a request with the same pair of type and zone twice."""
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
    """Removes bare metal and accelerated types, unless only these fit."""
    return [option for option in options if not _is_exotic(option.instance_type)] or options


def _is_exotic(instance_type: InstanceType) -> bool:
    size = instance_type.name.partition(".")[2]
    return _METAL in size or any(instance_type.capacity[name] for name in _EXOTIC)


def _without_dear_spot(options: list[LaunchOption]) -> list[LaunchOption]:
    """Removes spot offerings that cost more than the cheapest on-demand offering."""
    on_demand = (option.order_key for option in options if option.offering.capacity_type == names.ON_DEMAND)
    cheapest = min(on_demand, default=None)
    if cheapest is None:
        return options
    return [p for p in options if p.offering.capacity_type != names.SPOT or p.order_key <= cheapest]


def _at_most(choice: Choice, wanted: Requirements, *, best_effort: bool) -> Choice:
    """Keeps the cheapest types up to the limit of a request. Raises InsufficientCapacity if they have fewer different
    values than minValues requires, unless the policy is BestEffort."""
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
