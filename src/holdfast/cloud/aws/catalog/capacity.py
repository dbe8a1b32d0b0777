"""Computes the capacity of a node from its instance type: vCPUs, memory, storage, pods and devices.

Called by `instance_types`. Karpenter's formulas (facts aws-7.3), in integers. Devices that a type does not have are
left out: a missing resource counts as 0.
"""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from holdfast.cloud.aws.catalog.node_shape import NodeShape
from holdfast.data.ec2 import InstanceTypeInfo
from holdfast.model import resources
from holdfast.model.resources import Resources

NVIDIA_GPU: Final = "nvidia.com/gpu"
AMD_GPU: Final = "amd.com/gpu"
GAUDI: Final = "habana.ai/gaudi"
NEURON: Final = "aws.amazon.com/neuron"
NEURON_CORE: Final = "aws.amazon.com/neuroncore"
EFA: Final = "vpc.amazonaws.com/efa"
POD_ENI: Final = "vpc.amazonaws.com/pod-eni"
PRIVATE_IPV4: Final = "vpc.amazonaws.com/PrivateIPv4Address"  # on Windows, addresses are a resource

_MIB: Final = 2**20
_ARM64_LOST_MIB: Final = 64  # reserved by the kernel as contiguous memory
_PODS_WITHOUT_ENI_LIMIT: Final = 110
_HOST_NETWORK_PODS: Final = 2  # the network plugin and kube-proxy use the host network
_GPU_RESOURCES: Final = {"NVIDIA": NVIDIA_GPU, "AMD": AMD_GPU, "Habana": GAUDI}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that capacity and offerings depend on. A field has the name of its flag."""

    vm_memory_overhead_percent: float = 0.075  # a fraction of 1, despite its name
    reserved_enis: int = 0
    reserved_capacity: bool = True  # the feature gate; without it there are no reserved offerings
    burstable_cpu_percent: int = 100  # the share of a burstable type's vCPUs that pods are assumed to use


def capacity(
    info: InstanceTypeInfo, shape: NodeShape, settings: Settings, observed_memory_bytes: int | None = None
) -> Resources:
    """The capacity that the node will report."""
    amounts = {
        resources.MEMORY: observed_memory_bytes or _memory_bytes(info, settings),
        resources.EPHEMERAL_STORAGE: _storage_bytes(info, shape),
        resources.PODS: pods(info, shape, settings),
        **{name: amount for name, amount in _devices(info, shape).items() if amount},
    }
    return resources.of({resources.CPU: info.vcpus * 1000, **amounts})


def pods(info: InstanceTypeInfo, shape: NodeShape, settings: Settings) -> int:
    """The kubelet's limit of pods."""
    if shape.max_pods is not None:
        count = shape.max_pods
    elif shape.family.eni_limited_pods:
        count = eni_limited_pods(info, settings.reserved_enis, shape.efa_only_first_card)
    else:
        count = _PODS_WITHOUT_ENI_LIMIT
    if shape.pods_per_core and shape.family.pods_per_core:
        count = min(count, shape.pods_per_core * info.vcpus)
    return count


def eni_limited_pods(info: InstanceTypeInfo, reserved_enis: int, efa_only: int) -> int:
    """How many pods get an IP address. The network plugin uses the default network card only, and all addresses of each
    interface but the first."""
    usable = max(0, info.enis_per_card[info.default_card] - reserved_enis - efa_only)
    return usable * (info.ipv4_per_eni - 1) + _HOST_NETWORK_PODS if usable else 0


def _memory_bytes(info: InstanceTypeInfo, settings: Settings) -> int:
    mib = info.memory_mib - (_ARM64_LOST_MIB if info.architectures[0] == "arm64" else 0)
    return (mib - math.ceil(mib * _part(settings.vm_memory_overhead_percent))) * _MIB


@functools.lru_cache(maxsize=16)
def _part(percent: float) -> Fraction:
    """The decimal number as written: 0.075 is 3/40. The float is not exact."""
    return Fraction(str(percent))


def _storage_bytes(info: InstanceTypeInfo, shape: NodeShape) -> int:
    if shape.raid0 and info.storage_gb:
        return info.storage_gb * 10**9
    return shape.volume_bytes


def _devices(info: InstanceTypeInfo, shape: NodeShape) -> dict[str, int]:
    found = {
        POD_ENI: info.branch_enis,
        NEURON: sum(device.count for device in info.neuron_devices),
        NEURON_CORE: sum(device.count * device.cores for device in info.neuron_devices),
        EFA: info.efas if shape.efa_only is None else shape.efa_only,
        PRIVATE_IPV4: info.ipv4_per_eni - 1 if shape.family.windows_build else 0,
    }
    for gpu in info.gpus:
        name = _GPU_RESOURCES.get(gpu.manufacturer)
        if name:
            found[name] = found.get(name, 0) + gpu.count
    return found
