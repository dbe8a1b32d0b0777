"""Sets values of new objects that depend on other objects: priorities, tolerations, addresses.

Called by `registry` after the defaults. In a real server these are admission plugins and allocators. Left out on
purpose: the not-ready taint on new Nodes, which only a node lifecycle controller removes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast import names
from holdfast.sim.api.schema.defaults import containers
from holdfast.sim.api.schema.status import forbidden
from holdfast.sim.api.storage.store import Store

Json = dict[str, Any]

PRIORITY_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

_TOLERATION_S: Final = 300
_DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
_SERVICES: Final = 0x0A600000  # 10.96.0.0/16
_COUNTED: Final = ("cpu", "memory")


def admit(bucket: str, value: Json, store: Store) -> None:
    """Completes a new object in place; raises Refused."""
    complete = _BY_BUCKET.get(bucket)
    if complete:
        complete(value, store)


def qos_class(spec: Json) -> str:
    """The QoS class of a pod, by its requests and limits."""
    resources = [container.get("resources") or {} for container in containers(spec)]
    amounts = [r.get(side) or {} for r in resources for side in ("requests", "limits")]
    if not any(name in one for one in amounts for name in _COUNTED):
        return "BestEffort"
    whole = all(
        (r.get("limits") or {}).get(name) and (r.get("requests") or {}).get(name) == r["limits"][name]
        for r in resources
        for name in _COUNTED
    )
    return "Guaranteed" if whole else "Burstable"


def _pod(value: Json, store: Store) -> None:
    spec = value["spec"]
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    _priority(value, store)
    tolerate(value)
    value.setdefault("status", {})["qosClass"] = qos_class(spec)
    if spec.get("schedulingGates"):
        value["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": value["metadata"]["creationTimestamp"],
            }
        ]


def tolerate(value: Json) -> None:
    """Adds the tolerations for not-ready and unreachable nodes, for five minutes; also on updates."""
    tolerations = value["spec"].get("tolerations") or []
    for key in (names.NOT_READY_TAINT, names.UNREACHABLE_TAINT):
        if not any(_tolerates(toleration, key) for toleration in tolerations):
            added = {"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": _TOLERATION_S}
            tolerations = [*tolerations, {"key": key, **added}]
    value["spec"]["tolerations"] = tolerations


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def _priority(value: Json, store: Store) -> None:
    spec = value["spec"]
    name = spec.get("priorityClassName") or ""
    classes = [stored.value() for stored in store.bucket("scheduling.k8s.io/priorityclasses").sorted()]
    if name:
        found = next((c for c in classes if c["metadata"]["name"] == name), None)
        if found is None:
            pod = value["metadata"].get("name") or value["metadata"].get("generateName", "")
            raise forbidden("", "pods", pod, f"no PriorityClass with name {name} was found")
    else:
        found = next((c for c in classes if c.get("globalDefault")), None)
        if found is not None:
            spec["priorityClassName"] = found["metadata"]["name"]
    spec["priority"] = found.get("value", 0) if found else 0
    policy = found.get("preemptionPolicy") if found else None
    spec.setdefault("preemptionPolicy", policy or "PreemptLowerPriority")


def _service(value: Json, store: Store) -> None:
    spec = value["spec"]
    if spec["type"] == "ExternalName" or spec.get("clusterIP"):
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
        return
    taken = {stored.value()["spec"].get("clusterIP") for stored in store.bucket("/services").sorted()}
    number = next(n for n in range(_SERVICES + 10, _SERVICES + 0xFFFF) if _address(n) not in taken)
    spec["clusterIP"] = _address(number)
    spec["clusterIPs"] = [spec["clusterIP"]]


def _address(number: int) -> str:
    return ".".join(str(byte) for byte in number.to_bytes(4))


def _job(value: Json, _store: Store) -> None:
    spec, metadata = value["spec"], value["metadata"]
    if spec.get("manualSelector"):
        return
    uid, name = metadata["uid"], metadata["name"]
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}


def _namespace(value: Json, _store: Store) -> None:
    metadata = value["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}


def _claim(value: Json, store: Store) -> None:
    if value["spec"].get("storageClassName") is not None:
        return
    classes = [stored.value() for stored in store.bucket("storage.k8s.io/storageclasses").sorted()]
    defaults = [c for c in classes if (c["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS) == "true"]
    if defaults:
        newest = max(defaults, key=lambda c: (c["metadata"]["creationTimestamp"], c["metadata"]["name"]))
        value["spec"]["storageClassName"] = newest["metadata"]["name"]


_BY_BUCKET: Final[Mapping[str, Callable[[Json, Store], None]]] = {
    "/pods": _pod,
    "/services": _service,
    "/namespaces": _namespace,
    "/persistentvolumeclaims": _claim,
    "batch/jobs": _job,
}


def beginnings() -> list[tuple[str, Json]]:
    """The objects of a new cluster: bucket and object."""
    spaces = [
        ("/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in ("default", "kube-node-lease", "kube-public", "kube-system")
    ]
    classes: list[tuple[str, Json]] = [
        (
            "scheduling.k8s.io/priorityclasses",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": value,
            },
        )
        for name, value in PRIORITY_CLASSES.items()
    ]
    return [*spaces, *classes]
