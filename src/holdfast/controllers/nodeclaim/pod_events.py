"""nodeclaim.podevents: writes `lastPodEventTime`, from which `consolidateAfter` counts.

One key for each claim, triggered by pods. A pod that is bound, terminal or terminating counts, except pods of
DaemonSets (NC-43). A claim is written at most every ten seconds, and the last event is always written. Events of a
claim that is not initialized are written later: nothing reads the time before that, and the lifecycle controller writes
the claim.
"""

from typing import Final

from holdfast import errors
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.ports import Ports
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state.conversion import pod_states, times

_EVERY_S: Final = 10


class PodEvents:
    name: Final = "nodeclaim.podevents"

    def __init__(self, *, caches: Caches, ports: Ports) -> None:
        self._claims = caches.of(NodeClaim)
        self._by_node = self._claims.index(indexes.by_node_name)
        self._pods = caches.of(Pod)
        self._terms = ports.cloud.node_classes
        self._kube = ports.kube
        self._clock = ports.clock
        self._happened_s: dict[Key, int] = {}

    def watch(self, controller: Controller) -> None:
        def changed(before: Pod | None, after: Pod | None) -> None:
            pod = after or before
            assert pod is not None, "something changed"
            if _is_event(before, after):
                for claim in self._by_node.get(pod.spec.node_name):
                    if not self._terms.names(claim.spec.node_class_ref):
                        continue
                    self._happened_s[key_of(claim)] = self._clock.now_s()
                    controller.add(key_of(claim))

        self._pods.subscribe(changed)

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        claim, happened_s = self._claims.get(key), self._happened_s.get(key)
        if claim is None or happened_s is None:
            self._happened_s.pop(key, None)
            return Done()
        known_s = times.epoch_s_or_none(claim.status.last_pod_event_time)
        if known_s is not None and self._clock.now_s() < known_s + _EVERY_S:
            return RequeueAfter(known_s + _EVERY_S - self._clock.now_s(), "written a moment ago")
        if not conditions.holds(claim.status.conditions, claim_conditions.INITIALIZED):
            return RequeueAfter(_EVERY_S, "NodeClaim is not initialized yet")
        try:
            change = {"status": {"lastPodEventTime": times.text(happened_s)}}
            await self._kube.patch(claim, change, status=True)
        except errors.NotFound:
            return Done()
        if self._happened_s.get(key) == happened_s:
            del self._happened_s[key]
        return Done()


def _is_event(before: Pod | None, after: Pod | None) -> bool:
    pod = after or before
    if pod is None or not pod.spec.node_name or pod_states.owner(pod) == pod_states.DAEMON_SET:
        return False
    if before is None or after is None:
        return True
    return (
        before.spec.node_name != after.spec.node_name
        or pod_states.is_terminal(before) != pod_states.is_terminal(after)
        or pod_states.is_terminating(before) != pod_states.is_terminating(after)
    )
