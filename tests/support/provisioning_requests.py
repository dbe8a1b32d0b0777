"""ProvisioningRequests in the embedded API server, with the templates of their pods."""

from typing import Any, Final

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEMPLATES: Final = "/api/v1/namespaces/default/podtemplates"
PATH: Final = "/apis/autoscaling.x-k8s.io/v1/namespaces/default/provisioningrequests"
OWN: Final = "atomic.holdfast.dev"
CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"


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
