"""Simplified volumes: a claim gets one in the zone of its pod's node, and it is attached while a pod there uses it.

It simulates the provisioner, the binder and the attacher of the EBS CSI driver. Volumes never become full, fail or
move. A claim with an unknown class stays pending.
"""

from typing import Final

from holdfast import errors, names
from holdfast.api.meta import ObjectMeta
from holdfast.runtime.cache import key_of
from holdfast.runtime.results import Key
from holdfast.sim.cluster import kinds, pods, scheduling_volumes
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Attachment, Claim, Node, Pod, StorageClass, Volume

_BOUND: Final = "pv.kubernetes.io/bind-completed"


class Volumes:
    """Provisions volumes for PersistentVolumeClaims."""

    def __init__(self, engine: Engine, zones: tuple[str, ...]) -> None:
        self._engine = engine
        self._zones = zones
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Claim, lambda one: [(one.metadata.namespace, one.metadata.name)])
        self.worker.watch(StorageClass, lambda _: [key_of(claim) for claim in engine.caches.of(Claim)])

    async def reconcile(self, key: Key) -> float | None:
        claim = self._engine.caches.of(Claim).get(key)
        if claim is None or claim.spec.get("volumeName") or claim.metadata.deletion_timestamp is not None:
            return None
        storage = self._engine.caches.of(StorageClass).get(("", claim.spec.get("storageClassName") or ""))
        zone = self._zone(claim, storage) if storage is not None else ""
        if storage is None or not zone:
            return None
        name = f"pvc-{claim.metadata.uid}"
        wanted = (claim.spec.get("resources") or {}).get("requests") or {}
        modes = claim.spec.get("accessModes") or ["ReadWriteOnce"]
        in_zone = {"key": names.ZONE, "operator": "In", "values": [zone]}
        volume = Volume(
            metadata=ObjectMeta(name=name),
            spec={
                "capacity": wanted,
                "accessModes": modes,
                "storageClassName": storage.metadata.name,
                "persistentVolumeReclaimPolicy": "Delete",
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": key[0],
                    "name": key[1],
                    "uid": claim.metadata.uid,
                },
                "csi": {"driver": storage.provisioner, "volumeHandle": f"vol-{claim.metadata.uid}"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
            },
        )
        try:
            created = await self._engine.kube.create(volume)
            await self._engine.kube.patch(created, {"status": {"phase": "Bound"}}, status=True)
        except errors.AlreadyExists:
            pass
        bound = {"metadata": {"annotations": {_BOUND: "yes"}}, "spec": {"volumeName": name}}
        claim = await self._engine.kube.patch(claim, bound)
        status = {"phase": "Bound", "capacity": wanted, "accessModes": modes}
        await self._engine.kube.patch(claim, {"status": status}, status=True, only_if_unchanged=True)
        return None

    def _zone(self, claim: Claim, storage: StorageClass) -> str:
        """The zone of the new volume; empty while its pod has no node."""
        if storage.volume_binding_mode != scheduling_volumes.LATE:
            return next(iter((*scheduling_volumes.zones(storage), *self._zones)), "")
        chosen = claim.metadata.annotations.get(scheduling_volumes.SELECTED_NODE, "")
        node = self._engine.caches.of(Node).get(("", chosen))
        return node.metadata.labels.get(names.ZONE, "") if node is not None else ""


class OwnClaims:
    """Creates the claims of ephemeral volumes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Pod, lambda pod: [(pod.metadata.namespace, pod.metadata.name)])

    async def reconcile(self, key: Key) -> float | None:
        pod = self._engine.caches.of(Pod).get(key)
        for volume in (pod.spec.get("volumes") or ()) if pod is not None and pods.active(pod) else ():
            name = f"{key[1]}-{volume['name']}"
            if "ephemeral" in volume and self._engine.caches.of(Claim).get((key[0], name)) is None:
                assert pod is not None
                spec = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
                meta = ObjectMeta(name=name, namespace=key[0], owner_references=kinds.owned_by(pod))
                await self._engine.kube.create(Claim(metadata=meta, spec=spec))
        return None


class Attachments:
    """Attaches volumes to the nodes of their pods, and detaches them afterwards. Keyed by node."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._attachments = engine.caches.of(Attachment)
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Pod, lambda pod: [("", pods.node_of(pod))] if _uses(pod) else ())
        self.worker.watch(Attachment, lambda one: [("", one.spec["nodeName"])])

    async def reconcile(self, key: Key) -> float | None:
        node = key[1]
        wanted = {}
        for pod in list(self._engine.pods_by_node.get(node)):
            if not pods.ended(pod) and _uses(pod):
                for volume in scheduling_volumes.find(pod, self._engine.caches).bound:
                    wanted[volume.metadata.name] = scheduling_volumes.driver_of(volume)
        there = {
            one.spec["source"].get("persistentVolumeName"): one
            for one in self._attachments
            if one.spec["nodeName"] == node
        }
        for volume_name, driver in wanted.items():
            if volume_name not in there:
                created = await self._engine.kube.create(
                    Attachment(
                        metadata=ObjectMeta(name=f"csi-{volume_name}-{node}"[:253]),
                        spec={
                            "attacher": driver,
                            "nodeName": node,
                            "source": {"persistentVolumeName": volume_name},
                        },
                    )
                )
                await self._engine.kube.patch(created, {"status": {"attached": True}}, status=True)
        for volume_name, attachment in there.items():
            if volume_name not in wanted and attachment.metadata.deletion_timestamp is None:
                await self._engine.kube.delete(attachment)
        return None


def _uses(pod: Pod) -> bool:
    return bool(pods.node_of(pod)) and next(pods.claim_names(pod), None) is not None
