"""Lists the instance types of a region and the zones that offer them.

Called by `discovery`, at the start and every twelve hours. An empty list is an error: it is never correct, and no
NodePool could launch anything. A type that cannot be parsed, such as a new one with other members, is left out: it is
not launched, and it makes no node drift.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors
from holdfast.cloud.aws.client import answers, calls, descriptions
from holdfast.cloud.aws.client.calls import Calls
from holdfast.data.ec2 import InstanceTypeInfo

PERIOD_S: Final = 12 * 3600.0
_PAGE: Final = 100  # the most that EC2 allows
_OFFERINGS_PAGE: Final = 1000
_FILTERS: Final = (
    {"Name": "supported-virtualization-type", "Values": ["hvm"]},
    {"Name": "processor-info.supported-architecture", "Values": sorted(descriptions.KUBERNETES_RUNS_ON)},
)


@dataclass(frozen=True, slots=True)
class TypeListing:
    types: tuple[InstanceTypeInfo, ...]  # sorted by name
    zones_by_type: Mapping[str, tuple[str, ...]]


async def read(aws: Calls) -> TypeListing:
    types: list[Any]
    types, offered = await asyncio.gather(
        aws.pages(
            calls.EC2, "DescribeInstanceTypes", "InstanceTypes", Filters=list(_FILTERS), MaxResults=_PAGE
        ),
        aws.pages(
            calls.EC2,
            "DescribeInstanceTypeOfferings",
            "InstanceTypeOfferings",
            parse=lambda raw: (raw["InstanceType"], raw["Location"]),
            LocationType="availability-zone",
            MaxResults=_OFFERINGS_PAGE,
        ),
    )
    known = tuple(answers.each("DescribeInstanceTypes", types, descriptions.instance_type))
    if not known or not offered:
        raise errors.Retryable("EC2 listed no instance types; Holdfast uses the previous list")
    zones: dict[str, set[str]] = {}
    for instance_type, zone in offered:
        zones.setdefault(instance_type, set()).add(zone)
    return TypeListing(
        tuple(sorted(known, key=lambda info: info.name)),
        {name: tuple(sorted(found)) for name, found in zones.items()},
    )
