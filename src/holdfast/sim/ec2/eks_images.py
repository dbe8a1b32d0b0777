"""The EKS images for one version of Kubernetes, for EC2 and SSM.

Ids are derived from the parameter's path, so they are the same in every run.
"""

import hashlib
from typing import Final

from holdfast.sim.aws import ssm
from holdfast.sim.aws.ssm import AmiPath
from holdfast.sim.ec2.images import Image

CREATED_S: Final = 1_793_491_200
_DAY: Final = "20261101"
_BOTTLEROCKET: Final = "1.50.0"


def images(kubernetes: str) -> tuple[Image, ...]:
    """One image for each path that AWS publishes for a version such as "1.36"."""
    return tuple(
        Image(
            id=_id(path),
            name=_name(path),
            architecture=path.architecture,
            created_s=CREATED_S,
            platform="Windows" if path.family.startswith("Windows") else "Linux/UNIX",
            root_device="/dev/sda1" if path.family.startswith("Windows") else "/dev/xvda",
        )
        for path in ssm.ami_paths(kubernetes)
    )


def parameters(kubernetes: str) -> dict[str, str]:
    """The SSM parameters: the image id of each path."""
    return {path.path: _id(path) for path in ssm.ami_paths(kubernetes)}


def _id(path: AmiPath) -> str:
    return f"ami-{hashlib.blake2b(path.path.encode(), digest_size=16).hexdigest()[:17]}"


def _name(path: AmiPath) -> str:
    version = path.kubernetes
    match path.family:
        case "AL2023":
            return f"amazon-eks-node-al2023-{path.architecture}-{path.variant}-{version}-v{_DAY}"
        case "AL2":
            kind = {"gpu": "gpu-", "standard": "arm64-" if path.architecture == "arm64" else ""}[path.variant]
            return f"amazon-eks-{kind}node-{version}-v{_DAY}"
        case "Bottlerocket":
            variant = "" if path.variant == "standard" else f"-{path.variant}"
            return f"bottlerocket-aws-k8s-{version}{variant}-{path.architecture}-v{_BOTTLEROCKET}"
        case windows:
            year = windows.removeprefix("Windows")
            return f"Windows_Server-{year}-English-Core-EKS_Optimized-{version}-2026.11.01"
