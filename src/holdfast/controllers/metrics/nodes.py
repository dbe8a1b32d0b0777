"""Sizes of nodes and requests of their pods, under Karpenter's names.

The pods of a node are added up again only after one of them changed. With --metrics-per-object each node has series, with
all well-known labels; else the nodes of a NodePool and capacity type share them.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast import errors
from holdfast.api.nodes import Node
from holdfast.api.pods import Container as WireContainer
from holdfast.api.pods import Pod
from holdfast.controllers.metrics import node_groups
from holdfast.model import resources
from holdfast.model.pod_requests import Container, pod_requests
from holdfast.model.resources import NOTHING, Resources
from holdfast.ports import Clock, Recorder
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches
from holdfast.runtime.metrics import Metric
from holdfast.state.conversion import pod_shapes, pod_states, times

ALLOCATABLE: Final = "karpenter_nodes_allocatable"
POD_REQUESTS: Final = "karpenter_nodes_total_pod_requests"
POD_LIMITS: Final = "karpenter_nodes_total_pod_limits"
DAEMON_REQUESTS: Final = "karpenter_nodes_total_daemon_requests"
DAEMON_LIMITS: Final = "karpenter_nodes_total_daemon_limits"
OVERHEAD: Final = "karpenter_nodes_system_overhead"
LIFETIME: Final = "karpenter_nodes_current_lifetime_seconds"
UTILIZATION: Final = "karpenter_cluster_utilization_percent"
_ABOUT: Final = {
    ALLOCATABLE: "What pods can use of nodes.",
    POD_REQUESTS: "What pods on nodes request, DaemonSet pods included.",
    POD_LIMITS: "Limits of pods on nodes, DaemonSet pods included.",
    DAEMON_REQUESTS: "What DaemonSet pods on nodes request.",
    DAEMON_LIMITS: "Limits of DaemonSet pods on nodes.",
    OVERHEAD: "Capacity of nodes minus what pods can use.",
}
_NODES_AT_ONCE: Final = 10  # whose pods are added up before other tasks run
_ALWAYS: Final = (resources.CPU, resources.MEMORY, resources.PODS, resources.EPHEMERAL_STORAGE)


def metrics(well_known: Iterable[str]) -> tuple[Metric, ...]:
    """The metrics with a label for each well-known label of nodes."""
    labels = (*node_groups.label_keys(well_known), "node_name", "phase", "managed")
    sized = (Metric(name, "gauge", about, (*labels, "resource_type")) for name, about in _ABOUT.items())
    return (
        *sized,
        Metric(LIFETIME, "gauge", "Age of nodes; without --metrics-per-object, of the oldest one.", labels),
        Metric(
            UTILIZATION, "gauge", "What pods request, in percent of what they can use.", ("resource_type",)
        ),
    )


Quantities = tuple[tuple[str, str | float], ...]


@dataclass(frozen=True, slots=True)
class _Totals:
    requests: Resources = NOTHING
    limits: Resources = NOTHING
    daemon_requests: Resources = NOTHING
    daemon_limits: Resources = NOTHING


_EMPTY: Final = _Totals()


class NodeSizes:
    def __init__(
        self, *, caches: Caches, clock: Clock, recorder: Recorder, well_known: Iterable[str], per_object: bool
    ) -> None:
        self._nodes, pods = caches.of(Node), caches.of(Pod)
        self._pods = pods.index(indexes.by_node)
        self._clock = clock
        self._recorder = recorder
        self._label_keys = node_groups.label_keys(well_known)
        self._per_object = per_object
        self._totals: dict[str, _Totals] = {}  # by node
        self._changed = dict.fromkeys(name for pod in pods for name in indexes.by_node(pod))
        pods.subscribe(self._on_pod)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        for pod in (before, after):
            if pod is not None and pod.spec.node_name:
                self._changed[pod.spec.node_name] = None

    async def export(self) -> None:
        await self._add_up()
        series: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in (*_ABOUT, LIFETIME)}
        cluster: dict[str, list[int]] = {}  # by resource: requested and allocatable
        now_s = self._clock.now_s()
        for number, node in enumerate(tuple(self._nodes), start=1):
            labels = self._labels(node)
            sizes = self._sizes(node)
            for metric, amounts in sizes.items():
                found = series[metric]
                for name, amount in amounts.amounts:
                    if amount or name in _ALWAYS:
                        key = (*labels, node_groups.resource_type(name))
                        found[key] = found.get(key, 0.0) + node_groups.quantity(name, amount)
            for name, amount in sizes[ALLOCATABLE].amounts:
                total = cluster.setdefault(name, [0, 0])
                total[0] += sizes[POD_REQUESTS][name]
                total[1] += amount
            created = node.metadata.creation_timestamp
            age_s = max(0, now_s - times.epoch_s(created)) if created is not None else 0
            series[LIFETIME][labels] = max(age_s, series[LIFETIME].get(labels, 0))
            if number % node_groups.AT_ONCE == 0:
                await self._clock.sleep(0)
        for metric, found in series.items():
            self._recorder.replace(metric, found)
        percent: dict[tuple[str, ...], float] = {
            (node_groups.resource_type(name),): 100 * requested / allocatable
            for name, (requested, allocatable) in cluster.items()
            if allocatable
        }
        self._recorder.replace(UTILIZATION, percent)

    async def _add_up(self) -> None:
        changed, self._changed = self._changed, {}
        for number, name in enumerate(changed, start=1):
            pods = [pod for pod in self._pods.get(name) if not pod_states.is_terminal(pod)]
            if pods:
                self._totals[name] = _totals(pods)
            else:
                self._totals.pop(name, None)
            if number % _NODES_AT_ONCE == 0:
                await self._clock.sleep(0)

    def _sizes(self, node: Node) -> Mapping[str, Resources]:
        totals = self._totals.get(node.metadata.name, _EMPTY)
        allocatable = _parsed(tuple(node.status.allocatable.items()))
        capacity = _parsed(tuple(node.status.capacity.items()))
        return {
            ALLOCATABLE: allocatable,
            OVERHEAD: capacity.subtract(allocatable),
            POD_REQUESTS: totals.requests,
            POD_LIMITS: totals.limits,
            DAEMON_REQUESTS: totals.daemon_requests,
            DAEMON_LIMITS: totals.daemon_limits,
        }

    def _labels(self, node: Node) -> tuple[str, ...]:
        group = node_groups.group_of(node)
        if not self._per_object:
            kept = {"nodepool": group.nodepool, "capacity_type": group.capacity_type}
            return (*(kept.get(name, "") for name in self._label_keys), "", "", group.managed)
        of_node = node.metadata.labels
        values = (of_node.get(key, "") for key in self._label_keys.values())
        return (*values, node.metadata.name, "", group.managed)


def _totals(pods: list[Pod]) -> _Totals:
    sizes = [(_size(pod), pod_states.owner(pod) == pod_states.DAEMON_SET) for pod in pods]
    return _Totals(
        resources.add(*(requests for (requests, _), _ in sizes)),
        resources.add(*(limits for (_, limits), _ in sizes)),
        resources.add(*(requests for (requests, _), is_daemon in sizes if is_daemon)),
        resources.add(*(limits for (_, limits), is_daemon in sizes if is_daemon)),
    )


def _size(pod: Pod) -> tuple[Resources, Resources]:
    """Requests and limits of a pod. A pod whose quantities cannot be read counts as nothing."""
    spec = pod.spec
    is_plain = len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or spec.resources)
    try:
        if is_plain and not pod.status.container_statuses:
            of = spec.containers[0].resources
            return _size_of_one(tuple(of.requests.items()), tuple(of.limits.items()))
        return pod_shapes.requests(pod), _limits(pod)
    except errors.InvalidInput:
        return NOTHING, NOTHING


@functools.lru_cache(maxsize=4096)
def _size_of_one(requests: Quantities, limits: Quantities) -> tuple[Resources, Resources]:
    """Requests and limits of a pod with one container. Cached: most pods of a cluster have one of few sizes."""
    only = Container(resources.parse_requests({**dict(limits), **dict(requests)}))
    return pod_requests([only]), pod_requests([Container(resources.parse_readable(dict(limits)))])


@functools.lru_cache(maxsize=4096)
def _parsed(quantities: Quantities) -> Resources:
    return resources.parse_readable(dict(quantities))


def _limits(pod: Pod) -> Resources:
    def container(one: WireContainer) -> Container:
        return Container(
            resources.parse_readable(one.resources.limits), sidecar=one.restart_policy == "Always"
        )

    return pod_requests(
        [container(one) for one in pod.spec.containers], [container(one) for one in pod.spec.init_containers]
    )
