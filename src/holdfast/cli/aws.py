"""AWS labels, reservation types and the shipped instance types, for `holdfast plan`.

`state` is independent of the cloud, so the command passes these in.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import Final

from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws import catalog, labels, reservations
from holdfast.cloud.aws.reservations import CapacityReservation
from holdfast.data import ec2
from holdfast.model.offerings import InstanceType
from holdfast.state.catalog import CloudTerms, Listed, RegionTypes, ReservationKind

TERMS: Final = CloudTerms(
    labels=labels.CLOUD_LABELS,
    reservation_type=aws.CAPACITY_RESERVATION_TYPE,
    reservation_interruptible=aws.CAPACITY_RESERVATION_INTERRUPTIBLE,
    zone_id=aws.ZONE_ID,
    kinds=(
        ReservationKind(
            reservations.CAPACITY_BLOCK,
            reservations.TIE_RANKS[reservations.CAPACITY_BLOCK],
            drain_lead_s=reservations.BLOCK_LEAD.drain_s,
            reclaim_lead_s=reservations.BLOCK_LEAD.reclaim_s,
        ),
        ReservationKind(reservations.DEFAULT, reservations.TIE_RANKS[reservations.DEFAULT]),
    ),
    node_classes=frozenset({(aws.GROUP, EC2NodeClass.kind)}),
    key_aliases=labels.KEY_ALIASES,
)


def regions() -> dict[str, RegionTypes]:
    """The regions whose instance types and prices are shipped. Slow: decodes the data file."""
    return {name: functools.partial(_types, name) for name in ec2.region_names()}


def _types(
    region: str, node_class: EC2NodeClass | None, listed: Sequence[Listed], now_s: int
) -> tuple[InstanceType, ...]:
    supply = catalog.shipped(ec2.region(region))
    return catalog.build(supply, node_class, _described(listed), now_s=now_s)


def _described(listed: Iterable[Listed]) -> list[CapacityReservation]:
    """The reservations of a scenario as EC2 would describe them."""
    return [
        CapacityReservation(
            id=one.reservation.id,
            instance_type=one.reservation.instance_type,
            zone=one.reservation.zone,
            total=one.reservation.total,
            available=one.reservation.available,
            kind=one.reservation.kind,
            owner=one.reservation.owner,
            state=one.state,
            interruptible=one.reservation.interruptible,
            match_criteria=one.match_criteria,
            tags=tuple(sorted(one.tags.items())),
            start_s=one.reservation.start_s,
            end_s=one.reservation.end_s,
        )
        for one in listed
    ]
