"""PodGroup of scheduling.k8s.io/v1alpha2, which Kubernetes 1.36 has, with the fields that planning needs.

kube-scheduler binds the pods of a group only when at least `minCount` of them fit. The API is alpha and off by default.
"""

from typing import ClassVar

from holdfast.api.meta import Object, Wire


class GangPolicy(Wire, frozen=True, kw_only=True):
    min_count: int = 1


class SchedulingPolicy(Wire, frozen=True, kw_only=True):
    """Exactly one of `basic`, which has no fields, and `gang`."""

    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True, kw_only=True):
    key: str


class SchedulingConstraints(Wire, frozen=True, kw_only=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupSpec(Wire, frozen=True, kw_only=True):
    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints = SchedulingConstraints()
    priority: int | None = None


class PodGroup(Object, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    kind: ClassVar[str] = "PodGroup"
    plural: ClassVar[str] = "podgroups"

    spec: PodGroupSpec = PodGroupSpec()
