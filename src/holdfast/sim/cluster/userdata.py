"""Parses the user data of each AMI family to the configuration of a kubelet.

It reads only the values that the image would read: a label that is not in the user data is not on the node. User data
that starts no kubelet, or that the real programs reject, raises `NotANode`. It is stricter than some images: the
endpoint and the CA bundle of the API server are required for every family.
"""

import base64
import email
import itertools
import re
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast import names
from holdfast.api import documents

_NODE_CONFIG: Final = "application/node.eks.aws"
_IS_NODE_CONFIG: Final = re.compile(r"apiVersion[\"']?\s*:\s*[\"']?node\.eks\.aws/")
_AL2: Final = "/etc/eks/bootstrap.sh"
_WINDOWS: Final = re.compile(r"-KubeletExtraArgs\s+'((?:[^']|'')*)'")
_WINDOWS_CLUSTER: Final = re.compile(r"-EKSClusterName\s+'?((?:[^'\s]|'')*)")
_WINDOWS_ENDPOINT: Final = re.compile(r"-APIServerEndpoint\s+'?((?:[^'\s]|'')*)")
_WINDOWS_CA: Final = re.compile(r"-Base64ClusterCA\s+'?([A-Za-z0-9+/=]*)")
_TAINT: Final = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^:]*))?:(?P<effect>\w+)")
_OWN_DOMAINS: Final = ("kubernetes.io", "k8s.io")
# The labels in these domains that a kubelet may set on its own node; it does not start with any other.
_OWN_LABELS: Final = frozenset(
    {names.HOSTNAME, names.ARCH, names.OS, names.INSTANCE_TYPE, names.ZONE, names.REGION}
)
_OWN_PREFIXES: Final = ("kubelet.kubernetes.io", "node.kubernetes.io")


class NotANode(Exception):
    """The instance will not register a Node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapConfig:
    """The configuration of the kubelet."""

    cluster: str
    endpoint: str = ""
    ca_bundle: str = ""  # base64
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[dict[str, str], ...] = ()
    max_pods: int | None = None
    kube_reserved: Mapping[str, str] = field(default_factory=dict)
    system_reserved: Mapping[str, str] = field(default_factory=dict)
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    raid0: bool = False  # local disks replace the volume for ephemeral storage


def read(encoded: str) -> BootstrapConfig:
    """Parses user data in base64; raises NotANode if it starts no kubelet."""
    text = base64.b64decode(encoded).decode(errors="replace")
    bootstrap = _read(text)
    for key in bootstrap.labels:
        if _is_refused(key):
            raise NotANode(f"the kubelet does not start with the label {key}")
    if not bootstrap.endpoint:
        raise NotANode("the user data does not name the endpoint of the API server")
    if not bootstrap.ca_bundle:
        raise NotANode("the user data has no CA bundle")
    return bootstrap


def _read(text: str) -> BootstrapConfig:
    if "<powershell>" in text:
        return _windows(text)
    parts = list(_parts(text))
    configs = [body for kind, body in parts if kind == _NODE_CONFIG]
    if configs:
        return _al2023(configs)
    for _, body in parts:
        if _AL2 in body:
            return _al2(body)
    return _bottlerocket(text)


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Content type and body of each part; one part if it is not multipart."""
    if text.lstrip().lower().startswith(("mime-version:", "content-type:")):
        # The default policy makes a class for each header, which only the garbage collector frees.
        message = email.message_from_string(text.lstrip())
        for part in message.walk():
            if not part.is_multipart():
                yield part.get_content_type(), str(part.get_payload(decode=False))
    else:
        yield (_NODE_CONFIG if _IS_NODE_CONFIG.search(text) else "text/x-shellscript"), text


# --- Amazon Linux 2023 ------------------------------------------------------------------------------


def _al2023(configs: Iterable[str]) -> BootstrapConfig:
    """nodeadm merges the NodeConfigs in order."""
    whole: dict[str, Any] = {}
    for text in configs:
        for document in documents.read(text.encode()):
            if isinstance(document, documents.Broken) or not isinstance(document.value, dict):
                raise NotANode("a NodeConfig cannot be read")
            whole = _merged(whole, document.value)
    spec = whole.get("spec") or {}
    kubelet = spec.get("kubelet") or {}
    config, flags = kubelet.get("config") or {}, _flags(shlex.split(" ".join(kubelet.get("flags") or ())))
    taints = tuple(
        _taint(t["key"], t.get("value", ""), t["effect"]) for t in config.get("registerWithTaints") or ()
    )
    cluster = spec.get("cluster") or {}
    return BootstrapConfig(
        cluster=cluster.get("name", ""),
        endpoint=cluster.get("apiServerEndpoint", ""),
        ca_bundle=cluster.get("certificateAuthority", ""),
        labels=_pairs(flags.get("node-labels", "")),
        taints=taints or _taints(flags.get("register-with-taints", "")),
        max_pods=config.get("maxPods"),
        kube_reserved=config.get("kubeReserved") or {},
        system_reserved=config.get("systemReserved") or {},
        eviction_hard=config.get("evictionHard") or {},
        raid0=((spec.get("instance") or {}).get("localStorage") or {}).get("strategy") == "RAID0",
    )


def _merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    found = dict(under)
    for key, value in over.items():
        below = found.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        found[key] = _merged(below, value) if both else value  # type: ignore[arg-type]
    return found


# --- Amazon Linux 2 and Windows: arguments of a script ----------------------------------------------


def _al2(script: str) -> BootstrapConfig:
    joined = script.replace("\\\n", " ")
    line = next(line for line in joined.splitlines() if _AL2 in line and not line.lstrip().startswith("#"))
    words = shlex.split(line)
    given = dict(itertools.pairwise(words))
    positional = words[words.index(_AL2) + 1 :][:1]
    return _from_arguments(
        cluster="".join(positional),
        endpoint=given.get("--apiserver-endpoint", ""),
        ca_bundle=given.get("--b64-cluster-ca", ""),
        arguments=given.get("--kubelet-extra-args", ""),
        raid0=given.get("--local-disks") == "raid0",
    )


def _windows(script: str) -> BootstrapConfig:
    found = _WINDOWS.search(script)
    cluster = _WINDOWS_CLUSTER.search(script)
    if found is None or cluster is None:
        raise NotANode("the script does not call Start-EKSBootstrap.ps1")
    endpoint, ca_bundle = _WINDOWS_ENDPOINT.search(script), _WINDOWS_CA.search(script)
    return _from_arguments(
        cluster=cluster[1].replace("''", "'"),
        endpoint=endpoint[1].replace("''", "'") if endpoint else "",
        ca_bundle=ca_bundle[1] if ca_bundle else "",
        arguments=found[1].replace("''", "'"),
    )


def _from_arguments(
    *, cluster: str, endpoint: str, ca_bundle: str, arguments: str, raid0: bool = False
) -> BootstrapConfig:
    flags = _flags(shlex.split(arguments))
    most = flags.get("max-pods")
    return BootstrapConfig(
        cluster=cluster,
        endpoint=endpoint,
        ca_bundle=ca_bundle,
        labels=_pairs(flags.get("node-labels", "")),
        taints=_taints(flags.get("register-with-taints", "")),
        max_pods=int(most) if most else None,
        kube_reserved=_pairs(flags.get("kube-reserved", "")),
        system_reserved=_pairs(flags.get("system-reserved", "")),
        eviction_hard=_pairs(flags.get("eviction-hard", ""), "<"),
        raid0=raid0,
    )


def _flags(words: Iterable[str]) -> dict[str, str]:
    """Arguments of the form --name=value, or --name value."""
    found: dict[str, str] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].partition("=")
            found[name] = value
        elif name and not found[name]:
            found[name] = word
    return found


def _pairs(text: str, sign: str = "=") -> dict[str, str]:
    return {key: value for key, _, value in (pair.partition(sign) for pair in text.split(",") if pair)}


def _taints(text: str) -> tuple[dict[str, str], ...]:
    found = []
    for part in filter(None, text.split(",")):
        match = _TAINT.fullmatch(part)
        if match is None:
            raise NotANode(f"the kubelet does not start with the taint {part}")
        found.append(_taint(match["key"], match["value"] or "", match["effect"]))
    return tuple(found)


def _taint(key: str, value: str, effect: str) -> dict[str, str]:
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


# --- Bottlerocket -----------------------------------------------------------------------------------


def _bottlerocket(text: str) -> BootstrapConfig:
    try:
        settings = tomllib.loads(text).get("settings", {})
    except tomllib.TOMLDecodeError as error:
        raise NotANode("the user data is of no family that is known") from error
    kubernetes = settings.get("kubernetes")
    if kubernetes is None:
        raise NotANode("the settings do not name a cluster")
    most = kubernetes.get("max-pods")
    return BootstrapConfig(
        cluster=kubernetes.get("cluster-name", ""),
        endpoint=kubernetes.get("api-server", ""),
        ca_bundle=kubernetes.get("cluster-certificate", ""),
        labels=kubernetes.get("node-labels") or {},
        taints=tuple(_bottlerocket_taints(kubernetes.get("node-taints") or {})),
        max_pods=int(most) if most is not None else None,
        kube_reserved=kubernetes.get("kube-reserved") or {},
        system_reserved=kubernetes.get("system-reserved") or {},
        eviction_hard=kubernetes.get("eviction-hard") or {},
        raid0="bootstrap-commands" in settings and "ephemeral-storage" in str(settings["bootstrap-commands"]),
    )


def _bottlerocket_taints(given: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    for key, values in given.items():
        for each in values if isinstance(values, list) else [values]:
            value, _, effect = each.rpartition(":")
            yield _taint(key, value, effect)


def _is_refused(key: str) -> bool:
    domain = key.partition("/")[0] if "/" in key else ""
    of_kubernetes = any(domain == own or domain.endswith(f".{own}") for own in _OWN_DOMAINS)
    allowed = key in _OWN_LABELS or any(domain == p or domain.endswith(f".{p}") for p in _OWN_PREFIXES)
    return of_kubernetes and not allowed
