"""The properties of AMI families that the size of a node depends on.

The values are Karpenter's. `launch.userdata` has the user data of each family.
"""

from dataclasses import dataclass
from typing import Final

from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.selectors import AMI_FAMILIES

_GIB: Final = 2**30
CUSTOM: Final = "Custom"
DEFAULT: Final = "AL2023"  # for a node without a class


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    data_device: str | None  # the device whose volume pods write to; None: unknown
    data_volume_bytes: int = 20 * _GIB  # its size, unless the class sets one
    eni_limited_pods: bool = True  # as many pods as addresses, not 110
    pods_per_core: bool = True  # the kubelet of the family gets podsPerCore
    eni_limited_overhead: bool = True  # memory is reserved for one pod per address, even if maxPods is lower
    windows_build: str | None = None


FAMILIES: Final = {
    family.name: family
    for family in (
        Family("AL2", "/dev/xvda"),
        Family("AL2023", "/dev/xvda"),
        Family("Bottlerocket", "/dev/xvdb", pods_per_core=False, eni_limited_overhead=False),
        *(
            Family(
                name,
                "/dev/sda1",
                50 * _GIB,
                eni_limited_pods=False,
                eni_limited_overhead=False,
                windows_build=build,
            )
            for name, build in (
                ("Windows2019", "10.0.17763"),
                ("Windows2022", "10.0.20348"),
                ("Windows2025", "10.0.26100"),
            )
        ),
        Family(CUSTOM, None),
    )
}


def of(node_class: EC2NodeClass | None) -> Family:
    """The family of a class: its amiFamily, else that of its alias, else Custom. Raises InvalidInput for an unknown
    family."""
    if node_class is None:
        return FAMILIES[DEFAULT]
    named = node_class.spec.ami_family
    if named and named not in FAMILIES:
        raise errors.InvalidInput(f"amiFamily {named!r} is unknown; known are {', '.join(FAMILIES)}")
    if named:
        return FAMILIES[named]
    aliases = (term.alias for term in node_class.spec.ami_selector_terms if term.alias)
    return next((FAMILIES[of_alias(alias)] for alias in aliases), FAMILIES[CUSTOM])


def of_alias(alias: str) -> str:
    """The family of an alias such as al2023@latest."""
    word = alias.partition("@")[0]
    if word not in AMI_FAMILIES:
        raise errors.InvalidInput(f"alias {alias!r} names no family; known are {', '.join(AMI_FAMILIES)}")
    return AMI_FAMILIES[word]
