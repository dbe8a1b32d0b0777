"""Reads all subnets and security groups, and selects from them.

One paged call lists all that the account can see, and the terms of every class are matched against that list, as for
reservations. So the number of calls grows neither with classes nor with terms, and the message for a term without a
match can list what exists.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.api.ec2nodeclass.selectors import SecurityGroupSelectorTerm, SubnetSelectorTerm
from holdfast.cloud.aws.client import answers, calls, descriptions
from holdfast.cloud.aws.client.calls import Calls
from holdfast.cloud.aws.reservations import selection

_PAGE: Final = 1000
_AVAILABLE: Final = "available"


@dataclass(frozen=True, slots=True)
class Subnet:
    id: str
    zone: str
    zone_id: str | None
    free_addresses: int
    tags: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SecurityGroup:
    id: str
    name: str
    tags: Mapping[str, str]


async def read_subnets(aws: Calls) -> tuple[Subnet, ...]:
    """All subnets or an error: nodes in a missing subnet would drift."""
    found = await aws.pages(calls.EC2, "DescribeSubnets", "Subnets", parse=_subnet, MaxResults=_PAGE)
    return tuple(subnet for subnet in found if subnet is not None)


async def read_security_groups(aws: Calls) -> tuple[SecurityGroup, ...]:
    found = await aws.pages(
        calls.EC2, "DescribeSecurityGroups", "SecurityGroups", parse=_security_group, MaxResults=_PAGE
    )
    return tuple(found)


def _subnet(raw: Mapping[str, Any]) -> Subnet | None:
    if raw.get("State", _AVAILABLE) != _AVAILABLE:
        return None
    return Subnet(
        raw["SubnetId"],
        raw["AvailabilityZone"],
        raw.get("AvailabilityZoneId"),
        answers.count(raw.get("AvailableIpAddressCount", 0)),
        descriptions.tags(raw),
    )


def _security_group(raw: Mapping[str, Any]) -> SecurityGroup:
    return SecurityGroup(raw["GroupId"], raw.get("GroupName", ""), descriptions.tags(raw))


def select_subnets(terms: Sequence[SubnetSelectorTerm], listed: Sequence[Subnet]) -> tuple[Subnet, ...]:
    """The selected subnets, those with most free addresses first."""
    found = [subnet for subnet in listed if any(_selects_subnet(term, subnet) for term in terms)]
    return tuple(sorted(found, key=lambda subnet: (-subnet.free_addresses, subnet.id)))


def select_security_groups(
    terms: Sequence[SecurityGroupSelectorTerm], listed: Sequence[SecurityGroup]
) -> tuple[SecurityGroup, ...]:
    found = [group for group in listed if any(_selects_group(term, group) for term in terms)]
    return tuple(sorted(found, key=lambda group: group.id))


def zone_names(listed: Sequence[Subnet]) -> dict[str, str]:
    """The zone names of this account, by zone id."""
    return {subnet.zone_id: subnet.zone for subnet in listed if subnet.zone_id}


def _selects_subnet(term: SubnetSelectorTerm, subnet: Subnet) -> bool:
    if term.id is not None:
        return term.id == subnet.id
    return bool(term.tags) and selection.tags_match(term.tags, subnet.tags)


def _selects_group(term: SecurityGroupSelectorTerm, group: SecurityGroup) -> bool:
    if term.id is not None:
        return term.id == group.id
    if term.name is not None:
        return selection.wildcard(term.name, group.name)
    return bool(term.tags) and selection.tags_match(term.tags, group.tags)
