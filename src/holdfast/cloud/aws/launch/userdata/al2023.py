"""User data of Amazon Linux 2023: a NodeConfig for nodeadm.

It is written as JSON, which is valid YAML. nodeadm merges NodeConfigs in order, so Holdfast's comes last and has
priority.
"""

import json
import re
from typing import Any, Final

import msgspec

from holdfast import errors
from holdfast.cloud.aws.launch.userdata import mime
from holdfast.cloud.aws.launch.userdata.bootstrap import Bootstrap, kubelet_labels, node_labels_flag

_API_VERSION: Final = "node.eks.aws/v1alpha1"
_IS_NODE_CONFIG: Final = re.compile(r"^\s*[\"']?apiVersion[\"']?\s*:\s*[\"']?node\.eks\.aws/", re.MULTILINE)


def text(bootstrap: Bootstrap) -> str:
    """Raises NotReady while the cluster's service CIDR is unknown."""
    # json.dumps(indent=2) writes the same, but leaves 25 objects that only the garbage collector frees.
    config = msgspec.json.format(json.dumps(_node_config(bootstrap)), indent=2)
    return mime.text([*_own(bootstrap.custom or ""), mime.Part(mime.NODE_CONFIG, config)])


def _own(custom: str) -> tuple[mime.Part, ...]:
    if not custom.strip():
        return ()
    if mime.is_mime(custom):
        return mime.parts(custom)
    if _IS_NODE_CONFIG.search(custom):
        return (mime.Part(mime.NODE_CONFIG, custom),)
    return (mime.shell(custom),)


def _node_config(bootstrap: Bootstrap) -> dict[str, Any]:
    cluster = bootstrap.cluster
    if not cluster.service_cidr:
        raise errors.NotReady("the cluster's service address range is not known yet, and AL2023 needs it")
    spec: dict[str, Any] = {
        "cluster": {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.ca_bundle,
            "cidr": cluster.service_cidr,
        },
        "kubelet": {"config": _kubelet(bootstrap)},
    }
    if kubelet_labels(bootstrap.labels):
        spec["kubelet"]["flags"] = [node_labels_flag(bootstrap.labels)]
    if bootstrap.raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": _API_VERSION, "kind": "NodeConfig", "spec": spec}


def _kubelet(bootstrap: Bootstrap) -> dict[str, Any]:
    """The settings of the class, overridden by those of this node."""
    config = {key: bootstrap.kubelet[key] for key in sorted(bootstrap.kubelet)}
    config["maxPods"] = bootstrap.max_pods
    if not config.get("clusterDNS") and bootstrap.dns_ip:
        config["clusterDNS"] = [bootstrap.dns_ip]
    if bootstrap.taints:
        config["registerWithTaints"] = [
            {"key": t.key, "effect": str(t.effect), **({"value": t.value} if t.value else {})}
            for t in bootstrap.taints
        ]
    return config
