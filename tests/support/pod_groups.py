"""PodGroups of scheduling.k8s.io/v1alpha2 in the embedded API server, as a CRD, and pods that name them."""

from typing import Any, Final

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH: Final = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
_SCHEMA: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION: Final[dict[str, Any]] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podgroups.scheduling.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, in place of the built-in alpha API"},
    },
    "spec": {
        "group": "scheduling.k8s.io",
        "scope": "Namespaced",
        "names": {
            "plural": "podgroups",
            "singular": "podgroup",
            "kind": "PodGroup",
            "listKind": "PodGroupList",
        },
        "versions": [
            {
                "name": "v1alpha2",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "properties": {"spec": _SCHEMA, "status": _SCHEMA}}
                },
                "subresources": {"status": {}},
            }
        ],
    },
}


def document(name: str = "train", least: int = 3, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": least}}, **spec},
    }


def member(of: str = "train", **spec: Any) -> dict[str, Any]:
    """Fields of the spec of a pod that names a PodGroup."""
    return {"schedulingGroup": {"podGroupName": of}, **spec}
