"""The StatefulSet controller: pods with stable names and claims, created in order and deleted in reverse."""

from typing import Final

from holdfast import errors
from holdfast.api.meta import ObjectMeta
from holdfast.runtime.results import Key
from holdfast.sim.cluster import kinds, pods
from holdfast.sim.cluster.deployments import template_hash
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Claim, Json, Pod, StatefulSet
from holdfast.sim.cluster.replicas import report

REVISION: Final = "controller-revision-hash"


class StatefulSets:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(StatefulSet, lambda one: [(one.metadata.namespace, one.metadata.name)])
        self.worker.watch(Pod, lambda pod: kinds.owner_key(pod, StatefulSet))

    async def reconcile(self, key: Key) -> float | None:
        owner = self._engine.caches.of(StatefulSet).get(key)
        if owner is None:
            return None
        if owner.metadata.deletion_timestamp is None:
            await self._proceed(owner)
        mine = list(self._engine.pods_by_owner.get(owner.metadata.uid))
        ready = sum(pods.ready(pod) and pods.active(pod) for pod in mine)
        status = {
            "replicas": len(mine),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "currentReplicas": len(mine),
            "observedGeneration": owner.metadata.generation,
        }
        await report(self._engine, owner, status)
        return None

    async def _proceed(self, owner: StatefulSet) -> None:
        """Does one step at a time, unless the policy is Parallel."""
        ordered = owner.spec.get("podManagementPolicy") != "Parallel"
        wanted = int(owner.spec.get("replicas", 1))
        mine = {_ordinal(pod): pod for pod in self._engine.pods_by_owner.get(owner.metadata.uid)}
        for ordinal in range(wanted):
            pod = mine.get(ordinal)
            if pod is None:
                await self._make(owner, ordinal)
            elif pods.ended(pod) and not pods.is_terminating(pod):
                await self._engine.kube.delete(pod)
            if ordered and (pod is None or not pods.ready(pod) or pods.is_terminating(pod)):
                return
        for ordinal in sorted((n for n in mine if n >= wanted), reverse=True):
            if not pods.is_terminating(mine[ordinal]):
                await self._engine.kube.delete(mine[ordinal])
            if ordered:
                return
        await self._update(owner, [mine[n] for n in sorted(mine, reverse=True)])

    async def _update(self, owner: StatefulSet, mine: list[Pod]) -> None:
        """Deletes the last pod of an older template, if all pods are ready."""
        if (owner.spec.get("updateStrategy") or {}).get("type") == "OnDelete":
            return
        if any(pods.is_terminating(pod) or not pods.ready(pod) for pod in mine):
            return
        revision = _revision(owner)
        stale = next((pod for pod in mine if pod.metadata.labels.get(REVISION) != revision), None)
        if stale is not None:
            await self._engine.kube.delete(stale)

    async def _make(self, owner: StatefulSet, ordinal: int) -> None:
        name = f"{owner.metadata.name}-{ordinal}"
        volumes = []
        for template in owner.spec.get("volumeClaimTemplates") or ():
            claim = f"{template['metadata']['name']}-{name}"
            volumes.append(
                {"name": template["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}}
            )
            await self._claim(owner, template, claim)
        labels = {
            REVISION: _revision(owner),
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
        }
        pod = kinds.from_template(owner.spec["template"], owner, name=name, labels=labels)
        pod.spec["volumes"] = [*(pod.spec.get("volumes") or ()), *volumes]
        pod.spec["hostname"] = name
        await self._engine.kube.create(pod)

    async def _claim(self, owner: StatefulSet, template: Json, name: str) -> None:
        if self._engine.caches.of(Claim).get((owner.metadata.namespace, name)) is not None:
            return
        labels = {
            **(template["metadata"].get("labels") or {}),
            **(owner.spec["selector"].get("matchLabels") or {}),
        }
        meta = ObjectMeta(name=name, namespace=owner.metadata.namespace, labels=labels)
        try:
            await self._engine.kube.create(Claim(metadata=meta, spec=template["spec"]))
        except errors.AlreadyExists:
            return


def _ordinal(pod: Pod) -> int:
    return int(pod.metadata.name.rpartition("-")[2])


def _revision(owner: StatefulSet) -> str:
    return f"{owner.metadata.name}-{template_hash(owner.spec['template'])}"
