"""Describes, terminates and reboots instances. Called by `service`; `status_calls` uses `select`.

Every instance has its groups, reservation specification and tags, because clients read them in every response. An
unknown id fails the whole call. A terminated instance is described for a while.
"""

from collections.abc import Iterable
from typing import Any, Final

from holdfast.sim.aws.codec.shapes import Unchanging
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import filters, instances, pages, times
from holdfast.sim.ec2.descriptions import Described
from holdfast.sim.ec2.entities import STATE_CODES, Instance
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, tag_list

_SPECIFICATION: Final = "capacity-reservation-specification.capacity-reservation"
_FILTERS: Final = {
    "affinity": "Placement.Affinity",
    "architecture": "Architecture",
    "availability-zone": "Placement.AvailabilityZone",
    "availability-zone-id": "Placement.AvailabilityZoneId",
    "block-device-mapping.attach-time": "BlockDeviceMappings.Ebs.AttachTime",
    "block-device-mapping.delete-on-termination": "BlockDeviceMappings.Ebs.DeleteOnTermination",
    "block-device-mapping.status": "BlockDeviceMappings.Ebs.Status",
    "block-device-mapping.device-name": "BlockDeviceMappings.DeviceName",
    "block-device-mapping.volume-id": "BlockDeviceMappings.Ebs.VolumeId",
    "capacity-reservation-id": "CapacityReservationId",
    f"{_SPECIFICATION}-preference": "CapacityReservationSpecification.CapacityReservationPreference",
    f"{_SPECIFICATION}-target.capacity-reservation-id": "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId",
    f"{_SPECIFICATION}-target.capacity-reservation-resource-group-arn": "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationResourceGroupArn",
    "client-token": "ClientToken",
    "ebs-optimized": "EbsOptimized",
    "ena-support": "EnaSupport",
    "hypervisor": "Hypervisor",
    "iam-instance-profile.arn": "IamInstanceProfile.Arn",
    "iam-instance-profile.id": "IamInstanceProfile.Id",
    "image-id": "ImageId",
    "instance-id": "InstanceId",
    "instance-lifecycle": "InstanceLifecycle",
    "instance-state-code": "State.Code",
    "instance-state-name": "State.Name",
    "instance-type": "InstanceType",
    "instance.group-id": "SecurityGroups.GroupId",
    "instance.group-name": "SecurityGroups.GroupName",
    "key-name": "KeyName",
    "launch-index": "AmiLaunchIndex",
    "launch-time": "LaunchTime",
    "metadata-options.http-endpoint": "MetadataOptions.HttpEndpoint",
    "metadata-options.http-protocol-ipv6": "MetadataOptions.HttpProtocolIpv6",
    "metadata-options.http-put-response-hop-limit": "MetadataOptions.HttpPutResponseHopLimit",
    "metadata-options.http-tokens": "MetadataOptions.HttpTokens",
    "metadata-options.instance-metadata-tags": "MetadataOptions.InstanceMetadataTags",
    "metadata-options.state": "MetadataOptions.State",
    "monitoring-state": "Monitoring.State",
    "network-interface.attachment.device-index": "NetworkInterfaces.Attachment.DeviceIndex",
    "network-interface.attachment.network-card-index": "NetworkInterfaces.Attachment.NetworkCardIndex",
    "network-interface.attachment.status": "NetworkInterfaces.Attachment.Status",
    "network-interface.group-id": "NetworkInterfaces.Groups.GroupId",
    "network-interface.group-name": "NetworkInterfaces.Groups.GroupName",
    "network-interface.network-interface-id": "NetworkInterfaces.NetworkInterfaceId",
    "network-interface.owner-id": "NetworkInterfaces.OwnerId",
    "network-interface.private-dns-name": "NetworkInterfaces.PrivateDnsName",
    "network-interface.private-ip-address": "NetworkInterfaces.PrivateIpAddress",
    "network-interface.status": "NetworkInterfaces.Status",
    "network-interface.subnet-id": "NetworkInterfaces.SubnetId",
    "network-interface.vpc-id": "NetworkInterfaces.VpcId",
    "owner-id": "Owner",
    "placement-group-name": "Placement.GroupName",
    "platform": "Platform",
    "platform-details": "PlatformDetails",
    "private-dns-name": "PrivateDnsName",
    "private-ip-address": "PrivateIpAddress",
    "reason": "StateTransitionReason",
    "reservation-id": "Batch",
    "root-device-name": "RootDeviceName",
    "root-device-type": "RootDeviceType",
    "spot-instance-request-id": "SpotInstanceRequestId",
    "state-reason-code": "StateReason.Code",
    "state-reason-message": "StateReason.Message",
    "subnet-id": "SubnetId",
    "tenancy": "Placement.Tenancy",
    "virtualization-type": "VirtualizationType",
    "vpc-id": "VpcId",
}


def describe(region: RegionState, request: Request) -> dict[str, Any]:
    found = _with_ids(select(region, request, request.get("InstanceIds", ())), request)
    described = region.descriptions.all(found, lambda instance: _described(region, instance))
    matching = region.descriptions.matching(described, request, _FILTERS)
    return pages.page(
        [one.filtered for one in matching],
        request,
        "Reservations",
        lambda i: str(i["InstanceId"]),
        ids="InstanceIds",
        shape=region.descriptions.batches,
    )


def _with_ids(found: list[Instance], request: Request) -> list[Instance]:
    """Without the instances that a filter with ids leaves out anyway, so that the others need not be described."""
    for given in request.get("Filters", ()):
        if given.get("Name") == "instance-id" and not filters.has_wildcards(given.get("Values", [])):
            ids = frozenset(given.get("Values", []))
            found = [each for each in found if each.id in ids]
    return found


def _described(region: RegionState, instance: Instance) -> Described:
    document = Unchanging(render(region, instance))
    batch = {"Batch": instance.batch_id, "Owner": instance.account, "Document": document}
    return Described(instance, document, {**document, **batch})


def terminate(region: RegionState, request: Request) -> dict[str, Any]:
    found = select(region, request, request.need("InstanceIds"))
    request.proceed()
    changes = []
    for instance in found:
        instances.terminate(
            region,
            instance,
            "Client.UserInitiatedShutdown",
            "Client.UserInitiatedShutdown: User initiated shutdown",
        )
        changes.append(
            {
                "InstanceId": instance.id,
                "PreviousState": state(instance.state),
                "CurrentState": state(region.instances[instance.id].state),
            }
        )
    return {"TerminatingInstances": changes}


def reboot(region: RegionState, request: Request) -> dict[str, Any]:
    found = select(region, request, request.need("InstanceIds"))
    for instance in found:
        if not instance.is_pending_or_running:
            raise ApiError(
                "IncorrectInstanceState",
                f"The instance '{instance.id}' is not in a state from which it can be rebooted.",
            )
    request.proceed()
    for instance in found:
        instances.reboot(region, instance)
    return {}


def set_reservation(region: RegionState, request: Request) -> dict[str, Any]:
    """ModifyInstanceCapacityReservationAttributes: only for stopped instances, which do not exist here."""
    (instance,) = select(region, request, [request.need("InstanceId")])
    raise ApiError("IncorrectInstanceState", f"The instance '{instance.id}' is not stopped.")


def select(region: RegionState, request: Request, ids: Iterable[str]) -> list[Instance]:
    """The instances with these ids, or all of the account, with the staleness of the call."""
    ids = tuple(dict.fromkeys(ids))
    for each in ids:
        if not each.startswith("i-"):
            raise ApiError("InvalidInstanceID.Malformed", f'Invalid id: "{each}"')
    then: Iterable[Instance]
    if request.stale_s:
        then = region.instances.as_of(region.now_s - request.stale_s)
    elif ids:
        then = filter(None, map(region.instances.get, ids))
    else:
        then = region.instances
    mine = {each.id: each for each in then if each.account == request.account}
    if missing := [each for each in ids if each not in mine]:
        raise ApiError("InvalidInstanceID.NotFound", f"The instance IDs '{', '.join(missing)}' do not exist")
    return [mine[each] for each in ids or mine]


def render(region: RegionState, instance: Instance) -> dict[str, Any]:
    """The instance as in DescribeInstances."""
    spec, account = instance.spec, region.account(instance.account)
    subnet = region.subnets[instance.subnet_id]
    groups = [{"GroupId": group, "GroupName": region.group_names[group]} for group in spec.security_groups]
    dns = f"ip-{instance.private_ip.replace('.', '-')}.{region.setup.region}.compute.internal"
    terminated = instance.state == "terminated"
    answer: dict[str, Any] = {
        "InstanceId": instance.id,
        "ImageId": spec.image_id,
        "InstanceType": instance.instance_type,
        "Architecture": spec.architecture,
        "State": state(instance.state),
        "LaunchTime": times.when(instance.launched_s),
        "Placement": {
            "AvailabilityZone": account.zone_name(instance.zone_id),
            "AvailabilityZoneId": instance.zone_id,
            "Tenancy": spec.tenancy,
            "GroupName": spec.placement_group,
            **_group(region, instance),
        },
        "PrivateDnsName": "" if terminated else dns,
        "PublicDnsName": "",
        "StateTransitionReason": "",
        "AmiLaunchIndex": 0,
        "Monitoring": {"State": "enabled" if spec.monitoring else "disabled"},
        "SecurityGroups": [] if terminated else groups,
        "Tags": tag_list(instance.tags),
        "CapacityReservationSpecification": _specification(instance),
        "RootDeviceType": "ebs",
        "RootDeviceName": spec.volumes[0],
        "VirtualizationType": "hvm",
        "Hypervisor": "xen",
        "EbsOptimized": False,
        "EnaSupport": True,
        "PlatformDetails": spec.platform,
        "BlockDeviceMappings": [] if terminated else _volumes(instance),
        "NetworkInterfaces": [] if terminated else _interfaces(instance, groups, dns, subnet.vpc_id),
        "MetadataOptions": {"State": "applied"} | spec.metadata,
        "ClientToken": instance.client_token,
    }
    if not terminated:
        answer |= {"SubnetId": subnet.id, "VpcId": subnet.vpc_id, "PrivateIpAddress": instance.private_ip}
    return answer | _optional(instance)


def _optional(instance: Instance) -> dict[str, Any]:
    """Members that EC2 leaves out if they are empty."""
    spec = instance.spec
    texts = {
        "CapacityReservationId": instance.reservation_id,
        "InstanceLifecycle": instance.lifecycle,
        "SpotInstanceRequestId": instance.spot_request_id,
        "Platform": "Windows" if spec.platform.startswith("Windows") else "",
    }
    answer: dict[str, Any] = {name: value for name, value in texts.items() if value}
    if spec.profile:
        arn = f"arn:aws:iam::{instance.account}:instance-profile/{spec.profile}"
        answer["IamInstanceProfile"] = {"Arn": arn, "Id": f"AIPA{instance.id[2:].upper()}"}
    code, message = instance.state_reason
    if code:
        answer["StateReason"] = {"Code": code, "Message": message}
    return answer


def _specification(instance: Instance) -> dict[str, Any]:
    spec = instance.spec
    answer: dict[str, Any] = {}
    if spec.preference or not spec.targets:
        answer["CapacityReservationPreference"] = spec.preference or "open"
    if spec.target_id:
        answer["CapacityReservationTarget"] = {"CapacityReservationId": spec.target_id}
    if spec.target_group:
        answer["CapacityReservationTarget"] = {"CapacityReservationResourceGroupArn": spec.target_group}
    return answer


def _volumes(instance: Instance) -> list[dict[str, Any]]:
    return [
        {
            "DeviceName": device,
            "Ebs": {
                "VolumeId": volume,
                "Status": "attached",
                "DeleteOnTermination": True,
                "AttachTime": times.when(instance.launched_s),
            },
        }
        for device, volume in zip(instance.spec.volumes, instance.volume_ids, strict=True)
    ]


def _interfaces(
    instance: Instance, groups: list[dict[str, str]], dns: str, vpc_id: str
) -> list[dict[str, Any]]:
    """The first interface has the address; further ones exist only for EFAs."""
    count = max(1, instance.spec.efas)
    return [
        {
            "NetworkInterfaceId": instance.interface_id
            if card == 0
            else f"{instance.interface_id[:-2]}{card:02x}",
            "SubnetId": instance.subnet_id,
            "VpcId": vpc_id,
            "OwnerId": instance.account,
            "Status": "in-use",
            "InterfaceType": "efa" if instance.spec.efas else "interface",
            "Groups": groups,
            "PrivateIpAddress": instance.private_ip,
            "PrivateDnsName": dns,
            "Attachment": {"DeviceIndex": min(card, 1), "NetworkCardIndex": card, "Status": "attached"},
        }
        for card in range(count)
    ]


def state(name: str) -> dict[str, Any]:
    return {"Code": STATE_CODES[name], "Name": name}


def _group(region: RegionState, instance: Instance) -> dict[str, Any]:
    name = instance.spec.placement_group
    known = {(group.account, group.name): group.id for group in region.setup.placement_groups}
    if not name:
        return {}
    partition = {"PartitionNumber": instance.partition} if instance.partition else {}
    return {"GroupId": known[instance.account, name], **partition}
