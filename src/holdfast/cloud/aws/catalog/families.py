"""AMI families, as far as the size of a node depends on them.

Numbers and switches are Karpenter's. The user data of a family is not part of this module.
"""

from dataclasses import dataclass
from typing import Final

from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.ec2nodeclass.selectors import AMI_FAMILIES

_GIB: Final = 2**30
CUSTOM: Final = "Custom"
DEFAULT: Final = "AL2023"  # where nothing names a family


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    data_device: str | None  # the device whose volume pods write to; None: unknown
    data_volume_bytes: int = 20 * _GIB  # of that device, unless the class says otherwise
    eni_limited_pods: bool = True  # as many pods as addresses, rather than 110
    pods_per_core: bool = True  # the kubelet's podsPerCore reaches the node
    eni_limited_overhead: bool = True  # memory is reserved for as many pods as addresses, however few may run
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
    """The family of a class: the one it names, else that of its alias. InvalidInput where there is no such family."""
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
    """The family whose images an alias such as al2023@latest names."""
    word = alias.partition("@")[0]
    if word not in AMI_FAMILIES:
        raise errors.InvalidInput(f"alias {alias!r} names no family; known are {', '.join(AMI_FAMILIES)}")
    return AMI_FAMILIES[word]
