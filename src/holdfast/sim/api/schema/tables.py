"""Tables for `kubectl get`.

Called by `answers`. Built-in kinds have the usual columns; custom resources have those of their CRD. A column is its
name, its type, whether only `-o wide` shows it, and a function for the cell.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.sim.api.schema import cells, jsonpath
from holdfast.sim.api.schema.resources import Resource

Json = dict[str, Any]
Cell = Callable[[Json], Any]


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    cell: Cell
    type: str = "string"
    wide: bool = False
    description: str = ""


def table(resource: Resource, values: Sequence[Json], include: str, meta: Json, now_s: int) -> Json:
    """A Table of those objects. `include` is the part of each object that is added to its row: None, Metadata,
    Object."""
    columns = _columns(resource)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": meta,
        "columnDefinitions": [_definition(column) for column in columns],
        "rows": [
            {"cells": [_cell(column, value, now_s) for column in columns], "object": _beside(value, include)}
            for value in values
        ],
    }


def _cell(column: Column, value: Json, now_s: int) -> Any:
    found = column.cell(value)
    return cells.age(found, now_s) if column.type == "date" else found


def _columns(resource: Resource) -> Sequence[Column]:
    if resource.custom:
        return (
            [_NAME, *(_custom_column(c) for c in resource.custom.columns)]
            if resource.custom.columns
            else _PLAIN
        )
    return _BUILT_IN.get(resource.bucket, _PLAIN)


def _definition(column: Column) -> Json:
    return {
        "name": column.name,
        "type": column.type,
        "format": "name" if column.name == "Name" else "",
        "description": column.description,
        "priority": 1 if column.wide else 0,
    }


def _beside(value: Json, include: str) -> Json | None:
    match include:
        case "None":
            return None
        case "Object":
            return value
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"]}


def _custom_column(given: Json) -> Column:
    path, type_ = given["jsonPath"], given.get("type", "string")

    def cell(value: Json) -> Any:
        found = jsonpath.find(path, value)
        if not found or found[0] is None:
            return None
        if type_ == "date" or type_ in ("integer", "number", "boolean"):
            return found[0]
        return cells.text(found[0])

    return Column(
        given["name"], cell, type_, wide=bool(given.get("priority")), description=given.get("description", "")
    )


def _at(path: str, missing: Any = "") -> Cell:
    """A cell with one field of the object."""

    def cell(value: Json) -> Any:
        found = jsonpath.find(path, value)
        return missing if not found or found[0] is None else found[0]

    return cell


_NAME: Final = Column("Name", _at(".metadata.name"))
_AGE: Final = Column("Age", _at(".metadata.creationTimestamp"), "date")
_PLAIN: Final = (_NAME, Column("Created At", _at(".metadata.creationTimestamp")))
_REPLICAS: Final = (
    Column("Desired", _at(".spec.replicas", 0), "integer"),
    Column("Current", _at(".status.replicas", 0), "integer"),
    Column("Ready", _at(".status.readyReplicas", 0), "integer"),
    _AGE,
)
_BUILT_IN: Final[Mapping[str, Sequence[Column]]] = {
    "/pods": (
        _NAME,
        Column("Ready", cells.pod_ready),
        Column("Status", cells.pod_status),
        Column("Restarts", cells.pod_restarts),
        _AGE,
        Column("IP", _at(".status.podIP", "<none>"), wide=True),
        Column("Node", _at(".spec.nodeName", "<none>"), wide=True),
        Column("Nominated Node", _at(".status.nominatedNodeName", "<none>"), wide=True),
        Column("Readiness Gates", lambda _value: "<none>", wide=True),
    ),
    "/nodes": (
        _NAME,
        Column("Status", cells.node_status),
        Column("Roles", cells.node_roles),
        _AGE,
        Column("Version", _at(".status.nodeInfo.kubeletVersion")),
        Column("Internal-IP", cells.node_address("InternalIP"), wide=True),
        Column("External-IP", cells.node_address("ExternalIP"), wide=True),
        Column("OS-Image", _at(".status.nodeInfo.osImage", "<unknown>"), wide=True),
        Column("Kernel-Version", _at(".status.nodeInfo.kernelVersion", "<unknown>"), wide=True),
        Column("Container-Runtime", _at(".status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True),
    ),
    "/namespaces": (_NAME, Column("Status", _at(".status.phase")), _AGE),
    "/events": (
        Column("Last Seen", cells.event_last_seen, "date"),
        Column("Type", _at(".type")),
        Column("Reason", _at(".reason")),
        Column("Object", cells.event_object),
        Column("Message", _at(".message")),
        Column("Name", _at(".metadata.name"), wide=True),
    ),
    "/services": (
        _NAME,
        Column("Type", _at(".spec.type")),
        Column("Cluster-IP", _at(".spec.clusterIP", "<none>")),
        Column("External-IP", _at(".spec.externalName", "<none>")),
        Column("Port(s)", cells.service_ports),
        _AGE,
        Column("Selector", lambda value: cells.labels((value.get("spec") or {}).get("selector")), wide=True),
    ),
    "/configmaps": (_NAME, Column("Data", lambda value: len(value.get("data") or ()), "integer"), _AGE),
    "/secrets": (
        _NAME,
        Column("Type", _at(".type")),
        Column("Data", lambda value: len(value.get("data") or ()), "integer"),
        _AGE,
    ),
    "/serviceaccounts": (_NAME, _AGE),
    "/persistentvolumeclaims": (
        _NAME,
        Column("Status", _at(".status.phase")),
        Column("Volume", _at(".spec.volumeName")),
        Column("Capacity", _at(".status.capacity.storage")),
        Column("Access Modes", cells.access_modes),
        Column("StorageClass", _at(".spec.storageClassName")),
        _AGE,
    ),
    "/persistentvolumes": (
        _NAME,
        Column("Capacity", _at(".spec.capacity.storage")),
        Column("Access Modes", cells.access_modes),
        Column("Reclaim Policy", _at(".spec.persistentVolumeReclaimPolicy")),
        Column("Status", _at(".status.phase")),
        Column("Claim", _at(".spec.claimRef.name")),
        Column("StorageClass", _at(".spec.storageClassName")),
        _AGE,
    ),
    "apps/deployments": (
        _NAME,
        Column("Ready", cells.ready_of_replicas),
        Column("Up-to-date", _at(".status.updatedReplicas", 0), "integer"),
        Column("Available", _at(".status.availableReplicas", 0), "integer"),
        _AGE,
        Column("Containers", cells.template_containers, wide=True),
        Column("Images", cells.template_images, wide=True),
        Column("Selector", lambda value: cells.selector(value["spec"].get("selector")), wide=True),
    ),
    "apps/replicasets": (_NAME, *_REPLICAS),
    "/replicationcontrollers": (_NAME, *_REPLICAS),
    "apps/statefulsets": (_NAME, Column("Ready", cells.ready_of_replicas), _AGE),
    "apps/daemonsets": (
        _NAME,
        Column("Desired", _at(".status.desiredNumberScheduled", 0), "integer"),
        Column("Current", _at(".status.currentNumberScheduled", 0), "integer"),
        Column("Ready", _at(".status.numberReady", 0), "integer"),
        Column("Up-to-date", _at(".status.updatedNumberScheduled", 0), "integer"),
        Column("Available", _at(".status.numberAvailable", 0), "integer"),
        Column(
            "Node Selector", lambda value: cells.labels(value["spec"]["template"]["spec"].get("nodeSelector"))
        ),
        _AGE,
    ),
    "batch/jobs": (
        _NAME,
        Column("Status", cells.job_status),
        Column("Completions", cells.job_completions),
        _AGE,
    ),
    "policy/poddisruptionbudgets": (
        _NAME,
        Column("Min Available", _at(".spec.minAvailable", "N/A")),
        Column("Max Unavailable", _at(".spec.maxUnavailable", "N/A")),
        Column("Allowed Disruptions", _at(".status.disruptionsAllowed", 0), "integer"),
        _AGE,
    ),
    "coordination.k8s.io/leases": (_NAME, Column("Holder", _at(".spec.holderIdentity")), _AGE),
    "storage.k8s.io/storageclasses": (
        _NAME,
        Column("Provisioner", _at(".provisioner")),
        Column("ReclaimPolicy", _at(".reclaimPolicy")),
        Column("VolumeBindingMode", _at(".volumeBindingMode")),
        Column("AllowVolumeExpansion", _at(".allowVolumeExpansion", missing=False), "boolean"),
        _AGE,
    ),
    "scheduling.k8s.io/priorityclasses": (
        _NAME,
        Column("Value", _at(".value", 0), "integer"),
        Column("Global-Default", _at(".globalDefault", missing=False), "boolean"),
        _AGE,
        Column("PreemptionPolicy", _at(".preemptionPolicy")),
    ),
    "apiextensions.k8s.io/customresourcedefinitions": _PLAIN,
}
