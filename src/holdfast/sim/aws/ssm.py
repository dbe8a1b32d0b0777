"""The simulated SSM parameter store, with the parameters of the EKS images.

The simulated EC2 can create its images from `ami_paths`, so that both have the same ones. Only paths that AWS publishes
exist: AL2 ended with Kubernetes 1.32, Windows 2025 starts with 1.35.
"""

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast import ports
from holdfast.sim.aws.errors import ApiError, NoSuchOperation
from holdfast.sim.aws.service import Caller

_NAMES_MAX: Final = 10
_AL2_LAST: Final = (1, 32)
_WINDOWS_2025_FIRST: Final = (1, 35)


@dataclass(frozen=True, slots=True)
class AmiPath:
    """One parameter whose value is an image id."""

    path: str
    family: str  # as in an EC2NodeClass
    architecture: str  # x86_64 or arm64
    variant: str  # standard, nvidia, neuron or gpu
    kubernetes: str


def ami_paths(kubernetes: str) -> Iterator[AmiPath]:
    """The newest image of every family for a version of Kubernetes such as "1.36"."""
    major, _, minor = kubernetes.partition(".")
    version = (int(major), int(minor))
    eks = f"/aws/service/eks/optimized-ami/{kubernetes}"
    for architecture, variants in _AL2023.items():
        for variant in variants:
            path = f"{eks}/amazon-linux-2023/{architecture}/{variant}/recommended/image_id"
            yield AmiPath(path, "AL2023", architecture, variant, kubernetes)
    if version <= _AL2_LAST:
        for suffix, architecture, variant in _AL2:
            path = f"{eks}/amazon-linux-2{suffix}/recommended/image_id"
            yield AmiPath(path, "AL2", architecture, variant, kubernetes)
    for architecture in ("x86_64", "arm64"):
        for suffix, variant in (("", "standard"), ("-nvidia", "nvidia")):
            path = f"/aws/service/bottlerocket/aws-k8s-{kubernetes}{suffix}/{architecture}/latest/image_id"
            yield AmiPath(path, "Bottlerocket", architecture, variant, kubernetes)
    for year in ("2019", "2022", "2025") if version >= _WINDOWS_2025_FIRST else ("2019", "2022"):
        name = f"Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}"
        path = f"/aws/service/ami-windows-latest/{name}/image_id"
        yield AmiPath(path, f"Windows{year}", "x86_64", "standard", kubernetes)


class Ssm:
    """Parameters by name. The mapping is read at each call, because its owner may change it."""

    def __init__(self, parameters: Mapping[str, str], clock: ports.Clock) -> None:
        self._parameters = parameters
        self._changed_s = clock.now_s()

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:  # noqa: ARG002
        match operation:
            case "GetParameter":
                return {"Parameter": self._parameter(params["Name"])}
            case "GetParameters":
                return self._get_parameters(params["Names"])
            case _:
                raise NoSuchOperation(operation)

    def _get_parameters(self, names: list[str]) -> dict[str, Any]:
        if len(names) > _NAMES_MAX:
            raise ApiError(
                "ValidationException", f"Member must have length less than or equal to {_NAMES_MAX}"
            )
        return {
            "Parameters": [self._parameter(name) for name in names if name in self._parameters],
            "InvalidParameters": [name for name in names if name not in self._parameters],
        }

    def _parameter(self, name: str) -> dict[str, Any]:
        if name not in self._parameters:
            raise ApiError("ParameterNotFound", f"Parameter {name} not found.")
        return {
            "Name": name,
            "Type": "String",
            "Value": self._parameters[name],
            "Version": 1,
            "LastModifiedDate": dt.datetime.fromtimestamp(self._changed_s, dt.UTC),
            "ARN": f"arn:aws:ssm:::parameter{name}",
            "DataType": "aws:ec2:image" if name.endswith("/image_id") else "text",
        }


_AL2023: Final = {"x86_64": ("standard", "nvidia", "neuron"), "arm64": ("standard", "nvidia")}
_AL2: Final = (("", "x86_64", "standard"), ("-arm64", "arm64", "standard"), ("-gpu", "x86_64", "gpu"))
