"""The cloud controller manager and the pod garbage collector.

The first initializes nodes and deletes those without an instance. The second deletes pods without a node, which no
kubelet will stop.
"""

from typing import Final

from holdfast import names
from holdfast.api import aws
from holdfast.runtime.results import Key
from holdfast.sim.cluster import labels, pods
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Node, Pod
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2.entities import PENDING_OR_RUNNING, Instance
from holdfast.sim.ec2.service import Ec2

OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
_PERIOD_S: Final = 5.0


class CloudNodes:
    """Initializes nodes, and deletes those whose instance is terminated."""

    def __init__(self, engine: Engine, cloud: Ec2) -> None:
        self._engine = engine
        self._cloud = cloud
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Node, lambda node: [("", node.metadata.name)])

    async def reconcile(self, key: Key) -> float | None:
        node = self._engine.caches.of(Node).get(key)
        if node is None or node.metadata.deletion_timestamp is not None:
            return None
        self._cloud.advance()
        instance_id = str(node.spec.get("providerID") or "").rpartition("/")[2]
        instance = self._cloud.region.instances.get(instance_id)
        if any(taint["key"] == names.UNINITIALIZED_TAINT for taint in labels.taints(node)):
            if instance is not None:
                await self._introduce(node, instance)
            return None
        if pods.condition(node.status, pods.READY).get("status") == "True" or not instance_id:
            return None
        if instance is None or instance.state not in (*PENDING_OR_RUNNING, "shutting-down"):
            await self._engine.kube.delete(node)
            return None
        return _PERIOD_S

    async def _introduce(self, node: Node, instance: Instance) -> None:
        region = self._cloud.region
        node_labels = {
            names.ZONE: region.account(instance.account).zone_name(instance.zone_id),
            names.REGION: region.setup.region,
            names.INSTANCE_TYPE: instance.instance_type,
            aws.ZONE_ID: instance.zone_id,
        }
        left = [taint for taint in labels.taints(node) if taint["key"] != names.UNINITIALIZED_TAINT]
        change = {"metadata": {"labels": node_labels}, "spec": {"taints": left or None}}
        await self._engine.kube.patch(node, change, only_if_unchanged=True)


class Orphans:
    """Deletes pods whose node is deleted or out of service."""

    def __init__(self, engine: Engine, timings: Timings) -> None:
        self._engine = engine
        self._timings = timings
        self._missing_s: dict[str, float] = {}  # when a node was first missing
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Node, lambda node: [("", node.metadata.name)])
        self.worker.watch(Pod, lambda pod: [("", pods.node_of(pod))] if pods.node_of(pod) else ())

    async def reconcile(self, key: Key) -> float | None:
        name = key[1]
        node = self._engine.caches.of(Node).get(key)
        found = list(self._engine.pods_by_node.get(name))
        if node is not None:
            self._missing_s.pop(name, None)
            if any(taint["key"] == OUT_OF_SERVICE for taint in labels.taints(node)):
                for pod in found:
                    if pods.is_terminating(pod):
                        await self._end(pod)
            return None
        if not found:
            self._missing_s.pop(name, None)
            return None
        now_s = self._engine.clock.monotonic_s()
        left_s = self._missing_s.setdefault(name, now_s) + self._timings.orphan_s - now_s
        if left_s > 0:
            return left_s
        for pod in found:
            await self._end(pod)
        return None

    async def _end(self, pod: Pod) -> None:
        if not pods.ended(pod):
            pod = await self._engine.kube.patch(pod, {"status": {"phase": "Failed"}}, status=True)
        if pod.metadata.deletion_timestamp is None or pod.metadata.deletion_grace_period_seconds:
            await self._engine.kube.delete(pod, grace_period_s=0)
