"""nodepool.counter: writes the number and the capacity of a NodePool's nodes to its status and to metrics.

One key for each NodePool. A node counts from its launch until it is deleting (ST-14). A NodePool is counted at most
every five seconds, so many changes of nodes cause few writes.
"""

from typing import Final

from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.controllers.metrics import node_groups
from holdfast.model import resources
from holdfast.model.resources import Resources
from holdfast.ports import Clock, Cloud, Kube, Recorder
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.cluster.pool_usage import PoolUsage

PERIOD_S: Final = 5.0
_LABELS: Final = ("nodepool", "resource_type")
USAGE: Final = Metric("karpenter_nodepools_usage", "gauge", "What the nodes of a NodePool have.", _LABELS)
LIMIT: Final = Metric("karpenter_nodepools_limit", "gauge", "What a NodePool may have at most.", _LABELS)
METRICS: Final = (USAGE, LIMIT)
# Written also when they are 0, as in Karpenter: `kubectl get nodepools` shows the nodes.
_ALWAYS: Final = (
    resources.NODES,
    resources.CPU,
    resources.MEMORY,
    resources.PODS,
    resources.EPHEMERAL_STORAGE,
)


class Counter:
    name: Final = "nodepool.counter"

    def __init__(self, *, kube: Kube, cloud: Cloud, caches: Caches, clock: Clock, recorder: Recorder) -> None:
        self._kube = kube
        self._clock = clock
        self._recorder = recorder
        self._terms = cloud.node_classes
        self._pools, self._nodes, self._claims = caches.of(NodePool), caches.of(Node), caches.of(NodeClaim)
        self._usage = PoolUsage(nodes=self._nodes, claims=self._claims, clock=clock)
        self._counted_s: dict[Key, float] = {}  # when each NodePool was last counted
        self._known: set[Key] = (
            set()
        )  # NodePools with series; those of a deleted one stay until its last NodeClaim
        self._claims_by_pool = self._claims.index(indexes.by_node_pool)

    def watch(self, controller: Controller) -> None:
        controller.watch(self._pools, lambda pool: (key_of(pool),))
        controller.watch(self._nodes, _pool_key)
        controller.watch(self._claims, _pool_key)

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        pool = self._pools.get(key)
        if pool is None and key in self._known and not any(self._claims_by_pool.get(key[1])):
            self._known.discard(key)
            self._recorder.forget("nodepool", key[1])
        if pool is None or not self._terms.names(pool.spec.template.spec.node_class_ref):
            self._counted_s.pop(key, None)
            return Done()
        now_s = self._clock.monotonic_s()
        wait_s = self._counted_s.get(key, now_s - PERIOD_S) + PERIOD_S - now_s
        if wait_s > 0:
            return RequeueAfter(wait_s, "status.resources was counted recently")
        self._counted_s[key] = now_s
        self._known.add(key)
        used = await self._usage.of(pool.metadata.name)
        self._measure(pool, used)
        return Done(await self._write(pool, used))

    async def _write(self, pool: NodePool, used: Resources) -> str:
        there = pool.status.resources
        amounts = dict.fromkeys(_ALWAYS, 0) | dict(used.amounts)
        counted = {name: resources.text(name, amount) for name, amount in amounts.items()}
        if (there, pool.status.nodes) == (counted, used[resources.NODES]):
            return ""
        removed = dict.fromkeys(there.keys() - counted.keys())
        status = {"nodes": used[resources.NODES], "resources": {**removed, **counted}}
        await self._kube.patch(pool, {"status": status}, status=True)
        return f"updated status.resources: {used}"

    def _measure(self, pool: NodePool, used: Resources) -> None:
        for metric, amounts in ((USAGE, used), (LIMIT, resources.parse_readable(pool.spec.limits))):
            for name, amount in amounts.amounts:
                resource_type = node_groups.resource_type(name)
                about = {"nodepool": pool.metadata.name, "resource_type": resource_type}
                self._recorder.gauge(metric.name, about, node_groups.quantity(name, amount))


def _pool_key(obj: Object) -> list[Key]:
    return [("", name) for name in indexes.by_node_pool(obj)]
