"""Builders of Kubernetes objects and NodeClaims as wire types: a test sets only the fields that it checks.

`builders` has NodePools and EC2NodeClasses.
"""

import itertools
from typing import Any, TypeVar

import msgspec

from holdfast.api import kinds
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from holdfast.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from holdfast.ports import Change
from holdfast.runtime.cache import Caches

K = TypeVar("K", bound=Object)
AN_HOUR_AGO = "2026-11-15T09:00:00Z"
NOW = "2026-11-15T10:00:00Z"
NOW_S = 1794736800
_VERSIONS = itertools.count(1)


def read(kind: type[K], name: str, meta: dict[str, Any] | None = None, **fields: Any) -> K:
    parsed = kinds.from_plain({"metadata": {"name": name, **(meta or {})}, **fields}, kind)
    assert isinstance(parsed, kind)
    return parsed


def store(caches: Caches, obj: Object) -> None:
    """Stores an object in its cache, as an event of the watch. Each has a newer version: the cache takes an unknown object
    with an old version for a deleted one."""
    newer = msgspec.structs.replace(obj.metadata, resource_version=str(next(_VERSIONS)))
    caches.of(type(obj)).apply(Change("ADDED", msgspec.structs.replace(obj, metadata=newer)))


def drop(caches: Caches, obj: Object) -> None:
    """Deletes an object from its cache, as an event of the watch."""
    last = msgspec.structs.replace(obj.metadata, resource_version=str(next(_VERSIONS)))
    caches.of(type(obj)).apply(Change("DELETED", msgspec.structs.replace(obj, metadata=last)))


def container(name: str = "main", *, limits: dict[str, Any] | None = None, **requests: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}}


def pod(
    name: str = "p",
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    spec = {"containers": [container(cpu="1")]} | spec
    return read(Pod, name, {"namespace": "default", **(meta or {})}, spec=spec, status=status or {})


def owned(kind: str, name: str, api_version: str = "apps/v1") -> dict[str, Any]:
    """Metadata with an owner reference."""
    return {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": ""}]}


def node(name: str = "n", meta: dict[str, Any] | None = None, **fields: Any) -> Node:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "capacity": {"cpu": "4"}}
    spec = {"providerID": f"cloud:///{name}"}
    return read(
        Node, name, meta, spec=spec | fields.get("spec", {}), status=status | fields.get("status", {})
    )


def nodeclaim(
    name: str = "c",
    meta: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> NodeClaim:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    spec = {"nodeClassRef": reference, "requirements": []} | spec
    return read(NodeClaim, name, meta, spec=spec, status=status or {})


def daemonset(name: str = "ds", meta: dict[str, Any] | None = None, **pod_spec: Any) -> DaemonSet:
    template = {"metadata": {"labels": {"ds": name}}, "spec": {"containers": [container(cpu="1")]} | pod_spec}
    return read(DaemonSet, name, {"namespace": "kube-system"} | (meta or {}), spec={"template": template})


def budget(name: str = "pdb", status: dict[str, Any] | None = None, **spec: Any) -> PodDisruptionBudget:
    return read(PodDisruptionBudget, name, {"namespace": "default"}, spec=spec, status=status or {})


def claim(name: str = "data", meta: dict[str, Any] | None = None, **fields: Any) -> PersistentVolumeClaim:
    return read(PersistentVolumeClaim, name, {"namespace": "default"} | (meta or {}), **fields)


def bound_claim(name: str, volume: str) -> PersistentVolumeClaim:
    metadata = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    return claim(name, metadata, spec={"volumeName": volume}, status={"phase": "Bound"})


def volume(name: str = "vol", meta: dict[str, Any] | None = None, **spec: Any) -> PersistentVolume:
    return read(PersistentVolume, name, meta, spec=spec)


def in_places(*terms: dict[str, list[str]]) -> dict[str, Any]:
    """The node affinity of a volume: each term maps label keys to allowed values."""
    return {
        "required": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": k, "operator": "In", "values": v} for k, v in term.items()]}
                for term in terms
            ]
        }
    }


def storage_class(name: str = "gp3", **fields: Any) -> StorageClass:
    defaults = {"provisioner": "ebs.csi.aws.com", "volumeBindingMode": "WaitForFirstConsumer"}
    return read(StorageClass, name, fields.pop("meta", None), **(defaults | fields))


def csi_node(name: str, **counts: int | None) -> CSINode:
    drivers = [
        {"name": driver.replace("_", "."), **({} if n is None else {"allocatable": {"count": n}})}
        for driver, n in counts.items()
    ]
    return read(CSINode, name, spec={"drivers": drivers})


def _workload(kind: type[K], name: str, replicas: int | None, meta: dict[str, Any], **spec: Any) -> K:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container(cpu="1")]}}
    count = {} if replicas is None else {"replicas": replicas}
    return read(kind, name, {"namespace": "default"} | meta, spec={"template": template} | count | spec)


def deployment(name: str = "web", replicas: int | None = None, **spec: Any) -> Deployment:
    return _workload(Deployment, name, replicas, {}, **spec)


def replicaset(
    name: str = "rs", replicas: int | None = None, meta: dict[str, Any] | None = None, **spec: Any
) -> ReplicaSet:
    return _workload(ReplicaSet, name, replicas, meta or {}, **spec)


def statefulset(name: str = "db", replicas: int | None = None, **spec: Any) -> StatefulSet:
    return _workload(StatefulSet, name, replicas, {}, **spec)


def job(name: str = "batch", meta: dict[str, Any] | None = None, **spec: Any) -> Job:
    return _workload(Job, name, None, meta or {}, **spec)
