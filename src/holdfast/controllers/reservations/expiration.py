"""reservations.expiration: drains nodes before their reservation ends, where the cloud terminates the instances then.

Runs every few seconds under one key, and at the second when a drain starts. The start of a drain depends on the cloud's
dates alone, so a restart changes nothing and a changed end is used. The deadline of the drain is when the cloud starts
to terminate instances, so that no PodDisruptionBudget delays it further. A NodeClaim without an instance that was
planned into such a reservation is deleted as well, and its pods are planned again.
"""

from typing import Final

from holdfast import errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.claim_end import ClaimEnd
from holdfast.core.reservations import boundaries, deadlines
from holdfast.core.reservations.deadlines import Deadline
from holdfast.model import wording
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import claims

KEY: Final[Key] = ("", "expiration")
REASON: Final = "reservation_ending"
_EVERY_S: Final = 10.0


class Expiration:
    name: Final = "reservations.expiration"

    def __init__(self, *, cluster_state: ClusterState, caches: Caches, ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._claims = caches.of(NodeClaim)
        self._nodes = caches.of(Node).index(indexes.by_provider_id)
        self._label = ports.cloud.labels.reservation_id
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._claim_end = ClaimEnd(kube=ports.kube, clock=ports.clock, recorder=ports.recorder)

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> RequeueAfter:
        counts, now_s = await self._cluster_state.counts(), self._clock.now_s()
        due = deadlines.due(counts.reservations, now_s)
        ended, failed = 0, None
        for claim in tuple(self._claims) if due else ():
            deadline = due.get(self._reservation_id(claim))
            if deadline is not None and self._cluster_state.is_ours(claim.spec.node_class_ref):
                try:
                    ended += await self._end(claim, deadline)
                except errors.HoldfastError as error:
                    failed = error  # time is short: the other claims are deleted first
        if failed is not None:
            raise errors.Retryable(f"not every claim could be ended: {failed}") from failed
        did = f"{ended} claims are drained" if ended else ""
        at_s = boundaries.next_change_s(counts.reservations, now_s)
        if at_s is not None and at_s - now_s < _EVERY_S:
            return RequeueAfter(at_s - now_s, "next drain or end of a reservation", did)
        return RequeueAfter(_EVERY_S, "next comparison of dates", did)

    def _reservation_id(self, claim: NodeClaim) -> str:
        """The reservation of the claim's instance; before the launch, the planned reservation."""
        labels, annotations = claim.metadata.labels, claim.metadata.annotations
        planned = None if claim.status.provider_id else claims.held_reservation(annotations)
        return planned or labels.get(self._label or "", "")

    async def _end(self, claim: NodeClaim, deadline: Deadline) -> bool:
        now_s = self._clock.now_s()
        ends, taken = (wording.moment(at_s, now_s) for at_s in (deadline.ends_s, deadline.until_s))
        text = (
            f"block {deadline.reservation_id} ends at {ends}, and its instances are terminated from {taken} on (UTC): "
            "the node is drained until then, whatever disruption budgets allow"
        )
        if not await self._claim_end.end(claim, REASON, until_s=deadline.until_s, why=text):
            return False
        for obj in (claim, *self._nodes.get(claim.status.provider_id or "")):
            self._recorder.event(obj, "ReservationEnding", text, warning=True)
        return True
