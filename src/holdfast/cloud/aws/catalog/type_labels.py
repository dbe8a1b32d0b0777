"""The labels of a node that its instance type decides.

Called by `instance_types`. Karpenter's labels (facts aws-7.2). Every type has a requirement for every label; a label
without a value is DoesNotExist. So a pod that selects a GPU name is never placed on a type without that label.
"""

import re
from collections.abc import Iterable
from typing import Final

from holdfast import names
from holdfast.api import aws
from holdfast.cloud.aws.catalog.families import Family
from holdfast.cloud.aws.catalog.labels import boolean, one_of
from holdfast.data.ec2 import InstanceTypeInfo
from holdfast.model.requirement import Requirement

NITRO_SANDBOX: Final = "eks.amazonaws.com/nitro-sandbox"  # whether the type supports Nitro Enclaves

LINUX: Final = "linux"
WINDOWS: Final = "windows"
AMD64: Final = "amd64"
ARCHITECTURES: Final = {"x86_64": AMD64, "arm64": "arm64"}
_NAME: Final = re.compile(r"([a-z]+)(?:-[0-9]+tb)?([0-9]+)[^.]*\.")
_TENANCIES: Final = ("default", "dedicated")


def architecture(info: InstanceTypeInfo) -> str:
    """The first architecture that Kubernetes runs on, as Kubernetes names it."""
    return next(ARCHITECTURES[name] for name in info.architectures if name in ARCHITECTURES)


def of_type(info: InstanceTypeInfo, family: Family, region: str) -> list[Requirement]:
    """The labels of every node of the type, whatever its zone and capacity type."""
    arch = architecture(info)
    systems = (LINUX,) if family.windows_build is None else (WINDOWS,) if arch == AMD64 else ()
    return [
        one_of(names.INSTANCE_TYPE, info.name),
        one_of(names.ARCH, arch),
        one_of(names.OS, *systems),
        one_of(names.REGION, region),
        _known(names.WINDOWS_BUILD, family.windows_build),
        one_of(aws.INSTANCE_TENANCY, *_TENANCIES),
        *_from_name(info.name),
        *_hardware(info),
        *_gpus(info),
        *_accelerators(info),
    ]


def of_placement_group(group: str | None) -> Iterable[Requirement]:
    """No pod can select a partition: EC2 chooses it at launch, so nodes would be launched for such a pod without end.
    `group`: an id; empty: the class selects no group; None: the id is not known."""
    yield one_of(aws.PLACEMENT_GROUP_PARTITION)
    if group is not None:
        yield _known(aws.PLACEMENT_GROUP_ID, group)


def _from_name(name: str) -> Iterable[Requirement]:
    family, _, size = name.partition(".")
    parts = _NAME.match(name)
    yield _known(aws.INSTANCE_CATEGORY, parts and parts[1])
    yield _known(aws.INSTANCE_GENERATION, parts and parts[2])
    yield _known(aws.INSTANCE_FAMILY, family)
    yield _known(aws.INSTANCE_SIZE, size)
    yield one_of(aws.INSTANCE_CAPABILITY_FLEX, boolean("-flex" in family))


def _hardware(info: InstanceTypeInfo) -> Iterable[Requirement]:
    yield _known(aws.INSTANCE_CPU, info.vcpus)
    yield _known(aws.INSTANCE_CPU_MANUFACTURER, _kebab(info.manufacturer))
    yield _known(aws.INSTANCE_CPU_CLOCK, info.clock_mhz)
    yield _known(aws.INSTANCE_MEMORY, info.memory_mib)
    yield _known(aws.INSTANCE_EBS_BANDWIDTH, info.ebs_mbps)
    yield _known(aws.INSTANCE_NETWORK_BANDWIDTH, info.network_mbps)
    yield _known(aws.INSTANCE_LOCAL_NVME, info.storage_gb if info.storage_nvme else None)
    yield _known(aws.INSTANCE_HYPERVISOR, info.hypervisor)
    yield one_of(aws.INSTANCE_ENCRYPTION_IN_TRANSIT, boolean(info.encryption_in_transit))
    yield one_of(NITRO_SANDBOX, boolean(info.enclaves))


def _gpus(info: InstanceTypeInfo) -> Iterable[Requirement]:
    keys = (
        aws.INSTANCE_GPU_NAME,
        aws.INSTANCE_GPU_MANUFACTURER,
        aws.INSTANCE_GPU_COUNT,
        aws.INSTANCE_GPU_MEMORY,
    )
    if len(info.gpus) != 1:
        return [one_of(key) for key in keys]
    gpu = info.gpus[0]
    values = (_kebab(gpu.name), _kebab(gpu.manufacturer), str(gpu.count), str(gpu.memory_mib))
    return [one_of(key, value) for key, value in zip(keys, values, strict=True)]


def _accelerators(info: InstanceTypeInfo) -> Iterable[Requirement]:
    name, manufacturer, count = _accelerator(info)
    yield _known(aws.INSTANCE_ACCELERATOR_NAME, _kebab(name))
    yield _known(aws.INSTANCE_ACCELERATOR_MANUFACTURER, _kebab(manufacturer))
    yield _known(aws.INSTANCE_ACCELERATOR_COUNT, count)


def _accelerator(info: InstanceTypeInfo) -> tuple[str, str, int]:
    """Name, manufacturer and count. A device that EC2 lists twice counts as a Neuron device."""
    if len(info.neuron_devices) == 1:
        return info.neuron_devices[0].name, "aws", info.neuron_devices[0].count
    if len(info.accelerators) == 1 and not info.neuron_devices:
        one = info.accelerators[0]
        return one.name, one.manufacturer, one.count
    return "", "", 0


def _known(key: str, value: str | int | None) -> Requirement:
    return one_of(key, *([str(value)] if value else []))


def _kebab(text: str) -> str:
    return text.lower().replace(" ", "-")
