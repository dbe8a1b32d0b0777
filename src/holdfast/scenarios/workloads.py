"""Creates the missing pods of Deployments, ReplicaSets, StatefulSets and Jobs in a scenario.

Called by `scenario`, which has no cluster with controllers. A workload gets its replicas minus the pods that it has.
Pods have the workload's name and a number, the same in every run. Labels, owners and fields that the API server and its
controllers would set in a new pod or claim are set here as well.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from holdfast.api.meta import Object, ObjectMeta, OwnerReference
from holdfast.api.pods import PersistentVolumeClaimSource, Pod, PodTemplateSpec, Volume
from holdfast.api.storage import PersistentVolumeClaim, StorageClass
from holdfast.api.workloads import Deployment, Job, ReplicaSet, StatefulSet
from holdfast.state.conversion import pod_states, volumes
from holdfast.state.conversion.pod_shapes import DEFAULT_NAMESPACE

Workload = Deployment | ReplicaSet | StatefulSet | Job

PODS_MAX: Final = 1_000_000  # of one workload; more is a mistake in the file
_TEMPLATE_HASH: Final = "pod-template-hash"


@dataclass(frozen=True, slots=True)
class Expanded:
    """The missing pods of workloads, and their volume claims."""

    pods: tuple[Pod, ...]
    claims: tuple[PersistentVolumeClaim, ...]


def expand(workloads: Iterable[Workload], pods: Sequence[Pod]) -> Expanded:
    """The pods and claims that the workloads would add to these pods."""
    workloads = tuple(workloads)
    family = _Family(workloads, pods)
    names = {(namespace_of(pod), pod.metadata.name) for pod in pods}
    new_pods: list[Pod] = []
    claims: list[PersistentVolumeClaim] = []
    for workload in workloads:
        if isinstance(workload, ReplicaSet) and family.deployment_of(workload) is not None:
            continue
        for name in _names(workload, family.pods_of(workload), names):
            new_pods.append(_pod(workload, name, family.template_hash(workload)))
            if isinstance(workload, StatefulSet):
                claims += _claims(workload, name)
    return Expanded(tuple(new_pods), tuple(claims))


def namespace_of(obj: Object) -> str:
    return obj.metadata.namespace or DEFAULT_NAMESPACE


def count(workload: Workload) -> int:
    """How many pods of the workload run at once."""
    if not isinstance(workload, Job):
        return 1 if workload.spec.replicas is None else workload.spec.replicas
    spec = workload.spec
    if spec.suspend:
        return 0
    at_once = 1 if spec.parallelism is None else spec.parallelism
    if spec.completions is None:
        return at_once
    return max(0, min(at_once, spec.completions - workload.status.succeeded))


def stored(claim: PersistentVolumeClaim, classes: Iterable[StorageClass]) -> PersistentVolumeClaim:
    """A claim with the default storage class, and bound if it names a volume, as in a cluster.

    A claim with a status comes from a cluster and is not changed.
    """
    if claim.status.phase:
        return claim
    if claim.spec.volume_name:
        notes = claim.metadata.annotations | {volumes.BIND_COMPLETED: "yes"}
        return replace(claim, metadata=replace(claim.metadata, annotations=notes))
    if claim.spec.storage_class_name is None:
        return volumes.with_default_class(claim, classes)
    return claim


class _Family:
    """The owners of pods, found by name: objects in files often have no uids."""

    def __init__(self, workloads: Iterable[Workload], pods: Iterable[Pod]) -> None:
        self._deployments = {
            (namespace_of(w), w.metadata.name) for w in workloads if isinstance(w, Deployment)
        }
        self._sets = {(namespace_of(w), w.metadata.name): w for w in workloads if isinstance(w, ReplicaSet)}
        self._pods: dict[tuple[str, str, str], list[Pod]] = {}
        for pod in pods:
            if pod_states.is_active(pod):
                for kind, name in self._makers(pod):
                    self._pods.setdefault((kind, namespace_of(pod), name), []).append(pod)

    def pods_of(self, workload: Workload) -> Sequence[Pod]:
        return self._pods.get((workload.kind, namespace_of(workload), workload.metadata.name), ())

    def deployment_of(self, replica_set: ReplicaSet) -> str | None:
        """The Deployment of the files that owns the ReplicaSet."""
        namespace = namespace_of(replica_set)
        return next(
            (
                owner.name
                for owner in replica_set.metadata.owner_references
                if owner.kind == Deployment.kind and (namespace, owner.name) in self._deployments
            ),
            None,
        )

    def template_hash(self, workload: Workload) -> str | None:
        """The pod-template-hash of a Deployment's pods; None: it has no pods, or pods of several revisions."""
        found = {pod.metadata.labels.get(_TEMPLATE_HASH) for pod in self.pods_of(workload)}
        return next(iter(found)) if len(found) == 1 and isinstance(workload, Deployment) else None

    def _makers(self, pod: Pod) -> Iterator[tuple[str, str]]:
        for owner in pod.metadata.owner_references:
            yield owner.kind, owner.name
            if owner.kind == ReplicaSet.kind:
                replica_set = self._sets.get((namespace_of(pod), owner.name))
                deployment = (
                    self.deployment_of(replica_set) if replica_set else self._by_hash(pod, owner.name)
                )
                if deployment is not None:
                    yield Deployment.kind, deployment

    def _by_hash(self, pod: Pod, replica_set: str) -> str | None:
        """The Deployment of a ReplicaSet that is not in the files: its name without the pods' hash."""
        revision = pod.metadata.labels.get(_TEMPLATE_HASH)
        name = replica_set.removesuffix(f"-{revision}")
        known = revision and name != replica_set and (namespace_of(pod), name) in self._deployments
        return name if known else None


def _names(workload: Workload, existing: Sequence[Pod], used_names: set[tuple[str, str]]) -> list[str]:
    """The names of the missing pods, with the lowest unused numbers."""
    wanted = min(count(workload), PODS_MAX)
    name, namespace = workload.metadata.name, namespace_of(workload)
    if isinstance(workload, StatefulSet):
        there = {pod.metadata.name for pod in existing}
        return [one for n in range(wanted) if (one := f"{name}-{n}") not in there]
    missing = max(0, wanted - len(existing))
    free = (
        one for n in range(wanted + len(used_names)) if (namespace, one := f"{name}-{n}") not in used_names
    )
    chosen = [one for one, _ in zip(free, range(missing), strict=False)]
    used_names.update((namespace, one) for one in chosen)
    return chosen


def _pod(workload: Workload, name: str, template_hash: str | None) -> Pod:
    template: PodTemplateSpec = workload.spec.template
    labels = dict(template.metadata.labels)
    if template_hash is not None:
        labels[_TEMPLATE_HASH] = template_hash
    spec = template.spec
    if isinstance(workload, StatefulSet):
        labels["statefulset.kubernetes.io/pod-name"] = name
        labels["apps.kubernetes.io/pod-index"] = name.rpartition("-")[2]
        spec = replace(spec, volumes=_volumes(workload, name))
    owner = OwnerReference(
        api_version=workload.api_version,
        kind=workload.kind,
        name=workload.metadata.name,
        uid=workload.metadata.uid,
        controller=True,
    )
    meta = ObjectMeta(
        name=name,
        namespace=namespace_of(workload),
        creation_timestamp=workload.metadata.creation_timestamp,
        labels=labels,
        annotations=template.metadata.annotations,
        owner_references=(owner,),
    )
    return Pod(metadata=meta, spec=spec)


def _volumes(workload: StatefulSet, pod: str) -> tuple[Volume, ...]:
    """The template's volumes; volumes of claim templates replace volumes of the same name."""
    claimed = {t.metadata.name: f"{t.metadata.name}-{pod}" for t in workload.spec.volume_claim_templates}
    others = [v for v in workload.spec.template.spec.volumes if v.name not in claimed]
    ours = [
        Volume(name=n, persistent_volume_claim=PersistentVolumeClaimSource(c)) for n, c in claimed.items()
    ]
    return (*others, *ours)


def _claims(workload: StatefulSet, pod: str) -> Iterator[PersistentVolumeClaim]:
    for template in workload.spec.volume_claim_templates:
        meta = ObjectMeta(name=f"{template.metadata.name}-{pod}", namespace=namespace_of(workload))
        yield PersistentVolumeClaim(metadata=meta, spec=template.spec)
