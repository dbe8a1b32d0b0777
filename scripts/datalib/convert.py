"""From what DescribeInstanceTypes and DescribeInstanceTypeOfferings say to the records that are shipped.

Called by `generate_data`. Pure; a field that is missing reads as its zero, as EC2 leaves out what does not
apply.
"""

from typing import Any

from holdfast.data import ec2

KUBERNETES_RUNS_ON = {"x86_64", "arm64"}


def launchable(raw: dict[str, Any]) -> bool:
    """The types that Karpenter asks EC2 for (aws-7.1.1)."""
    return "hvm" in raw["SupportedVirtualizationTypes"] and bool(
        KUBERNETES_RUNS_ON & set(raw["ProcessorInfo"]["SupportedArchitectures"])
    )


def instance_type(raw: dict[str, Any]) -> ec2.InstanceTypeInfo:
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
        bare_metal=raw["BareMetal"],
        burstable=raw["BurstablePerformanceSupported"],
        current_generation=raw["CurrentGeneration"],
        enclaves=raw["NitroEnclavesSupport"] == "supported",
        nested_virtualization="nested-virtualization" in processor.get("SupportedFeatures", ()),
        encryption_in_transit=network["EncryptionInTransitSupported"],
        ena=network["EnaSupport"] != "unsupported",
        enis_per_card=tuple(card["MaximumNetworkInterfaces"] for card in cards),
        default_card=network["DefaultNetworkCardIndex"],
        ipv4_per_eni=network["Ipv4AddressesPerInterface"],
        efas=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0),
        network_mbps=round(sum(card["BaselineBandwidthInGbps"] for card in cards) * 1000),
        network_performance=network["NetworkPerformance"],
        ebs_mbps=_ebs_mbps(raw["EbsInfo"]),
        storage_gb=storage.get("TotalSizeInGB", 0),
        storage_nvme=storage.get("NvmeSupport", "unsupported") != "unsupported",
        gpus=_gpus(raw),
        accelerators=_accelerators(raw),
        neuron_devices=_neuron_devices(raw),
    )


def region(
    name: str, by_name: dict[str, set[str]], by_id: dict[str, set[str]], known: set[str]
) -> ec2.ShippedRegion:
    """A region from its offerings, listed once by zone name and once by zone id.

    The two lists are of one account, so a name and an id with the very same types are one zone.
    """
    zones = tuple(ec2.Zone(zone, _same(zone, by_name[zone], by_id)) for zone in sorted(by_name))
    offered: dict[str, str] = {}
    for zone in zones:
        if zone.name[:-1] != name:
            raise ValueError(f"zone {zone.name} is not named after its region {name}")
        for of_type in by_name[zone.name] & known:
            offered[of_type] = offered.get(of_type, "") + zone.name[-1]
    return ec2.ShippedRegion(zones, dict(sorted(offered.items())), prices_of="us-east-1")


def _same(zone: str, types: set[str], by_id: dict[str, set[str]]) -> str:
    ids = [zone_id for zone_id, others in by_id.items() if others == types]
    if len(ids) != 1:
        raise ValueError(f"zone {zone} offers the types of {len(ids)} zone ids; exactly one is expected")
    return ids[0]


def _ebs_mbps(ebs: dict[str, Any]) -> int:
    if ebs["EbsOptimizedSupport"] != "default":
        return 0
    return int(ebs["EbsOptimizedInfo"]["MaximumBandwidthInMbps"])


def _gpus(raw: dict[str, Any]) -> tuple[ec2.Gpu, ...]:
    return tuple(
        ec2.Gpu(gpu["Name"], gpu["Manufacturer"], gpu["Count"], gpu["MemoryInfo"]["SizeInMiB"])
        for gpu in raw.get("GpuInfo", {}).get("Gpus", ())
    )


def _accelerators(raw: dict[str, Any]) -> tuple[ec2.Accelerator, ...]:
    return tuple(
        ec2.Accelerator(one["Name"], one["Manufacturer"], one["Count"])
        for one in raw.get("InferenceAcceleratorInfo", {}).get("Accelerators", ())
    )


def _neuron_devices(raw: dict[str, Any]) -> tuple[ec2.NeuronDevice, ...]:
    return tuple(
        ec2.NeuronDevice(device["Name"], device["Count"], device["CoreInfo"]["Count"])
        for device in raw.get("NeuronInfo", {}).get("NeuronDevices", ())
    )
