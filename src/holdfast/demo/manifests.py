"""Manifests that the stories share: the EC2NodeClass, NodePools and Deployments."""

from collections.abc import Mapping
from typing import Any, Final

from holdfast.api import conditions
from holdfast.api.nodepool import NodePool
from holdfast.sim.ec2 import setup

TAG: Final = {"team": "demo"}  # of the reservations that the EC2NodeClass selects
NAMESPACE: Final = "default"
GPU: Final = "nvidia.com/gpu"
_DISCOVERY: Final = [{"tags": {"karpenter.sh/discovery": setup.CLUSTER}}]


def node_class() -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": f"KarpenterNodeRole-{setup.CLUSTER}",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": _DISCOVERY,
            "securityGroupSelectorTerms": _DISCOVERY,
            "capacityReservationSelectorTerms": [{"tags": TAG}],
        },
    }


def node_pool(
    name: str, allowed: Mapping[str, list[str]], disruption: Mapping[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    requirements = [{"key": key, "operator": "In", "values": values} for key, values in allowed.items()]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements, **spec}},
            "disruption": {"consolidateAfter": "30s", "budgets": [{"nodes": "50%"}], **(disruption or {})},
        },
    }


def deployment(name: str, replicas: int, resources: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "main", "image": f"example/{name}:1", "resources": resources}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}},
        },
    }


def is_ready(pool: NodePool) -> bool:
    ready = conditions.find(pool.status.conditions, conditions.READY)
    return ready is not None and ready.status == "True"
