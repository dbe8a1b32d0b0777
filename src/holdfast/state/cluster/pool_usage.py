"""The total capacity of the nodes of each NodePool, updated as objects change.

The result is the same as `nodepools.used` over all nodes. Only changed nodes are read, so the cost does not depend on
the size of the cluster. A Node and a NodeClaim with the same provider id are one node (ST-5, ST-6).
"""

from itertools import islice
from typing import Final

from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.model import resources
from holdfast.model.resources import NOTHING, Resources
from holdfast.ports import Clock
from holdfast.runtime import indexes
from holdfast.runtime.cache import Cache
from holdfast.state.conversion import nodes

_SLICE: Final = 100  # nodes that are counted before other tasks run
_ONE: Final = resources.of({resources.NODES: 1})


class PoolUsage:
    def __init__(self, *, nodes: Cache[Node], claims: Cache[NodeClaim], clock: Clock) -> None:
        self._clock = clock
        self._nodes = nodes.index(indexes.by_provider_id)
        self._claims = claims.index(indexes.by_provider_id)
        self._counted: dict[str, tuple[str, Resources]] = {}  # provider id -> NodePool, and capacity
        self._used: dict[str, Resources] = {}  # by pool
        self._changed: dict[str, None] = {}  # provider ids, in the order they changed
        for node in nodes:
            self._node_changed(None, node)
        for claim in claims:
            self._claim_changed(None, claim)
        nodes.subscribe(self._node_changed)
        claims.subscribe(self._claim_changed)

    async def of(self, pool: str) -> Resources:
        """The capacity of the NodePool's nodes, with their number as a resource. A resource may have the amount 0."""
        done = 0
        while self._changed:
            self._count(next(iter(self._changed)))
            done += 1
            if done % _SLICE == 0:
                await self._clock.sleep(0)
        return self._used.get(pool, NOTHING)

    def _count(self, provider_id: str) -> None:
        del self._changed[provider_id]
        found = nodes.pairs(islice(self._nodes.get(provider_id), 1), self._claims.get(provider_id))
        now = nodes.counts_for(found[0]) if found else None
        before = self._counted.pop(provider_id, None)
        if before is not None:
            pool, amounts = before
            self._used[pool] = self._used[pool].subtract(amounts)
        if now is not None:
            pool, amounts = now
            self._counted[provider_id] = pool, resources.add(amounts, _ONE)
            self._used[pool] = resources.add(self._used.get(pool, NOTHING), amounts, _ONE)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        for node in (before, after):
            if node is not None:
                self._changed |= dict.fromkeys(indexes.by_provider_id(node))

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        for claim in (before, after):
            if claim is not None:
                self._changed |= dict.fromkeys(indexes.by_provider_id(claim))
