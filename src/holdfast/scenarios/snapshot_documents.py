"""Writes a snapshot of a running cluster as a scenario, which `scenario` reads: objects, and a Catalog.

`holdfast snapshot` writes it to a file. The snapshot of the scenario equals the snapshot of the cluster, so the plan is the same.
What no plan needs is left out: environments and images of containers, annotations, messages, node classes with their
user data, finished pods, and pods that kube-scheduler has not marked as unschedulable.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from holdfast import names
from holdfast.api import conditions
from holdfast.api.cluster import Namespace, PodDisruptionBudget, Service
from holdfast.api.kueue import Workload
from holdfast.api.meta import Object, ObjectMeta, to_wire
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.scheduler_config import SchedulerConfig
from holdfast.api.scheduling import PodGroup
from holdfast.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from holdfast.api.workloads import (
    DaemonSet,
    Deployment,
    JobTimes,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)
from holdfast.core.scheduling.input.request import Settings
from holdfast.model import resources
from holdfast.model.pods import RunTime
from holdfast.model.snapshot import NodeView, Snapshot
from holdfast.scenarios import catalog_writing
from holdfast.scenarios.catalog import CloudTerms
from holdfast.state.conversion import labelled_gangs, nodes, pod_states, run_times, times, volumes

Json = dict[str, Any]

ANNOTATIONS: Final[Mapping[type[Object], tuple[str, ...]]] = {  # those that plans use
    Pod: (
        names.MAX_RUN_DURATION,
        names.DO_NOT_DISRUPT,
        names.DISRUPTION_COST,
        names.POD_DELETION_COST,
        labelled_gangs.SIZE,
    ),
    Node: (names.DO_NOT_DISRUPT,),
    NodeClaim: (
        names.RESERVATION_ID,
        names.RESERVATION_ID_BEFORE_0_2,
        names.SLOTS_COUNTED,
        names.WAITS_FOR_INSTANCE,
        names.INSTANCE_GONE,
        names.HELD_FOR,
        names.PREFERRED_ZONE,
        names.DO_NOT_DISRUPT,
    ),
    NodePool: (names.RESERVATION_WAIT,),
    PersistentVolumeClaim: (volumes.BIND_COMPLETED,),
}
_LABELLED: Final = (Pod, Node, NodeClaim, Namespace)
_POD_CONDITIONS: Final = ("PodScheduled", "Ready", "PodResizePending")
_SPEC_FIELDS_LEFT_OUT: Final = (
    "priorityClassName",
    "preemptionPolicy",
    "schedulerName",
    "restartPolicy",
    "terminationGracePeriodSeconds",
)
_MAKERS: Final = (Deployment, ReplicaSet, StatefulSet)


@dataclass(frozen=True, slots=True)
class Source:
    """A snapshot, and the objects that it was made from."""

    snapshot: Snapshot
    objects: Callable[[type[Any]], Iterable[Any]]  # of a kind; empty for a kind that is not read
    settings: Settings
    scheduler: SchedulerConfig
    group: str  # of our node classes
    unserved: Mapping[str, str] = field(default_factory=dict)  # NodePools that the plan does not use, and why


def documents(source: Source, terms: CloudTerms) -> list[Json]:
    """The scenario: the Catalog first, then the objects by kind and name."""
    found = list(_Writer(source, terms).documents())
    plain: list[Json] = msgspec.json.decode(msgspec.json.encode(found))  # lists instead of tuples
    return plain


class _Writer:
    def __init__(self, source: Source, terms: CloudTerms) -> None:
        self._source = source
        self._terms = terms
        self._views = {view.name: view for view in source.snapshot.nodes}
        self._by_claim = {view.claim: view for view in source.snapshot.nodes if view.claim}
        self._nodes = {one.metadata.name: one for one in self._of(Node) if self._is_kept_node(one)}
        self._pods = [pod for pod in self._of(Pod) if self._is_kept_pod(pod)]

    def documents(self) -> Iterator[Json]:
        pools = [one for one in self._of(NodePool) if self._is_ours(one.spec.template.spec.node_class_ref)]
        yield self._catalog(pools)
        yield from map(_namespace, self._of(Namespace))
        yield from map(self._pool, pools)
        yield from (self._claim(one) for one in self._of(NodeClaim) if self._is_ours(one.spec.node_class_ref))
        yield from map(self._node, self._nodes.values())
        yield from (_csi_node(one) for one in self._of(CSINode) if one.metadata.name in self._nodes)
        yield from map(_daemon_set, self._of(DaemonSet))
        yield from map(_budget, self._of(PodDisruptionBudget))
        yield from self._storage()
        if self._source.scheduler.pod_topology_spread.default_constraints:
            yield from self._makers()
        yield from map(_object, self._of(PodGroup))
        yield from self._jobs()
        yield from map(_pod, self._pods)

    # --- Which objects ----------------------------------------------------------------------------------

    def _of(self, kind: type[Any]) -> list[Any]:
        found = self._source.objects(kind)
        return sorted(found, key=lambda one: (one.metadata.namespace, one.metadata.name))

    def _is_ours(self, reference: Any) -> bool:
        return bool(reference.group == self._source.group)

    def _is_kept_node(self, node: Node) -> bool:
        """Whether the snapshot has the Node; a NodeClaim without a known Node stands for itself."""
        view = self._views.get(node.metadata.name)
        if view is None or not nodes.is_known(node):
            return False
        return view.claim is not None or not nodes.waits_for_claim(node)

    def _is_kept_pod(self, pod: Pod) -> bool:
        if pod.spec.node_name:
            return pod.spec.node_name in self._nodes and not pod_states.is_terminal(pod)
        if pod_states.owner(pod) == pod_states.DAEMON_SET:
            return pod_states.is_active(pod)  # the newest pod of a DaemonSet predicts the next one
        return pod_states.is_provisionable(pod)

    # --- The Catalog and the nodes ----------------------------------------------------------------------

    def _catalog(self, pools: Iterable[NodePool]) -> Json:
        source = self._source
        classes = {one.metadata.name: one.spec.template.spec.node_class_ref.name for one in pools}
        types = {classes[view.name]: view.instance_types for view in source.snapshot.node_pools}
        return catalog_writing.catalog(source.snapshot, types, source.settings, source.scheduler, self._terms)

    def _pool(self, pool: NodePool) -> Json:
        written = _object(pool)
        written["spec"]["template"].get("metadata", {}).pop("annotations", None)
        why = self._source.unserved.get(pool.metadata.name)
        if why is not None:
            written["status"] = {"conditions": [self._not_ready(why)]}
        return written

    def _not_ready(self, why: str) -> Json:
        return {
            "type": conditions.READY,
            "status": conditions.FALSE,
            "reason": "NotUsed",
            "message": why,
            "lastTransitionTime": self._now,
        }

    def _claim(self, claim: NodeClaim) -> Json:
        written = _object(claim)
        status = {key: value for key, value in to_wire(claim).get("status", {}).items() if key != "imageID"}
        if "conditions" in status:
            status["conditions"] = [one | {"message": ""} for one in status["conditions"]]
        written["status"] = status
        view = self._by_claim.get(claim.metadata.name)
        if view is not None:
            self._mark(written, view, is_deleting=nodes.is_deleting(nodes.NodeAndClaim(None, claim)))
        return written

    def _node(self, node: Node) -> Json:
        view = self._views[node.metadata.name]
        written = _object(node)
        status = to_wire(node).get("status", {})
        written["status"] = {key: status[key] for key in ("capacity", "allocatable") if key in status}
        ready = [_without(one, "message", "lastHeartbeatTime") for one in status.get("conditions", ())]
        written["status"]["conditions"] = [one for one in ready if one["type"] == conditions.READY]
        deleting = view.claim is not None or node.metadata.deletion_timestamp is not None
        self._mark(written, view, is_deleting=deleting)
        return written

    def _mark(self, written: Json, view: NodeView, *, is_deleting: bool) -> None:
        """A DisruptionCommand deletes the node and is not carried out yet; or pods on it cannot be decoded."""
        if view.deleting and not is_deleting:
            written["metadata"]["deletionTimestamp"] = self._now
        if view.allocatable == resources.NOTHING:
            written["status"]["allocatable"] = {}

    @property
    def _now(self) -> str:
        return times.text(self._source.snapshot.taken_s)

    # --- Storage and controllers of pods ------------------------------------------------------------------

    def _storage(self) -> Iterator[Json]:
        used = {
            (pod.metadata.namespace, name)
            for pod in self._pods
            for name in volumes.claim_names(pod.metadata.name, pod.spec.volumes)
        }
        found = [one for one in self._of(PersistentVolumeClaim) if _key(one) in used]
        bound = {one.spec.volume_name for one in found}
        yield from map(_volume_claim, found)
        yield from (_volume(one) for one in self._of(PersistentVolume) if one.metadata.name in bound)
        if found:
            yield from map(_storage_class, self._of(StorageClass))

    def _makers(self) -> Iterator[Json]:
        """For default spread constraints, which use their selectors. Without replicas: their pods are in the file."""
        for kind in _MAKERS:
            for one in self._of(kind):
                selector = to_wire(one)["spec"].get("selector", {})
                yield _object(one) | {"spec": {"replicas": 0, "selector": selector}}
        for one in self._of(ReplicationController):
            yield _object(one)
        for one in self._of(Service):
            yield _object(one) | {"spec": {"selector": one.spec.selector}}

    def _jobs(self) -> Iterator[Json]:
        """The Jobs of these pods that may run for some time only. Without parallelism: their pods are in the file."""
        of_pods = {uid for pod in self._pods for uid in run_times.job_of(pod)}
        workloads = {owner.uid: one for one in self._of(Workload) for owner in one.metadata.owner_references}
        for job in self._of(JobTimes):
            workload = workloads.get(job.metadata.uid)
            lasts_s, ends_s = run_times.run_time(Pod(), job, workload) or RunTime()
            if job.metadata.uid in of_pods and (lasts_s or ends_s):
                yield _job(job, lasts_s)


# --- Objects ----------------------------------------------------------------------------------------------


def _object(obj: Object) -> Json:
    """The object without its status, and with the metadata that a plan needs."""
    written = to_wire(obj)
    written.pop("status", None)
    written["metadata"] = _metadata(obj)
    return written


def _metadata(obj: Object) -> Json:
    meta: ObjectMeta = obj.metadata
    written: Json = {"name": meta.name}
    if meta.namespace:
        written["namespace"] = meta.namespace
    for key, moment in (
        ("creationTimestamp", meta.creation_timestamp),
        ("deletionTimestamp", meta.deletion_timestamp),
    ):
        if moment is not None:
            written[key] = times.text(times.epoch_s(moment))
    if meta.labels and isinstance(obj, _LABELLED):
        written["labels"] = dict(meta.labels)
    kept = ANNOTATIONS.get(type(obj), ())
    annotations = {key: value for key, value in meta.annotations.items() if key in kept}
    if annotations:
        written["annotations"] = annotations
    if isinstance(obj, Pod):
        written["uid"] = meta.uid
        owners = to_wire(obj)["metadata"].get("ownerReferences", ())
        written["ownerReferences"] = [_without(one, "blockOwnerDeletion") for one in owners]
    return written


def _job(job: JobTimes, lasts_s: int | None) -> Json:
    written, whole = _object(job), to_wire(job)
    if lasts_s is not None:
        written["metadata"]["labels"] = {run_times.KUEUE_MAXIMUM: str(lasts_s)}
    spec = {"parallelism": 0, **whole.get("spec", {})}
    return written | {"spec": spec, "status": whole.get("status", {})}


def _pod(pod: Pod) -> Json:
    written, whole = _object(pod), to_wire(pod)
    written["spec"] = _pod_spec(whole.get("spec", {}), pod.metadata.name)
    status = _without(whole.get("status", {}), "message", "reason")
    if "conditions" in status:
        status["conditions"] = [
            _without(one, "message", "lastTransitionTime")
            for one in status["conditions"]
            if one["type"] in _POD_CONDITIONS
        ]
    written["status"] = status
    return written


def _pod_spec(spec: Json, pod: str | None) -> Json:
    """`pod`: the name of the pod; the claims of its ephemeral volumes exist, and are named after it."""
    written = _without(spec, *_SPEC_FIELDS_LEFT_OUT)
    for key in ("containers", "initContainers"):
        if key in written:
            written[key] = [_without(one, "image") for one in written[key]]
    found = [one for one in written.pop("volumes", ()) if one.keys() & {"persistentVolumeClaim", "ephemeral"}]
    if pod is not None:
        found = [_claimed(one, pod) for one in found]
    return written | ({"volumes": found} if found else {})


def _claimed(volume: Json, pod: str) -> Json:
    if "persistentVolumeClaim" in volume:
        return volume
    return {"name": volume["name"], "persistentVolumeClaim": {"claimName": f"{pod}-{volume['name']}"}}


def _namespace(namespace: Namespace) -> Json:
    return _object(namespace)


def _daemon_set(daemon_set: DaemonSet) -> Json:
    written = _object(daemon_set)
    template = written["spec"].get("template", {})
    labels = template.get("metadata", {}).get("labels", {})
    written["spec"]["template"] = {
        "metadata": {"labels": labels},
        "spec": _pod_spec(template.get("spec", {}), None),
    }
    return written


def _budget(budget: PodDisruptionBudget) -> Json:
    return _object(budget) | {"status": {"disruptionsAllowed": budget.status.disruptions_allowed}}


def _csi_node(csi_node: CSINode) -> Json:
    drivers = to_wire(csi_node).get("spec", {}).get("drivers") or ()
    return _object(csi_node) | {
        "spec": {"drivers": [_without(one, "nodeID", "topologyKeys") for one in drivers]}
    }


def _volume_claim(claim: PersistentVolumeClaim) -> Json:
    spec = _without(to_wire(claim).get("spec", {}), "resources", "accessModes")
    return _object(claim) | {"spec": spec, "status": {"phase": claim.status.phase or "Pending"}}


def _volume(volume: PersistentVolume) -> Json:
    """The driver and the topology, without the ids of disks and the paths of folders."""
    spec = _without(to_wire(volume).get("spec", {}), "claimRef")
    for source, kept in (
        ("csi", ("driver",)),
        ("local", ()),
        ("hostPath", ()),
        ("awsElasticBlockStore", ()),
        ("gcePersistentDisk", ()),
        ("azureDisk", ()),
    ):
        if source in spec:
            spec[source] = {key: spec[source][key] for key in kept}
    return _object(volume) | {"spec": spec}


def _storage_class(storage_class: StorageClass) -> Json:
    return _object(storage_class)


def _key(obj: Object) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name


def _without(written: Mapping[str, Any], *keys: str) -> Json:
    return {key: value for key, value in written.items() if key not in keys}
