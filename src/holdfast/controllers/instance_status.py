"""interruption.instancestatus: deletes the NodeClaims of instances that fail status checks or have a scheduled event.

Runs each minute under one key. An instance that has failed for two minutes does not recover by itself, and its pods
cannot be drained, so its NodeClaim is deleted with a deadline of now, despite PodDisruptionBudgets. An instance with a
scheduled event is drained normally. An instance without a NodeClaim is ignored. A slot of such an instance is not free
until the instance is terminated, like the slot of any terminating instance.
"""

from collections.abc import Iterator
from typing import Final

from holdfast import errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.model.instance_status import InstanceStatus
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import times

KEY: Final[Key] = ("", "instancestatus")
UNHEALTHY: Final = "karpenter_interruption_instance_status_unhealthy_total"
METRICS: Final = (
    Metric(UNHEALTHY, "counter", "Instances of ours that the cloud called unhealthy.", ("category",)),
)
_EVERY_S: Final = 60.0
_PATIENCE_S: Final = 120  # a status check may fail briefly


class InstanceStatuses:
    name: Final = "interruption.instancestatus"

    def __init__(self, *, cluster_state: ClusterState, caches: Caches, ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim).index(indexes.by_instance_id)
        self._nodes = caches.of(Node).index(indexes.by_provider_id)
        self._cloud = ports.cloud
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._claim_end = ClaimEnd(kube=ports.kube, clock=ports.clock, recorder=ports.recorder)
        self._counted: set[tuple[str, str]] = set()  # ids of existing instances, and categories

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        statuses = await self._cloud.instance_statuses()
        ours = [(status, claim) for status in statuses for claim in self._claims_of(status)]
        self._count(ours)
        ended, failed = 0, None
        for status, claim in ours:
            try:
                ended += await self._handle(status, claim)
            except errors.HoldfastError as error:
                failed = error  # raised after the other claims are handled
        if failed is not None:
            raise errors.Retryable(f"not every claim could be ended: {failed}") from failed
        did = f"{ended} claims of unhealthy instances deleted" if ended else ""
        return RequeueAfter(_EVERY_S, "next DescribeInstanceStatus", did)

    def _claims_of(self, status: InstanceStatus) -> Iterator[NodeClaim]:
        return (
            c
            for c in self._claims.get(status.instance_id)
            if self._cluster_state.is_ours(c.spec.node_class_ref)
        )

    def _count(self, ours: list[tuple[InstanceStatus, NodeClaim]]) -> None:
        """Counts each instance once in each category."""
        found = {(status.instance_id, status.category) for status, _ in ours}
        for _, category in sorted(found - self._counted):
            self._recorder.count(UNHEALTHY, {"category": category})
        self._counted = {one for one in found | self._counted if any(self._claims.get(one[0]))}

    async def _handle(self, status: InstanceStatus, claim: NodeClaim) -> bool:
        """Returns whether it deleted the claim."""
        now_s, since_s = self._clock.now_s(), status.failing_since_s
        if since_s is not None and now_s - since_s < _PATIENCE_S:
            return False
        until_s = None if since_s is None else now_s
        if not await self._claim_end.end(claim, status.category, until_s=until_s, why=status.message):
            return False
        since = f", since {times.text(since_s)}" if since_s is not None else ""
        for obj in (claim, *self._nodes.get(claim.status.provider_id or "")):
            self._recorder.event(obj, "InstanceUnhealthy", f"{status.message}{since}", warning=True)
            message = f"Interruption triggered termination for the {obj.kind}"
            self._recorder.event(obj, "TerminatingOnInterruption", message, warning=True)
        return True
