"""EC2 as far as it is shipped: instance types, the zones that offer them and list prices of a few regions.

Read by `cloud.aws`, by the simulated EC2 and by `holdfast plan`; written by `scripts/generate_data.py`,
never by hand. The rules: the file holds what EC2 says in EC2's own words and units, nothing that we compute
from it, and every part has the date it was true. What a real account says takes its place where there is
one.

The types are msgspec Structs, as on every wire that is read at a door; nothing here may import `model`.
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
    count: int  # whole ones: a type with a part of one says 0
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
    """What DescribeInstanceTypes says of one type, as far as anything here depends on it."""

    name: str
    vcpus: int
    memory_mib: int
    architectures: tuple[str, ...] = ("x86_64",)
    usage_classes: tuple[str, ...] = ("on-demand", "spot")
    hypervisor: str = ""  # empty: there is none
    manufacturer: str = ""  # of the processor
    clock_mhz: int = 0  # sustained; 0: not known
    bare_metal: bool = False
    burstable: bool = False
    current_generation: bool = False
    enclaves: bool = False
    nested_virtualization: bool = False
    encryption_in_transit: bool = False
    ena: bool = True
    enis_per_card: tuple[int, ...]  # how many interfaces each network card takes
    default_card: int = 0
    ipv4_per_eni: int
    branch_enis: int = 0  # not in DescribeInstanceTypes; 0 where nobody filled it in
    efas: int = 0
    network_mbps: int = 0  # baseline of all cards together; 0: not known
    network_performance: str = ""
    ebs_mbps: int = 0  # at most; 0 unless EBS-optimised by default
    storage_gb: int = 0  # local disks together
    storage_nvme: bool = False
    gpus: tuple[Gpu, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    neuron_devices: tuple[NeuronDevice, ...] = ()


class Zone(msgspec.Struct, frozen=True):
    name: str  # as one account knows it: accounts differ in which name means which zone
    id: str | None  # the same for all accounts


class ShippedRegion(msgspec.Struct, frozen=True):
    zones: tuple[Zone, ...]
    offered: dict[str, str]  # by instance type, the last letters of its zones' names
    prices_of: str  # the region whose list prices are used here


class Shipped(msgspec.Struct, frozen=True):
    """The whole file."""

    types_as_of: str
    prices_as_of: str
    types: tuple[InstanceTypeInfo, ...]  # sorted by name
    on_demand_nano_usd: dict[str, int]  # an hour, by instance type; one that is missing has no known price
    regions: dict[str, ShippedRegion]


@dataclass(frozen=True, slots=True)
class Region:
    """One region, complete. Its mappings are to read."""

    name: str
    types: tuple[InstanceTypeInfo, ...]  # those offered here, sorted by name
    zones: tuple[Zone, ...]
    zones_by_type: Mapping[str, tuple[str, ...]]
    on_demand_nano_usd: Mapping[str, int]
    types_as_of: str
    prices_as_of: str
    prices_of: str  # another region's name where this one's prices are not shipped


def region_names() -> tuple[str, ...]:
    """The regions that are shipped, sorted."""
    return tuple(sorted(_shipped().regions))


@functools.cache
def region(name: str) -> Region:
    """A region that is shipped; InvalidInput for any other."""
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
