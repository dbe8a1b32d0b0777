"""Adds and removes the annotation and the condition DisruptionReason of a candidate's NodeClaim, and the taint of its
Node.

The annotation is written first and removed last. So after a crash every taint has an annotation with its command, and
no node stays tainted.
"""

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast import errors, names
from holdfast.api import conditions
from holdfast.api.claim_conditions import DISRUPTION_REASON
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node, NodeTaint
from holdfast.core.disruption.commands import DisruptionCommand
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.state.conversion import disruption_commands

_TAINT: Final = NodeTaint(key=names.DISRUPTED_TAINT, effect="NoSchedule")
_TRIES: Final = 3
_DISRUPTED: Final = "disrupted"


class DisruptionTaints:
    def __init__(self, *, caches: Caches, ports: Ports) -> None:
        self._nodes = caches.of(Node).index(indexes.by_provider_id)
        self._claims = caches.of(NodeClaim).index(indexes.by_provider_id)
        self._tainted = caches.of(Node).index(_tainted)
        self._with_reason = caches.of(NodeClaim).index(_with_reason)
        self._kube = ports.kube
        self._clock = ports.clock

    def node_of(self, claim: NodeClaim) -> Node | None:
        return next(iter(self._nodes.get(claim.status.provider_id or "")), None)

    def disrupted(self) -> list[NodeClaim]:
        """The NodeClaims with the condition, and those whose Node has the taint, by name."""
        found = {claim.metadata.name: claim for claim in self._with_reason.get(_DISRUPTED)}
        for node in self._tainted.get(_DISRUPTED):
            if node.spec.provider_id:
                found |= {one.metadata.name: one for one in self._claims.get(node.spec.provider_id)}
        return [found[name] for name in sorted(found)]

    async def add(self, claim: NodeClaim, command: DisruptionCommand) -> None:
        """Raises NotFound if the NodeClaim is deleted or deleting."""
        if claim.metadata.deletion_timestamp is not None:
            raise errors.NotFound(f"NodeClaim {claim.metadata.name} is being deleted")
        claim = await self._annotate(claim, disruption_commands.annotations(command))
        await self._set_condition(claim, command)
        node = self.node_of(claim)
        if node is not None:
            await self._taint(node, present=True)

    async def remove(self, claim: NodeClaim) -> None:
        """Does nothing if there is nothing to remove, or the object is deleted."""
        with contextlib.suppress(errors.NotFound):
            node = self.node_of(claim)
            if node is not None and node.metadata.deletion_timestamp is None:
                await self._taint(node, present=False)
            await self._set_condition(claim, None)
            if disruption_commands.is_annotated(claim):
                await self._annotate(claim, disruption_commands.WITHOUT)

    async def _annotate(self, claim: NodeClaim, annotations: Mapping[str, str | None]) -> NodeClaim:
        return await self._kube.patch(claim, {"metadata": {"annotations": dict(annotations)}})

    async def _set_condition(self, claim: NodeClaim, command: DisruptionCommand | None) -> None:
        for _ in range(_TRIES):
            found = conditions.edit(claim, now_s=self._clock.now_s())
            if command is None:
                found.drop(DISRUPTION_REASON)
            else:
                found.put(DISRUPTION_REASON, conditions.TRUE, command.reason.value, command.why)
            if not found.changes:
                return
            try:
                await self._kube.patch(claim, {"status": found.changes}, status=True, only_if_unchanged=True)
            except errors.Conflict:
                claim = await self._kube.get(NodeClaim, claim.metadata.name)
            else:
                return
        raise errors.Conflict(f"NodeClaim {claim.metadata.name} changed during each of {_TRIES} writes")

    async def _taint(self, node: Node, *, present: bool) -> None:
        for _ in range(_TRIES):
            others = [t for t in node.spec.taints if t.key != _TAINT.key]
            if present == (len(others) < len(node.spec.taints)):
                return
            wanted = [*others, _TAINT] if present else others
            change: dict[str, Any] = {"spec": {"taints": [msgspec.to_builtins(t) for t in wanted]}}
            try:
                await self._kube.patch(node, change, only_if_unchanged=True)
            except errors.Conflict:
                node = await self._kube.get(Node, node.metadata.name)
            else:
                return
        raise errors.Conflict(f"Node {node.metadata.name} changed during each of {_TRIES} writes")


def _tainted(node: Node) -> tuple[str, ...]:
    return (_DISRUPTED,) if any(taint.key == _TAINT.key for taint in node.spec.taints) else ()


def _with_reason(claim: NodeClaim) -> tuple[str, ...]:
    return (_DISRUPTED,) if conditions.holds(claim.status.conditions, DISRUPTION_REASON) else ()
