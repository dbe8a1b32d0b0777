"""Workloads of Kueue in the embedded API server, as a CRD. Tests create them in place of Kueue."""

from typing import Any, Final

from holdfast.sim import optional_crds

CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PATH: Final = "/apis/kueue.x-k8s.io/v1beta1/namespaces/default/workloads"
DEFINITION: Final = optional_crds.definition("Workload", "kueue.x-k8s.io", "v1beta1")


def document(job_uid: str = "", name: str = "job-train", **spec: Any) -> dict[str, Any]:
    """The Workload of the Job `train`, or of no Job."""
    owners = [owner("batch/v1", "Job", "train", job_uid)] if job_uid else []
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": spec,
    }


def owner(api_version: str, kind: str, name: str, uid: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": True}


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
