"""Requests and responses of DescribeInstances. Pure.

The capacity type of an instance comes from EC2's current state, not from the launch request (decision 25). An unknown
id must be missing from a response and not be an error, so ids are requested with a filter.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, names
from holdfast.api import aws
from holdfast.cloud.aws.catalog import capacity, labels
from holdfast.cloud.aws.catalog.node_shape import EFA_ONLY
from holdfast.cloud.aws.client import answers
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.reservations import capacity_reservation
from holdfast.model.instances import Instance, InstanceState

PAGE: Final = 1000
IDS_MAX: Final = 200  # values in one filter
REBOOT_TAG: Final = "holdfast.dev/reboot"  # the last reboot operation

_PREFIX: Final = "aws:///"
_NOT_GONE: Final = ("pending", "running", "stopping", "stopped", "shutting-down")
# A stopped instance is never started again: its NodeClaim is deleted, which terminates the instance.
_STATES: Final = {
    "pending": InstanceState.STARTING,
    "running": InstanceState.RUNNING,
    "stopping": InstanceState.ENDING,
    "stopped": InstanceState.ENDING,
    "shutting-down": InstanceState.ENDING,
    "terminated": InstanceState.GONE,
}
_ARCHITECTURES: Final = {"x86_64": "amd64", "arm64": "arm64"}
_BLOCK: Final = "capacity-block"
_EFAS: Final = ("efa", EFA_ONLY)
_INTERRUPTIBLE: Final = "interruptible-capacity-reservation"

Selected = Callable[[str], AbstractSet[str]]
"""The reservations that a class selects, by its name; empty if it has no terms."""


@dataclass(frozen=True, slots=True)
class EC2Instance:
    """An instance, and the values of EC2 that drift compares."""

    id: str
    instance: Instance
    subnet_id: str
    security_groups: frozenset[str]
    tags: Mapping[str, str]
    profile: str = ""  # name of its instance profile
    placement_group: tuple[str, str] | None = None  # id and name; None: no group


def provider_id(zone: str, instance_id: str) -> str:
    return f"{_PREFIX}{zone}/{instance_id}"


def instance_id(provider: str) -> str:
    """Raises InvalidInput if it is not a provider id of AWS."""
    zone, slash, found = provider.removeprefix(_PREFIX).partition("/")
    if not provider.startswith(_PREFIX) or not slash or not found.startswith("i-"):
        raise errors.InvalidInput(f"provider id {provider!r} is not {_PREFIX}<zone>/<instance id>")
    assert "/" not in zone, "a partition has no slash before it"
    return found


# --- Requests ---------------------------------------------------------------------------------------


def all_of(cluster: Cluster) -> dict[str, Any]:
    """Lists every instance of a cluster that is not terminated."""
    return _request(
        ("tag-key", [names.NODEPOOL]),
        ("tag-key", [cluster.ownership.kind.label]),
        (f"tag:{aws.CLUSTER_NAME_TAG}", [cluster.name]),
        ("instance-state-name", _NOT_GONE),
    )


def launched_with(tokens: Iterable[str], cluster: Cluster) -> dict[str, Any]:
    """Lists the instances that calls with these tokens launched."""
    return _request(
        (f"tag:{names.LAUNCH_TOKEN}", sorted(tokens)),
        (f"tag:{aws.CLUSTER_NAME_TAG}", [cluster.name]),
        ("instance-state-name", _NOT_GONE),
    )


def by_id(ids: Iterable[str]) -> dict[str, Any]:
    return _request(("instance-id", sorted(ids)))


def _request(*filters: tuple[str, Collection[str]]) -> dict[str, Any]:
    return {
        "Filters": [{"Name": name, "Values": list(values)} for name, values in filters],
        "MaxResults": PAGE,
    }


# --- Answers ----------------------------------------------------------------------------------------


def read(
    raw: Mapping[str, Any], selected: Selected, ec2_ahead_s: int = 0, class_tag: str = aws.EC2NODECLASS
) -> EC2Instance:
    """`ec2_ahead_s`: seconds that EC2's clock is ahead of the program's time."""
    tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
    kind = capacity_type(raw, selected(tags.get(class_tag, "")))
    zone = raw["Placement"]["AvailabilityZone"]
    reservation_id = raw.get("CapacityReservationId")
    id_ = answers.instance_id(raw["InstanceId"])
    return EC2Instance(
        id=id_,
        instance=Instance(
            provider_id=provider_id(zone, id_),
            instance_type=raw["InstanceType"],
            zone=zone,
            capacity_type=kind,
            state=_STATES.get(raw["State"]["Name"], InstanceState.RUNNING),
            launched_s=answers.epoch_s(raw["LaunchTime"]) - ec2_ahead_s,
            image_id=raw.get("ImageId", ""),
            reservation_id=reservation_id,
            claim=tags.get(aws.NODECLAIM_TAG),
            launch_token=tags.get(names.LAUNCH_TOKEN),
            lacks=lacks(raw.get("NetworkInterfaces", ())),
            labels=tuple(sorted(_labels(raw, tags, kind, zone, class_tag).items())),
        ),
        subnet_id=raw.get("SubnetId", ""),
        security_groups=frozenset(group["GroupId"] for group in raw.get("SecurityGroups", ())),
        tags=tags,
        profile=raw.get("IamInstanceProfile", {}).get("Arn", "").rpartition("/")[2],
        placement_group=_placement_group(raw["Placement"]),
    )


def _placement_group(placement: Mapping[str, Any]) -> tuple[str, str] | None:
    found = placement.get("GroupId", ""), placement.get("GroupName", "")
    return found if any(found) else None


def capacity_type(raw: Mapping[str, Any], selected: AbstractSet[str]) -> str:
    """Spot, if the instance has a spot request. Reserved, if it is in a reservation and was launched into reservations
    only, or its class selects that reservation. Else on-demand (decision 25)."""
    if raw.get("SpotInstanceRequestId"):
        return names.SPOT
    reservation_id = raw.get("CapacityReservationId")
    if reservation_id is None:
        return names.ON_DEMAND
    wanted = raw.get("CapacityReservationSpecification", {}).get("CapacityReservationPreference")
    return (
        names.RESERVED
        if wanted == capacity_reservation.ONLY or reservation_id in selected
        else names.ON_DEMAND
    )


def lacks(interfaces: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The resources that an instance with these interfaces lacks: it has EFAs only if the launch requested them
    (aws-5.10.4)."""
    return () if any(one.get("InterfaceType") in _EFAS for one in interfaces) else (capacity.EFA,)


def reservation_labels(reservation_id: str, kind: str, *, interruptible: bool) -> dict[str, str]:
    return {
        aws.CAPACITY_RESERVATION_ID: reservation_id,
        aws.CAPACITY_RESERVATION_TYPE: kind,
        aws.CAPACITY_RESERVATION_INTERRUPTIBLE: labels.boolean(interruptible),
    }


def _labels(
    raw: Mapping[str, Any], tags: Mapping[str, str], kind: str, zone: str, class_tag: str
) -> dict[str, str]:
    """The node labels that EC2's response has. The launcher adds those of the instance type."""
    placement, lifecycle = raw["Placement"], raw.get("InstanceLifecycle")
    setting = tags.get(aws.CAPACITY_RESERVATION_SETTING)
    reservation_id = raw.get("CapacityReservationId")
    found = {
        names.INSTANCE_TYPE: raw["InstanceType"],
        names.ZONE: zone,
        names.CAPACITY_TYPE: kind,
        aws.ZONE_ID: placement.get("AvailabilityZoneId"),
        names.ARCH: _ARCHITECTURES.get(raw.get("Architecture", "")),
        aws.INSTANCE_TENANCY: placement.get("Tenancy"),
        aws.PLACEMENT_GROUP_ID: placement.get("GroupId"),
        aws.PLACEMENT_GROUP_PARTITION: str(placement.get("PartitionNumber", "")),
        names.NODEPOOL: tags.get(names.NODEPOOL),
        class_tag: tags.get(class_tag),
        aws.CAPACITY_RESERVATION_SETTING: setting,
    }
    if kind == names.RESERVED:
        reserved_kind = (
            capacity_reservation.CAPACITY_BLOCK if lifecycle == _BLOCK else capacity_reservation.DEFAULT
        )
        found |= reservation_labels(
            raw["CapacityReservationId"], reserved_kind, interruptible=lifecycle == _INTERRUPTIBLE
        )
    elif setting and reservation_id:
        found[aws.CAPACITY_RESERVATION_ID] = reservation_id
    return {key: value for key, value in found.items() if value}
