"""The kinds of the simulated controllers, with spec and status as plain JSON values.

The wire types of `api` have only the fields that an autoscaler reads. A controller that creates pods from a template
must pass on every field.
"""

from typing import Any, ClassVar, Final

import msgspec

from holdfast.api.meta import Object, ObjectMeta, OwnerReference
from holdfast.runtime.results import Key

Json = dict[str, Any]


class Whole(Object, frozen=True, kw_only=True):
    """A kind with its spec and status as JSON."""

    spec: Json = msgspec.field(default_factory=dict)
    status: Json = msgspec.field(default_factory=dict)


class Pod(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"
    plural: ClassVar[str] = "pods"


class Node(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"
    plural: ClassVar[str] = "nodes"
    namespaced: ClassVar[bool] = False


class Namespace(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"
    plural: ClassVar[str] = "namespaces"
    namespaced: ClassVar[bool] = False


class Lease(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "coordination.k8s.io/v1"
    kind: ClassVar[str] = "Lease"
    plural: ClassVar[str] = "leases"


class Deployment(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "Deployment"
    plural: ClassVar[str] = "deployments"


class ReplicaSet(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ReplicaSet"
    plural: ClassVar[str] = "replicasets"


class StatefulSet(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "StatefulSet"
    plural: ClassVar[str] = "statefulsets"


class DaemonSet(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "DaemonSet"
    plural: ClassVar[str] = "daemonsets"


class Job(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "batch/v1"
    kind: ClassVar[str] = "Job"
    plural: ClassVar[str] = "jobs"


class DisruptionBudget(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"
    plural: ClassVar[str] = "poddisruptionbudgets"


class Claim(Whole, frozen=True, kw_only=True):
    """A PersistentVolumeClaim."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"
    plural: ClassVar[str] = "persistentvolumeclaims"


class Volume(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"
    plural: ClassVar[str] = "persistentvolumes"
    namespaced: ClassVar[bool] = False


class Attachment(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "VolumeAttachment"
    plural: ClassVar[str] = "volumeattachments"
    namespaced: ClassVar[bool] = False


class CSINode(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSINode"
    plural: ClassVar[str] = "csinodes"
    namespaced: ClassVar[bool] = False


class StorageClass(Object, frozen=True, kw_only=True, rename="camel"):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "StorageClass"
    plural: ClassVar[str] = "storageclasses"
    namespaced: ClassVar[bool] = False

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: list[Json] = msgspec.field(default_factory=list)


class PodGroup(Whole, frozen=True, kw_only=True):
    api_version: ClassVar[str] = "scheduling.k8s.io/v1alpha2"
    kind: ClassVar[str] = "PodGroup"
    plural: ClassVar[str] = "podgroups"


WATCHED: Final[tuple[type[Object], ...]] = (
    Namespace,
    Node,
    Lease,
    Pod,
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
    DisruptionBudget,
    Claim,
    Volume,
    Attachment,
    CSINode,
    StorageClass,
)


def owned_by(owner: Object) -> tuple[OwnerReference, ...]:
    """The owner references of an object that `owner` controls."""
    return (
        OwnerReference(
            api_version=owner.api_version,
            kind=owner.kind,
            name=owner.metadata.name,
            uid=owner.metadata.uid,
            controller=True,
            block_owner_deletion=True,
        ),
    )


def controller_of(obj: Object) -> OwnerReference | None:
    for owner in obj.metadata.owner_references:  # a loop is faster than a generator
        if owner.controller:
            return owner
    return None


def owner_key(obj: Object, kind: type[Object]) -> tuple[Key, ...]:
    """The key of the controlling object of that kind, if any."""
    owner = controller_of(obj)
    return ((obj.metadata.namespace, owner.name),) if owner is not None and owner.kind == kind.kind else ()


def from_template(
    template: Json, owner: Object, *, name: str = "", labels: dict[str, str] | None = None
) -> Pod:
    """A pod from a template; without a name it gets one with its owner's as prefix."""
    given = template.get("metadata") or {}
    return Pod(
        metadata=ObjectMeta(
            name=name,
            generate_name="" if name else f"{owner.metadata.name}-",
            namespace=owner.metadata.namespace,
            labels={**(given.get("labels") or {}), **(labels or {})},
            annotations=given.get("annotations") or {},
            finalizers=tuple(given.get("finalizers") or ()),
            owner_references=owned_by(owner),
        ),
        spec=dict(template.get("spec") or {}),
    )
