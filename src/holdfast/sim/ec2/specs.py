"""Converts the data of a launch template, or of RunInstances, to the spec of an instance.

Data that EC2 rejects at launch is rejected here with EC2's code; Fleet converts it to an error of the pool.
"""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2.entities import ONLY_RESERVED, Spec
from holdfast.sim.ec2.images import Image
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import clash, invalid, tags_for
from holdfast.sim.ec2.setup import DEFAULT_GROUP, Subnet

_USER_DATA_MAX: Final = 16384
_PREFIX_ADDRESSES: Final = 16


def resolve(region: RegionState, account: str, data: Mapping[str, Any]) -> Spec:
    if "InstanceRequirements" in data:
        raise ApiError("UnsupportedOperation", "InstanceRequirements is not simulated")
    image = find_image(region, data.get("ImageId", ""))
    reserved = data.get("CapacityReservationSpecification", {})
    target = reserved.get("CapacityReservationTarget", {})
    preference = reserved.get("CapacityReservationPreference", "")
    if target and preference not in {"", ONLY_RESERVED}:
        raise clash(
            f"CapacityReservationPreference '{preference}' cannot be used with CapacityReservationTarget"
        )
    interfaces = data.get("NetworkInterfaces", ())
    profile = data.get("IamInstanceProfile", {})
    placement = data.get("Placement", {})
    return Spec(
        image_id=image.id,
        architecture=image.architecture,
        platform=image.platform,
        instance_type=data.get("InstanceType", ""),
        subnet_id=next((i["SubnetId"] for i in interfaces if "SubnetId" in i), ""),
        security_groups=_groups(region, account, data),
        profile=_profile(region, profile),
        preference=preference,
        target_id=target.get("CapacityReservationId", ""),
        target_group=target.get("CapacityReservationResourceGroupArn", ""),
        market=data.get("InstanceMarketOptions", {}).get("MarketType", ""),
        tenancy=placement.get("Tenancy", "default"),
        placement_group=_placement_group(region, account, placement),
        user_data=data.get("UserData", ""),
        addresses=sum(_addresses(i) for i in interfaces) or 1,
        efas=sum(i.get("InterfaceType") in {"efa", "efa-only"} for i in interfaces),
        volumes=tuple(m["DeviceName"] for m in data.get("BlockDeviceMappings", ()) if "Ebs" in m)
        or (image.root_device,),
        volume_gib=max(
            (m["Ebs"].get("VolumeSize", 0) for m in data.get("BlockDeviceMappings", ()) if "Ebs" in m),
            default=0,
        ),
        monitoring=data.get("Monitoring", {}).get("Enabled", False),
        metadata=dict(data.get("MetadataOptions", {})),
        tags=tags_for(data.get("TagSpecifications", ()), "instance"),
    )


def check_data(data: Mapping[str, Any]) -> None:
    """Checks the data that EC2 rejects when a launch template is created, not when it is used."""
    target = data.get("CapacityReservationSpecification", {}).get("CapacityReservationTarget", {})
    if len(target) > 1:
        raise clash("Specify a Capacity Reservation id or a resource group ARN, not both")
    if data.get("NetworkInterfaces") and (data.get("SecurityGroupIds") or data.get("SecurityGroups")):
        raise clash(
            "Network interfaces and an instance-level security groups may not be specified on the same request"
        )
    try:
        user_data = base64.b64decode(data.get("UserData", ""), validate=True)
    except binascii.Error as error:
        raise ApiError("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.") from error
    if len(user_data) > _USER_DATA_MAX:
        raise invalid(f"User data is limited to {_USER_DATA_MAX} bytes")


def find_image(region: RegionState, image_id: str) -> Image:
    if not image_id:
        raise ApiError("MissingParameter", "The request must contain the parameter ImageId")
    if not image_id.startswith("ami-"):
        raise ApiError("InvalidAMIID.Malformed", f'Invalid id: "{image_id}" (expecting "ami-...")')
    image = region.images.get(image_id)
    if image is None:
        raise ApiError("InvalidAMIID.NotFound", f"The image id '[{image_id}]' does not exist")
    if image.state != "available":
        raise ApiError("InvalidAMIID.Unavailable", f"The image ID '{image_id}' is not available")
    return image


def in_network(region: RegionState, spec: Spec, subnet: Subnet) -> Spec:
    """The spec with the VPC's default group if none is requested; the groups must be of the VPC."""
    for group in region.setup.security_groups:
        if group.id in spec.security_groups and group.vpc_id != subnet.vpc_id:
            raise ApiError(
                "InvalidParameter",
                f"Security group {group.id} and subnet {subnet.id} belong to different networks.",
            )
        default = group.name == DEFAULT_GROUP and group.vpc_id == subnet.vpc_id
        if default and group.account == subnet.account and not spec.security_groups:
            return replace(spec, security_groups=(group.id,))
    return spec


def _groups(region: RegionState, account: str, data: Mapping[str, Any]) -> tuple[str, ...]:
    mine = [group for group in region.setup.security_groups if group.account == account]
    known = {group.name: group.id for group in mine} | {group.id: group.id for group in mine}
    requested = [*data.get("SecurityGroupIds", ()), *data.get("SecurityGroups", ())]
    for interface in data.get("NetworkInterfaces", ()):
        requested += interface.get("Groups", ())
    for group in requested:
        if group not in known:
            raise ApiError("InvalidGroup.NotFound", f"The security group '{group}' does not exist")
    return tuple(dict.fromkeys(known[group] for group in requested))


def _placement_group(region: RegionState, account: str, placement: Mapping[str, Any]) -> str:
    """The name of the placement group."""
    requested = placement.get("GroupName", "") or placement.get("GroupId", "")
    if not requested:
        return ""
    for group in region.setup.placement_groups:
        if group.account == account and requested in {group.name, group.id}:
            return group.name
    raise ApiError("InvalidPlacementGroup.Unknown", f"The Placement Group '{requested}' is unknown.")


def _profile(region: RegionState, given: Mapping[str, str]) -> str:
    name = given.get("Name", "") or given.get("Arn", "").rpartition("/")[2]
    if name and not region.setup.has_profile(name):
        raise invalid(
            f"Value ({name}) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"
        )
    return name


def _addresses(interface: Mapping[str, Any]) -> int:
    if interface.get("InterfaceType") == "efa-only":
        return 0
    further = interface.get("SecondaryPrivateIpAddressCount", 0)
    return int(1 + further + _PREFIX_ADDRESSES * interface.get("Ipv4PrefixCount", 0))
