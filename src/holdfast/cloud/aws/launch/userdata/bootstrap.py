"""The input of every family's user data, and the parts that several families share.

Labels in the domains of Kubernetes are not passed to the kubelet, because the API server would reject the node
(aws-8.2.2).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.model.taints import Taint

_FORBIDDEN_DOMAINS: Final = ("kubernetes.io", "k8s.io")
# Kubelet settings that are maps, in the order of the arguments.
_MAPS: Final = (
    ("systemReserved", "--system-reserved", "="),
    ("kubeReserved", "--kube-reserved", "="),
    ("evictionHard", "--eviction-hard", "<"),
    ("evictionSoft", "--eviction-soft", "<"),
    ("evictionSoftGracePeriod", "--eviction-soft-grace-period", "="),
)
_SCALARS: Final = (
    ("evictionMaxPodGracePeriod", "--eviction-max-pod-grace-period"),
    ("imageGCHighThresholdPercent", "--image-gc-high-threshold"),
    ("imageGCLowThresholdPercent", "--image-gc-low-threshold"),
    ("cpuCFSQuota", "--cpu-cfs-quota"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bootstrap:
    cluster: Cluster
    max_pods: int
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    kubelet: Mapping[str, Any] = field(default_factory=dict)  # the class's kubelet settings, unchanged
    custom: str | None = None  # the class's own user data
    raid0: bool = False  # combine local disks into one volume
    image_version: str = "latest"  # of the alias of the image

    @property
    def dns_ip(self) -> str | None:
        """The first DNS server of the class, else the cluster's."""
        named = self.kubelet.get("clusterDNS") or ()
        return str(named[0]) if named else self.cluster.dns_ip


def kubelet_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels that a kubelet may set on its own node, sorted."""
    return {key: labels[key] for key in sorted(labels) if not _is_forbidden(key)}


def node_labels_flag(labels: Mapping[str, str]) -> str:
    pairs = ",".join(f"{key}={value}" for key, value in kubelet_labels(labels).items())
    return f'--node-labels="{pairs}"'


def kubelet_arguments(bootstrap: Bootstrap) -> str:
    """The kubelet's arguments on AL2 and Windows."""
    kubelet = bootstrap.kubelet
    arguments = [node_labels_flag(bootstrap.labels)] if kubelet_labels(bootstrap.labels) else []
    if bootstrap.taints:
        taints = ",".join(f"{t.key}={t.value}:{t.effect}" for t in bootstrap.taints)
        arguments.append(f'--register-with-taints="{taints}"')
    arguments.append(f"--max-pods={bootstrap.max_pods}")
    if kubelet.get("podsPerCore"):
        arguments.append(f"--pods-per-core={kubelet['podsPerCore']}")
    for key, flag, sign in _MAPS:
        if kubelet.get(key):
            arguments.append(f'{flag}="{_pairs(kubelet[key].items(), sign)}"')
    arguments += [f"{flag}={_plain(kubelet[key])}" for key, flag in _SCALARS if kubelet.get(key) is not None]
    return " ".join(arguments)


def _pairs(items: Iterable[tuple[str, Any]], sign: str) -> str:
    return ",".join(f"{key}{sign}{value}" for key, value in sorted(items))


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_forbidden(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    return any(domain == name or domain.endswith(f".{name}") for name in _FORBIDDEN_DOMAINS)
