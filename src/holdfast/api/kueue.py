"""Workload of Kueue, with the fields that tell how long its pods may run and which workload is first."""

from typing import ClassVar

from holdfast.api.meta import Object, Wire


class WorkloadSpec(Wire, frozen=True, kw_only=True):
    maximum_execution_time_seconds: int | None = None
    priority: int | None = None


class Workload(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "kueue.x-k8s.io/v1beta1"
    kind: ClassVar[str] = "Workload"
    plural: ClassVar[str] = "workloads"

    spec: WorkloadSpec = WorkloadSpec()
