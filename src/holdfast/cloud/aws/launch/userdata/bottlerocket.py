"""User data of Bottlerocket: settings in TOML. Holdfast's settings override those of the class."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any, Final

from holdfast import errors
from holdfast.cloud.aws.launch.userdata import toml
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap, kubelet_labels

_MAPS: Final = (
    ("systemReserved", "system-reserved"),
    ("kubeReserved", "kube-reserved"),
    ("evictionHard", "eviction-hard"),
    ("evictionSoft", "eviction-soft"),
    ("evictionSoftGracePeriod", "eviction-soft-grace-period"),
)
_SCALARS: Final = (
    ("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period", int),
    ("imageGCHighThresholdPercent", "image-gc-high-threshold-percent", str),
    ("imageGCLowThresholdPercent", "image-gc-low-threshold-percent", str),
    ("cpuCFSQuota", "cpu-cfs-quota-enforced", bool),
)
_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)")
_BINDS_ALONE: Final = (1, 46)  # from this version on, `bind` needs no directories
_DIRECTORIES: Final = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")


def text(bootstrap: Bootstrap) -> str:
    """Raises InvalidInput if the class's own user data is not TOML."""
    try:
        own = tomllib.loads(bootstrap.custom or "")
    except tomllib.TOMLDecodeError as error:
        raise errors.InvalidInput(f"spec.userData is not TOML, as Bottlerocket needs: {error}") from error
    return toml.text(_merged(own, {"settings": _settings(bootstrap)}))


def _settings(bootstrap: Bootstrap) -> dict[str, Any]:
    settings: dict[str, Any] = {"kubernetes": _kubernetes(bootstrap)}
    if bootstrap.raid0:
        settings["bootstrap-commands"] = {"000-mount-instance-storage": _mount(bootstrap.image_version)}
    return settings


def _kubernetes(bootstrap: Bootstrap) -> dict[str, Any]:
    cluster, kubelet = bootstrap.cluster, bootstrap.kubelet
    found: dict[str, Any] = {
        "cluster-name": cluster.name,
        "api-server": cluster.endpoint,
        "max-pods": bootstrap.max_pods,
    }
    if cluster.ca_bundle:
        found["cluster-certificate"] = cluster.ca_bundle
    if bootstrap.dns_ip:
        found["cluster-dns-ip"] = bootstrap.dns_ip
    labels = kubelet_labels(bootstrap.labels)
    if labels:
        found["node-labels"] = labels
    taints: dict[str, list[str]] = {}
    for taint in bootstrap.taints:
        taints.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    if taints:
        found["node-taints"] = taints
    for key, name in _MAPS:
        if kubelet.get(key):
            found[name] = {signal: str(value) for signal, value in sorted(kubelet[key].items())}
    for key, name, kind in _SCALARS:
        if kubelet.get(key) is not None:
            found[name] = kind(kubelet[key])
    return found


def _mount(version: str) -> dict[str, Any]:
    parsed = _VERSION.match(version)
    alone = parsed is None or (int(parsed[1]), int(parsed[2])) >= _BINDS_ALONE
    bind = ["apiclient", "ephemeral-storage", "bind"]
    return {
        "commands": [
            ["apiclient", "ephemeral-storage", "init"],
            bind if alone else [*bind, "--dirs", *_DIRECTORIES],
        ],
        "mode": "always",
        "essential": True,
    }


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            found[key] = _merged(below, value)
        else:
            found[key] = value
    return found
