"""provisioning.requests: answers ProvisioningRequests.

The provisioner plans the virtual pods of requests with all other pods. This controller only writes what became of them:
it has one key, takes a snapshot, and patches the status of each request whose answer changed. It runs when a request, its
Workload, a node or a pod of a request changes, after each plan, and when a time of a request is over.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping
from typing import Any, Final

import structlog

from holdfast import errors, names
from holdfast.api import conditions
from holdfast.api.conditions import FALSE, TRUE
from holdfast.api.kueue import Workload
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.api.provisioning import PodTemplate, ProvisioningRequest
from holdfast.controllers import status_patch
from holdfast.core import provisioning_answers
from holdfast.core.provisioning_answers import (
    ACCEPTED,
    BOOKING_EXPIRED,
    FAILED,
    PROVISIONED,
    Condition,
    RequestState,
)
from holdfast.model import wording
from holdfast.model.reasons import Reason
from holdfast.model.snapshot import NodeView
from holdfast.ports import Ports
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.metrics import Metric
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.cluster.watched_requests import LiveRequest
from holdfast.state.conversion import provisioning_requests, times

KEY: Final[Key] = ("", "provisioning-requests")
REQUESTS: Final = "holdfast_provisioning_requests_count"
WAIT_SECONDS: Final = "holdfast_provisioning_request_wait_seconds"
ENDED: Final = "holdfast_provisioning_requests_ended_total"
METRICS: Final = (
    Metric(REQUESTS, "gauge", "ProvisioningRequests that wait for capacity or book it.", ("state",)),
    Metric(WAIT_SECONDS, "histogram", "From the creation of a ProvisioningRequest to Provisioned."),
    Metric(ENDED, "counter", "ProvisioningRequests that failed or whose booking ended.", ("reason",)),
)
_AGAIN_S: Final = 10.0
_WRITES_AT_ONCE: Final = 50


class Requests:
    name: Final = "provisioning.requests"

    def __init__(self, *, cluster_state: ClusterState, caches: Caches, ports: Ports) -> None:
        self._cluster_state = cluster_state
        self._requests = caches.of(ProvisioningRequest)
        self._templates = caches.of(PodTemplate)
        self._nodes = caches.of(Node)
        self._pods = caches.of(Pod)
        self._workloads = caches.find(Workload)
        self._kube = ports.kube
        self._labels = ports.cloud.labels
        self._clock = ports.clock
        self._recorder = ports.recorder
        self._writes = asyncio.Semaphore(_WRITES_AT_ONCE)
        self._log = structlog.get_logger().bind(controller=self.name)

    def watch(self, controller: Controller) -> None:
        def wake(_before: object, _after: object) -> None:
            controller.add(KEY)

        self._requests.subscribe(wake)
        self._templates.subscribe(wake)
        self._nodes.subscribe(self._if_live(wake))
        self._pods.subscribe(_if_of_request(wake))
        if self._workloads is not None:
            self._workloads.subscribe(self._if_live(wake))
        self._cluster_state.reasons.subscribe(lambda: wake(None, None))
        controller.add(KEY)

    async def reconcile(self, _key: Key) -> Done | RequeueAfter:
        live = self._cluster_state.requests.live()
        self._measure(live)
        if not live:
            return Done()
        result = await self._cluster_state.snapshot(lists_instances=False)
        live = self._cluster_state.requests.live()  # with the objects that the snapshot has
        nodes = {pod.uid: node for node in result.snapshot.nodes if not node.deleting for pod in node.pods}
        now_s = self._clock.now_s()
        start_s = {one.id: one.start_s for one in result.snapshot.reservations}
        late_s = now_s - provisioning_answers.READY_S
        launched_s = {one.name: one.launched_s for one in result.snapshot.claims}
        late = {claim for claim, at_s in launched_s.items() if at_s is not None and at_s <= late_s}
        states = {one.request.metadata.uid: self._state(one, nodes, late, start_s) for one in live}
        done = await asyncio.gather(
            *(self._write(one, states[one.request.metadata.uid], now_s) for one in live)
        )
        ends_s = (provisioning_answers.next_s(state) for state in states.values())
        next_s = min((at_s - now_s for at_s in ends_s if at_s is not None), default=_AGAIN_S)
        text = f"answered {wording.count(sum(done), 'request')}" if any(done) else ""
        next_answer = f"next answer to {wording.count(len(live), 'request')}"
        return RequeueAfter(max(1.0, min(_AGAIN_S, next_s)), next_answer, text)

    def _if_live(self, wake: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
        def changed(before: object, after: object) -> None:
            if self._cluster_state.requests.live():
                wake(before, after)

        return changed

    def _state(
        self,
        one: LiveRequest,
        nodes: Mapping[str, NodeView],
        late: Container[str],
        start_s: Mapping[str, int | None],
    ) -> RequestState:
        """`nodes`: by uid of the pods on them. `late`: NodeClaims whose nodes should be ready by now."""
        request, found = one.request, {pod.uid: nodes[pod.uid] for pod in one.left if pod.uid in nodes}
        ready = {uid: node for uid, node in found.items() if node.initialized}
        starting = [node for node in found.values() if not node.initialized]
        provisioned = conditions.find(request.status.conditions, PROVISIONED)
        is_provisioned = provisioned is not None and provisioned.status == TRUE
        reasons = self._reasons(one, found)
        return RequestState(
            created_s=times.epoch_s_or_none(request.metadata.creation_timestamp) or 0,
            accepted=conditions.holds(request.status.conditions, ACCEPTED),
            pods=sum(pod_set.count for pod_set in request.spec.pod_sets),
            bound=one.bound,
            located={uid: node.name for uid, node in ready.items()},
            reservation_id=self._reservation_of(ready.values()),
            starting=len(starting),
            late=tuple(sorted({node.name for node in starting if node.claim in late})),
            provisioned_s=times.epoch_s(provisioned.last_transition_time)
            if is_provisioned and provisioned
            else None,
            launches=provisioning_requests.launches(request),
            retries=provisioning_requests.retries(request),
            valid_for_s=provisioning_requests.valid_for_s(request),
            missing=one.converted.missing,
            problems=one.converted.problems,
            may_end=one.converted.may_end,
            reasons=reasons,
            starts=provisioning_answers.starts(reasons, start_s),
            has_quota=one.has_quota,
            is_open=any(
                all(taint.key != names.BOOKING_TAINT for taint in node.taints) for node in ready.values()
            ),
        )

    def _reservation_of(self, nodes: Iterable[NodeView]) -> str | None:
        """The reservation that all of these nodes are in."""
        key = self._labels.reservation_id
        found = {node.label_map.get(key) for node in nodes} if key is not None else set()
        return found.pop() if len(found) == 1 else None

    def _reasons(self, one: LiveRequest, located: Container[str]) -> tuple[Reason, ...]:
        """Why the last plan has no capacity for its pods. The next one may have found some already: its reasons are known
        only when its NodeClaims are created."""
        plan = self._cluster_state.reasons.plan
        if plan is None:
            return ()
        without = (pod.uid for pod in one.left if pod.uid not in located)
        return next((plan.unplaced[uid].reasons for uid in without if uid in plan.unplaced), ())

    async def _write(self, one: LiveRequest, state: RequestState, now_s: int) -> bool:
        request = one.request
        found = conditions.edit(request, now_s=now_s)
        decided = provisioning_answers.answer(state, now_s)
        for condition in decided:
            found.put(
                condition.type, TRUE if condition.status else FALSE, condition.reason, condition.message
            )
        details = request.status.provisioning_class_details
        if found.holds(PROVISIONED) and not found.holds(BOOKING_EXPIRED):
            details = provisioning_requests.details(state.located, state.reservation_id)
        changes = dict(found.changes)
        if details != request.status.provisioning_class_details:
            changes["provisioningClassDetails"] = (
                dict.fromkeys(request.status.provisioning_class_details) | details
            )
        if not changes:
            return False
        try:
            async with self._writes:
                await status_patch.write(self._kube, request, changes)
        except errors.NotFound:
            return False
        except errors.HoldfastError as error:
            self._log.warning("request not answered", request=one.gang.name, error=str(error))
            return False
        for condition in decided:
            if condition.status and not conditions.holds(request.status.conditions, condition.type):
                self._report(request, condition, now_s)
        return True

    # --- Events and metrics ---------------------------------------------------------------------------

    def _measure(self, live: tuple[LiveRequest, ...]) -> None:
        booked = sum(one.gang.booked for one in live)
        self._recorder.gauge(REQUESTS, {"state": "booked"}, booked)
        self._recorder.gauge(REQUESTS, {"state": "waiting"}, len(live) - booked)

    def _report(self, request: ProvisioningRequest, one: Condition, now_s: int) -> None:
        """A condition that becomes True."""
        if one.type == ACCEPTED:
            return
        self._recorder.event(request, one.reason, one.message, warning=one.type == FAILED)
        if one.type == PROVISIONED:
            created_s = times.epoch_s_or_none(request.metadata.creation_timestamp) or now_s
            self._recorder.observe(WAIT_SECONDS, {}, now_s - created_s)
        else:
            self._recorder.count(ENDED, {"reason": one.reason})


def _if_of_request(wake: Callable[[Any, Any], None]) -> Callable[[Pod | None, Pod | None], None]:
    def changed(before: Pod | None, after: Pod | None) -> None:
        if after is not None and provisioning_requests.consumed_by(after):
            wake(before, after)

    return changed
