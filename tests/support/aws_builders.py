"""Builders of instance types and reservations with defaults: a test sets only the fields that it checks."""

import functools
from collections.abc import Iterable
from typing import Any

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.catalog import builder
from holdfast.cloud.aws.catalog.builder import Supply
from holdfast.cloud.aws.reservations import selection
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.data import ec2
from holdfast.data.ec2 import InstanceTypeInfo, Zone
from holdfast.model.offerings import InstanceType, Offering

REGION = "us-west-2"


@functools.cache
def real(name: str) -> InstanceTypeInfo:
    """An instance type from the data in the package."""
    return next(info for info in ec2.region("us-east-1").types if info.name == name)


def invented(**fields: Any) -> InstanceTypeInfo:
    """An instance type that does not exist in EC2, with 2 vCPUs and 1000 MiB."""
    defaults: dict[str, Any] = {
        "name": "x1.large",
        "vcpus": 2,
        "memory_mib": 1000,
        "enis_per_card": (3,),
        "ipv4_per_eni": 10,
    }
    return InstanceTypeInfo(**(defaults | fields))


def supply(*types: InstanceTypeInfo, **fields: Any) -> Supply:
    """These types in zones a and b, each at one dollar an hour."""
    zones = (Zone("us-west-2a", "usw2-az2"), Zone("us-west-2b", "usw2-az1"))
    defaults: dict[str, Any] = {
        "region": REGION,
        "types": types,
        "zones": zones,
        "zones_by_type": {info.name: tuple(zone.name for zone in zones) for info in types},
        "on_demand": {info.name: 10**9 for info in types},
    }
    return Supply(**(defaults | fields))


def shipped_supply() -> Supply:
    return builder.shipped(ec2.region(REGION))


def reservation(reservation_id: str = "cr-1", **fields: Any) -> CapacityReservation:
    """An ODCR of four m5.large in zone a, two of them free. A capacity block gets an end far in the future."""
    defaults: dict[str, Any] = {
        "id": reservation_id,
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "total": 4,
        "available": 2,
        "owner": "111122223333",
    }
    if fields.get("kind") == "capacity-block":
        defaults["end_s"] = 2**40
    return CapacityReservation(**(defaults | fields))


def build_catalog(
    inputs: Supply,
    node_class: EC2NodeClass | None,
    reservations: Iterable[CapacityReservation] = (),
    **fields: Any,
) -> tuple[InstanceType, ...]:
    """The catalog of a class, if EC2 describes exactly these reservations."""
    reservations = tuple(reservations)
    ids = selection.selected(node_class, (one.traits for one in reservations))
    return builder.build(inputs, node_class, [one.model for one in reservations if one.id in ids], **fields)


def status_entry(reservation_id: str = "cr-1", **fields: Any) -> dict[str, Any]:
    """An entry of `status.capacityReservations` of a class."""
    return {
        "id": reservation_id,
        "availabilityZone": "us-west-2a",
        "instanceType": "m5.large",
        "instanceMatchCriteria": "open",
        "ownerID": "111122223333",
    } | fields


def offerings_of(instance_type: InstanceType, capacity_type: str) -> list[Offering]:
    return [o for o in instance_type.offerings if o.capacity_type == capacity_type]
