"""Which pods a scenario has: those written out, and those that its workloads stand for."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any, Final, TypeAlias

from checker import displaced, shapes
from checker.shapes import Shape

Document: TypeAlias = Mapping[str, Any]
Owner: TypeAlias = tuple[str, str, str]  # namespace, kind, name

REPLICATED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
_OVER: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    name: str  # namespace/name
    shape: Shape
    node: str | None = None  # None: it is pending, or its node is being deleted and it needs another one
    daemon: str | None = None  # the DaemonSet that made it
    leaving: bool = False  # it is being deleted: it uses its node and counts for no other pod


def read(documents: Iterable[Document], going: Container[str], now: dt.datetime) -> list[Pod]:
    """All pods that count: running and pending, written out and implied. Finished ones use nothing, and those that
    kube-scheduler does not look at are not planned. `going` are nodes that are being deleted."""
    listed = list(documents)
    written = [one for one in listed if one["kind"] == "Pod" and _alive(one)]
    present = Counter(owner for one in written if not _is_leaving(one) for owner in _owners(one))
    alike: dict[str, Shape] = {}
    pods = [_pod(one, alike) for one in written if one["spec"].get("nodeName") or _is_pending(one)]
    budgets = [one for one in listed if one["kind"] == "PodDisruptionBudget"]
    losing = [one for one in written if one["spec"].get("nodeName") in going]
    moved = {_name(one) for one in losing if displaced.is_displaced(one, budgets, now)}
    pods = [replace(pod, node=None, leaving=False) if pod.name in moved else pod for pod in pods]
    taken = {_name(one) for one in listed if one["kind"] == "Pod"}
    for one in listed:
        if one["kind"] in REPLICATED and not one["spec"]["template"]["spec"].get("schedulingGates"):
            pods += _implied(one, present[namespace(one), one["kind"], one["metadata"]["name"]], taken)
    return pods


def namespace(document: Document) -> str:
    return str(document["metadata"].get("namespace") or "default")


def _name(document: Document) -> str:
    return f"{namespace(document)}/{document['metadata']['name']}"


def made_claims(documents: Iterable[Document]) -> Iterator[dict[str, Any]]:
    """The PersistentVolumeClaims that come with pods: of StatefulSets, and of ephemeral volumes (S-99)."""
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


def _alive(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") not in _OVER


def is_of_daemon_set(pod: Document, name: str) -> bool:
    """Whether it is a pod of the DaemonSet that runs, or will."""
    owners = {f"{where}/{owner}" for where, kind, owner in _owners(pod) if kind == "DaemonSet"}
    return name in owners and _alive(pod) and not _is_leaving(pod)


def _is_leaving(pod: Document) -> bool:
    return bool(pod["metadata"].get("deletionTimestamp"))


def _is_pending(pod: Document) -> bool:
    """Whether kube-scheduler would look for a node for it."""
    kinds = {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()}
    nominated = (pod.get("status") or {}).get("nominatedNodeName")
    passed_over = pod["spec"].get("schedulingGates") or nominated or _is_leaving(pod)
    return not passed_over and not kinds.intersection(("DaemonSet", "Node"))


def _owners(pod: Document) -> Iterator[Owner]:
    for owner in pod["metadata"].get("ownerReferences") or ():
        yield namespace(pod), owner["kind"], owner["name"]


def _pod(document: Document, alike: dict[str, Shape]) -> Pod:
    """Pods that were written out alike share a shape, as those of a workload do."""
    where, spec = namespace(document), document["spec"]
    marks = document["metadata"].get("labels") or {}
    own = document["metadata"]["name"] if any("ephemeral" in one for one in spec.get("volumes") or ()) else ""
    key = json.dumps([where, marks, {**spec, "nodeName": ""}, own], sort_keys=True)
    if key not in alike:
        alike[key] = shapes.read(document["metadata"], spec, where)
    daemons = [f"{where}/{name}" for _, kind, name in _owners(document) if kind == "DaemonSet"]
    return Pod(
        name=f"{where}/{document['metadata']['name']}",
        shape=alike[key],
        node=spec.get("nodeName") or None,
        daemon=daemons[0] if daemons else None,
        leaving=_is_leaving(document),
    )


def _implied(workload: Document, present: int, taken: set[str]) -> list[Pod]:
    """The replicas that are not there yet, with the lowest numbers that nobody has."""
    name, shape = f"{namespace(workload)}/{workload['metadata']['name']}", template_shape(workload)
    if workload["kind"] == "StatefulSet":  # its pods are its ordinals, whatever else it may own
        ordinals = (f"{name}-{index}" for index in range(_replicas(workload)))
        return [Pod(one, _own(workload, one, shape)) for one in ordinals if one not in taken]
    missing = max(0, _replicas(workload) - present)
    free = (f"{name}-{index}" for index in count() if f"{name}-{index}" not in taken)
    return [Pod(one, shape) for one in islice(free, missing)]


def _own(workload: Document, pod: str, shape: Shape) -> Shape:
    """The shape of a StatefulSet's pod, which has claims of its own in place of volumes with the same name."""
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
