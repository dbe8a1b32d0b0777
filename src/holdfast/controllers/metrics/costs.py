"""Number and price of the nodes of NodePools.

karpenter_nodepools_cost_total is Karpenter's: what on-demand and spot instances cost an hour. A slot is paid for whether it
is used or not, so its price is in a metric of its own.
"""

from collections import defaultdict
from typing import Final

from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.controllers.metrics import node_groups
from holdfast.ports import Ports
from holdfast.runtime.cache import Caches
from holdfast.runtime.metrics import Metric
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.cluster.node_prices import NodePrices

COST: Final = "karpenter_nodepools_cost_total"
ERRORS: Final = "karpenter_nodepools_cost_tracker_errors_total"
SLOTS_COST: Final = "holdfast_nodepool_reserved_list_price_usd_per_hour"
NODES: Final = "holdfast_nodepool_nodes"
METRICS: Final = (
    Metric(COST, "gauge", "What on-demand and spot nodes of a NodePool cost an hour, in USD.", ("nodepool",)),
    Metric(ERRORS, "counter", "Launched NodeClaims whose price is not known.", ("nodepool",)),
    Metric(
        SLOTS_COST,
        "gauge",
        "The list price of reserved nodes of a NodePool an hour, in USD; it is paid with the reservation.",
        ("nodepool",),
    ),
    Metric(NODES, "gauge", "Launched NodeClaims of a NodePool.", ("nodepool", "capacity_type")),
)
_NANO: Final = 10**9


class Costs:
    def __init__(self, *, cluster_state: ClusterState, caches: Caches, ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim)
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._prices = NodePrices(cluster_state, ports.cloud)
        self._unknown: set[str] = set()  # NodeClaims whose price is not known, by uid

    async def export(self) -> None:
        paid: defaultdict[tuple[str, ...], float] = defaultdict(float)
        slots: defaultdict[tuple[str, ...], float] = defaultdict(float)
        count: defaultdict[tuple[str, ...], float] = defaultdict(float)
        unknown, current = set(), self._prices.current()
        for number, claim in enumerate(tuple(self._claims), start=1):
            if not claim.status.provider_id or not self._cluster_state.is_ours(claim.spec.node_class_ref):
                continue
            pool = claim.metadata.labels.get(names.NODEPOOL, "")
            capacity_type = claim.metadata.labels.get(names.CAPACITY_TYPE, "")
            labels = claim.metadata.labels
            price_nano = current.nano(
                capacity_type, labels.get(names.INSTANCE_TYPE, ""), labels.get(names.ZONE, "")
            )
            count[pool, capacity_type] += 1
            prices = slots if capacity_type == names.RESERVED else paid
            prices[pool,] += (price_nano or 0) / _NANO
            if price_nano is None:
                unknown.add(claim.metadata.uid)
                if claim.metadata.uid not in self._unknown:
                    self._recorder.count(ERRORS, {"nodepool": pool})
            if number % node_groups.AT_ONCE == 0:
                await self._clock.sleep(0)
        self._unknown = unknown
        for metric, found in ((COST, paid), (SLOTS_COST, slots), (NODES, count)):
            self._recorder.replace(metric, found)
