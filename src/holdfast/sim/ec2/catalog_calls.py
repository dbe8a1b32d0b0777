"""Calls about instance types, their zones, spot prices and zones. Called by `service`.

The values come from the shipped data, in EC2's shape. A member that the data does not have is left out, except spot
prices (see `prices`).
"""

import functools
from typing import Any, Final

from holdfast.data import ec2
from holdfast.data.ec2 import InstanceTypeInfo
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.ec2 import filters, listings, pages, prices, times
from holdfast.sim.ec2.region_state import RegionState
from holdfast.sim.ec2.requests import Request, invalid

_TYPE_FILTERS: Final = {
    "bare-metal": "BareMetal",
    "burstable-performance-supported": "BurstablePerformanceSupported",
    "current-generation": "CurrentGeneration",
    "ebs-info.ebs-optimized-info.maximum-bandwidth-in-mbps": "EbsInfo.EbsOptimizedInfo.MaximumBandwidthInMbps",
    "ebs-info.ebs-optimized-support": "EbsInfo.EbsOptimizedSupport",
    "hypervisor": "Hypervisor",
    "instance-storage-info.nvme-support": "InstanceStorageInfo.NvmeSupport",
    "instance-storage-info.total-size-in-gb": "InstanceStorageInfo.TotalSizeInGB",
    "instance-storage-supported": "InstanceStorageSupported",
    "instance-type": "InstanceType",
    "memory-info.size-in-mib": "MemoryInfo.SizeInMiB",
    "network-info.efa-info.maximum-efa-interfaces": "NetworkInfo.EfaInfo.MaximumEfaInterfaces",
    "network-info.efa-supported": "NetworkInfo.EfaSupported",
    "network-info.ena-support": "NetworkInfo.EnaSupport",
    "network-info.encryption-in-transit-supported": "NetworkInfo.EncryptionInTransitSupported",
    "network-info.ipv4-addresses-per-interface": "NetworkInfo.Ipv4AddressesPerInterface",
    "network-info.maximum-network-cards": "NetworkInfo.MaximumNetworkCards",
    "network-info.maximum-network-interfaces": "NetworkInfo.MaximumNetworkInterfaces",
    "network-info.network-performance": "NetworkInfo.NetworkPerformance",
    "nitro-enclaves-support": "NitroEnclavesSupport",
    "processor-info.supported-architecture": "ProcessorInfo.SupportedArchitectures",
    "processor-info.supported-features": "ProcessorInfo.SupportedFeatures",
    "processor-info.sustained-clock-speed-in-ghz": "ProcessorInfo.SustainedClockSpeedInGhz",
    "supported-root-device-type": "SupportedRootDeviceTypes",
    "supported-usage-class": "SupportedUsageClasses",
    "supported-virtualization-type": "SupportedVirtualizationTypes",
    "vcpu-info.default-vcpus": "VCpuInfo.DefaultVCpus",
}
_SPOT_FILTERS: Final = {
    "availability-zone": "AvailabilityZone",
    "availability-zone-id": "AvailabilityZoneId",
    "instance-type": "InstanceType",
    "product-description": "ProductDescription",
    "spot-price": "SpotPrice",
    "timestamp": "Timestamp",
}
_ZONE_FILTERS: Final = {
    "group-name": "GroupName",
    "opt-in-status": "OptInStatus",
    "region-name": "RegionName",
    "state": "State",
    "zone-id": "ZoneId",
    "zone-name": "ZoneName",
    "zone-type": "ZoneType",
}
_PRODUCTS: Final = ("Linux/UNIX", "Linux/UNIX (Amazon VPC)")
_USD: Final = 10**9


def types(region: RegionState, request: Request) -> dict[str, Any]:
    requested = request.get("InstanceTypes", ())
    unknown = [name for name in requested if name not in region.types]
    if unknown:
        raise ApiError(
            "InvalidInstanceType",
            f"The following supplied instance types do not exist: [{', '.join(unknown)}]",
        )
    known = _types(region.setup.region)
    answers = filters.keep((known[name] for name in requested or known), request, _TYPE_FILTERS, tags="")
    return pages.page(
        answers,
        request,
        "InstanceTypes",
        lambda t: str(t["InstanceType"]),
        sizes=listings.Sizes(most=100, usual=100),
        ids="InstanceTypes",
    )


def offerings(region: RegionState, request: Request) -> dict[str, Any]:
    location_type = request.get("LocationType", "region")
    account = region.account(request.account)
    answers = []
    for name, zone_ids in region.offered.items():
        match location_type:
            case "region":
                locations = [region.setup.region]
            case "availability-zone":
                locations = [account.zone_name(zone_id) for zone_id in zone_ids]
            case "availability-zone-id":
                locations = list(zone_ids)
            case _:
                raise invalid(f"Invalid value '{location_type}' for LocationType.")
        answers += [{"InstanceType": name, "LocationType": location_type, "Location": p} for p in locations]
    paths = {"instance-type": "InstanceType", "location": "Location"}
    answers = filters.keep(answers, request, paths, tags="")
    return pages.page(
        answers,
        request,
        "InstanceTypeOfferings",
        lambda o: f"{o['InstanceType']}/{o['Location']}",
        sizes=listings.Sizes(usual=1000),
    )


def spot_prices(region: RegionState, request: Request) -> dict[str, Any]:
    """The current price. It does not change, so the history has one entry per pool and product."""
    account = region.account(request.account)
    products = request.get("ProductDescriptions") or _PRODUCTS
    wanted = request.get("InstanceTypes") or region.offered
    answers = []
    for name in wanted:
        if name not in region.types or "spot" not in region.types[name].usage_classes:
            continue
        for zone_id in region.offered[name]:
            price = prices.spot(region.setup, name, zone_id)
            if price is None:
                continue
            answers += [
                {
                    "AvailabilityZone": account.zone_name(zone_id),
                    "AvailabilityZoneId": zone_id,
                    "InstanceType": name,
                    "ProductDescription": product,
                    "SpotPrice": f"{price / _USD:.6f}",
                    "Timestamp": times.when(region.now_s - region.now_s % 3600),
                }
                for product in products
                if product in _PRODUCTS
            ]
    if zone := request.get("AvailabilityZone"):
        answers = [each for each in answers if each["AvailabilityZone"] == zone]
    answers = filters.keep(answers, request, _SPOT_FILTERS, tags="")
    return pages.page(
        answers, request, "SpotPriceHistory",
        lambda p: f"{p['InstanceType']}/{p['AvailabilityZoneId']}/{p['ProductDescription']}",
        sizes=listings.Sizes(least=1, most=10_000, usual=1000),
    )  # fmt: skip


def zones(region: RegionState, request: Request) -> dict[str, Any]:
    region_name = region.setup.region
    answers = [
        {
            "State": "available",
            "OptInStatus": "opt-in-not-required",
            "Messages": [],
            "RegionName": region_name,
            "ZoneName": name,
            "ZoneId": zone_id,
            "GroupName": f"{region_name}-zg-1",
            "NetworkBorderGroup": region_name,
            "ZoneType": "availability-zone",
        }
        for name, zone_id in region.account(request.account).zone_ids.items()
    ]
    for names, member in (("ZoneNames", "ZoneName"), ("ZoneIds", "ZoneId")):
        for requested in request.get(names, ()):
            if requested not in {answer[member] for answer in answers}:
                raise invalid(f"Invalid availability zone: [{requested}]")
        if request.get(names):
            answers = [answer for answer in answers if answer[member] in request.get(names)]
    return {"AvailabilityZones": filters.keep(answers, request, _ZONE_FILTERS, tags="")}


@functools.cache
def _types(region: str) -> dict[str, dict[str, Any]]:
    """Every type as EC2 describes it; do not change the result."""
    return {info.name: _type(info) for info in ec2.region(region).types}


def _type(info: InstanceTypeInfo) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "InstanceType": info.name,
        "CurrentGeneration": info.current_generation,
        "SupportedUsageClasses": list(info.usage_classes),
        "SupportedRootDeviceTypes": ["ebs"],
        "SupportedVirtualizationTypes": ["hvm"],
        "BareMetal": info.bare_metal,
        "ProcessorInfo": _processor(info),
        "VCpuInfo": {"DefaultVCpus": info.vcpus},
        "MemoryInfo": {"SizeInMiB": info.memory_mib},
        "InstanceStorageSupported": bool(info.storage_gb),
        "EbsInfo": _ebs(info),
        "NetworkInfo": _network(info),
        "BurstablePerformanceSupported": info.burstable,
        "NitroEnclavesSupport": "supported" if info.enclaves else "unsupported",
    }
    if info.hypervisor:
        answer["Hypervisor"] = info.hypervisor
    if info.storage_gb:
        answer["InstanceStorageInfo"] = {
            "TotalSizeInGB": info.storage_gb,
            "NvmeSupport": "required" if info.storage_nvme else "unsupported",
        }
    return answer | _devices(info)


def _processor(info: InstanceTypeInfo) -> dict[str, Any]:
    answer: dict[str, Any] = {"SupportedArchitectures": list(info.architectures)}
    if info.clock_mhz:
        answer["SustainedClockSpeedInGhz"] = info.clock_mhz / 1000
    if info.manufacturer:
        answer["Manufacturer"] = info.manufacturer
    if info.nested_virtualization:
        answer["SupportedFeatures"] = ["nested-virtualization"]
    return answer


def _ebs(info: InstanceTypeInfo) -> dict[str, Any]:
    if not info.ebs_mbps:
        return {"EbsOptimizedSupport": "unsupported"}
    return {"EbsOptimizedSupport": "default", "EbsOptimizedInfo": {"MaximumBandwidthInMbps": info.ebs_mbps}}


def _network(info: InstanceTypeInfo) -> dict[str, Any]:
    """The first card has the baseline bandwidth of all cards, because only the sum is known."""
    cards: list[dict[str, Any]] = [
        {"NetworkCardIndex": card, "MaximumNetworkInterfaces": count}
        for card, count in enumerate(info.enis_per_card)
    ]
    if info.network_mbps:
        cards[0]["BaselineBandwidthInGbps"] = info.network_mbps / 1000
    answer: dict[str, Any] = {
        "NetworkPerformance": info.network_performance,
        "MaximumNetworkInterfaces": sum(info.enis_per_card),
        "MaximumNetworkCards": len(info.enis_per_card),
        "DefaultNetworkCardIndex": info.default_card,
        "NetworkCards": cards,
        "Ipv4AddressesPerInterface": info.ipv4_per_eni,
        "EnaSupport": "required" if info.ena else "unsupported",
        "EfaSupported": bool(info.efas),
        "EncryptionInTransitSupported": info.encryption_in_transit,
    }
    if info.efas:
        answer["EfaInfo"] = {"MaximumEfaInterfaces": info.efas}
    return answer


def _devices(info: InstanceTypeInfo) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    if info.gpus:
        answer["GpuInfo"] = {
            "Gpus": [
                {
                    "Name": gpu.name,
                    "Manufacturer": gpu.manufacturer,
                    "Count": gpu.count,
                    "MemoryInfo": {"SizeInMiB": gpu.memory_mib},
                }
                for gpu in info.gpus
            ],
            "TotalGpuMemoryInMiB": sum(gpu.count * gpu.memory_mib for gpu in info.gpus),
        }
    if info.accelerators:
        answer["InferenceAcceleratorInfo"] = {
            "Accelerators": [
                {"Name": each.name, "Manufacturer": each.manufacturer, "Count": each.count}
                for each in info.accelerators
            ]
        }
    if info.neuron_devices:
        answer["NeuronInfo"] = {
            "NeuronDevices": [
                {"Name": each.name, "Count": each.count, "CoreInfo": {"Count": each.cores}}
                for each in info.neuron_devices
            ]
        }
    return answer
