"""nodeclaim.lifecycle: runs the sub-reconcilers of a NodeClaim in order, and writes one patch at the end.

One key for each claim; a change of the claim, its node, its pool or its class triggers it. Once a claim is initialized, a
sub-reconciler runs again only after such a change or when the time is over that it waits for: most of the thousands of
NodeClaims of a cluster do not change for hours. A sub-reconciler that fails does not stop the others (NC-2). Every
transition is in the table of `core.lifecycle`. A claim that is deleted because it could not be launched triggers
provisioning at once, so its pods are planned again in the same second.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.reservation_slots import differ_only_in_counts
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.controllers.nodeclaim import pool_drift
from holdfast.controllers.nodeclaim.class_versions import ClassVersions
from holdfast.controllers.nodeclaim.subreconciler import Delete, SubReconciler
from holdfast.controllers.nodeclaim.termination import Termination
from holdfast.core.lifecycle.states import State
from holdfast.model.decisions import DecisionType
from holdfast.ports import Ports
from holdfast.runtime import indexes, unreadable
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState

_UNREADABLE_S: Final = 60.0  # a version that can be decoded triggers a reconcile earlier
_LONGEST_WAIT_S: Final = (
    3600.0  # the clock may be stepped, and its monotonic time leaves out a pause of the computer
)
_REPLANNED: Final = ("insufficient_capacity", "gang_incomplete", "nodeclass_not_ready", "launch_timeout")


@dataclass(frozen=True, slots=True)
class _Wait:
    """What a sub-reconciler waits for."""

    until_s: float  # monotonic; inf: for a change
    why: str


@dataclass(frozen=True, slots=True)
class _Done:
    """The sub-reconcilers of an initialized claim that have run since its inputs changed."""

    inputs: tuple[Any, ...]
    waits: Mapping[SubReconciler, _Wait]


class Lifecycle:
    name: Final = "nodeclaim.lifecycle"

    def __init__(
        self,
        *,
        cluster_state: ClusterState,
        caches: Caches,
        ports: Ports,
        sub_reconcilers: Sequence[SubReconciler],
        termination: Termination,
        class_versions: ClassVersions,
        trigger: Callable[[], None],
    ) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim)
        self._by_provider_id = self._claims.index(indexes.by_provider_id)
        self._of_pool = self._claims.index(indexes.by_node_pool)
        self._of_class = self._claims.index(lambda claim: (claim.spec.node_class_ref.name,))
        self._nodes = caches.of(Node)
        self._nodes_by_provider_id = self._nodes.index(indexes.by_provider_id)
        self._pools = caches.of(NodePool)
        self._classes = caches.of(ports.cloud.node_classes.kind)
        self._pods = caches.of(Pod)
        self._kube = ports.kube
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._claim_end = ClaimEnd(kube=ports.kube, clock=ports.clock, recorder=ports.recorder)
        self._sub_reconcilers = sub_reconcilers
        self._termination = termination
        self._class_versions = class_versions
        self._add: Callable[[Key], None] = lambda _: None
        self._trigger = trigger
        self._done: dict[Key, _Done] = {}
        self._run_again: set[Key] = set()  # NodeClaims whose sub-reconcilers all run in the next reconcile

    def watch(self, controller: Controller) -> None:
        self._add = controller.add
        controller.watch(self._claims, lambda claim: (key_of(claim),))
        controller.watch(self._nodes, self._claims_on)
        controller.watch(
            self._classes,
            lambda one: map(key_of, self._of_class.get(one.metadata.name)),
            unless=differ_only_in_counts,
        )

        def pool_changed(before: NodePool | None, after: NodePool | None) -> None:
            pool = after or before
            assert pool is not None, "something changed"
            if before is None or after is None or pool_drift.of_pool(before) != pool_drift.of_pool(after):
                for claim in self._of_pool.get(pool.metadata.name):
                    controller.add(key_of(claim))

        self._pools.subscribe(pool_changed)

    def add(self, key: Key) -> None:
        """Reconciles the NodeClaim now."""
        self._add(key)

    def run_again(self, key: Key) -> None:
        """Runs all sub-reconcilers of the NodeClaim now, also those that wait. If it is being reconciled, they run again
        afterwards."""
        self._run_again.add(key)
        self._add(key)

    def _claims_on(self, node: Node) -> list[Key]:
        return [key_of(claim) for claim in self._by_provider_id.get(node.spec.provider_id)]

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        claim = self._claims.get(key)
        if key in self._run_again or claim is None or claim.metadata.deletion_timestamp is not None:
            self._run_again.discard(key)
            self._done.pop(key, None)
        if claim is None or not self._cluster_state.is_ours(claim.spec.node_class_ref):
            return Done()
        hidden = self._unreadable(key, claim)
        if hidden:
            return RequeueAfter(_UNREADABLE_S, hidden)
        if claim.metadata.deletion_timestamp is not None:
            return await self._termination.finalize(claim)
        inputs = self._inputs(claim)
        waiting = self._waiting(key, inputs)
        if len(waiting) == len(self._sub_reconcilers):
            return self._again(waiting)
        draft = Draft(await self._held(claim), self._clock.now_s())
        before = draft.state
        end, failed, waits = await self._run(draft, waiting)
        wrote = await draft.write(self._kube)
        if draft.state is State.INITIALIZED and failed is None:
            self._done[key] = _Done(inputs, waits)
        if end is not None:
            await self._end(draft, end)
            return Done(f"deleted: {end.reason}")
        if failed is not None:
            raise failed
        return self._again(waits, f"{before} -> {draft.state}" if wrote and draft.state is not before else "")

    def _waiting(self, key: Key, inputs: tuple[Any, ...]) -> Mapping[SubReconciler, _Wait]:
        """The sub-reconcilers of a claim that have nothing to do."""
        done, now_s = self._done.get(key), self._clock.monotonic_s()
        if done is None or done.inputs != inputs:
            return {}
        return {one: wait for one, wait in done.waits.items() if now_s < wait.until_s}

    def _again(self, waits: Mapping[SubReconciler, _Wait], did: str = "") -> Done | RequeueAfter:
        soonest = min(waits.values(), key=lambda wait: wait.until_s, default=None)
        if soonest is None or soonest.until_s == math.inf:
            return Done(did)
        return RequeueAfter(soonest.until_s - self._clock.monotonic_s(), soonest.why, did)

    def _unreadable(self, key: Key, claim: NodeClaim) -> str:
        """Why the claim is not reconciled; empty: it is. Without its Node, which cannot be decoded, the claim would
        count as not registered, and its instance would be terminated without a drain."""
        if key in self._claims.unreadable:
            return "the NodeClaim cannot be read"
        provider_id = claim.status.provider_id
        if not provider_id or any(True for _ in self._nodes_by_provider_id.get(provider_id)):
            return ""
        return "its Node cannot be read" if unreadable.may_be_node_of(self._nodes, provider_id) else ""

    def _inputs(self, claim: NodeClaim) -> tuple[Any, ...]:
        """What a sub-reconciler of an initialized claim depends on, apart from the time and the cloud."""
        pool = self._pools.get(("", claim.metadata.labels.get(names.NODEPOOL, "")))
        node_class = self._cluster_state.node_class(claim.spec.node_class_ref)
        return (
            claim.metadata.uid,
            claim.metadata.resource_version,
            () if pool is None else pool_drift.of_pool(pool),
            () if node_class is None else self._class_versions.of(node_class),
            [
                (node.metadata.uid, node.metadata.labels, node.spec.taints, node.status.capacity)
                for node in self._nodes_by_provider_id.get(claim.status.provider_id or "")
            ],
        )

    async def _run(
        self, draft: Draft, waiting: Mapping[SubReconciler, _Wait]
    ) -> tuple[Delete | None, errors.HoldfastError | None, Mapping[SubReconciler, _Wait]]:
        """Runs the sub-reconcilers that are not waiting. The last value: what each waits for then."""
        waits = dict(waiting)
        failed: errors.HoldfastError | None = None
        for sub_reconciler in self._sub_reconcilers:
            if sub_reconciler in waiting:
                continue
            try:
                verdict = await sub_reconciler.run(draft)
            except errors.HoldfastError as error:
                failed = failed or error
                continue
            draft.moved()
            match verdict:
                case Delete():
                    return verdict, failed, waits
                case RequeueAfter(seconds, why):
                    now_s = self._clock.monotonic_s()
                    waits[sub_reconciler] = _Wait(now_s + min(seconds, _LONGEST_WAIT_S), why)
                case None:
                    waits[sub_reconciler] = _Wait(math.inf, "")
        return None, failed, waits

    async def _held(self, claim: NodeClaim) -> NodeClaim:
        """Adds the finalizer before the launch, so that a deletion waits for termination (NC-1)."""
        finalizers = claim.metadata.finalizers
        if names.TERMINATION_FINALIZER in finalizers:
            return claim
        change = {"metadata": {"finalizers": [*finalizers, names.TERMINATION_FINALIZER]}}
        return await self._kube.patch(claim, change, only_if_unchanged=True)

    async def _end(self, draft: Draft, end: Delete) -> None:
        claim = draft.claim
        if end.reason == "gang_incomplete":
            message = f"NodeClaim {draft.name} is deleted: {end.message}"
            self._recorder.event(claim, "GangLaunchIncomplete", message, warning=True)
        if end.reason == "insufficient_capacity":
            message = f"NodeClaim {draft.name} event: {end.message}"
            self._recorder.event(claim, "InsufficientCapacityError", message, warning=True)
            self._recorder.decision(DecisionType.LAUNCH_FAILED, claim, f"Launch failed: {end.message}")
            nominated = frozenset(self._cluster_state.nominations.pods_of(draft.name))
            for pod in self._pods:
                if pod.metadata.uid in nominated:
                    self._recorder.event(pod, "InsufficientCapacityError", message, warning=True)
        await self._claim_end.end(claim, end.reason, why=end.message)
        if end.reason in _REPLANNED:
            self._trigger()
