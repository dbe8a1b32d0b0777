"""Workloads of apps/v1 and batch/v1, and v1 ReplicationController, with their pod templates and replica counts."""

from datetime import datetime
from typing import ClassVar

from holdfast.api.meta import LabelSelector, Object, ObjectMeta, Wire
from holdfast.api.pods import PodTemplateSpec
from holdfast.api.storage import PersistentVolumeClaimSpec


class DaemonSetSpec(Wire, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSetStatus(Wire, frozen=True, kw_only=True):
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0


class DaemonSet(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "DaemonSet"
    plural: ClassVar[str] = "daemonsets"

    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class ReplicatedSpec(Wire, frozen=True, kw_only=True):
    """The spec of Deployments and ReplicaSets. Without `replicas` it is 1."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicatedStatus(Wire, frozen=True, kw_only=True):
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    observed_generation: int = 0


class Deployment(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "Deployment"
    plural: ClassVar[str] = "deployments"

    spec: ReplicatedSpec = ReplicatedSpec()
    status: ReplicatedStatus = ReplicatedStatus()


class ReplicaSet(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ReplicaSet"
    plural: ClassVar[str] = "replicasets"

    spec: ReplicatedSpec = ReplicatedSpec()
    status: ReplicatedStatus = ReplicatedStatus()


class ReplicationControllerSpec(Wire, frozen=True):
    selector: dict[str, str] = {}


class ReplicationController(Object, frozen=True, kw_only=True):
    """Read only for its selector, for default spread constraints."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ReplicationController"
    plural: ClassVar[str] = "replicationcontrollers"

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class VolumeClaimTemplate(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class StatefulSetSpec(ReplicatedSpec, frozen=True, kw_only=True):
    volume_claim_templates: tuple[VolumeClaimTemplate, ...] = ()


class StatefulSet(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "StatefulSet"
    plural: ClassVar[str] = "statefulsets"

    spec: StatefulSetSpec = StatefulSetSpec()
    status: ReplicatedStatus = ReplicatedStatus()


class JobSpec(Wire, frozen=True, kw_only=True):
    active_deadline_seconds: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Wire, frozen=True, kw_only=True):
    start_time: datetime | None = None  # when the Job controller first saw it unsuspended
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Job(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "Job"
    plural: ClassVar[str] = "jobs"

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTimesSpec(Wire, frozen=True, kw_only=True):
    active_deadline_seconds: int | None = None
    suspend: bool = False


class JobTimesStatus(Wire, frozen=True, kw_only=True):
    start_time: datetime | None = None


class JobTimes(Object, frozen=True, kw_only=True):
    """A Job as it is watched: how long it may run, and whether it is suspended. Its template, the largest part, is left
    out."""

    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "Job"
    plural: ClassVar[str] = "jobs"

    spec: JobTimesSpec = JobTimesSpec()
    status: JobTimesStatus = JobTimesStatus()
