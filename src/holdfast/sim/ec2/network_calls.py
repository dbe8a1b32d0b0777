"""Calls about the setup of a region: subnets, security groups, images, placement groups.

Called by `service`. Free addresses are computed from the instances that use them, so they become free only when an
instance is terminated.
"""

from collections.abc import Iterable
from typing import Any, Final

from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import filters, listings, pages, times
from holdfast.sim.ec2.images import AMAZON, Image
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, tag_list

_SUBNET_FILTERS: Final = {
    "availability-zone": "AvailabilityZone",
    "availabilityZone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "available-ip-address-count": "AvailableIpAddressCount",
    "cidr-block": "CidrBlock",
    "default-for-az": "DefaultForAz",
    "map-public-ip-on-launch": "MapPublicIpOnLaunch",
    "owner-id": "OwnerId",
    "state": "State",
    "subnet-arn": "SubnetArn",
    "subnet-id": "SubnetId",
    "vpc-id": "VpcId",
}
_GROUP_FILTERS: Final = {
    "description": "Description",
    "group-id": "GroupId",
    "group-name": "GroupName",
    "owner-id": "OwnerId",
    "vpc-id": "VpcId",
}
_IMAGE_FILTERS: Final = {
    "architecture": "Architecture",
    "block-device-mapping.delete-on-termination": "BlockDeviceMappings.Ebs.DeleteOnTermination",
    "block-device-mapping.device-name": "BlockDeviceMappings.DeviceName",
    "block-device-mapping.volume-size": "BlockDeviceMappings.Ebs.VolumeSize",
    "block-device-mapping.volume-type": "BlockDeviceMappings.Ebs.VolumeType",
    "creation-date": "CreationDate",
    "ena-support": "EnaSupport",
    "hypervisor": "Hypervisor",
    "image-id": "ImageId",
    "image-type": "ImageType",
    "is-public": "Public",
    "manifest-location": "ImageLocation",
    "name": "Name",
    "owner-alias": "ImageOwnerAlias",
    "owner-id": "OwnerId",
    "platform": "Platform",
    "root-device-name": "RootDeviceName",
    "root-device-type": "RootDeviceType",
    "state": "State",
    "virtualization-type": "VirtualizationType",
}
_PLACEMENT_FILTERS: Final = {
    "group-name": "GroupName",
    "group-arn": "GroupArn",
    "state": "State",
    "strategy": "Strategy",
}


def subnets(region: RegionState, request: Request) -> dict[str, Any]:
    account = region.account(request.account)
    answers = [
        {
            "SubnetId": subnet.id,
            "SubnetArn": region.arn(subnet.account, f"subnet/{subnet.id}"),
            "OwnerId": subnet.account,
            "VpcId": subnet.vpc_id,
            "State": "available",
            "CidrBlock": subnet.cidr,
            "AvailableIpAddressCount": subnet.addresses - region.usage.addresses[subnet.id],
            "AvailabilityZone": account.zone_name(subnet.zone_id),
            "AvailabilityZoneId": subnet.zone_id,
            "DefaultForAz": subnet.default,
            "MapPublicIpOnLaunch": False,
            "AssignIpv6AddressOnCreation": False,
            "Ipv6CidrBlockAssociationSet": [],
            "Tags": tag_list(subnet.tags),
        }
        for subnet in region.setup.subnets
        if subnet.account == request.account
    ]
    selected = _by_id(
        answers, "SubnetId", request.get("SubnetIds", ()), "InvalidSubnetID.NotFound", "subnet ID"
    )
    found = filters.keep(selected, request, _SUBNET_FILTERS)
    return pages.page(found, request, "Subnets", lambda s: str(s["SubnetId"]), ids="SubnetIds")


def security_groups(region: RegionState, request: Request) -> dict[str, Any]:
    answers = [
        {
            "GroupId": group.id,
            "GroupName": group.name,
            "Description": group.name,
            "OwnerId": group.account,
            "VpcId": group.vpc_id,
            "SecurityGroupArn": region.arn(group.account, f"security-group/{group.id}"),
            "IpPermissions": [],
            "IpPermissionsEgress": [],
            "Tags": tag_list(group.tags),
        }
        for group in region.setup.security_groups
        if group.account == request.account
    ]
    selected = _by_id(
        answers, "GroupId", request.get("GroupIds", ()), "InvalidGroup.NotFound", "security group"
    )
    selected = _by_id(
        selected, "GroupName", request.get("GroupNames", ()), "InvalidGroup.NotFound", "security group"
    )
    found = filters.keep(selected, request, _GROUP_FILTERS)
    return pages.page(found, request, "SecurityGroups", lambda g: str(g["GroupId"]), ids="GroupIds")


def images(region: RegionState, request: Request) -> dict[str, Any]:
    """A deprecated image of another account is described only by id or with IncludeDeprecated."""
    visible = [i for i in region.setup.images if i.public or i.owner == request.account]
    selected = _by_id(
        [_image(i) for i in visible],
        "ImageId",
        request.get("ImageIds", ()),
        "InvalidAMIID.NotFound",
        "image id",
    )
    owners = {request.account if o == "self" else o for o in request.get("Owners", ())}
    if owners:
        selected = [i for i in selected if i["OwnerId"] in owners or i.get("ImageOwnerAlias") in owners]
    if not request.get("IncludeDeprecated") and not request.get("ImageIds"):
        deprecated = {
            i.id for i in visible if 0 < i.deprecated_s <= region.now_s and i.owner != request.account
        }
        selected = [i for i in selected if i["ImageId"] not in deprecated]
    found = filters.keep(selected, request, _IMAGE_FILTERS)
    return pages.page(
        found,
        request,
        "Images",
        lambda i: str(i["ImageId"]),
        sizes=listings.Sizes(least=1),
        ids="ImageIds",
    )


def placement_groups(region: RegionState, request: Request) -> dict[str, Any]:
    answers = []
    for group in region.setup.placement_groups:
        if group.account == request.account:
            answer: dict[str, Any] = {
                "GroupId": group.id,
                "GroupName": group.name,
                "GroupArn": region.arn(group.account, f"placement-group/{group.name}"),
                "State": "available",
                "Strategy": group.strategy,
                "Tags": tag_list(group.tags),
            }
            if group.partitions:
                answer["PartitionCount"] = group.partitions
            answers.append(answer)
    unknown = "InvalidPlacementGroup.Unknown"
    answers = _by_id(answers, "GroupName", request.get("GroupNames", ()), unknown, "Placement Group")
    answers = _by_id(
        answers, "GroupId", request.get("GroupIds", ()), "InvalidPlacementGroupId.Unknown", "Placement Group"
    )
    return {"PlacementGroups": filters.keep(answers, request, _PLACEMENT_FILTERS)}


def _by_id(
    answers: list[dict[str, Any]], member: str, requested: Iterable[str], code: str, what: str
) -> list[dict[str, Any]]:
    """The requested items by name or id, each of which must exist; all if none is requested."""
    if not requested:
        return answers
    known = {answer[member]: answer for answer in answers}
    for each in requested:
        if each not in known:
            raise ApiError(code, f"The {what} '{each}' does not exist")
    return [known[each] for each in dict.fromkeys(requested)]


def _image(image: Image) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "ImageId": image.id,
        "Name": image.name,
        "Architecture": image.architecture,
        "CreationDate": times.image_text(image.created_s),
        "OwnerId": image.owner,
        "State": image.state,
        "Public": image.public,
        "ImageType": "machine",
        "ImageLocation": f"{image.owner}/{image.name}",
        "PlatformDetails": image.platform,
        "RootDeviceName": image.root_device,
        "RootDeviceType": "ebs",
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "EnaSupport": True,
        "BlockDeviceMappings": [
            {
                "DeviceName": image.root_device,
                "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "DeleteOnTermination": True},
            }
        ],
        "Tags": tag_list(image.tags),
    }
    if image.owner == AMAZON:
        answer["ImageOwnerAlias"] = "amazon"
    if image.deprecated_s:
        answer["DeprecationTime"] = times.image_text(image.deprecated_s)
    if image.platform.startswith("Windows"):
        answer["Platform"] = "Windows"
    return answer
