"""Finalizes a NodeClaim that is being deleted: deletes its nodes, then terminates its instance.

The finalizer stays until the cloud reports the instance as terminated, so its slot counts as `releasing` until then. An
instance of a launch whose answer was lost is found by its token, by garbage collection.
"""

import contextlib
from typing import Final

import structlog

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.claim_draft import Draft
from holdfast.ports import Ports
from holdfast.runtime.cache import Index
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Done, RequeueAfter
from holdfast.state.conversion import times

TERMINATED: Final = "karpenter_nodeclaims_terminated_total"
DURATION: Final = "karpenter_nodeclaims_termination_duration_seconds"
INSTANCE_DURATION: Final = "karpenter_nodeclaims_instance_termination_duration_seconds"
_OF_POOL: Final = ("nodepool",)
_BUCKETS: Final = tuple(4.0**power for power in range(6))  # every other one of Karpenter's
METRICS: Final = (
    Metric(
        DURATION,
        "histogram",
        "From the deletion of a NodeClaim until its instance is terminated.",
        _OF_POOL,
        _BUCKETS,
    ),
    Metric(
        INSTANCE_DURATION,
        "histogram",
        "How long instances took to terminate.",
        _OF_POOL,
        _BUCKETS,
    ),
    Metric(TERMINATED, "counter", "NodeClaims that ended.", ("nodepool", "capacity_type", "zone")),
)
_CHECK_S: Final = 5.0


class Termination:
    def __init__(self, *, nodes: Index[Node], ports: Ports) -> None:
        self._nodes = nodes  # by provider id
        self._kube = ports.kube
        self._cloud = ports.cloud
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._log = structlog.get_logger().bind(controller="nodeclaim.lifecycle")

    async def finalize(self, claim: NodeClaim) -> Done | RequeueAfter:
        if names.TERMINATION_FINALIZER not in claim.metadata.finalizers:
            return Done()
        draft = Draft(claim, self._clock.now_s())
        self._set_deadline(draft)
        await draft.write(self._kube)
        if draft.conditions.holds(claim_conditions.REGISTERED) and await self._nodes_are_there(draft):
            return RequeueAfter(_CHECK_S, "Node is not deleted yet")
        if draft.status.provider_id and not await self._instance_is_gone(draft):
            return RequeueAfter(_CHECK_S, "instance is not terminated yet")
        await self._release(draft)
        return Done("instance terminated, removed the finalizer")

    def _set_deadline(self, draft: Draft) -> None:
        """Sets the deadline of the drain, once (NC-23)."""
        claim = draft.claim
        ends = claim.metadata.deletion_timestamp
        grace_s = times.duration_s(claim.spec.termination_grace_period or "")
        if grace_s is None or ends is None or names.TERMINATION_TIMESTAMP in draft.annotations:
            return
        until = times.text(times.epoch_s(ends) + grace_s)
        draft.annotations[names.TERMINATION_TIMESTAMP] = until
        message = f"All pods will be deleted by {until}"
        self._recorder.event(claim, "TerminationGracePeriodExpiring", message, warning=True)

    async def _nodes_are_there(self, draft: Draft) -> bool:
        found = list(self._nodes.get(draft.status.provider_id or "")) or await self._node_listed(draft)
        for node in found:
            if node.metadata.deletion_timestamp is None:
                with contextlib.suppress(errors.NotFound):
                    await self._kube.delete(node)
        return bool(found)

    async def _node_listed(self, draft: Draft) -> list[Node]:
        """The Node, read from the API server before its instance is terminated: the cache may lack a Node to drain."""
        if draft.conditions.holds(claim_conditions.INSTANCE_TERMINATING) or not draft.status.node_name:
            return []
        try:
            node = await self._kube.get(Node, draft.status.node_name)
        except errors.NotFound:
            return []
        return [node] if node.spec.provider_id == draft.status.provider_id else []

    async def _instance_is_gone(self, draft: Draft) -> bool:
        assert draft.status.provider_id is not None
        try:
            await self._cloud.terminate(draft.status.provider_id)
        except errors.NotFound:
            return True
        draft.conditions.put(claim_conditions.INSTANCE_TERMINATING, conditions.TRUE)
        draft.moved()
        await draft.write(self._kube)
        return False

    async def _release(self, draft: Draft) -> None:
        left = [one for one in draft.claim.metadata.finalizers if one != names.TERMINATION_FINALIZER]
        with contextlib.suppress(errors.NotFound):
            await self._kube.patch(draft.claim, {"metadata": {"finalizers": left}}, only_if_unchanged=True)
        about = {
            "nodepool": draft.labels.get(names.NODEPOOL, ""),
            "capacity_type": draft.labels.get(names.CAPACITY_TYPE, ""),
            "zone": draft.labels.get(names.ZONE, ""),
        }
        self._recorder.count(TERMINATED, about)
        of_pool = {"nodepool": about["nodepool"]}
        since = draft.claim.metadata.deletion_timestamp
        if since is not None:
            duration_s = max(0, self._clock.now_s() - times.epoch_s(since))
            self._recorder.observe(DURATION, of_pool, duration_s)
        terminating = draft.conditions.find(claim_conditions.INSTANCE_TERMINATING)
        if terminating is not None:
            duration_s = max(0, self._clock.now_s() - times.epoch_s(terminating.last_transition_time))
            self._recorder.observe(INSTANCE_DURATION, of_pool, duration_s)
        self._log.info("deleted nodeclaim", nodeclaim=draft.name, provider_id=draft.status.provider_id)
