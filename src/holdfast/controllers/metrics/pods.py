"""karpenter_pods_state: the pods of the cluster by phase, readiness and node.

Counted as pods change, so a scrape costs as much as there are nodes, not pods.
"""

from collections import Counter
from typing import Final, NamedTuple

from holdfast import names
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.controllers.metrics import node_groups
from holdfast.ports import Clock, Recorder
from holdfast.runtime.cache import Caches
from holdfast.runtime.metrics import Metric

STATE: Final = Metric(
    "karpenter_pods_state",
    "gauge",
    "Pods by state. With --metrics-per-object a series for each pod, else their number.",
    (
        "name",
        "namespace",
        "owner",
        "node",
        "scheduled",
        "nodepool",
        "zone",
        "arch",
        "capacity_type",
        "instance_type",
        "phase",
        "ready",
        "managed",
    ),
)
METRICS: Final = (STATE,)


class _State(NamedTuple):
    node: str
    phase: str
    ready: str


class PodStates:
    def __init__(self, *, caches: Caches, clock: Clock, recorder: Recorder, per_object: bool) -> None:
        self._pods, self._nodes = caches.of(Pod), caches.of(Node)
        self._clock = clock
        self._recorder = recorder
        self._per_object = per_object
        self._counts: Counter[_State] = Counter(map(_state, self._pods))
        self._pods.subscribe(self._on_pod)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        was = _state(before) if before is not None else None
        now = _state(after) if after is not None else None
        if was == now:
            return
        if now is not None:
            self._counts[now] += 1
        if was is not None:
            self._counts[was] -= 1
            if not self._counts[was]:
                del self._counts[was]

    async def export(self) -> None:
        found = await (self._each() if self._per_object else self._sums())
        self._recorder.replace(STATE.name, found)

    async def _sums(self) -> dict[tuple[str, ...], float]:
        found: Counter[tuple[str, ...]] = Counter()
        for number, (state, count) in enumerate(tuple(self._counts.items()), start=1):
            group = node_groups.group_of(self._nodes.get(("", state.node)))
            key = (
                *("", "", "", "", str(bool(state.node)).lower(), group.nodepool, "", ""),
                *(group.capacity_type, "", state.phase, state.ready, group.managed),
            )
            found[key] += count
            if number % node_groups.AT_ONCE == 0:
                await self._clock.sleep(0)
        return dict(found)

    async def _each(self) -> dict[tuple[str, ...], float]:
        found: dict[tuple[str, ...], float] = {}
        for number, pod in enumerate(tuple(self._pods), start=1):
            node = self._nodes.get(("", pod.spec.node_name))
            labels = node.metadata.labels if node is not None else {}
            group, state, meta = node_groups.group_of(node), _state(pod), pod.metadata
            key = (
                *(meta.name, meta.namespace, _owner(pod), state.node, str(bool(state.node)).lower()),
                *(group.nodepool, labels.get(names.ZONE, ""), labels.get(names.ARCH, "")),
                *(group.capacity_type, labels.get(names.INSTANCE_TYPE, "")),
                *(state.phase, state.ready, group.managed),
            )
            found[key] = 1
            if number % node_groups.AT_ONCE == 0:
                await self._clock.sleep(0)
        return found


def _state(pod: Pod) -> _State:
    return _State(pod.spec.node_name, pod.status.phase, str(is_ready(pod)).lower())


def is_ready(pod: Pod) -> bool:
    """Whether the pod has the condition Ready. A pod without it is not, unlike in `pod_states.is_ready`."""
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)


def _owner(pod: Pod) -> str:
    """The path of the first owner, as Karpenter writes it."""
    for owner in pod.metadata.owner_references:
        plural = f"{owner.kind.lower()}s"
        return f"/apis/{owner.api_version}/namespaces/{pod.metadata.namespace}/{plural}/{owner.name}"
    return ""
