"""Selector terms of an EC2NodeClass, and the rules their lists share.

Terms are ORed, the fields of one term are ANDed.
"""

from typing import Annotated, Final

from msgspec import field

from holdfast.api import patterns
from holdfast.api.meta import Wire
from holdfast.api.schema import Rule, about

# AMI families by their name in an alias.
AMI_FAMILIES: Final = {
    "al2": "AL2",
    "al2023": "AL2023",
    "bottlerocket": "Bottlerocket",
    "windows2019": "Windows2019",
    "windows2022": "Windows2022",
    "windows2025": "Windows2025",
}

SelectorTags = Annotated[
    dict[str, str],
    about(
        "Tags that must be there with these values; * stands for any value.",
        max_properties=20,
        rules=(
            Rule(
                "self.all(k, k != '' && self[k] != '')",
                "tag keys and values must not be empty; use * for any value",
            ),
        ),
    ),
]


def at_least_one(*fields: str) -> Rule:
    any_set = " || ".join(f"has(x.{name})" for name in fields)
    return Rule(f"self.all(x, {any_set})", f"every term needs at least one of {', '.join(fields)}")


def alone(name: str, *others: str, any_term: bool) -> Rule:
    """`name` excludes the other fields of a term.

    With `any_term` one invalid term is rejected; without it, only a list in which all terms are invalid, as in
    Karpenter's rules for subnets and security groups.
    """
    clash = f"has(x.{name}) && ({' || '.join(f'has(x.{other})' for other in others)})"
    rule = f"!self.exists(x, {clash})" if any_term else f"self.size() == 0 || !self.all(x, {clash})"
    return Rule(rule, f"{name} stands alone in a term: it already names one object")


class SubnetSelectorTerm(Wire, frozen=True):
    tags: SelectorTags = {}
    id: Annotated[str | None, about("The id of a subnet.", pattern=patterns.SUBNET_ID)] = None


class SecurityGroupSelectorTerm(Wire, frozen=True):
    tags: SelectorTags = {}
    id: Annotated[str | None, about("The id of a security group.", pattern=patterns.SECURITY_GROUP_ID)] = None
    name: Annotated[str | None, about("The name of a security group (its name, not its Name tag).")] = None


class CapacityReservationSelectorTerm(Wire, frozen=True, kw_only=True):
    id: Annotated[str | None, about("The id of a capacity reservation.", pattern=patterns.RESERVATION_ID)] = (
        None
    )
    owner_id: Annotated[
        str | None,
        about(
            "The account that owns the reservation. Unset: every reservation this account can see.",
            pattern=patterns.ACCOUNT,
        ),
    ] = field(default=None, name="ownerID")
    tags: SelectorTags = {}
    instance_match_criteria: Annotated[
        str | None,
        about(
            "Whether the reservation takes any matching instance or only those that target it.",
            enum=("open", "targeted"),
        ),
    ] = None


class AMISelectorTerm(Wire, frozen=True, kw_only=True):
    alias: Annotated[
        str | None,
        about(
            "A family and a version of an image that EKS publishes, e.g. al2023@latest.",
            max_length=30,
            rules=(
                Rule(
                    "self.matches('^[a-zA-Z0-9]+@.+$')",
                    "alias has the form family@version, e.g. al2023@latest",
                ),
                Rule(
                    f"self.split('@')[0] in {list(AMI_FAMILIES)}",
                    "the family of an alias is one of al2, al2023, bottlerocket, windows2019, windows2022, windows2025",
                ),
                Rule(
                    "!(self.split('@')[0] in ['windows2019', 'windows2022', 'windows2025']) || self.split('@')[1] == 'latest'",
                    "the version of a Windows alias is always latest",
                ),
            ),
        ),
    ] = None
    tags: SelectorTags = {}
    id: Annotated[str | None, about("The id of an image.", pattern=patterns.AMI_ID)] = None
    name: Annotated[str | None, about("The name of an image; * matches any part of it.")] = None
    owner: Annotated[str | None, about("The account that owns the image: an id, self, or amazon.")] = None
    ssm_parameter: Annotated[
        str | None, about("The name or ARN of an SSM parameter that holds an image id.")
    ] = None


class PlacementGroupSelector(Wire, frozen=True):
    name: Annotated[str | None, about("The name of a placement group.", min_length=1)] = None
    id: Annotated[str | None, about("The id of a placement group.", pattern=patterns.PLACEMENT_GROUP_ID)] = (
        None
    )


class CapacityReservationTarget(Wire, frozen=True):
    capacity_reservation_id: Annotated[
        str | None, about("The id of a capacity reservation.", pattern=patterns.RESERVATION_ID)
    ] = None
    capacity_reservation_resource_group_arn: Annotated[
        str | None,
        about(
            "The ARN of a resource group of capacity reservations.",
            pattern=patterns.RESOURCE_GROUP_ARN,
        ),
    ] = None


class CapacityReservationSpec(Wire, frozen=True):
    """Direct mode: the launch template has the reservation settings; Holdfast does not count or prefer slots."""

    capacity_reservation_preference: Annotated[
        str | None,
        about(
            "open: instances join a matching open reservation; none: they never do.", enum=("open", "none")
        ),
    ] = None
    capacity_reservation_target: Annotated[
        CapacityReservationTarget | None,
        about(
            "The reservation, or the group of reservations, that every instance is launched into.",
            rules=(
                Rule(
                    "has(self.capacityReservationId) != has(self.capacityReservationResourceGroupArn)",
                    "a target is either capacityReservationId or capacityReservationResourceGroupArn",
                ),
            ),
        ),
    ] = None
