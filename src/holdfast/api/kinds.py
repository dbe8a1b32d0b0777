"""Every kind we know, by its name on the wire; and how a plain object becomes one of them."""

from typing import Any, Final

import msgspec

from holdfast.api import cluster, nodes, pods, storage, workloads
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.scenario import Catalog
from holdfast.api.world import World

OURS: Final[tuple[type[Object], ...]] = (NodePool, NodeClaim, EC2NodeClass)
BUILT_IN: Final[tuple[type[Object], ...]] = (
    pods.Pod,
    pods.Binding,
    nodes.Node,
    workloads.DaemonSet,
    workloads.Deployment,
    workloads.ReplicaSet,
    workloads.StatefulSet,
    workloads.ReplicationController,
    workloads.Job,
    cluster.PodDisruptionBudget,
    cluster.Eviction,
    cluster.PriorityClass,
    cluster.Namespace,
    cluster.Service,
    cluster.Lease,
    cluster.Event,
    storage.PersistentVolume,
    storage.PersistentVolumeClaim,
    storage.StorageClass,
    storage.CSINode,
    storage.VolumeAttachment,
)
BY_NAME: Final = {(kind.api_version, kind.kind): kind for kind in (*OURS, *BUILT_IN)}
# What a file may hold: also kinds that no API server knows.
IN_FILES: Final = BY_NAME | {(kind.api_version, kind.kind): kind for kind in (Catalog, World)}


def from_plain(value: dict[str, Any], kind: type[Object]) -> Object:
    """The object a document describes; raises msgspec.ValidationError, with the path, when it is not one.

    An explicit null means unset, as it does to the API server.
    """
    return msgspec.convert(without_nulls(value), kind)


def without_nulls(value: Any) -> Any:
    """The same value without the keys that have none."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
