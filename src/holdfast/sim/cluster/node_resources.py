"""Capacity and allocatable of a node by its instance type: the actual values that an autoscaler estimates.

Written from the values of real nodes, independent of the planner's formulas.
"""

import re
from typing import Final

from holdfast.data.ec2 import InstanceTypeInfo
from holdfast.sim.cluster import amounts
from holdfast.sim.cluster.userdata import BootstrapConfig
from holdfast.sim.ec2.entities import Instance

_MIB: Final = 2**20
_GIB: Final = 2**30
_KERNEL_PARTS: Final = 20  # one twentieth of the memory is not available to the kubelet
_ARM_KEEPS_MIB: Final = 64
_DEFAULT_VOLUME_GIB: Final = 20
_HOST_NETWORK_PODS: Final = 2
_CPU_STEPS: Final = (
    (1000, 60),
    (1000, 10),
    (2000, 5),
    (2**31, 2.5),
)  # width of a range, reserved thousandths of it
_PERCENT: Final = re.compile(r"([0-9.]+)%")
_GPUS: Final = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu", "Habana": "habana.ai/gaudi"}


def capacity(info: InstanceTypeInfo, instance: Instance, bootstrap: BootstrapConfig) -> dict[str, int]:
    """The capacity before device plugins run, in thousandths."""
    arm = instance.spec.architecture == "arm64"
    mib = info.memory_mib - info.memory_mib // _KERNEL_PARTS - (_ARM_KEEPS_MIB if arm else 0)
    storage = (instance.spec.volume_gib or _DEFAULT_VOLUME_GIB) * _GIB
    if bootstrap.raid0 and info.storage_gb:
        storage = info.storage_gb * 10**9
    has = {
        "cpu": info.vcpus,
        "memory": mib * _MIB,
        "ephemeral-storage": storage,
        "pods": bootstrap.max_pods if bootstrap.max_pods is not None else _addresses(info),
    }
    return {name: amount * 1000 for name, amount in has.items()}


def devices(info: InstanceTypeInfo, instance: Instance) -> dict[str, int]:
    """The resources of device plugins, in thousandths."""
    found = {
        "aws.amazon.com/neuron": sum(device.count for device in info.neuron_devices),
        "aws.amazon.com/neuroncore": sum(device.count * device.cores for device in info.neuron_devices),
        "vpc.amazonaws.com/efa": instance.spec.efas,
    }
    if instance.spec.platform == "Windows":
        found["vpc.amazonaws.com/PrivateIPv4Address"] = info.ipv4_per_eni - 1
    for gpu in info.gpus:
        name = _GPUS.get(gpu.manufacturer)
        if name:
            found[name] = found.get(name, 0) + gpu.count
    return {name: amount * 1000 for name, amount in found.items() if amount}


def allocatable(has: dict[str, int], info: InstanceTypeInfo, bootstrap: BootstrapConfig) -> dict[str, int]:
    """The capacity less kube-reserved, system-reserved and the eviction threshold."""
    reserved = {
        "cpu": _cpu(info.vcpus * 1000),
        "memory": (255 + 11 * _addresses(info)) * _MIB * 1000,
        "ephemeral-storage": _GIB * 1000,
    } | amounts.of(bootstrap.kube_reserved)
    line = {
        "memory": _threshold(bootstrap.eviction_hard.get("memory.available", "100Mi"), has["memory"]),
        "ephemeral-storage": _threshold(
            bootstrap.eviction_hard.get("nodefs.available", "10%"), has["ephemeral-storage"]
        ),
    }
    taken = amounts.total((reserved, amounts.of(bootstrap.system_reserved), line))
    return {name: max(0, amount - taken.get(name, 0)) for name, amount in has.items()}


def attachments(info: InstanceTypeInfo) -> int:
    """The volume limit of the EBS CSI driver, without the root volume and one network interface."""
    return 26 if info.hypervisor == "nitro" or info.bare_metal else 38


def _addresses(info: InstanceTypeInfo) -> int:
    """How many pods get an address: of each interface of the default card all addresses but the first."""
    return info.enis_per_card[info.default_card] * (info.ipv4_per_eni - 1) + _HOST_NETWORK_PODS


def _cpu(cpu_millis: int) -> int:
    reserved = 0.0
    for width, thousandths in _CPU_STEPS:
        reserved += min(cpu_millis, width) * thousandths / 1000
        cpu_millis -= min(cpu_millis, width)
    return int(reserved)


def _threshold(text: str, has: int) -> int:
    percent = _PERCENT.fullmatch(text)
    return int(has * float(percent[1]) / 100) if percent else amounts.parse(text)
