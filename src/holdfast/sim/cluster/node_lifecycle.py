"""The node lifecycle controller: detects missing heartbeats, adds taints for conditions, and evicts pods.

It never deletes a Node: `cloud_nodes` does that when the instance is terminated. It writes the status of pods only on
unreachable nodes: it sets them not ready, because their kubelet cannot.
"""

from typing import Final

from holdfast import errors, names
from holdfast.runtime.results import Key
from holdfast.sim.cluster import labels, pods
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import Json, Lease, Node, Pod
from holdfast.sim.cluster.kubelet import LEASES
from holdfast.sim.cluster.kubelet_starter import KubeletStarter
from holdfast.sim.cluster.timings import Timings

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_FOREVER: Final = float("inf")


class NodeLifecycle:
    def __init__(self, engine: Engine, timings: Timings, kubelets: KubeletStarter) -> None:
        self._engine = engine
        self._timings = timings
        self._kubelets = kubelets
        self._heard_s: dict[str, float] = {}  # when the Lease of each node last changed
        # By node: when a taint of this key and effect was first seen.
        self._since_s: dict[str, dict[tuple[str, str], float]] = {}
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(Node, lambda node: [("", node.metadata.name)])
        engine.caches.of(Pod).subscribe(self._pod_changed)
        engine.caches.of(Lease).subscribe(self._lease_changed)
        if not timings.heartbeats:
            kubelets.on_stop(self._kubelet_ended)

    async def reconcile(self, key: Key) -> float | None:
        node = self._engine.caches.of(Node).get(key)
        if node is None:
            self._discard(key[1])
            return None
        left_s = self._silent_in_s(node)
        if left_s <= 0 and pods.condition(node.status, pods.READY).get("status") != "Unknown":
            node = await self._mark_unreachable(node)
        node = await self._taint(node)
        if pods.condition(node.status, pods.READY).get("status") == "Unknown":
            await self._mark_pods(node)
        next_s = await self._evict(node)
        waits = [wait_s for wait_s in (left_s, next_s) if 0 < wait_s < _FOREVER]
        return min(waits, default=None)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        """A pod that is bound to a node may not tolerate its taints."""
        if after is not None and pods.node_of(after) and (before is None or not pods.node_of(before)):
            self.worker.add(("", pods.node_of(after)))

    def _lease_changed(self, _before: Lease | None, after: Lease | None) -> None:
        if after is not None and after.metadata.namespace == LEASES:
            self._heard_s[after.metadata.name] = self._engine.clock.monotonic_s()

    def _kubelet_ended(self, node: str) -> None:
        self._heard_s[node] = self._engine.clock.monotonic_s()
        self.worker.add(("", node))

    def _silent_in_s(self, node: Node) -> float:
        """Seconds until the node counts as unreachable."""
        now_s = self._engine.clock.monotonic_s()
        if not self._timings.heartbeats and self._kubelets.of_node(node.metadata.name) is not None:
            return _FOREVER
        return self._heard_s.setdefault(node.metadata.name, now_s) + self._timings.grace_s - now_s

    def _discard(self, name: str) -> None:
        self._heard_s.pop(name, None)
        self._since_s.pop(name, None)

    async def _mark_unreachable(self, node: Node) -> Node:
        unknown = [
            {
                **{k: v for k, v in condition.items() if k != "lastTransitionTime"},
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
            }
            for condition in ({"type": pods.READY}, *(node.status.get("conditions") or ()))
            if condition["type"] == pods.READY or condition["type"].endswith("Pressure")
        ]
        conditions = pods.with_conditions(node.status, self._engine.now(), *unknown)
        return await self._engine.kube.patch(
            node, {"status": {"conditions": conditions}}, status=True, only_if_unchanged=True
        )

    async def _taint(self, node: Node) -> Node:
        wanted = [(key, effect) for key, effect in _taints_for(node)]
        ours = (names.NOT_READY_TAINT, names.UNREACHABLE_TAINT, UNSCHEDULABLE)
        now = labels.taints(node)
        remaining = [t for t in now if t["key"] not in ours or (t["key"], t["effect"]) in wanted]
        there = {(t["key"], t["effect"]) for t in remaining}
        new: list[Json] = [
            {"key": key, "effect": effect, "timeAdded": self._engine.now()}
            for key, effect in wanted
            if (key, effect) not in there
        ]
        if remaining == now and not new:
            return node
        change = {"spec": {"taints": [*remaining, *new] or None}}
        return await self._engine.kube.patch(node, change, only_if_unchanged=True)

    async def _mark_pods(self, node: Node) -> None:
        for pod in list(self._engine.pods_by_node.get(node.metadata.name)):
            if pods.ready(pod):
                not_ready = {
                    "type": pods.READY,
                    "status": "False",
                    "reason": "NodeNotReady",
                    "lastProbeTime": None,
                }
                conditions = pods.with_conditions(pod.status, self._engine.now(), not_ready)
                await self._engine.kube.patch(
                    pod, {"status": {"conditions": conditions}}, status=True, only_if_unchanged=True
                )

    async def _evict(self, node: Node) -> float:
        """Deletes the pods that no longer tolerate the node; returns the seconds until the next one."""
        name = node.metadata.name
        driving = [taint for taint in labels.taints(node) if taint["effect"] == "NoExecute"]
        present = {(taint["key"], taint["effect"]) for taint in driving}
        seen = self._since_s.pop(name, {})
        if present:
            self._since_s[name] = {taint: since_s for taint, since_s in seen.items() if taint in present}
        next_s = _FOREVER
        for pod in list(self._engine.pods_by_node.get(name)) if driving else ():
            left_s = min(self._tolerated_s(pod, name, taint) for taint in driving)
            if not pods.active(pod):
                continue
            if left_s > 0:
                next_s = min(next_s, left_s)
                continue
            try:
                await self._engine.kube.delete(pod)
            except errors.NotFound:
                continue
        return next_s

    def _tolerated_s(self, pod: Pod, node: str, taint: Json) -> float:
        """How much longer the pod tolerates the taint: the minimum of the matching tolerations."""
        now_s = self._engine.clock.monotonic_s()
        since_s = self._since_s[node].setdefault((taint["key"], taint["effect"]), now_s)
        matching = [t for t in pod.spec.get("tolerations") or () if labels.tolerates_one(t, taint)]
        if not matching:
            return 0
        limits = [t["tolerationSeconds"] for t in matching if t.get("tolerationSeconds") is not None]
        return since_s + min(limits) - now_s if limits else _FOREVER


def _taints_for(node: Node) -> list[tuple[str, str]]:
    found = [(UNSCHEDULABLE, "NoSchedule")] if node.spec.get("unschedulable") else []
    ready = pods.condition(node.status, pods.READY).get("status")
    if ready in ("True", None):
        # A Node whose kubelet has not reported yet keeps its initial taint.
        fresh = [t for t in labels.taints(node) if ready is None and t["key"] == names.NOT_READY_TAINT]
        return [*found, *((t["key"], t["effect"]) for t in fresh)]
    key = names.UNREACHABLE_TAINT if ready == "Unknown" else names.NOT_READY_TAINT
    return [*found, (key, "NoSchedule"), (key, "NoExecute")]
