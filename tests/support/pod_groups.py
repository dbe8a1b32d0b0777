"""PodGroups of scheduling.k8s.io/v1alpha2 in the embedded API server, and pods that name them."""

from typing import Any, Final

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH: Final = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"


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
