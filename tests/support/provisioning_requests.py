"""ProvisioningRequests in the embedded API server, as a CRD, with the templates of their pods."""

from typing import Any, Final

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEMPLATES: Final = "/api/v1/namespaces/default/podtemplates"
PATH: Final = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
OWN: Final = "atomic.holdfast.dev"
CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
_SCHEMA: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
WORKLOADS_PATH: Final = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads"


def _definition(group: str, version: str, kind: str) -> dict[str, Any]:
    """A CRD without a schema, with a status subresource."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": _SCHEMA, "status": _SCHEMA}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


DEFINITION: Final = _definition("autoscaling.x-k8s.io", "v1", "ProvisioningRequest")
WORKLOADS: Final = _definition("kueue.x-k8s.io", "v1beta1", "Workload")


def template(name: str = "train", cpu: str = "1500m", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": name},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **spec}},
    }


def document(
    name: str = "train", count: int = 3, class_name: str = OWN, templates: Any = None, **parameters: str
) -> dict[str, Any]:
    """A request of pods of one template, or of several with their counts."""
    sets = templates or {name: count}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name},
        "spec": {
            "provisioningClassName": class_name,
            "parameters": parameters,
            "podSets": [{"podTemplateRef": {"name": one}, "count": number} for one, number in sets.items()],
        },
    }


def conditions(request: Any) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition."""
    return {one.type: (one.status, one.reason) for one in request.status.conditions}


def workload(name: str = "job-train", *, priority: int | None = None) -> dict[str, Any]:
    """A Workload of Kueue. Its status is set by `quota`."""
    spec = {} if priority is None else {"priority": priority}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podSets": [], **spec},
    }


def quota(*, has_quota: bool) -> dict[str, Any]:
    """The status of a Workload after Kueue reserved its quota, or took it back."""
    condition = {
        "type": "QuotaReserved",
        "status": "True" if has_quota else "False",
        "reason": "QuotaReserved" if has_quota else "Pending",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"conditions": [condition]}
