"""What the nodes of each NodePool have together, kept up to date as objects change.

Called by the counter of NodePools. The same as `nodepools.used` over all nodes, without going through all nodes: of ten
thousand, one that changed costs as much as one of ten. A machine is known by its provider id; a Node and a NodeClaim
with the same one are its two halves (ST-5, ST-6).
"""

from typing import Final

from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.model import resources
from holdfast.model.resources import NOTHING, Resources
from holdfast.ports import Clock
from holdfast.runtime.cache import Cache
from holdfast.state import nodes
from holdfast.state.nodes import Halves

_SLICE: Final = 100  # machines that are counted before others have their turn
_ONE: Final = resources.of({resources.NODES: 1})


class PoolUsage:
    def __init__(self, *, nodes: Cache[Node], claims: Cache[NodeClaim], clock: Clock) -> None:
        self._clock = clock
        self._nodes = nodes.index(_node_ids)
        self._claims = claims.index(_claim_ids)
        self._counted: dict[str, tuple[str, Resources]] = {}  # by provider id: its pool, and what it has
        self._used: dict[str, Resources] = {}  # by pool
        self._changed: dict[str, None] = {}  # provider ids, in the order they changed
        for node in nodes:
            self._node_changed(None, node)
        for claim in claims:
            self._claim_changed(None, claim)
        nodes.subscribe(self._node_changed)
        claims.subscribe(self._claim_changed)

    async def of(self, pool: str) -> Resources:
        """With the number of nodes among them. A resource that nothing has any more may be there with 0."""
        done = 0
        while self._changed:
            self._count(next(iter(self._changed)))
            done += 1
            if done % _SLICE == 0:
                await self._clock.sleep(0)
        return self._used.get(pool, NOTHING)

    def _count(self, provider_id: str) -> None:
        del self._changed[provider_id]
        node = next(iter(self._nodes.get(provider_id)), None)
        claim = next(iter(self._claims.get(provider_id)), None)
        now = nodes.counts_for(Halves(node, claim)) if node is not None or claim is not None else None
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
                self._changed |= dict.fromkeys(_node_ids(node))

    def _claim_changed(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        for claim in (before, after):
            if claim is not None:
                self._changed |= dict.fromkeys(_claim_ids(claim))


def _node_ids(node: Node) -> tuple[str, ...]:
    return (node.spec.provider_id,) if node.spec.provider_id else ()


def _claim_ids(claim: NodeClaim) -> tuple[str, ...]:
    return (claim.status.provider_id,) if claim.status.provider_id else ()
