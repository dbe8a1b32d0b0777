"""Builds the offerings of AWS, with their labels.

Called by `builder`, and by `holdfast plan` for types that a scenario lists. An offering outside reservations requires
that no reservation label exists; a reserved one has a value for each (R-2). So a pod that selects a reservation is
never placed outside it.
"""

import functools

from holdfast import names
from holdfast.api import aws
from holdfast.cloud.aws.catalog import labels
from holdfast.model import requirements
from holdfast.model.offerings import Offering
from holdfast.model.requirement import Requirement
from holdfast.model.requirements import Requirements
from holdfast.model.reservations import Reservation


def unreserved(
    capacity_type: str,
    zone: str,
    zone_id: str | None,
    *,
    price_nano_usd_per_hour: int | None,
    surcharge_nano_usd_per_hour: int = 0,
    healthy: bool = True,
) -> Offering:
    """An on-demand or spot offering."""
    return Offering(
        _unreserved_requirements(capacity_type, zone, zone_id),
        capacity_type,
        zone,
        price_nano_usd_per_hour,
        surcharge_nano_usd_per_hour,
        healthy=healthy,
    )


def reserved(
    reservation: Reservation,
    zone_id: str | None,
    *,
    on_demand_nano_usd_per_hour: int | None,
    surcharge_nano_usd_per_hour: int = 0,
    healthy: bool = True,
) -> Offering:
    """The offering of a reservation. Its price is only used to sort, because the capacity is paid for. EC2 launches
    only instances with the reservation's tenancy into it."""
    return Offering(
        requirements.of(
            *_capacity_type_and_zone(names.RESERVED, reservation.zone, zone_id),
            labels.one_of(aws.CAPACITY_RESERVATION_ID, reservation.id),
            labels.one_of(aws.CAPACITY_RESERVATION_TYPE, reservation.kind),
            labels.one_of(aws.CAPACITY_RESERVATION_INTERRUPTIBLE, labels.boolean(reservation.interruptible)),
            labels.one_of(aws.INSTANCE_TENANCY, reservation.tenancy),
        ),
        names.RESERVED,
        reservation.zone,
        on_demand_nano_usd_per_hour,
        surcharge_nano_usd_per_hour,
        healthy=healthy,
        count=reservation.available,
        reservation_id=reservation.id,
    )


@functools.lru_cache(maxsize=1024)
def _unreserved_requirements(capacity_type: str, zone: str, zone_id: str | None) -> Requirements:
    """Cached, because all types share them."""
    outside = (labels.one_of(key) for key in aws.RESERVED_CAPACITY_LABELS)
    return requirements.of(*_capacity_type_and_zone(capacity_type, zone, zone_id), *outside)


def _capacity_type_and_zone(capacity_type: str, zone: str, zone_id: str | None) -> list[Requirement]:
    found = [labels.one_of(names.CAPACITY_TYPE, capacity_type), labels.one_of(names.ZONE, zone)]
    return [*found, labels.one_of(aws.ZONE_ID, zone_id)] if zone_id else found
