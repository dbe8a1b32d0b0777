"""A study as a Kubernetes Job: one index for each variant and seed, results on a shared volume.

`holdfast simulate --emit-job` prints it. The files of the study are in a ConfigMap, so they must be small; recordings are
expected on the volume.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]

CONFIG_MAX_BYTES: Final = 900_000  # a ConfigMap may have 1 MiB
_FILES: Final = "/study"
_RESULTS: Final = "/results"


def manifests(
    name: str,
    files: Mapping[str, str],
    words: Sequence[str],
    *,
    count: int,
    image: str,
    volume_claim: str,
    namespace: str,
) -> list[Json]:
    """The ConfigMap with the files by name, and the Job. `words` are the arguments of `holdfast simulate`, with the names of
    the files as their paths."""
    meta = {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/name": "holdfast-simulate"}}
    container = {
        "name": "simulate",
        "image": image,
        "args": [
            "simulate",
            *words,
            "--output",
            _RESULTS,
            "--processes",
            "1",
            "--index",
            "$(JOB_COMPLETION_INDEX)",
        ],
        "workingDir": _FILES,
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "4Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "study", "mountPath": _FILES, "readOnly": True},
            {"name": "results", "mountPath": _RESULTS},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - a folder of the container
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "fsGroup": 65532,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [
            {"name": "study", "configMap": {"name": name}},
            {"name": "results", "persistentVolumeClaim": {"claimName": volume_claim}},
            {"name": "tmp", "emptyDir": {}},
        ],
    }
    spec = {
        "completionMode": "Indexed",
        "completions": count,
        "parallelism": count,
        "backoffLimitPerIndex": 2,
        "maxFailedIndexes": count,
        "template": {"metadata": {"labels": meta["labels"]}, "spec": pod},
    }
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(files)},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec},
    ]
