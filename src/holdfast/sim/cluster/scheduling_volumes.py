"""The volumes of a pod that restrict its nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from holdfast.runtime.cache import Caches
from holdfast.sim.cluster import labels, pods
from holdfast.sim.cluster.kinds import Claim, CSINode, Json, Pod, StorageClass, Volume
from holdfast.sim.cluster.node_infos import NodeInfo

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
LATE: Final = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class Volumes:
    """`missing`: why the pod can run on no node, if so."""

    bound: tuple[Volume, ...] = ()
    unbound: tuple[tuple[Claim, StorageClass], ...] = ()  # provisioned after the pod has a node
    missing: str = ""
    caches: Caches | None = None

    def refusal(self, node_info: NodeInfo) -> str:
        meta = node_info.node.metadata
        for volume in self.bound:
            required = ((volume.spec.get("nodeAffinity") or {}).get("required") or {}).get(
                "nodeSelectorTerms"
            )
            if required and not labels.any_term(required, meta.labels, meta.name):
                return "node(s) didn't match PersistentVolume's node affinity"
        for _, storage in self.unbound:
            if storage.allowed_topologies and not any(
                _allows(topology, node_info) for topology in storage.allowed_topologies
            ):
                return "node(s) didn't find available persistent volumes to bind"
        return "node(s) exceed max volume count" if self._too_many(node_info) else ""

    def _too_many(self, node_info: NodeInfo) -> bool:
        if self.caches is None or not (self.bound or self.unbound):
            return False
        csi = self.caches.of(CSINode).get(("", node_info.name))
        for driver in (csi.spec.get("drivers") or ()) if csi else ():
            limit = (driver.get("allocatable") or {}).get("count")
            own = {v.metadata.name for v in self.bound if driver_of(v) == driver["name"]}
            new = sum(storage.provisioner == driver["name"] for _, storage in self.unbound)
            there = {
                volume.metadata.name
                for pod in node_info.pods()
                for volume in find(pod, self.caches).bound
                if driver_of(volume) == driver["name"]
            }
            if limit is not None and len(there | own) + new > limit and (own - there or new):
                return True
        return False


def find(pod: Pod, caches: Caches) -> Volumes:
    bound: list[Volume] = []
    unbound: list[tuple[Claim, StorageClass]] = []
    for name in pods.claim_names(pod):
        claim = caches.of(Claim).get((pod.metadata.namespace, name))
        if claim is None:
            return Volumes(missing=f'persistentvolumeclaim "{name}" not found')
        volume = caches.of(Volume).get(("", claim.spec.get("volumeName") or ""))
        if volume is not None and claim.status.get("phase") == "Bound":
            bound.append(volume)
            continue
        storage = caches.of(StorageClass).get(("", claim.spec.get("storageClassName") or ""))
        if storage is None or storage.volume_binding_mode != LATE:
            return Volumes(missing="pod has unbound immediate PersistentVolumeClaims")
        unbound.append((claim, storage))
    return Volumes(tuple(bound), tuple(unbound), caches=caches if bound or unbound else None)


def driver_of(volume: Volume) -> str:
    return str((volume.spec.get("csi") or {}).get("driver", ""))


def _allows(topology: Json, node_info: NodeInfo) -> bool:
    has = node_info.node.metadata.labels
    return all(has.get(e["key"]) in e["values"] for e in topology.get("matchLabelExpressions") or ())


def zones(storage: StorageClass) -> Iterator[str]:
    """The zones of a StorageClass's allowedTopologies, if any."""
    for topology in storage.allowed_topologies:
        for expression in topology.get("matchLabelExpressions") or ():
            yield from expression["values"]
