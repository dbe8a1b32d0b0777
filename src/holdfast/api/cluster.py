"""Other kinds that Holdfast reads or writes: Namespace, PriorityClass, PodDisruptionBudget, Lease, Event, Service."""

from datetime import datetime
from typing import ClassVar

import msgspec

from holdfast.api.meta import IntOrString, LabelSelector, Object, Wire
from holdfast.api.pods import ObjectReference


class Namespace(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"
    plural: ClassVar[str] = "namespaces"
    namespaced: ClassVar[bool] = False


class ServiceSpec(Wire, frozen=True):
    selector: dict[str, str] = {}
    cluster_ip: str = msgspec.field(default="", name="clusterIP")


class Service(Object, frozen=True, kw_only=True):
    """Read for its selector, which default spread constraints use, and for the address of the cluster's DNS."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Service"
    plural: ClassVar[str] = "services"

    spec: ServiceSpec = ServiceSpec()


class PriorityClass(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"
    plural: ClassVar[str] = "priorityclasses"
    namespaced: ClassVar[bool] = False

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(Wire, frozen=True, kw_only=True):
    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Wire, frozen=True, kw_only=True):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"
    plural: ClassVar[str] = "poddisruptionbudgets"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class Preconditions(Wire, frozen=True, kw_only=True):
    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(Wire, frozen=True, kw_only=True):
    grace_period_seconds: int | None = None
    preconditions: Preconditions | None = None
    propagation_policy: str | None = None


class Eviction(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "Eviction"
    plural: ClassVar[str] = "evictions"

    delete_options: DeleteOptions | None = None


class LeaseSpec(Wire, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "coordination.k8s.io/v1"
    kind: ClassVar[str] = "Lease"
    plural: ClassVar[str] = "leases"

    spec: LeaseSpec = LeaseSpec()


class EventSource(Wire, frozen=True):
    component: str = ""
    host: str = ""


class Event(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Event"
    plural: ClassVar[str] = "events"

    involved_object: ObjectReference
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    source: EventSource = EventSource()
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    action: str = ""
    reporting_component: str = ""
    reporting_instance: str = ""
