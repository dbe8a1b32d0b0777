"""Instance types, offerings and reservations, read from the Catalog document.

A reservation is written as an offering of its type, or in a list of its own, or in both: then the offering names it by
its id. Either way it becomes one reserved offering. `scenario` decides whether an EC2NodeClass may use it.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

from checker import labels, quantities
from checker.quantities import Resources
from holdfast import names
from holdfast.api import aws

_DRAIN: Final = dt.timedelta(minutes=40)  # before a capacity block's end nothing is launched (row 6)
_BLOCK: Final = "capacity-block"


@dataclass(frozen=True, slots=True)
class Reservation:
    id: str
    kind: str
    instance_type: str
    zone: str
    owner: str
    tags: Mapping[str, str]
    criteria: str
    interruptible: bool
    available: int
    healthy: bool  # it has started, is active, and does not drain
    starts: dt.datetime | None
    drains: dt.datetime | None  # when its nodes are drained; None: never


@dataclass(frozen=True, slots=True)
class Offering:
    zone: str
    zone_id: str | None
    capacity_type: str
    price: Fraction | None
    launchable: bool
    reservation: Reservation | None = None

    def labels(self) -> dict[str, frozenset[labels.Value]]:
        """The labels of nodes of this offering; all offerings have the reservation labels, possibly as absent."""
        found: dict[str, labels.Value] = {
            names.ZONE: self.zone,
            names.CAPACITY_TYPE: self.capacity_type,
            aws.ZONE_ID: self.zone_id,
            aws.CAPACITY_RESERVATION_ID: None,
            aws.CAPACITY_RESERVATION_TYPE: None,
            aws.CAPACITY_RESERVATION_INTERRUPTIBLE: None,
        }
        if self.reservation is not None:
            found[aws.CAPACITY_RESERVATION_ID] = self.reservation.id
            found[aws.CAPACITY_RESERVATION_TYPE] = self.reservation.kind
            found[aws.CAPACITY_RESERVATION_INTERRUPTIBLE] = str(self.reservation.interruptible).lower()
        return {key: frozenset({value}) for key, value in found.items()}


@dataclass(frozen=True, slots=True)
class InstanceType:
    name: str
    labels: Mapping[str, frozenset[labels.Value]]
    capacity: Resources
    allocatable: Resources
    offerings: tuple[Offering, ...]
    volume_limits: Mapping[str, int]  # by storage driver; others are unlimited

    def reserved(self) -> Iterable[tuple[Offering, Reservation]]:
        return ((one, one.reservation) for one in self.offerings if one.reservation is not None)


def read(spec: Mapping[str, Any], now: dt.datetime) -> dict[str, InstanceType]:
    """The instance types by name. With the feature gate off, no type has a reserved offering (Q-33)."""
    types = _with_all(spec, now)
    if not (spec.get("settings") or {}).get("reservedCapacity", True):
        types = [replace(t, offerings=tuple(o for o in t.offerings if not o.reservation)) for t in types]
    return {one.name: one for one in types}


def reservations(spec: Mapping[str, Any], now: dt.datetime) -> list[Reservation]:
    """All of them, also with the feature gate off: nodes that exist may be in them."""
    return [found for one in _with_all(spec, now) for _, found in one.reserved()]


def _with_all(spec: Mapping[str, Any], now: dt.datetime) -> list[InstanceType]:
    listed = {one["id"]: one for one in spec.get("reservations") or ()}
    types = [_instance_type(one, listed, now) for one in spec.get("instanceTypes") or ()]
    named = {found.id for one in types for _, found in one.reserved()}
    others = [reservation(one, now) for one in listed.values() if one["id"] not in named]
    return [_with_reservations(one, others, _zone_ids(spec)) for one in types]


def _zone_ids(spec: Mapping[str, Any]) -> dict[str, str]:
    offerings = [o for one in spec.get("instanceTypes") or () for o in one.get("offerings") or ()]
    with_zones = [*offerings, *(spec.get("reservations") or ())]
    return {one["zone"]: one["zoneID"] for one in with_zones if one.get("zoneID")}


def reservation(wire: Mapping[str, Any], now: dt.datetime) -> Reservation:
    return Reservation(
        id=wire["id"],
        kind=wire.get("type", "default"),
        instance_type=wire["instanceType"],
        zone=wire["zone"],
        owner=wire.get("ownerID", ""),
        tags=wire.get("tags") or {},
        criteria=wire.get("instanceMatchCriteria", "open"),
        interruptible=bool(wire.get("interruptible")),
        available=int(wire["available"] if "available" in wire else wire["total"]),
        healthy=_healthy(wire, now),
        starts=moment(wire["start"]) if wire.get("start") else None,
        drains=moment(wire["end"]) - _DRAIN if wire.get("end") and wire.get("type") == _BLOCK else None,
    )


def moment(wire: str) -> dt.datetime:
    return dt.datetime.fromisoformat(wire)


def _healthy(wire: Mapping[str, Any], now: dt.datetime) -> bool:
    lead = _DRAIN if wire.get("type") == _BLOCK else dt.timedelta(0)
    started = not wire.get("start") or moment(wire["start"]) <= now
    not_ended = not wire.get("end") or now < moment(wire["end"]) - lead
    return started and not_ended and bool(wire.get("state", "active") == "active")


def _instance_type(
    wire: Mapping[str, Any], listed: Mapping[str, Mapping[str, Any]], now: dt.datetime
) -> InstanceType:
    capacity = quantities.resources(wire["capacity"])
    found = {labels.name(key): _values(value) for key, value in (wire.get("labels") or {}).items()}
    return InstanceType(
        name=wire["name"],
        labels=found | {names.INSTANCE_TYPE: frozenset({wire["name"]})},
        capacity=capacity,
        allocatable=allocatable(capacity, quantities.resources(wire.get("overhead"))),
        offerings=tuple(_offering(one, wire["name"], listed, now) for one in wire.get("offerings") or ()),
        volume_limits=wire.get("volumeLimits") or {},
    )


def _values(wire: Any) -> frozenset[labels.Value]:
    return frozenset(str(value) for value in wire) if isinstance(wire, list) else frozenset({str(wire)})


def allocatable(capacity: Resources, overhead: Resources) -> Resources:
    """The allocatable resources; huge pages are subtracted from memory (S-55)."""
    left = quantities.less(capacity, overhead)
    huge = sum(amount for name, amount in capacity.items() if name.startswith("hugepages-"))
    if huge:
        left["memory"] = max(0, left["memory"] - huge)
    return left


def _offering(
    wire: Mapping[str, Any], type_name: str, listed: Mapping[str, Mapping[str, Any]], now: dt.datetime
) -> Offering:
    found = None
    if "reservation" in wire:
        inside = wire["reservation"]
        defined = {**listed.get(inside["id"], {}), **inside}
        found = reservation({"instanceType": type_name, "zone": wire["zone"], **defined}, now)
    count = found.available if found else _count(wire.get("available", "unlimited"))
    healthy = bool(wire.get("healthy", True)) and (found is None or found.healthy)
    return Offering(
        zone=wire["zone"],
        zone_id=wire.get("zoneID"),
        capacity_type=wire["capacityType"],
        price=quantities.price(wire.get("price")),
        launchable=healthy and count > 0,
        reservation=found and replace(found, healthy=healthy),
    )


def _count(wire: Any) -> int:
    return 2**32 - 1 if wire == "unlimited" else int(wire)


def _with_reservations(
    one: InstanceType, listed: Iterable[Reservation], zone_ids: Mapping[str, str]
) -> InstanceType:
    added = [_reserved(found, zone_ids) for found in listed if found.instance_type == one.name]
    return replace(one, offerings=(*one.offerings, *added))


def _reserved(found: Reservation, zone_ids: Mapping[str, str]) -> Offering:
    return Offering(
        zone=found.zone,
        zone_id=zone_ids.get(found.zone),
        capacity_type=names.RESERVED,
        price=None,
        launchable=found.healthy and found.available > 0,
        reservation=found,
    )
