"""The parts of a launch template that depend on the class alone: volumes, interfaces, metadata service.

Called by `templates`. Each function returns members of EC2's request, without those that are not set.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from holdfast.api.ec2nodeclass import EC2NodeClassSpec
from holdfast.api.ec2nodeclass.instance import BlockDevice, NetworkInterface
from holdfast.cloud.aws.catalog.families import Family
from holdfast.cloud.aws.catalog.node_shape import EFA_ONLY
from holdfast.cloud.aws.client import descriptions
from holdfast.model import quantity

_GIB: Final = 2**30
_ROOT_GIB: Final = {"Bottlerocket": (("/dev/xvda", 4), ("/dev/xvdb", 20))}
# Regions whose metadata service has no IPv6 endpoint.
_WITHOUT_METADATA_IPV6: Final = (
    "us-iso-east-1",
    "us-iso-west-1",
    "us-isob-east-1",
    "us-isob-west-1",
    "us-isof-south-1",
    "us-isof-east-1",
)


def block_devices(spec: EC2NodeClassSpec, family: Family) -> list[dict[str, Any]]:
    """The class's volumes, else the default volumes of its family (aws-5.6.8)."""
    if spec.block_device_mappings:
        return [
            _set({"DeviceName": device.device_name, "Ebs": device.ebs and _volume(device.ebs)})
            for device in spec.block_device_mappings
        ]
    if family.data_device is None:
        return []
    devices = _ROOT_GIB.get(family.name, ((family.data_device, family.data_volume_bytes // _GIB),))
    return [
        {"DeviceName": name, "Ebs": {"Encrypted": True, "VolumeSize": size, "VolumeType": "gp3"}}
        for name, size in devices
    ]


def _volume(volume: BlockDevice) -> dict[str, Any]:
    size = volume.volume_size and math.ceil(quantity.units(volume.volume_size) / _GIB)
    return _set(
        {
            "DeleteOnTermination": volume.delete_on_termination,
            "Encrypted": volume.encrypted,
            "Iops": volume.iops,
            "KmsKeyId": volume.kms_key_id,
            "SnapshotId": volume.snapshot_id,
            "Throughput": volume.throughput,
            "VolumeInitializationRate": volume.volume_initialization_rate,
            "VolumeSize": size,
            "VolumeType": volume.volume_type,
        }
    )


def metadata_options(spec: EC2NodeClassSpec, region: str) -> dict[str, Any]:
    options = spec.metadata_options
    ipv6 = None if region in _WITHOUT_METADATA_IPV6 else options.http_protocol_ipv6
    return _set(
        {
            "HttpEndpoint": options.http_endpoint,
            "HttpProtocolIpv6": ipv6,
            "HttpPutResponseHopLimit": options.http_put_response_hop_limit,
            "HttpTokens": options.http_tokens,
            "InstanceMetadataTags": "disabled",
        }
    )


def network_interfaces(
    spec: EC2NodeClassSpec, groups: Sequence[str], efas: int, *, ipv6: bool
) -> list[dict[str, Any]]:
    """The interfaces of the class; else one per requested EFA; else one ordinary interface (aws-5.6.5)."""
    if spec.network_interfaces:
        return [_listed(spec, nic, groups, ipv6=ipv6) for nic in spec.network_interfaces]
    if efas:
        return [
            _ordinary(spec, groups, ipv6=ipv6 and card == 0, first=card == 0)
            | {"InterfaceType": "efa", "NetworkCardIndex": card, "DeviceIndex": 0 if card == 0 else 1}
            for card in range(efas)
        ]
    return [_ordinary(spec, groups, ipv6=ipv6, first=True) | {"DeviceIndex": 0}]


def _listed(
    spec: EC2NodeClassSpec, nic: NetworkInterface, groups: Sequence[str], *, ipv6: bool
) -> dict[str, Any]:
    device = {
        "NetworkCardIndex": nic.network_card_index,
        "DeviceIndex": nic.device_index,
        "InterfaceType": nic.interface_type,
    }
    if nic.interface_type == EFA_ONLY:  # an efa-only interface has no IP address
        return {"Groups": list(groups)} | device
    first = nic.network_card_index == 0 and nic.device_index == 0
    return _ordinary(spec, groups, ipv6=ipv6 and first, first=first) | device


def _ordinary(spec: EC2NodeClassSpec, groups: Sequence[str], *, ipv6: bool, first: bool) -> dict[str, Any]:
    """Only the first interface can have a public address or be the primary IPv6 one."""
    tracking = spec.connection_tracking
    return _set(
        {
            "Groups": list(groups),
            "AssociatePublicIpAddress": spec.associate_public_ip_address if first else None,
            "Ipv6PrefixCount" if ipv6 else "Ipv4PrefixCount": spec.ip_prefix_count if first else None,
            "PrimaryIpv6": ipv6 or None,
            "Ipv6AddressCount": 1 if ipv6 else None,
            "ConnectionTrackingSpecification": tracking
            and _set(
                {
                    "TcpEstablishedTimeout": tracking.tcp_established_timeout,
                    "UdpStreamTimeout": tracking.udp_stream_timeout,
                    "UdpTimeout": tracking.udp_timeout,
                }
            ),
        }
    )


def tag_specifications(resources: Iterable[str], tags: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"ResourceType": resource, "Tags": descriptions.tag_list(tags)} for resource in resources]


def _set(members: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}
