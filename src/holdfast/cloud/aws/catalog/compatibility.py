"""Whether EC2 can launch an instance type with the settings of an EC2NodeClass.

Called by `builder`, for the health of offerings (aws-7.1.3): an incompatible type is listed and never launched.
Placement groups are not compared.
"""

from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.instance import NetworkInterface
from holdfast.cloud.aws.catalog import families
from holdfast.cloud.aws.catalog.node_shape import EFA_ONLY
from holdfast.data.ec2 import InstanceTypeInfo


def compatible(info: InstanceTypeInfo, node_class: EC2NodeClass | None) -> bool:
    if node_class is None:
        return True
    spec = node_class.spec
    nested = spec.cpu_options and spec.cpu_options.nested_virtualization == "enabled"
    return (
        (not spec.network_interfaces or _interfaces_fit(info, spec.network_interfaces))
        and not (families.of(node_class).name == "AL2023" and info.name.startswith("a1."))
        and (not nested or info.nested_virtualization)
        and (spec.connection_tracking is None or info.hypervisor == "nitro")
    )


def _interfaces_fit(info: InstanceTypeInfo, interfaces: tuple[NetworkInterface, ...]) -> bool:
    cards = info.enis_per_card
    return (
        info.ena
        and all(nic.network_card_index < len(cards) for nic in interfaces)
        and all(nic.device_index < cards[nic.network_card_index] for nic in interfaces)
        and sum(nic.interface_type == EFA_ONLY for nic in interfaces) <= info.efas
    )
