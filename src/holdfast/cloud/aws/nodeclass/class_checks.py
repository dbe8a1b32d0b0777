"""Finds mistakes in an EC2NodeClass that the API server accepts although no instance could start with it.

Called by `resolve`, for the condition ValidationSucceeded. Pure. The reasons are Karpenter's (aws-1.5). Karpenter
decodes kubelet settings with the kubelet's whole type; this module checks only the settings that Karpenter and Holdfast
use. Others are passed to the node unchanged.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdfast import errors
from holdfast.api.ec2nodeclass import RESERVED_TAGS, EC2NodeClass
from holdfast.cloud.aws.catalog import families, node_shape

INVALID_KUBELET: Final = "InvalidKubeletConfiguration"
UNSUPPORTED_KUBELET: Final = "UnsupportedKubeletConfiguration"
UNKNOWN_FAMILY: Final = "UnknownAMIFamily"
INVALID_TAGS: Final = "TagValidationFailed"

# The settings that the user data of every family can set; AL2023 and Custom accept any.
MANAGED: Final = frozenset(
    {
        "clusterDNS",
        "cpuCFSQuota",
        "evictionHard",
        "evictionMaxPodGracePeriod",
        "evictionSoft",
        "evictionSoftGracePeriod",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "kubeReserved",
        "maxPods",
        "podsPerCore",
        "systemReserved",
    }
)
_ANY_SETTING: Final = ("AL2023", families.CUSTOM)
_SIGNALS: Final = frozenset(
    {
        "imagefs.available",
        "imagefs.inodesFree",
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "pid.available",
    }
)
_RESERVABLE: Final = frozenset({"cpu", "ephemeral-storage", "memory", "pid"})
_CLUSTER_TAG: Final = re.compile(r"kubernetes\.io/cluster/[0-9A-Za-z][A-Za-z0-9\-_]*")
_PERCENT: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)%")
_HUNDRED: Final = 100


class Problem(NamedTuple):
    reason: str
    message: str


def problem(node_class: EC2NodeClass) -> Problem | None:
    """The first problem, or None."""
    try:
        family = families.of(node_class).name
    except errors.InvalidInput as error:
        return Problem(UNKNOWN_FAMILY, str(error))
    kubelet = node_class.spec.kubelet or {}
    for message in _kubelet(kubelet):
        return Problem(INVALID_KUBELET, message)
    try:
        node_shape.of(node_class)
    except errors.InvalidInput as error:
        return Problem(INVALID_KUBELET, str(error))
    for message in _unsupported(kubelet, family):
        return Problem(UNSUPPORTED_KUBELET, message)
    for key in sorted(node_class.spec.tags):
        if key in RESERVED_TAGS or _CLUSTER_TAG.fullmatch(key):
            return Problem(INVALID_TAGS, f"the tag {key} is set by the autoscaler")
    return None


def _kubelet(kubelet: Mapping[str, Any]) -> Iterator[str]:
    if "registerWithTaints" in kubelet:
        yield "spec.kubelet.registerWithTaints is set by the autoscaler; taints belong to the NodePool"
    for setting in ("evictionHard", "evictionSoft", "evictionSoftGracePeriod"):
        yield from _names(kubelet, setting, _SIGNALS)
    for setting in ("kubeReserved", "systemReserved"):
        yield from _names(kubelet, setting, _RESERVABLE)
        for name, value in _mapping(kubelet, setting).items():
            if str(value).startswith("-"):
                yield f"spec.kubelet.{setting}.{name} is negative"
    for setting in ("evictionHard", "evictionSoft"):
        for signal, value in _mapping(kubelet, setting).items():
            percent = _PERCENT.fullmatch(str(value))
            if str(value).startswith("-") or (percent and float(percent[1]) > _HUNDRED):
                yield f"spec.kubelet.{setting}.{signal} {value!r} is neither an amount nor from 0% to 100%"
    soft, grace = (set(_mapping(kubelet, name)) for name in ("evictionSoft", "evictionSoftGracePeriod"))
    for signal in sorted(soft ^ grace):
        yield f"spec.kubelet: {signal} must be in evictionSoft and in evictionSoftGracePeriod, or in neither"
    yield from _image_collection(kubelet)
    for setting in ("podsPerCore", "evictionMaxPodGracePeriod", "maxPods"):
        value = kubelet.get(setting)
        if isinstance(value, int) and value < 0:
            yield f"spec.kubelet.{setting} is negative"


def _image_collection(kubelet: Mapping[str, Any]) -> Iterator[str]:
    high, low = kubelet.get("imageGCHighThresholdPercent"), kubelet.get("imageGCLowThresholdPercent")
    for name, value in (("imageGCHighThresholdPercent", high), ("imageGCLowThresholdPercent", low)):
        if value is not None and not (isinstance(value, int) and 0 <= value <= _HUNDRED):
            yield f"spec.kubelet.{name} {value!r} is not from 0 to 100"
    if isinstance(high, int) and isinstance(low, int) and high <= low:
        yield "spec.kubelet.imageGCHighThresholdPercent must be above imageGCLowThresholdPercent"


def _unsupported(kubelet: Mapping[str, Any], family: str) -> Iterator[str]:
    if family in _ANY_SETTING:
        return
    for key in sorted(kubelet.keys() - MANAGED):
        yield f"spec.kubelet.{key} cannot be given to {family}"
    if family == "Bottlerocket" and kubelet.get("podsPerCore") is not None:
        yield "spec.kubelet.podsPerCore cannot be given to Bottlerocket"
    dns = kubelet.get("clusterDNS")
    if isinstance(dns, Sequence) and not isinstance(dns, str) and len(dns) > 1:
        yield f"spec.kubelet.clusterDNS can have one address for {family}"


def _names(kubelet: Mapping[str, Any], setting: str, allowed: frozenset[str]) -> Iterator[str]:
    for name in _mapping(kubelet, setting):
        if name not in allowed:
            yield f"spec.kubelet.{setting} has no {name}; it has {', '.join(sorted(allowed))}"


def _mapping(kubelet: Mapping[str, Any], setting: str) -> Mapping[str, Any]:
    value = kubelet.get(setting)
    return value if isinstance(value, Mapping) else {}
