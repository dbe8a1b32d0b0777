"""nodeclaim.reboot: a node that is ill is restarted in place, which keeps its machine and the slot it is in.

Run by the engine, a key a claim, while its condition `Rebooting` is True, which disruption sets. Pods are not evicted first. The rules
(NC-39a): the node is tainted, and what it was before is on the claim before the cloud is asked, under a name that is the
same after a crash; back is a node that booted anew and is ready; one that is not back in time is deleted.
"""

from typing import Any, Final

import msgspec

from holdfast import names
from holdfast.api import claim_conditions, conditions, reboots
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node, NodeTaint
from holdfast.controllers import conditions as verdicts
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.controllers.conditions import Verdicts
from holdfast.controllers.doors import Doors
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches, Index, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state import nodes as node_states
from holdfast.state import times

_BACK_S: Final = 20 * 60
_CHECK_S: Final = 15.0
_TAINT: Final = NodeTaint(key=names.REBOOTING_TAINT, effect="NoSchedule")


class Reboot:
    name: Final = "nodeclaim.reboot"

    def __init__(self, *, caches: Caches, doors: Doors) -> None:
        self._claims = caches.of(NodeClaim)
        self._by_machine = self._claims.index(indexes.by_machine)
        self._all_nodes = caches.of(Node)
        self._nodes: Index[Node] = self._all_nodes.index(indexes.by_machine)
        self._end = ClaimEnd(kube=doors.kube, clock=doors.clock, recorder=doors.recorder)
        self._kube = doors.kube
        self._cloud = doors.cloud
        self._clock = doors.clock
        self._recorder = doors.recorder

    def watch(self, controller: Controller) -> None:
        controller.watch(self._claims, lambda claim: (key_of(claim),) if reboots.is_on(claim) else ())
        controller.watch(self._all_nodes, self._rebooting_on)

    def _rebooting_on(self, node: Node) -> list[Key]:
        return [key_of(one) for one in self._by_machine.get(node.spec.provider_id) if reboots.is_on(one)]

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        claim = self._claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None or not reboots.is_on(claim):
            return Done()
        node = next(iter(self._nodes.get(claim.status.provider_id or "")), None)
        found = conditions.find(claim.status.conditions, claim_conditions.REBOOTING)
        assert found is not None, "it is rebooting"
        if self._clock.now_s() >= times.epoch_s(found.last_transition_time) + _BACK_S or node is None:
            self._recorder.event(claim, "RebootFailed", "its node is not back in time", warning=True)
            await self._end.end(claim, "unhealthy")
            return Done("deleted: it did not come back")
        before = claim.metadata.annotations.get(names.REBOOT_PRE_BOOT_ID)
        if before is None:
            before = node.status.node_info.boot_id
            await self._tainted(node, there=True)
            claim = await self._annotated(claim, before)
        if node.status.node_info.boot_id != before and node_states.is_ready(node):
            return await self._back(claim, node)
        operation = f"{claim.metadata.uid}-{(reboots.of(claim) or (0,))[-1]}"
        await self._cloud.reboot(claim.status.provider_id or "", operation)
        return RequeueAfter(_CHECK_S, "whether it is back")

    async def _back(self, claim: NodeClaim, node: Node) -> Done:
        """The taint goes first and the condition last, so a crash between leaves a reboot that is found to be over."""
        await self._tainted(node, there=False)
        claim = await self._annotated(claim, None)
        found = Verdicts(claim, now_s=self._clock.now_s())
        found.put(claim_conditions.REBOOTING, conditions.FALSE, "RebootSucceeded")
        await verdicts.write(self._kube, claim, found.changes)
        self._recorder.event(claim, "RebootObserved", "its node is back, on the same machine")
        return Done("rebooted")

    async def _annotated(self, claim: NodeClaim, boot_id: str | None) -> NodeClaim:
        return await self._kube.patch(
            claim, {"metadata": {"annotations": {names.REBOOT_PRE_BOOT_ID: boot_id}}}
        )

    async def _tainted(self, node: Node, *, there: bool) -> None:
        others = [one for one in node.spec.taints if one.key != _TAINT.key]
        if there == (len(others) < len(node.spec.taints)):
            return
        wanted = [*others, _TAINT] if there else others
        change: dict[str, Any] = {"spec": {"taints": [msgspec.to_builtins(one) for one in wanted]}}
        await self._kube.patch(node, change, only_if_unchanged=True)
