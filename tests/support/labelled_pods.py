"""Labels and annotations that the controllers of JobSet and LeaderWorkerSet write on pods (GR-1, GR-3)."""

from typing import Any

JOB_SET = "jobset.sigs.k8s.io/"
GROUPS = "leaderworkerset.sigs.k8s.io/"

Labels = dict[str, str]


def job_set(job: str = "workers-0", *, name: str = "train", uid: str = "", jobs: str = "1") -> Labels:
    """Labels of the pods of one Job of a JobSet. `jobs`: how many Jobs the JobSet has."""
    return {
        f"{JOB_SET}jobset-name": name,
        f"{JOB_SET}jobset-uid": uid or f"uid-{name}",
        f"{JOB_SET}job-key": f"key-{job}",
        f"{JOB_SET}global-replicas": jobs,
    }


def group(
    index: int = 0, *, name: str = "serve", key: str = "", size: str = "4"
) -> tuple[Labels, dict[str, str]]:
    """Labels and annotations of the pods of one group of a LeaderWorkerSet."""
    labels = {
        f"{GROUPS}name": name,
        f"{GROUPS}group-index": str(index),
        f"{GROUPS}group-key": key or f"key-{name}-{index}",
    }
    return labels, {f"{GROUPS}size": size}


def of_group(index: int = 0, *, name: str = "serve", key: str = "", size: str = "4") -> dict[str, Any]:
    """The same as arguments of a workload."""
    labels, annotations = group(index, name=name, key=key, size=size)
    return {"labels": labels, "annotations": annotations}
