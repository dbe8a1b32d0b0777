"""Instance types and reservations from nothing: a test names only what it is about."""

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
    """A type as it is shipped."""
    return next(info for info in ec2.region("us-east-1").types if info.name == name)


def invented(**fields: Any) -> InstanceTypeInfo:
    """A type that does not exist: two processors and 1000 MiB."""
    plain: dict[str, Any] = {
        "name": "x1.large",
        "vcpus": 2,
        "memory_mib": 1000,
        "enis_per_card": (3,),
        "ipv4_per_eni": 10,
    }
    return InstanceTypeInfo(**(plain | fields))


def supply(*types: InstanceTypeInfo, **fields: Any) -> Supply:
    """These types in zones a and b, each for a dollar an hour."""
    zones = (Zone("us-west-2a", "usw2-az2"), Zone("us-west-2b", "usw2-az1"))
    plain: dict[str, Any] = {
        "region": REGION,
        "types": types,
        "zones": zones,
        "zones_by_type": {info.name: tuple(zone.name for zone in zones) for info in types},
        "on_demand": {info.name: 10**9 for info in types},
    }
    return Supply(**(plain | fields))


def shipped_supply() -> Supply:
    return builder.shipped(ec2.region(REGION))


def reservation(reservation_id: str = "cr-1", **fields: Any) -> CapacityReservation:
    """An ordinary one of four m5.large in zone a, two of them free. A capacity block has an end, far away."""
    plain: dict[str, Any] = {
        "id": reservation_id,
        "instance_type": "m5.large",
        "zone": "us-west-2a",
        "total": 4,
        "available": 2,
        "owner": "111122223333",
    }
    if fields.get("kind") == "capacity-block":
        plain["end_s"] = 2**40
    return CapacityReservation(**(plain | fields))


def build_catalog(
    known: Supply, node_class: EC2NodeClass | None, seen: Iterable[CapacityReservation] = (), **fields: Any
) -> tuple[InstanceType, ...]:
    """The catalog of a class, when these are all the reservations that EC2 describes."""
    seen = tuple(seen)
    ids = selection.selected(node_class, (one.traits for one in seen))
    return builder.build(known, node_class, [one.model for one in seen if one.id in ids], **fields)


def status_entry(reservation_id: str = "cr-1", **fields: Any) -> dict[str, Any]:
    """A reservation as the status of a class lists it."""
    return {
        "id": reservation_id,
        "availabilityZone": "us-west-2a",
        "instanceType": "m5.large",
        "instanceMatchCriteria": "open",
        "ownerID": "111122223333",
    } | fields


def offerings_of(instance_type: InstanceType, capacity_type: str) -> list[Offering]:
    return [o for o in instance_type.offerings if o.capacity_type == capacity_type]
