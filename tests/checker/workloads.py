"""Which pods a scenario has: those written out, and those that its workloads stand for."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count, islice
from typing import Any, Final, TypeAlias

from checker import shapes
from checker.shapes import Shape

Document: TypeAlias = Mapping[str, Any]
Owner: TypeAlias = tuple[str, str, str]  # namespace, kind, name

REPLICATED: Final = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
_OVER: Final = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True, eq=False)
class Pod:
    name: str  # namespace/name
    shape: Shape
    node: str | None = None  # None: it is pending
    daemon: str | None = None  # the DaemonSet that made it


def read(documents: Iterable[Document]) -> list[Pod]:
    """All pods that count: running and pending, written out and implied. Finished ones use nothing."""
    listed = list(documents)
    written = [one for one in listed if one["kind"] == "Pod" and _alive(one)]
    present = Counter(owner for one in written for owner in _owners(one))
    alike: dict[str, Shape] = {}
    pods = [_pod(one, alike) for one in written]
    pending_daemons = [pod for pod in pods if pod.daemon and not pod.node]
    pods = [pod for pod in pods if pod not in pending_daemons]
    taken = {f"{namespace(one)}/{one['metadata']['name']}" for one in listed if one["kind"] == "Pod"}
    for one in listed:
        if one["kind"] in REPLICATED:
            pods += _implied(one, present[namespace(one), one["kind"], one["metadata"]["name"]], taken)
    return pods


def namespace(document: Document) -> str:
    return str(document["metadata"].get("namespace") or "default")


def template_shape(workload: Document) -> Shape:
    template = workload["spec"]["template"]
    return shapes.read(template.get("metadata") or {}, template["spec"], namespace(workload))


def _alive(pod: Document) -> bool:
    return (pod.get("status") or {}).get("phase") not in _OVER


def _owners(pod: Document) -> Iterator[Owner]:
    for owner in pod["metadata"].get("ownerReferences") or ():
        yield namespace(pod), owner["kind"], owner["name"]


def _pod(document: Document, alike: dict[str, Shape]) -> Pod:
    """Pods that were written out alike share a shape, as those of a workload do."""
    where, spec = namespace(document), document["spec"]
    marks = document["metadata"].get("labels") or {}
    key = json.dumps([where, marks, {**spec, "nodeName": ""}], sort_keys=True)
    if key not in alike:
        alike[key] = shapes.read(document["metadata"], spec, where)
    daemons = [f"{where}/{name}" for _, kind, name in _owners(document) if kind == "DaemonSet"]
    return Pod(
        name=f"{where}/{document['metadata']['name']}",
        shape=alike[key],
        node=spec.get("nodeName") or None,
        daemon=daemons[0] if daemons else None,
    )


def _implied(workload: Document, present: int, taken: set[str]) -> list[Pod]:
    """The replicas that are not there yet, with the lowest numbers that nobody has."""
    name, shape = f"{namespace(workload)}/{workload['metadata']['name']}", template_shape(workload)
    if workload["kind"] == "StatefulSet":  # its pods are its ordinals, whatever else it may own
        ordinals = (f"{name}-{index}" for index in range(_replicas(workload)))
        return [Pod(one, shape) for one in ordinals if one not in taken]
    missing = max(0, _replicas(workload) - present)
    free = (f"{name}-{index}" for index in count() if f"{name}-{index}" not in taken)
    return [Pod(one, shape) for one in islice(free, missing)]


def _replicas(workload: Document) -> int:
    spec = workload["spec"]
    if workload["kind"] != "Job":
        return int(spec.get("replicas", 1))
    parallelism = int(spec.get("parallelism", 1))
    return min(parallelism, int(spec.get("completions", parallelism)))
