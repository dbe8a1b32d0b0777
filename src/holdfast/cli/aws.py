"""AWS labels, reservation types and the shipped instance types, for `holdfast plan`.

`state` is independent of the cloud, so the command passes these in.
"""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.catalog import builder, labels, offerings
from holdfast.cloud.aws.reservations import capacity_reservation, selection
from holdfast.cloud.aws.reservations.selection import Traits
from holdfast.data import ec2
from holdfast.model.offerings import InstanceType
from holdfast.scenarios.catalog import CloudTerms, Listed, RegionTypes, ReservationKind


def _select(node_class: EC2NodeClass | None, listed: Sequence[Listed]) -> tuple[Listed, ...]:
    """The reservations that a class selects. One that EC2 is reclaiming is not healthy: nothing is launched into it."""
    reclaimed = selection.expiring(node_class)
    ids = selection.selected(
        node_class,
        (Traits(one.reservation.id, one.reservation.owner, one.match_criteria, one.tags) for one in listed),
    )
    return tuple(
        replace(one, healthy=one.healthy and one.reservation.id not in reclaimed)
        for one in listed
        if one.reservation.id in ids
    )


TERMS: Final = CloudTerms(
    labels=labels.CLOUD_LABELS,
    zone_id=aws.ZONE_ID,
    kinds=(
        ReservationKind(
            capacity_reservation.CAPACITY_BLOCK,
            capacity_reservation.TIE_RANKS[capacity_reservation.CAPACITY_BLOCK],
            drain_lead_s=capacity_reservation.BLOCK_LEAD.drain_s,
            reclaim_lead_s=capacity_reservation.BLOCK_LEAD.reclaim_s,
        ),
        ReservationKind(
            capacity_reservation.DEFAULT, capacity_reservation.TIE_RANKS[capacity_reservation.DEFAULT]
        ),
    ),
    node_classes=frozenset(
        {(aws.GROUP, EC2NodeClass.kind), (aws.HOLDFAST_GROUP, EC2NodeClass.kind)}
    ),  # a plan is made for the NodePools of both; the settings of `holdfast run` choose one
    select=_select,
    reserved_offering=offerings.reserved,
    key_aliases=labels.KEY_ALIASES,
)


def regions() -> dict[str, RegionTypes]:
    """The regions whose instance types and prices are shipped. Slow: decodes the data file."""
    return {name: functools.partial(_types, name) for name in ec2.region_names()}


def _types(
    region: str, node_class: EC2NodeClass | None, selected: Sequence[Listed], now_s: int
) -> tuple[InstanceType, ...]:
    supply = builder.shipped(ec2.region(region))
    return builder.build(supply, node_class, [one.reservation for one in selected], now_s=now_s)
