"""Converts a Catalog to values, and finds mistakes that its schema does not find.

Called by `scenario`. A mistake is a finding with its path; the rest is still converted, so that the user gets all
findings at once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from holdfast import errors, names
from holdfast.api import scenario as wire
from holdfast.api.findings import Finding, Path
from holdfast.model import offerings, prices, requirement, requirements, reservations, resources
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirement import Operator
from holdfast.model.requirements import Requirements
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import CountBefore
from holdfast.scenarios import catalog
from holdfast.scenarios.catalog import CatalogValues, CloudTerms, Listed
from holdfast.state.conversion import times

# States of a reservation. Other states count as PENDING: the capacity is not available yet, or not now.
_STATES: Final = {
    "active": reservations.State.ACTIVE,
    **dict.fromkeys(
        ("cancelling", "cancelled", "expired", "failed", "payment-failed", "unsupported"),
        reservations.State.GONE,
    ),
}


def read(written: wire.Catalog, terms: CloudTerms) -> CatalogValues:
    """The catalog's types and reservations, and the findings."""
    reading = _Reading(terms)
    spec = written.spec
    listed = reading.reservations(spec)
    types: list[InstanceType] = []
    of_class: dict[str, list[InstanceType]] = {}
    for index, one in enumerate(spec.instance_types):
        found = reading.instance_type(one, ("spec", "instanceTypes", index))
        if found is not None:
            for known in [of_class.setdefault(name, []) for name in one.node_classes] or [types]:
                known.append(found)
    reading.findings += _repeated(
        [
            (f"{t.name} of {name}" if name else t.name, ("spec", "instanceTypes", i))
            for i, t in enumerate(spec.instance_types)
            for name in t.node_classes or ("",)
        ]
    )
    if spec.region is None and spec.counts_read is None:  # a snapshot has all reservations of the account
        reading.findings += _without_type(spec)
    zones = [(o.zone, o.zone_id) for t in spec.instance_types for o in t.offerings]
    zones += [(r.zone, r.zone_id) for r in spec.reservations]
    return CatalogValues(
        types=tuple(types),
        listed=listed,
        zone_ids={zone: zone_id for zone, zone_id in zones if zone_id},
        findings=tuple(reading.findings),
        of_class={name: tuple(known) for name, known in of_class.items()},
        instances=tuple(map(_instance, spec.instances)),
        count_before={r.id: _count_before(r.count_before) for r in spec.reservations if r.count_before},
    )


class _Reading:
    """Converts one catalog and collects the findings."""

    def __init__(self, terms: CloudTerms) -> None:
        self._terms = terms
        self._kinds = {kind.name: kind for kind in terms.kinds}
        self._reservations: dict[str, Reservation] = {}
        self._places: dict[tuple[str, str, str | None], Requirements] = {}
        self.findings: list[Finding] = []

    def reservations(self, spec: wire.CatalogSpec) -> tuple[Listed, ...]:
        """Every reservation once; an offering may refer to a listed reservation by its id."""
        by_id: dict[str, Listed] = {}
        for index, listed in enumerate(spec.reservations):
            context = _ReservationContext(
                ("spec", "reservations", index), listed.instance_type, listed.zone, listed.zone_id
            )
            self._define(by_id, listed, context)
        for i, type_ in enumerate(spec.instance_types):
            for j, offering in enumerate(type_.offerings):
                if offering.reservation is not None:
                    path: Path = ("spec", "instanceTypes", i, "offerings", j)
                    context = _ReservationContext(
                        (*path, "reservation"),
                        type_.name,
                        offering.zone,
                        offering.zone_id,
                        price_nano_usd_per_hour=self._price(offering, path),
                        healthy=offering.healthy,
                    )
                    self._define(by_id, offering.reservation, context)
        self._reservations = {key: listed.reservation for key, listed in by_id.items()}
        return tuple(by_id[key] for key in sorted(by_id))

    def _define(self, by_id: dict[str, Listed], slots: wire.Slots, context: "_ReservationContext") -> None:
        before = by_id.get(slots.id)
        bare = slots.total is None and slots.available is None
        if before is None and bare:
            self._find(context.path, "how many slots? set total or available")
            return
        here = (context.instance_type, context.zone)
        if before is not None and here != (before.reservation.instance_type, before.reservation.zone):
            other = before.reservation
            self._find(context.path, f"{slots.id} is listed before, as {other.instance_type} in {other.zone}")
            return
        listed = before if before is not None and bare else self._listed(slots, context)
        if listed is None:
            return
        if before is not None and _counts(listed) != _counts(before):
            self._find(
                context.path, f"{slots.id} is listed before, and not the same; name it by its id alone"
            )
        by_id[slots.id] = replace(
            before or listed,
            price_nano_usd_per_hour=context.price_nano_usd_per_hour,
            healthy=context.healthy,
        )

    def _listed(self, slots: wire.Slots, context: "_ReservationContext") -> Listed | None:
        total = slots.total if slots.total is not None else slots.available
        available = slots.available if slots.available is not None else slots.total
        assert total is not None
        assert available is not None
        if available > total:
            self._find((*context.path, "available"), f"{available} free slots are more than all {total}")
            return None
        start_s, end_s = times.epoch_s_or_none(slots.start), times.epoch_s_or_none(slots.end)
        if start_s is not None and end_s is not None and end_s <= start_s:
            self._find((*context.path, "end"), "it ends before it starts")
            return None
        kind = self._kinds[slots.type]
        drain_lead_s = _seconds(slots.drain_lead, kind.drain_lead_s)
        reclaim_lead_s = _seconds(slots.reclaim_lead, kind.reclaim_lead_s)
        if reclaim_lead_s > drain_lead_s:
            self._find((*context.path, "reclaimLead"), "it must not be longer than drainLead")
            return None
        reservation = Reservation(
            id=slots.id,
            kind=kind.name,
            instance_type=context.instance_type,
            zone=context.zone,
            owner=slots.owner_id or "",
            total=total,
            available=available,
            state=_STATES.get(slots.state, reservations.State.PENDING),
            interruptible=slots.interruptible,
            tie_rank=kind.tie_rank,
            start_s=start_s,
            end_s=end_s,
            drain_lead_s=drain_lead_s,
            reclaim_lead_s=reclaim_lead_s,
            state_name=slots.state,
            tenancy=slots.tenancy,
        )
        if reservations.ends_unannounced(reservation):
            self._find(context.path, f"a {kind.name} needs an end")
            return None
        return Listed(reservation, slots.tags, slots.instance_match_criteria, context.zone_id)

    def instance_type(self, written: wire.InstanceType, path: Path) -> InstanceType | None:
        before = len(self.findings)
        self._check_amounts(written, path)
        if resources.PODS not in written.capacity:
            self._find((*path, "capacity"), "pods is missing, so no pod would fit: how many can a node run?")
        is_complete = bool(written.node_classes)
        ways = [
            self._offering(o, (*path, "offerings", i), is_complete=is_complete)
            for i, o in enumerate(written.offerings)
        ]
        valid = tuple(o for o in ways if o is not None)
        unreserved = [
            ((o.zone, o.capacity_type), (*path, "offerings", i))
            for i, o in enumerate(written.offerings)
            if o.reservation is None
        ]
        self.findings += _repeated([(f"{kind} in {zone}", where) for (zone, kind), where in unreserved])
        if len(self.findings) > before:
            return None
        labels = self._labels(written)
        if not is_complete:
            valid = tuple(sorted(valid, key=catalog.order))
            labels = labels.union(catalog.of_offerings(valid))
        return InstanceType(
            name=written.name,
            requirements=labels,
            capacity=resources.parse(written.capacity),
            overhead=resources.parse(written.overhead),
            offerings=valid,
            volume_limits=tuple(sorted(written.volume_limits.items())),
        )

    def _check_amounts(self, written: wire.InstanceType, path: Path) -> None:
        for field, amounts in (("capacity", written.capacity), ("overhead", written.overhead)):
            for name, amount in amounts.items():
                try:
                    resources.request(name, amount)
                except errors.InvalidInput as error:
                    self._find((*path, field, name), str(error))
        for driver, count in written.volume_limits.items():
            if not 0 <= count <= offerings.UNLIMITED:
                self._find((*path, "volumeLimits", driver), f"must be from 0 to {offerings.UNLIMITED}")

    def _labels(self, written: wire.InstanceType) -> Requirements:
        stated = [
            catalog.is_in(
                self._terms.key_aliases.get(key, key), *([value] if isinstance(value, str) else value)
            )
            for key, value in written.labels.items()
        ]
        return requirements.of(catalog.is_in(names.INSTANCE_TYPE, written.name), *stated)

    def _offering(self, written: wire.Offering, path: Path, *, is_complete: bool) -> Offering | None:
        """An offering. Unless its type is complete, `catalog.types_of` builds reserved offerings from the reservations."""
        reserved = written.capacity_type == names.RESERVED
        if reserved != (written.reservation is not None):
            wrong = (
                "needs a reservation" if reserved else "has a reservation, so its capacityType is reserved"
            )
            self._find(path, f"an offering with capacityType {written.capacity_type} {wrong}")
            return None
        if reserved:
            if written.available is not None:
                self._find((*path, "available"), "of a reserved offering, say it in its reservation")
            return self._reserved(written, path) if is_complete else None
        price = self._price(written, path)
        try:
            count = offerings.parse_count(
                offerings.UNLIMITED if written.available is None else written.available
            )
        except errors.InvalidInput as error:
            self._find((*path, "available"), str(error))
            return None
        return Offering(
            requirements=self._where(written.capacity_type, written.zone, written.zone_id),
            capacity_type=written.capacity_type,
            zone=written.zone,
            price_nano_usd_per_hour=price,
            surcharge_nano_usd_per_hour=self._surcharge(written, path),
            healthy=written.healthy,
            count=count,
        )

    def _where(self, capacity_type: str, zone: str, zone_id: str | None) -> Requirements:
        """The requirements of an offering outside reservations. Cached, because all types share them."""
        key = (capacity_type, zone, zone_id)
        if key not in self._places:
            keys = sorted(self._terms.labels.reserved)
            outside = [requirement.of(one, Operator.DOES_NOT_EXIST) for one in keys]
            self._places[key] = catalog.where(capacity_type, zone, zone_id, self._terms).add(*outside)
        return self._places[key]

    def _reserved(self, written: wire.Offering, path: Path) -> Offering | None:
        """The offering of a reservation, as the catalog has it."""
        known = self._reservations.get(written.reservation.id) if written.reservation is not None else None
        if known is None:
            return None  # `reservations` reports it
        return self._terms.reserved_offering(
            known,
            written.zone_id,
            on_demand_nano_usd_per_hour=self._price(written, path),
            surcharge_nano_usd_per_hour=self._surcharge(written, path),
            healthy=written.healthy,
        )

    def _price(self, written: wire.Offering, path: Path) -> int | None:
        try:
            return None if written.price is None else prices.parse(written.price)
        except errors.InvalidInput as error:
            self._find((*path, "price"), str(error))
            return None

    def _surcharge(self, written: wire.Offering, path: Path) -> int:
        if written.surcharge is None:
            return 0
        try:
            return prices.parse(written.surcharge)
        except errors.InvalidInput as error:
            self._find((*path, "surcharge"), str(error))
            return 0

    def _find(self, path: Path, message: str) -> None:
        self.findings.append(Finding(path, message))


@dataclass(frozen=True, slots=True)
class _ReservationContext:
    """The path of a reservation in the file, with its instance type and zone."""

    path: Path
    instance_type: str
    zone: str
    zone_id: str | None
    price_nano_usd_per_hour: int | None = None
    healthy: bool = True


def _seconds(duration: str | None, default_s: int) -> int:
    seconds = None if duration is None else times.duration_s(duration)
    return default_s if seconds is None else seconds


def _instance(written: wire.Instance) -> Instance:
    return Instance(
        provider_id=written.provider_id,
        instance_type=written.instance_type,
        zone=written.zone,
        capacity_type=names.RESERVED,
        state=InstanceState(written.state),
        launched_s=times.epoch_s(written.launched),
        reservation_id=written.reservation_id,
    )


def _count_before(written: wire.CountBefore) -> CountBefore:
    return CountBefore(times.epoch_s(written.read), written.free, written.elsewhere, written.here)


def _counts(listed: Listed) -> tuple[str, int, int]:
    reservation = listed.reservation
    return reservation.kind, reservation.total, reservation.available


def _repeated(named: Iterable[tuple[str, Path]]) -> Iterator[Finding]:
    seen: set[str] = set()
    for name, path in named:
        if name in seen:
            yield Finding(path, f"{name} is listed before")
        seen.add(name)


def _without_type(spec: wire.CatalogSpec) -> Iterator[Finding]:
    known = {t.name for t in spec.instance_types}
    for index, listed in enumerate(spec.reservations):
        if listed.instance_type not in known:
            yield Finding(
                ("spec", "reservations", index, "instanceType"),
                f"{listed.instance_type} is not among instanceTypes, so nothing is known of its nodes",
            )
