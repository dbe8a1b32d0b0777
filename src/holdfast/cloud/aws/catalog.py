"""The catalog of a class: every instance type, and every way to get one there.

Called by `holdfast plan`, with what is shipped, and by the EC2 provider, with what the account says. Pure:
all it knows comes in as values. The rules: what cannot be launched is listed as not healthy rather than
left out, for it explains (decision 15); a reservation is one offering (decision 3); list prices are kept
(decision 2).

Differs from Karpenter (aws-4.2.1): a type has no offerings in zones that do not offer it. They could never
be launched and would explain nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from holdfast import names
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws import compatibility, node_shape, offerings, reservations
from holdfast.cloud.aws.capacity import Settings
from holdfast.cloud.aws.instance_types import Availability, instance_type
from holdfast.cloud.aws.reservations import CapacityReservation
from holdfast.data import ec2
from holdfast.data.ec2 import InstanceTypeInfo, Zone
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.reservations import Reservation, launches_into
from holdfast.state import selection

DEFAULT_SETTINGS: Final = Settings()


@dataclass(frozen=True, slots=True)
class Supply:
    """What EC2 has in a region. Prices are in nano-USD an hour; one that is missing is unknown."""

    region: str
    types: tuple[InstanceTypeInfo, ...]
    zones: tuple[Zone, ...]
    zones_by_type: Mapping[str, tuple[str, ...]]
    on_demand: Mapping[str, int]  # by type
    spot: Mapping[tuple[str, str], int] | None = None  # by type and zone; None: no price history was read yet
    exhausted: AbstractSet[tuple[str, str, str]] = frozenset()  # type, zone and capacity type EC2 has none of


def shipped(region: ec2.Region) -> Supply:
    """A region as far as it is shipped: no spot prices."""
    return Supply(region.name, region.types, region.zones, region.zones_by_type, region.on_demand_nano_usd)


def build(
    supply: Supply,
    node_class: EC2NodeClass | None,
    seen: Iterable[CapacityReservation] = (),
    *,
    now_s: int,
    settings: Settings = DEFAULT_SETTINGS,
) -> tuple[InstanceType, ...]:
    """The types of a class, in the order of the supply; `seen` are all reservations that the account sees.

    InvalidInput when the class's kubelet settings cannot be read."""
    usable = reservations.selected(node_class, seen) if settings.reserved_capacity else ()
    by_type: dict[str, list[Reservation]] = {}
    for reservation in usable:
        by_type.setdefault(reservation.instance_type, []).append(reservations.to_model(reservation))
    view = _View(
        supply=supply,
        node_class=node_class,
        zones=_zones(supply, node_class),
        subnets=_subnets(node_class),
        buys=_buys(node_class),
        expiring=selection.expiring(node_class),
        now_s=now_s,
    )
    shape = node_shape.of(node_class)
    return tuple(
        instance_type(
            info,
            shape,
            settings,
            view.availability(info, tuple(by_type.get(info.name, ()))),
            tuple(view.offerings(info, by_type.get(info.name, ()))),
        )
        for info in supply.types
    )


@dataclass(frozen=True, slots=True)
class _View:
    """One class's view of the supply."""

    supply: Supply
    node_class: EC2NodeClass | None
    zones: Mapping[str, Zone]
    subnets: AbstractSet[str] | None  # zones with a subnet; None: not resolved, so any
    buys: tuple[str, ...]  # the capacity types that the class may buy
    expiring: AbstractSet[str]  # reservations that the class's status says EC2 takes back
    now_s: int

    def availability(self, info: InstanceTypeInfo, reserved: tuple[Reservation, ...]) -> Availability:
        zones = {*self.supply.zones_by_type.get(info.name, ()), *(r.zone for r in reserved)}
        types = [name for name in self.buys if name in info.usage_classes]
        return Availability(
            self.supply.region,
            tuple(self.zone(name) for name in sorted(zones) if self.has_subnet(name)),
            (*types, names.RESERVED) if reserved else types,
            reserved,
        )

    def offerings(self, info: InstanceTypeInfo, reserved: Iterable[Reservation]) -> Iterator[Offering]:
        compatible = compatibility.compatible(info, self.node_class)
        for zone in self.supply.zones_by_type.get(info.name, ()):
            for capacity_type in self.buys:
                if capacity_type in info.usage_classes:
                    yield self.bought(info.name, self.zone(zone), capacity_type, compatible=compatible)
        for reservation in reserved:
            yield self.reserved(reservation, compatible=compatible)

    def bought(self, name: str, zone: Zone, capacity_type: str, *, compatible: bool) -> Offering:
        listed = self.supply.on_demand.get(name)
        price = listed
        if capacity_type == names.SPOT and self.supply.spot is not None:
            price = self.supply.spot.get((name, zone.name))
        exhausted = (name, zone.name, capacity_type) in self.supply.exhausted
        return offerings.bought(
            capacity_type,
            zone.name,
            zone.id,
            price_nano_usd_per_hour=price,
            list_price_nano_usd_per_hour=listed,
            healthy=compatible and not exhausted and price is not None and self.has_subnet(zone.name),
        )

    def reserved(self, reservation: Reservation, *, compatible: bool) -> Offering:
        """Neither a price nor what EC2 has run out of matters: the slot is ours. That the type is offered
        in its zone needs no list, the reservation proves it."""
        return offerings.reserved(
            reservation,
            self.zone(reservation.zone).id,
            on_demand_nano_usd_per_hour=self.supply.on_demand.get(reservation.instance_type),
            healthy=compatible
            and self.has_subnet(reservation.zone)
            and reservation.id not in self.expiring
            and launches_into(reservation, self.now_s),
        )

    def zone(self, name: str) -> Zone:
        return self.zones.get(name) or Zone(name, None)

    def has_subnet(self, zone: str) -> bool:
        return self.subnets is None or zone in self.subnets


def _zones(supply: Supply, node_class: EC2NodeClass | None) -> Mapping[str, Zone]:
    """By name. What a subnet of the class says of its zone's id wins: names differ between accounts."""
    zones = {zone.name: zone for zone in supply.zones}
    for subnet in node_class.status.subnets if node_class else ():
        if subnet.zone_id:
            zones[subnet.zone] = Zone(subnet.zone, subnet.zone_id)
    return zones


def _subnets(node_class: EC2NodeClass | None) -> AbstractSet[str] | None:
    if node_class is None or not node_class.status.subnets:
        return None
    return frozenset(subnet.zone for subnet in node_class.status.subnets)


def _buys(node_class: EC2NodeClass | None) -> tuple[str, ...]:
    """A target in direct mode leaves no spot (decision 10)."""
    direct = node_class.spec.capacity_reservation_spec if node_class else None
    targeted = direct is not None and direct.capacity_reservation_target is not None
    return (names.ON_DEMAND,) if targeted else (names.ON_DEMAND, names.SPOT)
