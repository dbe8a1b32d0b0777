"""All kinds by apiVersion and kind, and the decoding of plain objects."""

from typing import Any, Final

import msgspec

from holdfast.api import cluster, kueue, nodes, pods, scheduling, storage, workloads
from holdfast.api.ec2nodeclass import EC2NodeClass, HoldfastNodeClass
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.api.scenario import Catalog
from holdfast.api.simulation import Simulation
from holdfast.api.world import World

OURS: Final[tuple[type[Object], ...]] = (NodePool, NodeClaim, EC2NodeClass, HoldfastNodeClass)
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
    scheduling.PodGroup,
    kueue.Workload,
    PodTemplate,
    ProvisioningRequest,
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
# Kinds in files, which include kinds that no API server serves.
IN_FILES: Final = BY_NAME | {(kind.api_version, kind.kind): kind for kind in (Catalog, Simulation, World)}


def from_plain(value: dict[str, Any], kind: type[Object]) -> Object:
    """The object of a document; raises msgspec.ValidationError, with the path, if it cannot be decoded.

    An explicit null means unset, as in the API server.
    """
    return msgspec.convert(without_nulls(value), kind)


def without_nulls(value: Any) -> Any:
    """The same value without keys whose value is null."""
    if isinstance(value, dict):
        return {key: without_nulls(child) for key, child in value.items() if child is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
