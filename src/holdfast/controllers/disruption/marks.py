"""Marks on a node that is to go, and how they are taken off.

Called by `queue` and `loop`. The rule: the order is on the claim before anything else and leaves it after everything
else, so whatever a crash leaves behind has an order that says so, and no node stays tainted for good.
"""

import contextlib
from typing import Any, Final

import msgspec

from holdfast import errors, names
from holdfast.api import conditions, orders
from holdfast.api.claim_conditions import DISRUPTION_REASON
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node, NodeTaint
from holdfast.api.orders import Order
from holdfast.controllers.conditions import Verdicts
from holdfast.controllers.doors import Doors
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches

_TAINT: Final = NodeTaint(key=names.DISRUPTED_TAINT, effect="NoSchedule")
_TRIES: Final = 3


class Marks:
    def __init__(self, *, caches: Caches, doors: Doors) -> None:
        self._nodes = caches.of(Node).index(indexes.by_provider_id)
        self._kube = doors.kube
        self._clock = doors.clock

    def node_of(self, claim: NodeClaim) -> Node | None:
        return next(iter(self._nodes.get(claim.status.provider_id or "")), None)

    async def put(self, claim: NodeClaim, order: Order) -> None:
        """NotFound when it is gone, or on its way out already."""
        if claim.metadata.deletion_timestamp is not None:
            raise errors.NotFound(f"{claim.metadata.name} is being deleted")
        claim = await self._annotate(claim, orders.text(order))
        await self._say(claim, order.reason, order.why)
        node = self.node_of(claim)
        if node is not None:
            await self._taint(node, there=True)

    async def take_off(self, claim: NodeClaim) -> None:
        """Twice is once; what is gone needs nothing."""
        with contextlib.suppress(errors.NotFound):
            node = self.node_of(claim)
            if node is not None and node.metadata.deletion_timestamp is None:
                await self._taint(node, there=False)
            await self._say(claim, None, "")
            if names.ORDER in claim.metadata.annotations:
                await self._annotate(claim, None)

    async def _annotate(self, claim: NodeClaim, order: str | None) -> NodeClaim:
        return await self._kube.patch(claim, {"metadata": {"annotations": {names.ORDER: order}}})

    async def _say(self, claim: NodeClaim, reason: str | None, why: str) -> None:
        for _ in range(_TRIES):
            found = Verdicts(claim, now_s=self._clock.now_s())
            if reason is None:
                found.drop(DISRUPTION_REASON)
            else:
                found.put(DISRUPTION_REASON, conditions.TRUE, reason, why)
            if not found.changes:
                return
            try:
                await self._kube.patch(claim, {"status": found.changes}, status=True, only_if_unchanged=True)
            except errors.Conflict:
                claim = await self._kube.get(NodeClaim, claim.metadata.name)
            else:
                return
        raise errors.Conflict(f"others keep writing to {claim.metadata.name}")

    async def _taint(self, node: Node, *, there: bool) -> None:
        for _ in range(_TRIES):
            others = [t for t in node.spec.taints if t.key != _TAINT.key]
            if there == (len(others) < len(node.spec.taints)):
                return
            wanted = [*others, _TAINT] if there else others
            change: dict[str, Any] = {"spec": {"taints": [msgspec.to_builtins(t) for t in wanted]}}
            try:
                await self._kube.patch(node, change, only_if_unchanged=True)
            except errors.Conflict:
                node = await self._kube.get(Node, node.metadata.name)
            else:
                return
        raise errors.Conflict(f"others keep writing to {node.metadata.name}")
