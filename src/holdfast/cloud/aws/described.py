"""What EC2's Describe calls say, as values.

Called by whoever reads an answer, and by `scripts/generate_data.py` for the types that are shipped. Pure; a
field that is missing reads as its zero, since EC2 leaves out what does not apply.
"""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.cloud.aws import reservations
from holdfast.cloud.aws.reservations import CapacityReservation
from holdfast.data import ec2
from holdfast.state import times

KUBERNETES_RUNS_ON: Final = frozenset({"x86_64", "arm64"})
# Capacity blocks of these types are whole UltraServers. EC2 says `LaunchStatus` of nothing else.
_ULTRASERVERS: Final = ("p6e-", "trn2u.")
_UNLAUNCHABLE: Final = "unlaunchable"

Raw = Mapping[str, Any]


def tags(raw: Raw) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}


def reservation(raw: Raw) -> CapacityReservation:
    instance_type = raw["InstanceType"]
    return CapacityReservation(
        id=raw["CapacityReservationId"],
        instance_type=instance_type,
        zone=raw.get("AvailabilityZone", ""),
        zone_id=raw.get("AvailabilityZoneId"),
        total=raw.get("TotalInstanceCount", raw.get("AvailableInstanceCount", 0)),
        available=raw.get("AvailableInstanceCount", 0),
        kind=raw.get("ReservationType") or reservations.DEFAULT,
        owner=raw.get("OwnerId", ""),
        state=raw.get("State", ""),
        interruptible=raw.get("Interruptible", False),
        match_criteria=raw.get("InstanceMatchCriteria", ""),
        tags=tuple(sorted(tags(raw).items())),
        start_s=times.epoch_s_or_none(raw.get("StartDate")),
        end_s=times.epoch_s_or_none(raw.get("EndDate")),
        ultraserver="LaunchStatus" in raw or instance_type.startswith(_ULTRASERVERS),
        platform=raw.get("InstancePlatform", reservations.LINUX),
        tenancy=raw.get("Tenancy", reservations.DEFAULT_TENANCY),
        placement_group=raw.get("PlacementGroupArn", "").rpartition("/")[2],
        outpost=bool(raw.get("OutpostArn")),
        launchable=raw.get("LaunchStatus") != _UNLAUNCHABLE,
    )


def launchable(raw: Raw) -> bool:
    """The types that Karpenter asks EC2 for (aws-7.1.1)."""
    return "hvm" in raw["SupportedVirtualizationTypes"] and bool(
        KUBERNETES_RUNS_ON & set(raw["ProcessorInfo"]["SupportedArchitectures"])
    )


def instance_type(raw: Raw) -> ec2.InstanceTypeInfo:
    network, processor = raw["NetworkInfo"], raw["ProcessorInfo"]
    storage = raw.get("InstanceStorageInfo", {})
    cards = sorted(network["NetworkCards"], key=lambda card: int(card["NetworkCardIndex"]))
    return ec2.InstanceTypeInfo(
        name=raw["InstanceType"],
        vcpus=raw["VCpuInfo"]["DefaultVCpus"],
        memory_mib=raw["MemoryInfo"]["SizeInMiB"],
        architectures=tuple(processor["SupportedArchitectures"]),
        usage_classes=tuple(sorted(raw["SupportedUsageClasses"])),
        hypervisor=raw.get("Hypervisor", ""),
        manufacturer=processor.get("Manufacturer", ""),
        clock_mhz=round(processor.get("SustainedClockSpeedInGhz", 0) * 1000),
        bare_metal=raw.get("BareMetal", False),
        burstable=raw.get("BurstablePerformanceSupported", False),
        current_generation=raw.get("CurrentGeneration", False),
        enclaves=raw.get("NitroEnclavesSupport") == "supported",
        nested_virtualization="nested-virtualization" in processor.get("SupportedFeatures", ()),
        encryption_in_transit=network.get("EncryptionInTransitSupported", False),
        ena=network.get("EnaSupport") != "unsupported",
        enis_per_card=tuple(card["MaximumNetworkInterfaces"] for card in cards),
        default_card=network.get("DefaultNetworkCardIndex", 0),
        ipv4_per_eni=network["Ipv4AddressesPerInterface"],
        efas=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        network_mbps=round(sum(card.get("BaselineBandwidthInGbps", 0) for card in cards) * 1000),
        network_performance=network.get("NetworkPerformance", ""),
        ebs_mbps=_ebs_mbps(raw.get("EbsInfo", {})),
        storage_gb=storage.get("TotalSizeInGB", 0),
        storage_nvme=storage.get("NvmeSupport", "unsupported") != "unsupported",
        gpus=_gpus(raw),
        accelerators=_accelerators(raw),
        neuron_devices=_neuron_devices(raw),
    )


def _ebs_mbps(ebs: Raw) -> int:
    if ebs.get("EbsOptimizedSupport") != "default":
        return 0
    return int(ebs.get("EbsOptimizedInfo", {}).get("MaximumBandwidthInMbps", 0))


def _gpus(raw: Raw) -> tuple[ec2.Gpu, ...]:
    return tuple(
        ec2.Gpu(gpu["Name"], gpu["Manufacturer"], gpu["Count"], gpu["MemoryInfo"]["SizeInMiB"])
        for gpu in raw.get("GpuInfo", {}).get("Gpus", ())
    )


def _accelerators(raw: Raw) -> tuple[ec2.Accelerator, ...]:
    return tuple(
        ec2.Accelerator(one["Name"], one["Manufacturer"], one["Count"])
        for one in raw.get("InferenceAcceleratorInfo", {}).get("Accelerators", ())
    )


def _neuron_devices(raw: Raw) -> tuple[ec2.NeuronDevice, ...]:
    return tuple(
        ec2.NeuronDevice(device["Name"], device["Count"], device["CoreInfo"]["Count"])
        for device in raw.get("NeuronInfo", {}).get("NeuronDevices", ())
    )
