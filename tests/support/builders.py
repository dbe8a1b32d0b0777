"""Builders of valid NodePools and EC2NodeClasses: a test sets only the fields that it checks."""

from typing import Any

from holdfast.api import kinds
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodepool import NodePool


def nodepool_document(name: str = "default", **template: Any) -> dict[str, Any]:
    """A NodePool as a document; `template` overrides fields of the template's spec, `labels` are labels of the template."""
    labels = template.pop("labels", {})
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": labels},
                "spec": {"nodeClassRef": reference, "requirements": []} | template,
            }
        },
    }


def nodepool(name: str = "default", **template: Any) -> NodePool:
    pool = kinds.from_plain(nodepool_document(name, **template), NodePool)
    assert isinstance(pool, NodePool)
    return pool


def ec2nodeclass_document(name: str = "default", **spec: Any) -> dict[str, Any]:
    """An EC2NodeClass as a document; `spec` overrides fields of its spec, and may contain `status`."""
    status = spec.pop("status", {})
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "role": "KarpenterNodeRole-test",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "test"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "test"}}],
        }
        | spec,
        "status": status,
    }


def ec2nodeclass(name: str = "default", **spec: Any) -> EC2NodeClass:
    node_class = kinds.from_plain(ec2nodeclass_document(name, **spec), EC2NodeClass)
    assert isinstance(node_class, EC2NodeClass)
    return node_class


def requirement(key: str, operator: str, *values: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values), **more}
