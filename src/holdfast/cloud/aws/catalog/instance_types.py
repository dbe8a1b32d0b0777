"""Builds one instance type for one class: its capacity, its overhead and its labels.

Called by `builder`, which adds zones, capacity types and offerings.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from holdfast import names
from holdfast.api import aws
from holdfast.cloud.aws.catalog import capacity, labels, overhead, type_labels
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.cloud.aws.catalog.node_shape import NodeShape
from holdfast.data.ec2 import InstanceTypeInfo, Zone
from holdfast.model import requirements
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirements import Requirements
from holdfast.model.reservations import Reservation


@dataclass(frozen=True, slots=True)
class Availability:
    """The zones and capacity types that a type can be launched in."""

    region: str
    zones: Collection[Zone] = ()  # zones that offer it and have a subnet
    capacity_types: Collection[str] = ()
    reservations: Collection[Reservation] = field(default_factory=tuple)


def instance_type(
    info: InstanceTypeInfo,
    shape: NodeShape,
    settings: Settings,
    available: Availability,
    offerings: tuple[Offering, ...] = (),
    observed_memory_bytes: int | None = None,
) -> InstanceType:
    """`observed_memory_bytes`: the memory that nodes of this type reported; None: it is estimated."""
    has = capacity.capacity(info, shape, settings, observed_memory_bytes)
    return InstanceType(
        name=info.name,
        requirements=type_requirements(info, shape, available),
        capacity=has,
        overhead=overhead.overhead(info, shape, has).total,
        offerings=offerings,
    )


def type_requirements(info: InstanceTypeInfo, shape: NodeShape, available: Availability) -> Requirements:
    """Every label value that a node of this type may have (aws-7.2, aws-4.4.1)."""
    zone_ids = sorted({zone.id for zone in available.zones if zone.id})
    reserved = available.reservations
    return requirements.of(
        *type_labels.of_type(info, shape.family, available.region),
        *type_labels.of_placement_group(shape.placement_group),
        labels.one_of(names.CAPACITY_TYPE, *sorted(available.capacity_types)),
        labels.one_of(names.ZONE, *sorted({zone.name for zone in available.zones})),
        *([labels.one_of(aws.ZONE_ID, *zone_ids)] if zone_ids else []),
        labels.one_of(aws.CAPACITY_RESERVATION_ID, *sorted({r.id for r in reserved})),
        labels.one_of(aws.CAPACITY_RESERVATION_TYPE, *sorted({r.kind for r in reserved})),
        labels.one_of(
            aws.CAPACITY_RESERVATION_INTERRUPTIBLE,
            *sorted({labels.boolean(r.interruptible) for r in reserved}),
        ),
    )
