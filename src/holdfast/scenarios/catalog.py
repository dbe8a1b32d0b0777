"""The instance types of a Catalog for a NodePool, with the selected reservations as offerings.

This module names no cloud: label keys, the selection of reservations and reserved offerings are passed in as
`CloudTerms`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from holdfast import names
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.findings import Finding
from holdfast.model import requirement, requirements, reservations
from holdfast.model.instances import Instance
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import Requirements
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import CloudLabels, CountBefore


@dataclass(frozen=True, slots=True)
class ReservationKind:
    """A kind of reservation and its lead times; see `model.reservations.Reservation`."""

    name: str
    tie_rank: int = 0
    drain_lead_s: int = 0
    reclaim_lead_s: int = 0


@dataclass(frozen=True, slots=True)
class Listed:
    """A reservation of the catalog, with the fields that selector terms match."""

    reservation: Reservation
    tags: Mapping[str, str]
    match_criteria: str
    zone_id: str | None
    price_nano_usd_per_hour: int | None = None  # on-demand price; None: that of the catalog, if known
    healthy: bool = True


class ReservedOffering(Protocol):
    """Builds the offering of a reservation."""

    def __call__(
        self,
        reservation: Reservation,
        zone_id: str | None,
        *,
        on_demand_nano_usd_per_hour: int | None,
        surcharge_nano_usd_per_hour: int = 0,
        healthy: bool,
    ) -> Offering: ...


@dataclass(frozen=True, slots=True)
class CloudTerms:
    """Labels and node classes of the cloud, and how it selects and offers reservations."""

    labels: CloudLabels
    zone_id: str  # a label key
    kinds: tuple[ReservationKind, ...]
    node_classes: frozenset[tuple[str, str]]  # group and kind of our node classes
    select: Callable[
        [EC2NodeClass | None, Sequence[Listed]], tuple[Listed, ...]
    ]  # the reservations that a class selects
    reserved_offering: ReservedOffering
    key_aliases: Mapping[str, str] = field(default_factory=dict)  # other spellings of label keys


RegionTypes = Callable[[EC2NodeClass | None, Sequence[Listed], int], tuple[InstanceType, ...]]
"""The instance types that a class can launch in a shipped region at a time, with the reservations that it selects.
Raises InvalidInput if the region has nothing for the class."""


@dataclass(frozen=True, slots=True)
class CatalogValues:
    """A parsed catalog. Its types have no reserved offerings; `types_of` adds them. The types of `of_class` are complete."""

    types: tuple[InstanceType, ...]
    listed: tuple[Listed, ...]
    zone_ids: Mapping[str, str]  # by the name of the zone
    findings: tuple[Finding, ...]
    of_class: Mapping[str, tuple[InstanceType, ...]] = field(default_factory=dict)  # by name of class
    instances: tuple[Instance, ...] = ()
    count_before: Mapping[str, CountBefore] = field(default_factory=dict)  # by reservation

    @property
    def reservations(self) -> tuple[Reservation, ...]:
        return tuple(listed.reservation for listed in self.listed)


def types_of(
    values: CatalogValues,
    selected: Sequence[Listed],
    shipped: Iterable[InstanceType],
    terms: CloudTerms,
    now_s: int,
) -> tuple[InstanceType, ...]:
    """The instance types of a NodePool whose class selects these reservations. Types of the catalog get the
    reservations as offerings and replace shipped types of the same name, which have theirs already."""
    ours = {
        known.name: _with_reserved(
            known,
            [one for one in selected if one.reservation.instance_type == known.name],
            values.zone_ids,
            terms,
            now_s,
        )
        for known in values.types
    }
    by_name = {known.name: known for known in shipped} | ours
    return tuple(by_name[name] for name in sorted(by_name))


# --- Offerings --------------------------------------------------------------------------------------


def _with_reserved(
    known: InstanceType,
    listed: Sequence[Listed],
    zone_ids: Mapping[str, str],
    terms: CloudTerms,
    now_s: int,
) -> InstanceType:
    if not listed:
        return known
    reserved = [_reserved(one, known, zone_ids.get(one.reservation.zone), terms, now_s) for one in listed]
    ways = tuple(sorted((*known.offerings, *reserved), key=order))
    stated = known.requirements.without((names.ZONE, names.CAPACITY_TYPE))
    return replace(known, requirements=stated.union(of_offerings(ways)), offerings=ways)


def _reserved(
    listed: Listed, known: InstanceType, zone_id: str | None, terms: CloudTerms, now_s: int
) -> Offering:
    reservation, price = listed.reservation, listed.price_nano_usd_per_hour
    return terms.reserved_offering(
        reservation,
        listed.zone_id or zone_id,
        on_demand_nano_usd_per_hour=_on_demand_price(known, reservation.zone) if price is None else price,
        healthy=listed.healthy and reservations.launches_into(reservation, now_s),
    )


def _on_demand_price(known: InstanceType, zone: str) -> int | None:
    """The on-demand price in the zone of the slot; if unknown, the lowest of all zones."""
    priced = {
        o.zone: o.price_nano_usd_per_hour
        for o in known.offerings
        if o.capacity_type == names.ON_DEMAND and o.price_nano_usd_per_hour is not None
    }
    return priced.get(zone, min(priced.values(), default=None))


def where(capacity_type: str, zone: str, zone_id: str | None, terms: CloudTerms) -> Requirements:
    more = (is_in(terms.zone_id, zone_id),) if zone_id else ()
    return requirements.of(is_in(names.CAPACITY_TYPE, capacity_type), is_in(names.ZONE, zone), *more)


def of_offerings(ways: Sequence[Offering]) -> Requirements:
    """The zones and capacity types of all offerings of a type."""
    if not ways:
        return requirements.NO_REQUIREMENTS
    return requirements.of(
        is_in(names.ZONE, *(o.zone for o in ways)),
        is_in(names.CAPACITY_TYPE, *(o.capacity_type for o in ways)),
    )


def order(offering: Offering) -> tuple[str, str, str]:
    return offering.zone, offering.capacity_type, offering.reservation_id or ""


def is_in(key: str, *values: str) -> Requirement:
    return requirement.of(key, Operator.IN, values)
