"""The pods of a scenario: those in its documents, and the replicas of its workloads."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, islice
from typing import Any, Final, TypeAlias

from checker import displaced, quantities, shapes
from checker.shapes import Shape
from holdfast import names

Document: TypeAlias = Mapping[str, Any]
Owner: TypeAlias = tuple[str, str, str]  # namespace, kind, name

JOB_SET: Final = "jobset.sigs.k8s.io/"
JOB_SET_UID: Final = f"{JOB_SET}jobset-uid"
GROUP_KEY: Final = "leaderworkerset.sigs.k8s.io/group-key"
GROUP_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"
REPLICATED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
_FINISHED: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    name: str  # namespace/name
    shape: Shape
    node: str | None = None  # None: pending, or displaced from a node that is being deleted
    daemon: str | None = None  # its DaemonSet
    terminating: bool = (
        False  # being deleted: it uses its node and does not count for constraints of other pods
    )
    group: str = ""  # the PodGroup that it names, with its namespace; or the gang that its labels name
    lasts_s: Fraction | None = None  # how long it may run
    ends: dt.datetime | None = None  # by when it ends


def read(documents: Iterable[Document], deleting_nodes: Container[str], now: dt.datetime) -> list[Pod]:
    """All pods that count: running and pending, in documents and implied by workloads. Finished pods use nothing, and pods
    that kube-scheduler ignores are not planned."""
    listed = list(documents)
    active = [one for one in listed if one["kind"] == "Pod" and _is_active(one)]
    present = Counter(owner for one in active if not _is_terminating(one) for owner in _owners(one))
    shapes_by_document: dict[str, Shape] = {}
    jobs = {(namespace(one), "Job", one["metadata"]["name"]): one for one in listed if one["kind"] == "Job"}
    pods = [
        replace(_pod(one, shapes_by_document), **_run_time(one, [jobs.get(owner) for owner in _owners(one)]))
        for one in active
        if one["spec"].get("nodeName") or _is_pending(one)
    ]
    budgets = [one for one in listed if one["kind"] == "PodDisruptionBudget"]
    on_deleting_nodes = [one for one in active if one["spec"].get("nodeName") in deleting_nodes]
    displaced_names = {_name(one) for one in on_deleting_nodes if displaced.is_displaced(one, budgets, now)}
    pods = [
        replace(pod, node=None, terminating=False) if pod.name in displaced_names else pod for pod in pods
    ]
    used_names = {_name(one) for one in listed if one["kind"] == "Pod"}
    for one in listed:
        if one["kind"] in REPLICATED and not one["spec"]["template"]["spec"].get("schedulingGates"):
            pods += _implied(one, present[namespace(one), one["kind"], one["metadata"]["name"]], used_names)
    return pods


def namespace(document: Document) -> str:
    return str(document["metadata"].get("namespace") or "default")


def _name(document: Document) -> str:
    return f"{namespace(document)}/{document['metadata']['name']}"


def made_claims(documents: Iterable[Document]) -> Iterator[dict[str, Any]]:
    """The PersistentVolumeClaims of StatefulSets and of ephemeral volumes (S-99)."""
    for one in documents:
        if one["kind"] == "StatefulSet":
            for template in one["spec"].get("volumeClaimTemplates") or ():
                for index in range(_replicas(one)):
                    name = f"{template['metadata']['name']}-{one['metadata']['name']}-{index}"
                    yield _made_claim(name, namespace(one), template["spec"])
        elif one["kind"] == "Pod":
            for volume in one["spec"].get("volumes") or ():
                if "ephemeral" in volume:
                    name = f"{one['metadata']['name']}-{volume['name']}"
                    made = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
                    yield _made_claim(
                        name, namespace(one), {"storageClassName": made.get("storageClassName")}
                    )


def _made_claim(name: str, where: str, spec: Document) -> dict[str, Any]:
    return {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": where}, "spec": spec}


def template_shape(workload: Document) -> Shape:
    template = workload["spec"]["template"]
    return shapes.read(template.get("metadata") or {}, template["spec"], namespace(workload))


def _is_active(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") not in _FINISHED


def is_of_daemon_set(pod: Document, name: str) -> bool:
    """Whether it is an active pod of the DaemonSet."""
    owners = {f"{where}/{owner}" for where, kind, owner in _owners(pod) if kind == "DaemonSet"}
    return name in owners and _is_active(pod) and not _is_terminating(pod)


def _is_terminating(pod: Document) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _is_pending(pod: Document) -> bool:
    """Whether kube-scheduler would schedule it."""
    kinds = {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()}
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    ignored = pod["spec"].get("schedulingGates") or nominated or _is_terminating(pod)
    return not ignored and not kinds.intersection(("DaemonSet", "Node"))


def _owners(pod: Document) -> Iterator[Owner]:
    for owner in pod["metadata"].get("ownerReferences") or ():
        yield namespace(pod), owner["kind"], owner["name"]


def _pod(document: Document, shapes_by_document: dict[str, Shape]) -> Pod:
    """Pods with equal documents share a shape, as the pods of a workload do."""
    where, spec = namespace(document), document["spec"]
    pod_labels = document["metadata"].get("labels") or {}
    own = document["metadata"]["name"] if any("ephemeral" in one for one in spec.get("volumes") or ()) else ""
    key = json.dumps([where, pod_labels, {**spec, "nodeName": ""}, own], sort_keys=True)
    if key not in shapes_by_document:
        shapes_by_document[key] = shapes.read(document["metadata"], spec, where)
    daemons = [f"{where}/{name}" for _, kind, name in _owners(document) if kind == "DaemonSet"]
    return Pod(
        name=f"{where}/{document['metadata']['name']}",
        shape=shapes_by_document[key],
        node=spec.get("nodeName") or None,
        daemon=daemons[0] if daemons else None,
        terminating=_is_terminating(document),
        group=_group(document, where),
    )


def _run_time(pod: Document, jobs: Iterable[Document | None]) -> dict[str, Any]:
    """The least of the limits that the pod and its Job state; the limit of a Job that has started is a time."""
    lengths, ends = [], None
    if (deadline := pod["spec"].get("activeDeadlineSeconds")) is not None:
        lengths.append(Fraction(deadline))
    if written := (pod["metadata"].get("annotations") or {}).get(names.MAX_RUN_DURATION):
        lengths.append(quantities.seconds(written))
    for job in jobs:
        deadline = job["spec"].get("activeDeadlineSeconds") if job is not None else None
        started = (job.get("status") or {}).get("startTime") if job is not None else None
        if deadline is not None and started:
            ends = dt.datetime.fromisoformat(started) + dt.timedelta(seconds=deadline)
        elif deadline is not None:
            lengths.append(Fraction(deadline))
    return {"lasts_s": min(lengths, default=None), "ends": ends}


def _group(pod: Document, where: str) -> str:
    """`namespace/PodGroup`, or `namespace/kind/key` of a gang that labels name."""
    named = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName")
    if named:
        return f"{where}/{named}"
    metadata = pod.get("metadata") or {}
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    if _is_terminating({"metadata": metadata}):
        return ""
    if JOB_SET_UID in labels:
        return f"{where}/JobSet/{labels[JOB_SET_UID]}"
    if GROUP_KEY in labels and annotations.get(GROUP_SIZE, "").isdecimal():
        return f"{where}/LeaderWorkerSet/{labels[GROUP_KEY]}"
    return ""


def _implied(workload: Document, present: int, used_names: set[str]) -> list[Pod]:
    """The missing replicas, with the lowest unused numbers."""
    name, shape = f"{namespace(workload)}/{workload['metadata']['name']}", template_shape(workload)
    template = workload["spec"]["template"]
    group = _group(template, namespace(workload))
    run_time = _run_time(
        {"metadata": template.get("metadata") or {}, "spec": template["spec"]},
        [workload] if workload["kind"] == "Job" else [],
    )
    if workload["kind"] == "StatefulSet":  # its pods have fixed ordinals
        ordinals = (f"{name}-{index}" for index in range(_replicas(workload)))
        free = (one for one in ordinals if one not in used_names)
        return [Pod(one, _own(workload, one, shape), group=group, **run_time) for one in free]
    missing = max(0, _replicas(workload) - present)
    unused = (f"{name}-{index}" for index in count() if f"{name}-{index}" not in used_names)
    return [Pod(one, shape, group=group, **run_time) for one in islice(unused, missing)]


def _own(workload: Document, pod: str, shape: Shape) -> Shape:
    """The shape of a StatefulSet's pod, whose own PersistentVolumeClaims replace volumes with the same name."""
    made = [one["metadata"]["name"] for one in workload["spec"].get("volumeClaimTemplates") or ()]
    if not made:
        return shape
    template = workload["spec"]["template"]
    listed = [one for one in template["spec"].get("volumes") or () if one["name"] not in made]
    for name in made:
        claim = {"claimName": f"{name}-{pod.partition('/')[2]}"}
        listed.append({"name": name, "persistentVolumeClaim": claim})
    spec = {**template["spec"], "volumes": listed}
    return shapes.read(template.get("metadata") or {}, spec, namespace(workload))


def _replicas(workload: Document) -> int:
    spec = workload["spec"]
    if workload["kind"] != "Job":
        return int(spec.get("replicas", 1))
    parallelism = 0 if spec.get("suspend") else int(spec.get("parallelism", 1))
    done = int((workload.get("status") or {}).get("succeeded", 0))
    return max(0, min(parallelism, int(spec.get("completions", parallelism + done)) - done))
