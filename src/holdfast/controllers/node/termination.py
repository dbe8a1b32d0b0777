"""Finalizes a deleting Node: taints and drains it, waits for its volumes, terminates the instance, removes the
finalizer.

One key for each deleting Node of ours with the finalizer; changes of its pods trigger it. Each step is finished before the next
starts, and finished steps are conditions of the NodeClaim, so a restart continues (NC-28). Before the instance is
terminated, the pods of the node are listed from the API server: after a stalled watch the cache lacks a pod that was
bound to the node.
"""

import contextlib
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node, NodeTaint
from holdfast.api.pods import Pod
from holdfast.api.storage import PersistentVolumeClaim, VolumeAttachment
from holdfast.controllers import claim_end, drain
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.drain import Evictions
from holdfast.controllers.slot_holds import SlotHolds
from holdfast.ports import Ports
from holdfast.runtime import indexes, unreadable
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.conversion import nodes as node_states
from holdfast.state.conversion import times, volumes

DRAINED: Final = "karpenter_nodes_drained_total"
TERMINATED: Final = "karpenter_nodes_terminated_total"
DURATION: Final = "karpenter_nodes_termination_duration_seconds"
LIFETIME: Final = "karpenter_nodes_lifetime_duration_seconds"
_HOURS: Final = (0.25, 1, 4, 12)  # some of Karpenter's
_DAYS: Final = (1, 3, 10, 30)
_LIFETIMES: Final = (*(hours * 3600 for hours in _HOURS), *(days * 86400 for days in _DAYS))
METRICS: Final = (
    Metric(DRAINED, "counter", "Nodes that were emptied.", ("nodepool",)),
    Metric(TERMINATED, "counter", "Nodes that ended.", ("nodepool", "zone")),
    Metric(
        DURATION, "summary", "From the deletion of a Node until its instance is terminated.", ("nodepool",)
    ),
    Metric(LIFETIME, "histogram", "Age of Nodes when they ended.", ("nodepool",), _LIFETIMES),
    *drain.METRICS,
)

_CHECK_S: Final = 5.0
_SOON_S: Final = 1.0
_UNREADABLE_S: Final = 60.0  # a version that can be decoded triggers a reconcile earlier
_SETTLES_S: Final = 5.0  # pods that were bound before the taint appear within this time (NC-34)
_TAINT: Final = NodeTaint(key=names.DISRUPTED_TAINT, effect="NoSchedule")
_EXCLUDED: Final = {names.EXCLUDE_FROM_LOAD_BALANCERS: "karpenter"}


class NodeTermination:
    name: Final = "node.termination"

    def __init__(self, *, caches: Caches, ports: Ports, holds: SlotHolds) -> None:
        self._holds = holds
        self._nodes = caches.of(Node)
        self._all_pods = caches.of(Pod)
        self._pods = self._all_pods.index(indexes.by_node)
        self._claims = caches.of(NodeClaim).index(indexes.by_provider_id)
        self._terms = ports.cloud.node_classes
        self._attachments = caches.of(VolumeAttachment)
        self._volume_claims = caches.of(PersistentVolumeClaim)
        self._evictions = Evictions(kube=ports.kube, recorder=ports.recorder)
        self._kube = ports.kube
        self._cloud = ports.cloud
        self._clock = ports.clock
        self._recorder = ports.recorder

    def watch(self, controller: Controller) -> None:
        controller.watch(self._nodes, lambda node: (key_of(node),) if _is_deleting(node) else ())
        controller.watch(self._all_pods, self._node_of)

    def _node_of(self, pod: Pod) -> tuple[Key, ...]:
        node = self._nodes.get(("", pod.spec.node_name))
        return (key_of(node),) if node is not None and _is_deleting(node) else ()

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        node = self._nodes.get(key)
        if node is None or not _is_deleting(node) or not self._is_ours(node):
            return Done()
        if key in self._nodes.unreadable:
            return RequeueAfter(_UNREADABLE_S, "the Node cannot be read")
        claim = await self._deleting_claim(node)
        if not node_states.is_ready(node) and await self._is_gone(node):
            return await self._release(node)
        node = await self._tainted(node)
        draft = Draft(claim, self._clock.now_s()) if claim is not None else None
        wait = await self._steps(node, draft)
        if draft is not None:
            was_drained = conditions.holds(draft.claim.status.conditions, claim_conditions.DRAINED)
            await draft.write(self._kube)  # before the count: a failed write is repeated
            if draft.conditions.holds(claim_conditions.DRAINED) and not was_drained:
                self._recorder.count(DRAINED, {"nodepool": node.metadata.labels.get(names.NODEPOOL, "")})
        return wait or await self._release(node)

    def _is_ours(self, node: Node) -> bool:
        """Another autoscaler uses the same finalizer. A Node without a NodeClaim is ours by its label."""
        claims = list(self._claims.get(node.spec.provider_id))
        if claims:
            return any(self._terms.names(claim.spec.node_class_ref) for claim in claims)
        return self._terms.label in node.metadata.labels

    async def _steps(self, node: Node, draft: Draft | None) -> RequeueAfter | None:
        """The step that is not finished; None: all are."""
        until_s = claim_end.deadline_s(draft.annotations) if draft is not None else None
        return (
            await self._drain(node, draft, until_s)
            or self._detach(node, draft, until_s)
            or await self._drain_listed(node, draft, until_s)
            or await self._end(node, draft)
        )

    async def _deleting_claim(self, node: Node) -> NodeClaim | None:
        """Deletes the NodeClaim of the node, and returns it (NC-25). None: there is none, or more than one."""
        found = list(self._claims.get(node.spec.provider_id))
        if len(found) != 1:
            return None
        if found[0].metadata.deletion_timestamp is None:
            with contextlib.suppress(errors.NotFound):
                await self._kube.delete(found[0])
        return self._claims_now(node)

    def _claims_now(self, node: Node) -> NodeClaim | None:
        return next(iter(self._claims.get(node.spec.provider_id)), None)

    async def _is_gone(self, node: Node) -> bool:
        try:
            await self._cloud.instance(node.spec.provider_id)
        except errors.NotFound:
            return True
        return False

    async def _tainted(self, node: Node) -> Node:
        others = [t for t in node.spec.taints if t.key != _TAINT.key]
        labels = node.metadata.labels
        if _EXCLUDED.items() <= labels.items() and len(others) + 1 == len(node.spec.taints):
            found = next(t for t in node.spec.taints if t.key == _TAINT.key)
            if found.effect == _TAINT.effect:
                return node
        change: dict[str, Any] = {
            "metadata": {"labels": _EXCLUDED},
            "spec": {"taints": [msgspec.to_builtins(t) for t in (*others, _TAINT)]},
        }
        return await self._kube.patch(node, change, only_if_unchanged=True)

    # --- Drain ----------------------------------------------------------------------------------------

    async def _drain(self, node: Node, draft: Draft | None, until_s: int | None) -> RequeueAfter | None:
        if draft is not None and draft.conditions.holds(claim_conditions.DRAINED):
            return None
        if draft is None or draft.conditions.find(claim_conditions.DRAINED) is None:
            with contextlib.suppress(errors.NotReady):  # a drain does not wait for a silent watch
                await self._holds.ensure()
        pods = self._pods.get(node.metadata.name)
        decided = await self._evict(node, pods, draft, until_s)
        if draft is not None and draft.conditions.find(claim_conditions.DRAINED) is None:
            draft.conditions.put(claim_conditions.DRAINED, conditions.UNKNOWN, "Draining")
        if not decided.done:
            return RequeueAfter(_SOON_S, f"{decided.waiting} pods are not evicted yet")
        if until_s is None or self._clock.now_s() < until_s:
            hidden = unreadable.pods_on(self._all_pods, node.metadata.name)
            if hidden:  # these pods may still run on the node
                return RequeueAfter(_CHECK_S, f"{hidden} pods cannot be read")
        if draft is not None:
            left_s = _SETTLES_S - draft.age_s(claim_conditions.DRAINED)
            if left_s > 0:
                return RequeueAfter(left_s, "waiting until no pod is bound to the node any more")
            draft.conditions.put(claim_conditions.DRAINED, conditions.TRUE)
        return None

    async def _drain_listed(
        self, node: Node, draft: Draft | None, until_s: int | None
    ) -> RequeueAfter | None:
        """Evicts pods that the API server lists and the cache lacks. Does nothing once the instance is terminating: it
        is too late to evict."""
        if draft is not None and draft.conditions.holds(claim_conditions.INSTANCE_TERMINATING):
            return None
        if until_s is not None and self._clock.now_s() >= until_s:
            return None  # nothing delays the termination after the deadline, not even a pod that cannot be decoded
        listed = await self._evictions.listed(node)
        decided = await self._evict(node, listed, draft, until_s)
        if decided.done:
            return None
        if draft is not None:
            draft.conditions.put(claim_conditions.DRAINED, conditions.UNKNOWN, "Draining")
        return RequeueAfter(_SOON_S, f"{decided.waiting} pods are on the node and not in the cache")

    async def _evict(
        self, node: Node, pods: Iterable[Pod], draft: Draft | None, until_s: int | None
    ) -> drain.Drain:
        reason = drain.reason_of(draft.claim if draft is not None else None)
        now_s = self._clock.now_s()
        return await self._evictions.drain(node, pods, now_s=now_s, until_s=until_s, reason=reason)

    # --- Volumes --------------------------------------------------------------------------------------

    def _detach(self, node: Node, draft: Draft | None, until_s: int | None) -> RequeueAfter | None:
        if draft is not None and draft.conditions.find(claim_conditions.VOLUMES_DETACHED) is not None:
            found = draft.conditions.find(claim_conditions.VOLUMES_DETACHED)
            if found is not None and found.status != conditions.UNKNOWN:
                return None
        if not self._attached(node):
            if draft is not None:
                draft.conditions.put(claim_conditions.VOLUMES_DETACHED, conditions.TRUE)
            return None
        if until_s is not None and self._clock.now_s() >= until_s:
            if draft is not None:
                draft.conditions.put(
                    claim_conditions.VOLUMES_DETACHED, conditions.FALSE, "TerminationGracePeriodElapsed"
                )
            return None
        if draft is not None:
            draft.conditions.put(
                claim_conditions.VOLUMES_DETACHED, conditions.UNKNOWN, "AwaitingVolumeDetachment"
            )
        self._recorder.event(node, "AwaitingVolumeDetachment", "Awaiting deletion of bound volumeattachments")
        return RequeueAfter(_SOON_S, "volumes are still attached")

    def _attached(self, node: Node) -> bool:
        """Whether volumes are attached, except those of pods that are not drained (NC-35)."""
        now_s = self._clock.now_s()
        staying = {
            claim.spec.volume_name
            for pod in self._pods.get(node.metadata.name)
            if not drain.is_drainable(pod, now_s)
            for name in volumes.claim_names(pod.metadata.name, pod.spec.volumes)
            if (claim := self._volume_claims.get((pod.metadata.namespace, name))) is not None
        }
        return any(
            one.spec.node_name == node.metadata.name and one.spec.source.persistent_volume_name not in staying
            for one in self._attachments
        )

    # --- The instance ----------------------------------------------------------------------------------

    async def _end(self, node: Node, draft: Draft | None) -> RequeueAfter | None:
        if not node.spec.provider_id:
            return None
        try:
            await self._cloud.terminate(node.spec.provider_id)
        except errors.NotFound:
            return None
        if draft is not None:
            draft.conditions.put(claim_conditions.INSTANCE_TERMINATING, conditions.TRUE)
            draft.moved()
        return RequeueAfter(_CHECK_S, "instance is terminating")

    async def _release(self, node: Node) -> Done:
        left = [one for one in node.metadata.finalizers if one != names.TERMINATION_FINALIZER]
        with contextlib.suppress(errors.NotFound):
            await self._kube.patch(node, {"metadata": {"finalizers": left}}, only_if_unchanged=True)
        of_pool = {"nodepool": node.metadata.labels.get(names.NODEPOOL, "")}
        self._recorder.count(TERMINATED, of_pool | {"zone": node.metadata.labels.get(names.ZONE, "")})
        for metric, since in (
            (DURATION, node.metadata.deletion_timestamp),
            (LIFETIME, node.metadata.creation_timestamp),
        ):
            if since is not None:
                self._recorder.observe(metric, of_pool, max(0, self._clock.now_s() - times.epoch_s(since)))
        return Done("instance terminated, removed the finalizer from the Node")


def _is_deleting(node: Node) -> bool:
    return (
        node.metadata.deletion_timestamp is not None
        and names.TERMINATION_FINALIZER in node.metadata.finalizers
    )
