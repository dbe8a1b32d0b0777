"""Workload of Kueue, with the fields that tell how long its pods may run, which workload is first, and whether it has quota."""

from typing import ClassVar

from holdfast.api.conditions import LenientConditions
from holdfast.api.meta import Object, Wire


class WorkloadSpec(Wire, frozen=True, kw_only=True):
    maximum_execution_time_seconds: int | None = None
    priority: int | None = None


class WorkloadStatus(Wire, frozen=True, kw_only=True):
    conditions: LenientConditions = ()


class Workload(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "kueue.x-k8s.io/v1beta1"
    kind: ClassVar[str] = "Workload"
    plural: ClassVar[str] = "workloads"

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
