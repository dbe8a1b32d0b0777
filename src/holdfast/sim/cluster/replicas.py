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
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(ReplicaSet, lambda one: [(one.metadata.namespace, one.metadata.name)])
        self.worker.watch(Pod, lambda pod: kinds.owner_key(pod, ReplicaSet))

    async def reconcile(self, key: Key) -> float | None:
        owner = self._engine.caches.of(ReplicaSet).get(key)
        if owner is None:
            return None
        mine = [pod for pod in self._engine.pods_by_owner.get(owner.metadata.uid) if pods.active(pod)]
        wanted = int(owner.spec.get("replicas", 1))
        if owner.metadata.deletion_timestamp is None:
            for _ in range(wanted - len(mine)):
                pod = await self._engine.kube.create(kinds.from_template(owner.spec["template"], owner))
                mine.append(pod)
            extra = max(0, len(mine) - wanted)
            if extra:
                mine = unwanted_first(mine)
            for pod in mine[:extra]:
                await self._engine.kube.delete(pod)
            mine = mine[extra:]
        await self._report(owner, mine)
        return None

    async def _report(self, owner: ReplicaSet, mine: list[Pod]) -> None:
        ready = sum(pods.ready(pod) for pod in mine)
        status = {
            "replicas": len(mine),
            "fullyLabeledReplicas": len(mine),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "observedGeneration": owner.metadata.generation,
        }
        await report(self._engine, owner, status)


async def report(engine: Engine, owner: kinds.Whole, status: dict[str, Any]) -> None:
    """Writes a status if it changed. A status with a list is written only if the object is unchanged."""
    if any(owner.status.get(name) != value for name, value in status.items()):
        lists = any(isinstance(value, list) for value in status.values())
        await engine.kube.patch(owner, {"status": status}, status=True, only_if_unchanged=lists)


def unwanted_first(mine: list[Pod]) -> list[Pod]:
    """The pods in the order in which a scale-down deletes them."""
    crowd = Counter(pods.node_of(pod) for pod in mine)

    def rank(pod: Pod) -> tuple[Any, ...]:
        created = pod.metadata.creation_timestamp
        return (
            bool(pods.node_of(pod)),
            pod.status.get("phase") == "Running",
            pods.ready(pod),
            int(pod.metadata.annotations.get(names.POD_DELETION_COST, "0")),
            -crowd[pods.node_of(pod)],
            -(created.timestamp() if created else 0),
            pod.metadata.name,
        )

    return sorted(mine, key=rank)
