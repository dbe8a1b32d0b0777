"""The shipped EC2 data of a few regions: instance types, the zones that offer them, and list prices.

`scripts/generate_data.py` writes the file. It holds EC2's values in EC2's names and units, nothing computed, and each
part has a date. With a real account, the responses of EC2 replace it. This package must not import `model`.
"""

import functools
import gzip
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from holdfast import errors

FILE: Final = Path(__file__).with_name("ec2.json.gz")


class Gpu(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    manufacturer: str
    count: int  # whole GPUs: 0 for a type with a fraction of one
    memory_mib: int  # of each


class Accelerator(msgspec.Struct, frozen=True, omit_defaults=True):
    """An inference accelerator."""

    name: str
    manufacturer: str
    count: int


class NeuronDevice(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    count: int
    cores: int  # of each


class InstanceTypeInfo(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The fields of DescribeInstanceTypes that Holdfast uses, of one type."""

    name: str
    vcpus: int
    memory_mib: int
    architectures: tuple[str, ...] = ("x86_64",)
    usage_classes: tuple[str, ...] = ("on-demand", "spot")
    hypervisor: str = ""  # empty: none
    manufacturer: str = ""  # of the processor
    clock_mhz: int = 0  # sustained; 0: unknown
    bare_metal: bool = False
    burstable: bool = False
    current_generation: bool = False
    enclaves: bool = False
    nested_virtualization: bool = False
    encryption_in_transit: bool = False
    ena: bool = True
    enis_per_card: tuple[int, ...]  # network interfaces per network card
    default_card: int = 0
    ipv4_per_eni: int
    branch_enis: int = 0  # not in DescribeInstanceTypes; 0: unknown
    efas: int = 0
    network_mbps: int = 0  # baseline of all cards together; 0: unknown
    network_performance: str = ""
    ebs_mbps: int = 0  # at most; 0 unless EBS-optimised by default
    storage_gb: int = 0  # local disks together
    storage_nvme: bool = False
    gpus: tuple[Gpu, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    neuron_devices: tuple[NeuronDevice, ...] = ()


class Zone(msgspec.Struct, frozen=True):
    name: str  # of one account: in another account the name may mean another zone
    id: str | None  # the same in all accounts


class ShippedRegion(msgspec.Struct, frozen=True):
    zones: tuple[Zone, ...]
    offered: dict[str, str]  # instance type: last letters of the names of its zones
    prices_of: str  # the region whose list prices are used


class Shipped(msgspec.Struct, frozen=True):
    """The whole file."""

    types_as_of: str
    prices_as_of: str
    types: tuple[InstanceTypeInfo, ...]  # sorted by name
    on_demand_nano_usd: dict[str, int]  # per hour, by instance type; missing: unknown
    regions: dict[str, ShippedRegion]


@dataclass(frozen=True, slots=True)
class Region:
    """One region. Do not change its mappings."""

    name: str
    types: tuple[InstanceTypeInfo, ...]  # offered in this region, sorted by name
    zones: tuple[Zone, ...]
    zones_by_type: Mapping[str, tuple[str, ...]]
    on_demand_nano_usd: Mapping[str, int]
    types_as_of: str
    prices_as_of: str
    prices_of: str  # the region whose prices are used


def region_names() -> tuple[str, ...]:
    """The shipped regions, sorted."""
    return tuple(sorted(_shipped().regions))


@functools.cache
def region(name: str) -> Region:
    """A shipped region; InvalidInput for any other."""
    shipped = _shipped()
    found = shipped.regions.get(name)
    if found is None:
        raise errors.InvalidInput(
            f"region {name!r} is not shipped; there are {', '.join(region_names())}: "
            "take one of these, or list the instance types instead"
        )
    lists = {letters: tuple(name + letter for letter in letters) for letters in set(found.offered.values())}
    return Region(
        name=name,
        types=tuple(info for info in shipped.types if info.name in found.offered),
        zones=found.zones,
        zones_by_type={of_type: lists[letters] for of_type, letters in found.offered.items()},
        on_demand_nano_usd=shipped.on_demand_nano_usd,
        types_as_of=shipped.types_as_of,
        prices_as_of=shipped.prices_as_of,
        prices_of=found.prices_of,
    )


@functools.cache
def _shipped() -> Shipped:
    return msgspec.json.decode(gzip.decompress(FILE.read_bytes()), type=Shipped)
