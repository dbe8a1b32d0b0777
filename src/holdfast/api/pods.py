"""v1 Pod with the fields that planning, draining and status need."""

from datetime import datetime
from typing import ClassVar

from msgspec import field

from holdfast.api.meta import LabelSelector, LooseQuantity, Object, ObjectMeta, Wire


class ResourceRequirements(Wire, frozen=True):
    requests: dict[str, LooseQuantity] = {}
    limits: dict[str, LooseQuantity] = {}


class ContainerPort(Wire, frozen=True, kw_only=True):
    container_port: int = 0
    host_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class Container(Wire, frozen=True, kw_only=True):
    name: str
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None  # an init container with Always is a sidecar


class Toleration(Wire, frozen=True, kw_only=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSelectorRequirement(Wire, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Wire, frozen=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Wire, frozen=True):
    weight: int
    preference: NodeSelectorTerm


class NodeAffinity(Wire, frozen=True, kw_only=True):
    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredSchedulingTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Wire, frozen=True, kw_only=True):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Wire, frozen=True):
    weight: int
    pod_affinity_term: PodAffinityTerm


class PodAffinity(Wire, frozen=True, kw_only=True):
    """Both podAffinity and podAntiAffinity."""

    required: tuple[PodAffinityTerm, ...] = field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Wire, frozen=True, kw_only=True):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    match_label_keys: tuple[str, ...] = ()
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class PersistentVolumeClaimSource(Wire, frozen=True):
    claim_name: str


class EphemeralClaimSpec(Wire, frozen=True):
    storage_class_name: str | None = None


class EphemeralClaimTemplate(Wire, frozen=True):
    spec: EphemeralClaimSpec = EphemeralClaimSpec()


class EphemeralVolumeSource(Wire, frozen=True):
    volume_claim_template: EphemeralClaimTemplate | None = None


class Volume(Wire, frozen=True, kw_only=True):
    name: str
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class PodResourceClaim(Wire, frozen=True):
    name: str


class PodSchedulingGate(Wire, frozen=True):
    name: str


class PodSchedulingGroup(Wire, frozen=True, kw_only=True):
    pod_group_name: str = ""


class PodSpec(Wire, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None  # for the whole pod, beside the containers' own
    overhead: dict[str, LooseQuantity] = {}
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    host_network: bool = False
    active_deadline_seconds: int | None = None  # from its start


class PodCondition(Wire, frozen=True, kw_only=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class ContainerStatus(Wire, frozen=True, kw_only=True):
    """The resources of a container as reported by the kubelet, also during an in-place resize."""

    name: str
    allocated_resources: dict[str, LooseQuantity] = {}
    resources: ResourceRequirements | None = None


class PodStatus(Wire, frozen=True, kw_only=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    nominated_node_name: str = ""
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"
    plural: ClassVar[str] = "pods"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class PodTemplateSpec(Wire, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class ObjectReference(Wire, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class Binding(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Binding"
    plural: ClassVar[str] = "bindings"

    target: ObjectReference
