"""The DaemonSet controller: one pod on every matching node."""

from typing import Final

from holdfast.runtime.results import Key
from holdfast.sim.cluster import kinds, labels, pods
from holdfast.sim.cluster.engine import Engine, Worker
from holdfast.sim.cluster.kinds import DaemonSet, Json, Node, Pod
from holdfast.sim.cluster.replicas import report

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
# Tolerations that the controller adds to every pod.
_BEARS: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


class DaemonSets:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sets = engine.caches.of(DaemonSet)
        self.worker: Worker = engine.worker(self.reconcile)
        self.worker.watch(DaemonSet, lambda one: [(one.metadata.namespace, one.metadata.name)])
        self.worker.watch(Pod, lambda pod: kinds.owner_key(pod, DaemonSet))
        engine.caches.of(Node).subscribe(self._node_changed)

    async def reconcile(self, key: Key) -> float | None:
        owner = self._sets.get(key)
        if owner is None or owner.metadata.deletion_timestamp is not None:
            return None
        spec = _bearing(owner.spec["template"].get("spec") or {})
        nodes = sorted(self._engine.caches.of(Node), key=lambda node: node.metadata.name)
        wanted = {node.metadata.name: node for node in nodes if _may_run(spec, node)}
        may_stay = _may_stay(spec, nodes)
        there: dict[str, Pod] = {}
        for pod in list(self._engine.pods_by_owner.get(owner.metadata.uid)):
            node = _meant_for(pod)
            if pods.is_terminating(pod):
                there.setdefault(node, pod)  # the next pod waits until it is deleted
            elif node in there or node not in may_stay or pods.ended(pod):
                await self._engine.kube.delete(pod)
            else:
                there[node] = pod
        for name in wanted:
            if name not in there:
                template = {**owner.spec["template"], "spec": _pinned(spec, name)}
                there[name] = await self._engine.kube.create(kinds.from_template(template, owner))
        mine = [pod for name, pod in there.items() if name in wanted and pods.active(pod)]
        await self._report(owner, len(wanted), mine)
        return None

    async def _report(self, owner: DaemonSet, wanted: int, mine: list[Pod]) -> None:
        ready = sum(pods.ready(pod) for pod in mine)
        status = {
            "desiredNumberScheduled": wanted,
            "currentNumberScheduled": len(mine),
            "updatedNumberScheduled": len(mine),
            "numberMisscheduled": 0,
            "numberReady": ready,
            "numberAvailable": ready,
            "numberUnavailable": max(0, wanted - ready),
            "observedGeneration": owner.metadata.generation,
        }
        await report(self._engine, owner, status)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or _sight(before) != _sight(after):
            for owner in self._sets:
                self.worker.add((owner.metadata.namespace, owner.metadata.name))


def _sight(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec


def _bearing(spec: Json) -> Json:
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _BEARS]
    if spec.get("hostNetwork"):
        key = "node.kubernetes.io/network-unavailable"
        added.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    return {**spec, "tolerations": [*(spec.get("tolerations") or ()), *added]}


def _may_run(spec: Json, node: Node) -> bool:
    return labels.selects(spec, node) and labels.untolerated(spec, node) is None


def _may_stay(spec: Json, nodes: list[Node]) -> frozenset[str]:
    """Nodes where a running pod may stay: a NoSchedule taint that is added later evicts no pod."""
    return frozenset(
        node.metadata.name
        for node in nodes
        if labels.selects(spec, node) and labels.untolerated(spec, node, ("NoExecute",)) is None
    )


def _pinned(spec: Json, node: str) -> Json:
    """The spec with a node affinity for one node. The node selector terms of the template were checked before."""
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.get("affinity") or {}
    of_nodes = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: {"nodeSelectorTerms": [only]}}
    return {**spec, "affinity": {**affinity, "nodeAffinity": of_nodes}}


def _meant_for(pod: Pod) -> str:
    if pods.node_of(pod):
        return pods.node_of(pod)
    terms = pod.spec["affinity"]["nodeAffinity"][_REQUIRED]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])
