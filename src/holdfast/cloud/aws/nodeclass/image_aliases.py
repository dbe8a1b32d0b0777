"""The SSM parameters of an alias of an AMI family, and the requirements of their images.

Called by `images`. Pure. Names of parameters are those of EKS and Bottlerocket; variants and their requirements are
Karpenter's (aws-8.1).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from holdfast import errors, names
from holdfast.api import aws
from holdfast.api.ec2nodeclass.status import AMIRequirement
from holdfast.cloud.aws.catalog import families

LATEST: Final = "latest"
_AL2_ENDS: Final = (1, 33)  # the first Kubernetes version without AL2 images
_WINDOWS2025_STARTS: Final = (1, 35)

Requirements = tuple[AMIRequirement, ...]


def _absent(key: str) -> AMIRequirement:
    return AMIRequirement(key=key, operator="DoesNotExist")


def _present(key: str) -> AMIRequirement:
    return AMIRequirement(key=key, operator="Exists")


STANDARD: Final = (_absent(aws.INSTANCE_GPU_COUNT), _absent(aws.INSTANCE_ACCELERATOR_COUNT))
NVIDIA: Final = (_present(aws.INSTANCE_GPU_COUNT),)
NEURON: Final = (_present(aws.INSTANCE_ACCELERATOR_COUNT),)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter whose value is an image id, and the requirements of the instances that the image is for."""

    name: str
    variants: tuple[Requirements, ...]


def parameters(alias: str, kubernetes: str) -> tuple[Parameter, ...]:
    """The parameters of an alias such as al2023@latest. Raises InvalidInput if EKS has no such images for this
    version."""
    version = alias.partition("@")[2]
    family = families.of_alias(alias)
    _check(family, kubernetes)
    match family:
        case "AL2":
            return tuple(_al2(kubernetes, version))
        case "AL2023":
            return tuple(_al2023(kubernetes, version))
        case "Bottlerocket":
            return tuple(_bottlerocket(kubernetes, version))
        case _:
            return (_windows(family, kubernetes),)


def _check(family: str, kubernetes: str) -> None:
    major, _, minor = kubernetes.partition(".")
    number = int(major), int(minor)
    if family == "AL2" and number >= _AL2_ENDS:
        raise errors.InvalidInput(
            f"EKS publishes no AL2 images for Kubernetes {kubernetes}; select al2023 or bottlerocket"
        )
    if family == "Windows2025" and number < _WINDOWS2025_STARTS:
        raise errors.InvalidInput(
            f"EKS publishes no Windows 2025 images for Kubernetes {kubernetes}; select windows2022"
        )


def _al2(kubernetes: str, version: str) -> Iterator[Parameter]:
    for flavour, variants in (("", (STANDARD,)), ("-arm64", (STANDARD,)), ("-gpu", (NEURON, NVIDIA))):
        node = f"amazon-eks{flavour}-node-{kubernetes}-{version}"
        image = "recommended" if version == LATEST else node
        yield Parameter(
            f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2{flavour}/{image}/image_id", variants
        )


def _al2023(kubernetes: str, version: str) -> Iterator[Parameter]:
    for arch, flavour, variant in (
        ("x86_64", "standard", STANDARD),
        ("x86_64", "nvidia", NVIDIA),
        ("x86_64", "neuron", NEURON),
        ("arm64", "standard", STANDARD),
        ("arm64", "nvidia", NVIDIA),
    ):
        node = f"amazon-eks-node-al2023-{arch}-{flavour}-{kubernetes}-{version}"
        image = "recommended" if version == LATEST else node
        yield Parameter(
            f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}/{flavour}/{image}/image_id",
            (variant,),
        )


def _bottlerocket(kubernetes: str, version: str) -> Iterator[Parameter]:
    for flavour, arch, variants in (
        ("", "x86_64", (STANDARD, NEURON)),
        ("", "arm64", (STANDARD,)),
        ("-nvidia", "x86_64", (NVIDIA,)),
        ("-nvidia", "arm64", (NVIDIA,)),
    ):
        image = version.removeprefix("v")
        yield Parameter(
            f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{flavour}/{arch}/{image}/image_id", variants
        )


def _windows(family: str, kubernetes: str) -> Parameter:
    build = families.FAMILIES[family].windows_build
    assert build is not None
    year = family.removeprefix("Windows")
    return Parameter(
        f"/aws/service/ami-windows-latest/Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}/image_id",
        (
            (
                AMIRequirement(key=names.OS, operator="In", values=("windows",)),
                AMIRequirement(key=names.WINDOWS_BUILD, operator="In", values=(build,)),
            ),
        ),
    )
