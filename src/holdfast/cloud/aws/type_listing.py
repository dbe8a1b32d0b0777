"""Which instance types a region has, and in which of its zones.

Called by `discovery`, at the start and every twelve hours. Neither list may be empty: that would make every
NodePool unable to launch anything, and is never true.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast import errors
from holdfast.cloud.aws import calls, described
from holdfast.cloud.aws.calls import Calls
from holdfast.data.ec2 import InstanceTypeInfo

PERIOD_S: Final = 12 * 3600.0
_PAGE: Final = 100  # the most that EC2 allows
_OFFERINGS_PAGE: Final = 1000
_FILTERS: Final = (
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": sorted(described.KUBERNETES_RUNS_ON)},
)


@dataclass(frozen=True, slots=True)
class TypeListing:
    types: tuple[InstanceTypeInfo, ...]  # sorted by name
    zones_by_type: Mapping[str, tuple[str, ...]]


async def read(aws: Calls) -> TypeListing:
    types, offered = await asyncio.gather(
        aws.pages(
            calls.EC2, "DescribeInstanceTypes", "InstanceTypes", Filters=list(_FILTERS), MaxResults=_PAGE
        ),
        aws.pages(
            calls.EC2,
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            MaxResults=_OFFERINGS_PAGE,
        ),
    )
    if not types or not offered:
        raise errors.Retryable("EC2 listed no instance types at all; Holdfast keeps what it knew")
    zones: dict[str, set[str]] = {}
    for offering in offered:
        zones.setdefault(offering["InstanceType"], set()).add(offering["Location"])
    return TypeListing(
        tuple(sorted(map(described.instance_type, types), key=lambda info: info.name)),
        {name: tuple(sorted(found)) for name, found in zones.items()},
    )
