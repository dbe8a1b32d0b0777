"""nodeclaim.reboot: reboots the instance of an unhealthy node, which keeps the instance and its slot.

One key for each claim, while its condition `Rebooting` is True, which disruption sets. The node is tainted and drained
by eviction alone; pods that cannot be evicted in time stay on the node during the reboot. The boot id is written on the
claim before the reboot call, and the operation has the same name after a crash. The reboot succeeded if the node is
ready with another boot id. A node that is not ready in time is not deleted here, since any cluster could then take its
slot: the reboot is reported as failed, and repair replaces the node, with the slot held (NC-39a).
"""

from typing import Any, Final

import msgspec

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions, reboots
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node, NodeTaint
from holdfast.api.pods import Pod
from holdfast.controllers import status_patch
from holdfast.controllers.drain import Evictions
from holdfast.core.disruption.inputs import DisruptionReason
from holdfast.ports import Ports
from holdfast.runtime import indexes, unreadable
from holdfast.runtime.cache import Caches, Index, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.conversion import nodes as node_states
from holdfast.state.conversion import times

REBOOTS: Final = "karpenter_nodes_reboots_total"
REBOOT_SECONDS: Final = "karpenter_nodes_reboot_duration_seconds"
RECOVERY_SECONDS: Final = "karpenter_nodes_reboot_recovery_duration_seconds"
_BUCKETS: Final = tuple(10.0 * 2**power for power in range(8))
METRICS: Final = (
    Metric(REBOOTS, "counter", "Reboots of nodes by result.", ("result",)),
    Metric(REBOOT_SECONDS, "histogram", "From the request of a reboot to its result.", ("result",), _BUCKETS),
    Metric(
        RECOVERY_SECONDS, "histogram", "From a reboot of an instance until its node is ready.", (), _BUCKETS
    ),
)
_BACK_S: Final = 20 * 60
_DRAIN_S: Final = 5 * 60  # if the claim has no annotation for it
_CHECK_S: Final = 15.0
_SOON_S: Final = 1.0
_TAINT: Final = NodeTaint(key=names.REBOOTING_TAINT, effect="NoSchedule")


class Reboot:
    name: Final = "nodeclaim.reboot"

    def __init__(self, *, caches: Caches, ports: Ports) -> None:
        self._claims = caches.of(NodeClaim)
        self._by_provider_id = self._claims.index(indexes.by_provider_id)
        self._all_nodes = caches.of(Node)
        self._nodes: Index[Node] = self._all_nodes.index(indexes.by_provider_id)
        self._all_pods = caches.of(Pod)
        self._pods = self._all_pods.index(indexes.by_node)
        self._evictions = Evictions(kube=ports.kube, recorder=ports.recorder)
        self._kube = ports.kube
        self._cloud = ports.cloud
        self._terms = ports.cloud.node_classes
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._issued_s: dict[str, float] = {}  # by operation: when this process first rebooted the instance

    def watch(self, controller: Controller) -> None:
        controller.watch(self._claims, lambda claim: (key_of(claim),) if self._is_on(claim) else ())
        controller.watch(self._all_nodes, self._rebooting_on)

    def _rebooting_on(self, node: Node) -> list[Key]:
        return [key_of(one) for one in self._by_provider_id.get(node.spec.provider_id) if self._is_on(one)]

    def _is_on(self, claim: NodeClaim) -> bool:
        return reboots.is_on(claim) and bool(self._terms.names(claim.spec.node_class_ref))

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        claim = self._claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None or not self._is_on(claim):
            return Done()
        node = next(iter(self._nodes.get(claim.status.provider_id or "")), None)
        if node is None:
            return await self._failed(claim, None, "its node is gone", "recovery_timeout")
        left_s = _drained_by_s(claim) - self._clock.now_s()
        if left_s + _BACK_S <= 0:
            why = f"its node was not back {_BACK_S // 60} minutes later"
            return await self._failed(claim, node, why, "recovery_timeout")
        before = claim.metadata.annotations.get(names.REBOOT_PRE_BOOT_ID)
        if before is None:
            await self._tainted(node, there=True)
            if left_s > 0 and (waiting := await self._drain(node)):
                return RequeueAfter(_SOON_S, f"{waiting} pods are not evicted yet")
            before = node.status.node_info.boot_id
            noted = {"metadata": {"annotations": {names.REBOOT_PRE_BOOT_ID: before}}}
            claim = await self._kube.patch(claim, noted)
        if node.status.node_info.boot_id != before and node_states.is_ready(node):
            return await self._back(claim, node)
        return await self._issued(claim, node)

    async def _drain(self, node: Node) -> int:
        """Evicts pods; returns how many remain."""
        now_s, cached = self._clock.now_s(), self._pods.get(node.metadata.name)
        decided = await self._evictions.drain(
            node, cached, now_s=now_s, until_s=None, reason=DisruptionReason.UNHEALTHY.value
        )
        if decided.done:
            listed = await self._evictions.listed(node)
            decided = await self._evictions.drain(
                node, listed, now_s=now_s, until_s=None, reason=DisruptionReason.UNHEALTHY.value
            )
        return decided.waiting + unreadable.pods_on(self._all_pods, node.metadata.name)

    async def _issued(self, claim: NodeClaim, node: Node) -> Done | RequeueAfter:
        operation = _operation(claim)
        try:
            await self._cloud.reboot(claim.status.provider_id or "", operation)
        except (errors.NotFound, errors.Terminal) as error:
            why = f"its instance could not be rebooted: {error}"
            return await self._failed(claim, node, why, "provider_error")
        self._issued_s.setdefault(operation, self._clock.monotonic_s())
        await self._set_condition(claim, conditions.TRUE, "RebootIssued")
        return RequeueAfter(_CHECK_S, "waiting for the node to be ready")

    async def _back(self, claim: NodeClaim, node: Node) -> Done:
        await self._over(claim, node, "RebootSucceeded")
        self._measure(claim, "succeeded")
        issued_s = self._issued_s.pop(_operation(claim), None)
        if issued_s is not None:
            self._recorder.observe(RECOVERY_SECONDS, {}, self._clock.monotonic_s() - issued_s)
        self._recorder.event(claim, "RebootObserved", "Node is ready again on the same instance")
        return Done("rebooted")

    async def _failed(self, claim: NodeClaim, node: Node | None, why: str, result: str) -> Done:
        await self._over(claim, node, reboots.FAILED, why)
        self._measure(claim, result)
        self._issued_s.pop(_operation(claim), None)
        self._recorder.event(claim, "RebootFailed", why, warning=True)
        return Done(f"the reboot failed: {why}")

    def _measure(self, claim: NodeClaim, result: str) -> None:
        requested_s = (reboots.of(claim) or (self._clock.now_s(),))[-1]
        self._recorder.count(REBOOTS, {"result": result})
        duration_s = max(0, self._clock.now_s() - requested_s)
        self._recorder.observe(REBOOT_SECONDS, {"result": result}, duration_s)

    async def _over(self, claim: NodeClaim, node: Node | None, reason: str, why: str = "") -> None:
        """Removes the taint first and sets the condition last, so after a crash in between the reboot is finished
        again. Its annotations stay on the claim until the next reboot, and have no effect until then."""
        if node is not None:
            await self._tainted(node, there=False)
        await self._set_condition(claim, conditions.FALSE, reason, why)

    async def _set_condition(self, claim: NodeClaim, status: str, reason: str, why: str = "") -> None:
        found = conditions.edit(claim, now_s=self._clock.now_s())
        found.put(claim_conditions.REBOOTING, status, reason, why)
        await status_patch.write(self._kube, claim, found.changes)

    async def _tainted(self, node: Node, *, there: bool) -> None:
        others = [one for one in node.spec.taints if one.key != _TAINT.key]
        if there == (len(others) < len(node.spec.taints)):
            return
        wanted = [*others, _TAINT] if there else others
        change: dict[str, Any] = {"spec": {"taints": [msgspec.to_builtins(one) for one in wanted]}}
        await self._kube.patch(node, change, only_if_unchanged=True)


def _operation(claim: NodeClaim) -> str:
    """The name of the last reboot of a claim."""
    return f"{claim.metadata.uid}-{(reboots.of(claim) or (0,))[-1]}"


def _drained_by_s(claim: NodeClaim) -> int:
    """When the instance is rebooted, even if pods still run on it."""
    found = conditions.find(claim.status.conditions, claim_conditions.REBOOTING)
    assert found is not None, "it is rebooting"
    bound_s = times.duration_s(claim.metadata.annotations.get(names.REBOOT_TERMINATION_GRACE_PERIOD, ""))
    return times.epoch_s(found.last_transition_time) + (_DRAIN_S if bound_s is None else bound_s)
