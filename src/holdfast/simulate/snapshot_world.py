"""The World of a simulation that starts from a file of `holdfast snapshot`: region, time, prices and reservations of its
Catalog. Pure.

`holdfast simulate` merges it with the World of the files, if there is one. What a World cannot have is left out with a note,
which is in the result.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from holdfast.api.findings import Finding
from holdfast.api.scenario import Catalog, CatalogSpec, Reservation
from holdfast.data import ec2
from holdfast.model import wording
from holdfast.state.conversion import times

Json = dict[str, Any]

CLASS_TAG: Final = "sim.holdfast.dev/class-"  # with the name of a class that selects the reservation
_REGION: Final = re.compile(r"[a-z]+(-[a-z]+)+-[0-9]+")
_USABLE: Final = ("active", "pending", "scheduled", "delayed")
_HERE: Final = ("starting", "running", "ending")
_NAMED_MAX: Final = 5  # types in a note


@dataclass(frozen=True, slots=True)
class SnapshotWorld:
    spec: Json  # of a World
    notes: tuple[str, ...]


def read(catalog: Catalog) -> SnapshotWorld | Finding:
    """The World of the Catalog, or why there is none."""
    spec = catalog.spec
    region = _region(spec)
    if isinstance(region, Finding):
        return region
    reading = _Reading(spec, region)
    found = list(reading.reservations())
    notes = [one for one in found if isinstance(one, str)]
    world: Json = {
        "region": region.name,
        "reservations": [one for one in found if not isinstance(one, str)],
        "prices": list(reading.prices()),
    }
    if spec.now is not None:
        world["start"] = times.text(times.epoch_s(spec.now))
    return SnapshotWorld(world, (*reading.unknown_types(), *notes))


def merged(snapshot: Json, written: Mapping[str, Any], classes: Iterable[str]) -> Json:
    """The spec with that of the World of the files. Its fields replace those of the snapshot, its reservations and prices
    come first, and the generated classes select its reservations."""
    own = list(written.get("reservations") or ())
    ids = {one["id"] for one in own}
    priced = list(written.get("prices") or ())
    keys = {_price_key(one) for one in priced}
    tags = {f"{CLASS_TAG}{name}": "true" for name in classes}
    return {
        **snapshot,
        **written,
        "reservations": [
            *({**one, "tags": {**(one.get("tags") or {}), **tags}} for one in own),
            *(one for one in snapshot["reservations"] if one["id"] not in ids),
        ],
        "prices": [*priced, *(one for one in snapshot["prices"] if _price_key(one) not in keys)],
    }


def _price_key(price: Mapping[str, Any]) -> tuple[str, str]:
    return price["instanceType"], price.get("capacityType", "on-demand")


def _region(spec: CatalogSpec) -> ec2.Region | Finding:
    zones = {one.zone for each in spec.instance_types for one in each.offerings}
    zones |= {one.zone for one in spec.reservations}
    names = {match[0] if (match := _REGION.match(zone)) else zone for zone in zones}
    names |= {spec.region} if spec.region else set()
    if len(names) != 1:
        has = f"the Catalog has zones of {', '.join(sorted(names))}" if names else "the Catalog has no zones"
        return Finding(("spec",), f"a simulation has one region, and {has}")
    (name,) = names
    if name not in ec2.region_names():
        return Finding(("spec",), f"{name} is not a region that is shipped ({', '.join(ec2.region_names())})")
    return ec2.region(name)


class _Reading:
    def __init__(self, spec: CatalogSpec, region: ec2.Region) -> None:
        self._spec = spec
        self._offered = region.zones_by_type
        self._here = Counter(one.reservation_id for one in spec.instances if one.state in _HERE)
        self._classes: dict[str, set[str]] = {}  # those that select a reservation
        for each in spec.instance_types:
            for one in each.offerings:
                if one.reservation is not None:
                    self._classes.setdefault(one.reservation.id, set()).update(each.node_classes)

    def unknown_types(self) -> Iterator[str]:
        unknown = sorted({one.name for one in self._spec.instance_types} - self._offered.keys())
        if unknown:
            some = ", ".join((*unknown[:_NAMED_MAX], *(["..."] if len(unknown) > _NAMED_MAX else [])))
            count = wording.count(len(unknown), "instance type")
            yield f"the simulated EC2 does not have {count} of the snapshot: {some}"

    def prices(self) -> Iterator[Json]:
        found: dict[tuple[str, str, str], Json] = {}
        for each in self._spec.instance_types:
            for one in each.offerings:
                zone = one.zone if one.capacity_type == "spot" else ""
                known = one.capacity_type != "reserved" and one.zone in self._offered.get(each.name, ())
                if known and one.price is not None:
                    price = {"instanceType": each.name, "capacityType": one.capacity_type, "zone": zone}
                    price |= {"price": str(one.price)}
                    found.setdefault(
                        (each.name, one.capacity_type, zone), {k: v for k, v in price.items() if v}
                    )
        yield from found.values()

    def reservations(self) -> Iterator[Json | str]:
        for one in self._spec.reservations:
            why = self._why_left_out(one)
            if why:
                yield f"reservation {one.id} is left out: {why}"
                continue
            yield self._reservation(one)
            if one.interruptible:
                yield f"reservation {one.id} is interruptible, but EC2 does not take it back in the simulation"

    def _why_left_out(self, one: Reservation) -> str:
        if one.state not in _USABLE:
            return f"it is {one.state}"
        if one.end is not None and self._spec.now is not None and _utc(one.end) <= _utc(self._spec.now):
            return "it has ended"
        if one.tenancy != "default":
            return f"its tenancy is {one.tenancy}"
        if not _total(one):
            return "it has no slots"
        if one.zone not in self._offered.get(one.instance_type, ()):
            return f"{one.instance_type} is not offered in {one.zone} in the simulation"
        if one.type == "capacity-block" and one.end is None:
            return "it is a capacity block without an end"
        return ""

    def _reservation(self, one: Reservation) -> Json:
        total = _total(one)
        free = total if one.available is None else one.available
        is_later = one.start is not None and self._spec.now is not None and one.start > self._spec.now
        selected = sorted(self._classes.get(one.id, ()))
        written: Json = {
            "id": one.id,
            "instanceType": one.instance_type,
            "zone": one.zone,
            "total": total,
            "usedElsewhere": max(0, total - free - self._here[one.id]),
            "type": one.type,
            "instanceMatchCriteria": "targeted",  # a snapshot does not have it, and Holdfast targets slots
            "tags": {**one.tags, **{f"{CLASS_TAG}{name}": "true" for name in selected}},
        }
        written |= {"start": msgspec.to_builtins(one.start)} if is_later else {}
        return written | ({"end": msgspec.to_builtins(one.end)} if one.end is not None else {})


def _total(one: Reservation) -> int:
    return (one.available or 0) if one.total is None else one.total


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=moment.tzinfo or UTC)
