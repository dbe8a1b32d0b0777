"""The ReplicaSet controller."""

from collections import Counter
from typing import Any

from holdfast import names
from holdfast.runtime.results import Key
from holdfast.sim.cluster import kinds, pods
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Pod, ReplicaSet


class ReplicaSets:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._active: Counter[str] = Counter()  # by the uid of their owner
        self._ready: Counter[str] = Counter()  # those that are active, too
        engine.caches.of(Pod).subscribe(self._count)
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(ReplicaSet, lambda one: [(one.metadata.namespace, one.metadata.name)])
        self.worker.watch(Pod, lambda pod: kinds.owner_key(pod, ReplicaSet))

    async def reconcile(self, key: Key) -> float | None:
        owner = self._engine.caches.of(ReplicaSet).get(key)
        if owner is None:
            return None
        uid, wanted = owner.metadata.uid, int(owner.spec.get("replicas", 1))
        missing = wanted - self._active[uid] if owner.metadata.deletion_timestamp is None else 0
        for _ in range(missing):
            await self._engine.kube.create(kinds.from_template(owner.spec["template"], owner))
        if missing < 0:
            mine = [pod for pod in self._engine.pods_by_owner.get(uid) if pods.active(pod)]
            for pod in unwanted_first(mine)[: len(mine) - wanted]:
                await self._engine.kube.delete(pod)
        await self._report(owner)
        return None

    async def _report(self, owner: ReplicaSet) -> None:
        active, ready = self._active[owner.metadata.uid], self._ready[owner.metadata.uid]
        status = {
            "replicas": active,
            "fullyLabeledReplicas": active,
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": owner.metadata.generation,
        }
        await report(self._engine, owner, status)

    def _count(self, before: Pod | None, after: Pod | None) -> None:
        for pod, by in ((before, -1), (after, 1)):
            owner = kinds.controller_of(pod) if pod is not None and pods.active(pod) else None
            if pod is not None and owner is not None and owner.kind == ReplicaSet.kind:
                self._active[owner.uid] += by
                self._ready[owner.uid] += by * pods.ready(pod)
                if not self._active[owner.uid]:
                    del self._active[owner.uid], self._ready[owner.uid]


async def report(engine: Engine, owner: kinds.Whole, status: dict[str, Any]) -> None:
    """Writes a status if it changed. A status with a list is written only if the object is unchanged."""
    if any(owner.status.get(name) != value for name, value in status.items()):
        lists = any(isinstance(value, list) for value in status.values())
        await engine.kube.patch(owner, {"status": status}, status=True, only_if_unchanged=lists)


def unwanted_first(mine: list[Pod]) -> list[Pod]:
    """The pods in the order in which a scale-down deletes them."""
    crowd = Counter(pods.node_of(pod) for pod in mine)

    def rank(pod: Pod) -> tuple[Any, ...]:
        created, node = pod.metadata.creation_timestamp, pods.node_of(pod)
        return (
            bool(node),
            pod.status.get("phase") == "Running",
            pods.ready(pod),
            int(pod.metadata.annotations.get(names.POD_DELETION_COST, "0")),
            -crowd[node],
            -(created.timestamp() if created else 0),
            pod.metadata.name,
        )

    return sorted(mine, key=rank)
