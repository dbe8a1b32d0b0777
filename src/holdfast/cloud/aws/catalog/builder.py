"""Builds the catalog of an EC2NodeClass: every instance type with its offerings.

Called by `holdfast plan`, with shipped instance types, and by `discovery`, with those of the account. Pure. An offering
that cannot be launched is listed as not healthy and not left out, because it explains a plan (decision 15). A
reservation is one offering (decision 3). Offerings keep their list prices (decision 2).

Differs from Karpenter (aws-4.2.1): a type has no offerings in zones that do not offer it. They could never be launched
and would explain nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from holdfast import names
from holdfast.api.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from holdfast.cloud.aws.catalog import burstable, compatibility, node_shape, offerings
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.cloud.aws.catalog.instance_types import Availability, instance_type
from holdfast.cloud.aws.catalog.node_shape import NodeShape
from holdfast.cloud.aws.catalog.unavailable import Pool
from holdfast.cloud.aws.reservations import selection
from holdfast.data import ec2
from holdfast.data.ec2 import InstanceTypeInfo, Zone
from holdfast.model import prices
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.prices import PriceRange
from holdfast.model.reservations import Reservation, launches_into

DEFAULT_SETTINGS: Final = Settings()


@dataclass(frozen=True, slots=True)
class Supply:
    """The instance types, prices and capacity of a region. Prices are in nano-USD per hour; a missing price is
    unknown."""

    region: str
    types: tuple[InstanceTypeInfo, ...]
    zones: tuple[Zone, ...]
    zones_by_type: Mapping[str, tuple[str, ...]]
    on_demand: Mapping[str, int]  # by type
    spot: Mapping[tuple[str, str], int] | None = None  # by type and zone; None: no price history was read yet
    exhausted: AbstractSet[Pool] = frozenset()  # pools without capacity in EC2
    forbidden: AbstractSet[str] = frozenset()  # capacity types that the account may not launch
    full_subnets: AbstractSet[str] = frozenset()  # ids of subnets without free addresses
    held_down: AbstractSet[str] = frozenset()  # reservations that launches skip for a while
    observed_memory: Mapping[str, int] = field(
        default_factory=dict
    )  # in bytes, by type, as nodes reported it

    @property
    def lasting(self) -> "Supply":
        """What a type without a reservation is built from."""
        return replace(self, held_down=frozenset())

    @property
    def price_range(self) -> PriceRange:
        """The range of all on-demand and spot prices. The near-zero prices of slots are derived from it (decision
        2)."""
        return prices.price_range(self.on_demand.values(), (self.spot or {}).values())


def shipped(region: ec2.Region) -> Supply:
    """The shipped data of a region. It has no spot prices."""
    return Supply(region.name, region.types, region.zones, region.zones_by_type, region.on_demand_nano_usd)


class BuiltTypes:
    """Caches the built types of one class. A type is built again only if its inputs changed: counts change every
    minute, but for a few of a thousand types only."""

    def __init__(self) -> None:
        self.inputs: object = None  # inputs of `types`
        self.types: tuple[InstanceType, ...] = ()
        self._of: object = None
        self._supply: Supply | None = None
        self._by_type: dict[str, tuple[InstanceTypeInputs, InstanceType]] = {}

    def changed(self, of: object, supply: Supply, reserved: AbstractSet[str]) -> AbstractSet[str] | None:
        """The names of the types whose inputs may have changed; None: all of them. `of`: the values that all types share.
        `reserved`: the types that have a reservation now."""
        if of != self._of:
            self._of, self._supply, self._by_type = of, None, {}
        is_same = self._supply is not None and self._supply.lasting == supply.lasting
        self._supply = supply
        if not is_same:
            return None
        return reserved | {name for name, (inputs, _) in self._by_type.items() if inputs.slots}

    def get(
        self, inputs: "InstanceTypeInputs", make: Callable[["InstanceTypeInputs"], InstanceType]
    ) -> InstanceType:
        before = self._by_type.get(inputs.info.name)
        if before is not None and before[0] == inputs:
            return before[1]
        built = make(inputs)
        self._by_type[inputs.info.name] = (inputs, built)
        return built

    def last(self, name: str) -> InstanceType:
        return self._by_type[name][1]


def build(
    supply: Supply,
    node_class: EC2NodeClass | None,
    selected: Iterable[Reservation] = (),
    *,
    now_s: int,
    settings: Settings = DEFAULT_SETTINGS,
    built: BuiltTypes | None = None,
) -> tuple[InstanceType, ...]:
    """The types of a class, in the order of the supply. `selected` are the reservations that the class selects.

    Raises InvalidInput when the class's kubelet settings cannot be read.
    """
    by_id = {one.id: one for one in selected} if settings.reserved_capacity else {}
    by_type: dict[str, list[Reservation]] = {}
    for _, reservation in sorted(by_id.items()):
        by_type.setdefault(reservation.instance_type, []).append(reservation)
    exhausted: dict[str, list[Pool]] = {}
    for pool in sorted(supply.exhausted):
        exhausted.setdefault(pool[0], []).append(pool)
    view = _View(
        region=supply.region,
        node_class=node_class,
        spec=node_class.spec if node_class else None,
        shape=node_shape.of(node_class),
        settings=settings,
        zones=_zones(supply, node_class),
        subnets=_subnets(node_class),
        usable=_subnets(node_class, supply.full_subnets),
        capacity_types=_capacity_types(node_class),
        forbidden=supply.forbidden,
    )
    closed = selection.expiring(node_class) | selection.upcoming(node_class) | supply.held_down
    built = built or BuiltTypes()
    changed = built.changed(view, supply, by_type.keys())
    return tuple(
        built.last(info.name)
        if changed is not None and info.name not in changed
        else built.get(
            _inputs_of(
                supply, info, by_type.get(info.name, ()), tuple(exhausted.get(info.name, ())), closed, now_s
            ),
            view.instance_type,
        )
        for info in supply.types
    )


class _Slots(NamedTuple):
    reservation: Reservation
    open: bool  # it can be launched into now, as far as its state decides


class InstanceTypeInputs(NamedTuple):
    """The inputs of one type that may change from minute to minute."""

    info: InstanceTypeInfo
    zones: tuple[str, ...]
    on_demand: int | None
    spot: tuple[int | None, ...]  # by zone
    exhausted: tuple[Pool, ...]
    slots: tuple[_Slots, ...]
    observed_memory_bytes: int | None


def _inputs_of(
    supply: Supply,
    info: InstanceTypeInfo,
    reserved: Sequence[Reservation],
    exhausted: tuple[Pool, ...],
    closed: AbstractSet[str],
    now_s: int,
) -> InstanceTypeInputs:
    zones, listed, spot = (
        supply.zones_by_type.get(info.name, ()),
        supply.on_demand.get(info.name),
        supply.spot,
    )
    return InstanceTypeInputs(
        info,
        zones,
        listed,
        tuple(listed if spot is None else spot.get((info.name, zone)) for zone in zones),
        exhausted,
        tuple(_Slots(one, one.id not in closed and launches_into(one, now_s)) for one in reserved),
        supply.observed_memory.get(info.name),
    )


@dataclass(frozen=True, slots=True)
class _View:
    """The values that all types of one class share."""

    region: str
    node_class: EC2NodeClass | None = field(compare=False)  # a change of the status rebuilds nothing
    spec: EC2NodeClassSpec | None
    shape: NodeShape
    settings: Settings
    zones: Mapping[str, Zone]
    subnets: AbstractSet[str] | None  # zones with a subnet; None: not resolved, so any
    usable: AbstractSet[str] | None  # zones with a subnet that has free addresses
    capacity_types: tuple[str, ...]  # that the class may launch outside reservations
    forbidden: AbstractSet[str]

    def instance_type(self, inputs: InstanceTypeInputs) -> InstanceType:
        return instance_type(
            inputs.info,
            self.shape,
            self.settings,
            self.availability(inputs),
            tuple(self.offerings(inputs)),
            inputs.observed_memory_bytes,
        )

    def availability(self, inputs: InstanceTypeInputs) -> Availability:
        reserved = tuple(slots.reservation for slots in inputs.slots)
        zones = {*inputs.zones, *(r.zone for r in reserved)}
        types = [name for name in self.capacity_types if name in inputs.info.usage_classes]
        return Availability(
            self.region,
            tuple(self.zone(name) for name in sorted(zones) if self.subnets is None or name in self.subnets),
            (*types, names.RESERVED) if reserved else types,
            reserved,
        )

    def offerings(self, inputs: InstanceTypeInputs) -> Iterator[Offering]:
        compatible = compatibility.compatible(inputs.info, self.node_class)
        surcharge = burstable.surcharge_nano_usd_per_hour(inputs.info, self.settings.burstable_cpu_percent)
        for zone, spot in zip(inputs.zones, inputs.spot, strict=True):
            for capacity_type in self.capacity_types:
                if capacity_type in inputs.info.usage_classes:
                    price = spot if capacity_type == names.SPOT else inputs.on_demand
                    exhausted = (inputs.info.name, zone, capacity_type) in inputs.exhausted
                    yield offerings.unreserved(
                        capacity_type,
                        zone,
                        self.zone(zone).id,
                        price_nano_usd_per_hour=price,
                        surcharge_nano_usd_per_hour=surcharge,
                        healthy=compatible
                        and not exhausted
                        and capacity_type not in self.forbidden
                        and price is not None
                        and self.has_addresses(zone),
                    )
        for slots in inputs.slots:
            yield self.reserved(slots, inputs.on_demand, surcharge, compatible=compatible)

    def reserved(self, slots: _Slots, on_demand: int | None, surcharge: int, *, compatible: bool) -> Offering:
        """A reserved offering needs no price and no free pool: its capacity is reserved. The reservation also proves
        that EC2 offers the type in its zone."""
        zone = slots.reservation.zone
        return offerings.reserved(
            slots.reservation,
            self.zone(zone).id,
            on_demand_nano_usd_per_hour=on_demand,
            surcharge_nano_usd_per_hour=surcharge,
            healthy=compatible and slots.open and self.has_addresses(zone),
        )

    def zone(self, name: str) -> Zone:
        return self.zones.get(name) or Zone(name, None)

    def has_addresses(self, zone: str) -> bool:
        return self.usable is None or zone in self.usable


def _zones(supply: Supply, node_class: EC2NodeClass | None) -> Mapping[str, Zone]:
    """Zones by name. The zone id of a subnet of the class has priority: names differ between accounts."""
    zones = {zone.name: zone for zone in supply.zones}
    for subnet in node_class.status.subnets if node_class else ():
        if subnet.zone_id:
            zones[subnet.zone] = Zone(subnet.zone, subnet.zone_id)
    return zones


def _subnets(
    node_class: EC2NodeClass | None, full: AbstractSet[str] = frozenset()
) -> AbstractSet[str] | None:
    """The zones where the class has a subnet that is not full; None if its subnets are not resolved."""
    if node_class is None or not node_class.status.subnets:
        return None
    return frozenset(subnet.zone for subnet in node_class.status.subnets if subnet.id not in full)


def _capacity_types(node_class: EC2NodeClass | None) -> tuple[str, ...]:
    """With a target in direct mode the class launches no spot instances (decision 10)."""
    direct = node_class.spec.capacity_reservation_spec if node_class else None
    targeted = direct is not None and direct.capacity_reservation_target is not None
    return (names.ON_DEMAND,) if targeted else (names.ON_DEMAND, names.SPOT)
