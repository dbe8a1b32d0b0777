"""Parses tags and instance types of EC2's Describe calls. Reservations are in `reservations`.

Pure. A missing field gets its zero value, because EC2 leaves out what does not apply. A count out of range is a
ValueError: a plan would use an instance type with 2**60 vCPUs.
"""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.cloud.aws.client import answers
from holdfast.data import ec2

KUBERNETES_RUNS_ON: Final = frozenset({"x86_64", "arm64"})
_VCPUS_MAX: Final = 1_000_000
_MEMORY_MIB_MAX: Final = 2**40
_DEVICES_MAX: Final = 100_000  # cards, addresses, accelerators

Raw = Mapping[str, Any]


def tags(raw: Raw) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}


def tag_list(tags: Mapping[str, str]) -> list[dict[str, str]]:
    """The inverse of `tags`."""
    return [{"Key": key, "Value": tags[key]} for key in sorted(tags)]


def launchable(raw: Raw) -> bool:
    """Whether Karpenter lists the type (aws-7.1.1)."""
    return "hvm" in raw["SupportedVirtualizationTypes"] and bool(
        KUBERNETES_RUNS_ON & set(raw["ProcessorInfo"]["SupportedArchitectures"])
    )


def instance_type(raw: Raw) -> ec2.InstanceTypeInfo:
    network, processor = raw["NetworkInfo"], raw["ProcessorInfo"]
    storage = raw.get("InstanceStorageInfo", {})
    cards = sorted(network["NetworkCards"], key=lambda card: int(card["NetworkCardIndex"]))
    if KUBERNETES_RUNS_ON.isdisjoint(processor["SupportedArchitectures"]):
        raise ValueError(f"none of {processor['SupportedArchitectures']} is an architecture that nodes have")
    return ec2.InstanceTypeInfo(
        name=raw["InstanceType"],
        vcpus=answers.count(raw["VCpuInfo"]["DefaultVCpus"], _VCPUS_MAX),
        memory_mib=answers.count(raw["MemoryInfo"]["SizeInMiB"], _MEMORY_MIB_MAX),
        architectures=tuple(processor["SupportedArchitectures"]),
        usage_classes=tuple(sorted(raw["SupportedUsageClasses"])),
        hypervisor=raw.get("Hypervisor", ""),
        manufacturer=processor.get("Manufacturer", ""),
        clock_mhz=answers.count(round(processor.get("SustainedClockSpeedInGhz", 0) * 1000)),
        bare_metal=raw.get("BareMetal", False),
        burstable=raw.get("BurstablePerformanceSupported", False),
        current_generation=raw.get("CurrentGeneration", False),
        enclaves=raw.get("NitroEnclavesSupport") == "supported",
        nested_virtualization="nested-virtualization" in processor.get("SupportedFeatures", ()),
        encryption_in_transit=network.get("EncryptionInTransitSupported", False),
        ena=network.get("EnaSupport") != "unsupported",
        enis_per_card=tuple(_devices(card["MaximumNetworkInterfaces"]) for card in cards),
        default_card=answers.count(network.get("DefaultNetworkCardIndex", 0), len(cards) - 1),
        ipv4_per_eni=_devices(network["Ipv4AddressesPerInterface"]),
        efas=_devices(network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0)),
        network_mbps=answers.count(
            round(sum(card.get("BaselineBandwidthInGbps", 0) for card in cards) * 1000)
        ),
        network_performance=network.get("NetworkPerformance", ""),
        ebs_mbps=_ebs_mbps(raw.get("EbsInfo", {})),
        storage_gb=answers.count(storage.get("TotalSizeInGB", 0)),
        storage_nvme=storage.get("NvmeSupport", "unsupported") != "unsupported",
        gpus=_gpus(raw),
        accelerators=_accelerators(raw),
        neuron_devices=_neuron_devices(raw),
    )


def _devices(value: int) -> int:
    return answers.count(value, _DEVICES_MAX)


def _ebs_mbps(ebs: Raw) -> int:
    if ebs.get("EbsOptimizedSupport") != "default":
        return 0
    return answers.count(ebs.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps", 0))


def _gpus(raw: Raw) -> tuple[ec2.Gpu, ...]:
    return tuple(
        ec2.Gpu(
            gpu["Name"],
            gpu["Manufacturer"],
            _devices(gpu["Count"]),
            answers.count(gpu["MemoryInfo"]["SizeInMiB"], _MEMORY_MIB_MAX),
        )
        for gpu in raw.get("GpuInfo", {}).get("Gpus", ())
    )


def _accelerators(raw: Raw) -> tuple[ec2.Accelerator, ...]:
    return tuple(
        ec2.Accelerator(one["Name"], one["Manufacturer"], _devices(one["Count"]))
        for one in raw.get("InferenceAcceleratorInfo", {}).get("Accelerators", ())
    )


def _neuron_devices(raw: Raw) -> tuple[ec2.NeuronDevice, ...]:
    return tuple(
        ec2.NeuronDevice(device["Name"], _devices(device["Count"]), _devices(device["CoreInfo"]["Count"]))
        for device in raw.get("NeuronInfo", {}).get("NeuronDevices", ())
    )
