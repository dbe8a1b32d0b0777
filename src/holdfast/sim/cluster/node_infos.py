"""The pods and used resources of each node, as in kube-scheduler's NodeInfo.

A pod counts on its node from the moment of the binding: the watch delivers it later, and two pods must not use the same
capacity.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.runtime.cache import Caches
from holdfast.sim.cluster import amounts, kinds, pods
from holdfast.sim.cluster.amounts import Amounts
from holdfast.sim.cluster.kinds import Json, Node, Pod

Port = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class PodInfo:
    """A pod on a node, with its requests."""

    pod: Pod
    requests: Amounts
    ports: tuple[Port, ...]

    @property
    def owner(self) -> str:
        owner = kinds.controller_of(self.pod)
        return owner.uid if owner is not None else ""

    @property
    def has_anti_affinity(self) -> bool:
        return "podAntiAffinity" in (self.pod.spec.get("affinity") or {})


@dataclass(slots=True)
class NodeUsage:
    pods: dict[str, PodInfo] = field(default_factory=dict)  # by uid
    with_anti_affinity: dict[str, PodInfo] = field(default_factory=dict)
    owners: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)
    ports: Counter[Port] = field(default_factory=Counter)

    def add(self, pod_info: PodInfo) -> None:
        self.pods[pod_info.pod.metadata.uid] = pod_info
        if pod_info.has_anti_affinity:
            self.with_anti_affinity[pod_info.pod.metadata.uid] = pod_info
        self.owners[pod_info.owner] += 1
        self.used.update(pod_info.requests)
        self.ports.update(pod_info.ports)

    def remove(self, uid: str) -> None:
        pod_info = self.pods.pop(uid)
        self.with_anti_affinity.pop(uid, None)
        self.owners[pod_info.owner] -= 1
        self.used.subtract(pod_info.requests)
        self.ports.subtract(pod_info.ports)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node with the resources that its pods use."""

    node: Node
    usage: NodeUsage
    allocatable: Amounts

    @property
    def name(self) -> str:
        return self.node.metadata.name

    def pods(self) -> Iterable[Pod]:
        return (pod_info.pod for pod_info in self.usage.pods.values())


class NodeInfos:
    def __init__(self, caches: Caches) -> None:
        self._nodes = caches.of(Node)
        self._usage: dict[str, NodeUsage] = {}
        self._where: dict[str, str] = {}  # uid of a pod -> its node
        self._sizes: dict[str, tuple[str, Amounts]] = {}  # node -> its version, and its resources
        caches.of(Pod).subscribe(self._changed)

    def all(self) -> list[NodeInfo]:
        """Every node, sorted by name, so that the order does not depend on their arrival."""
        nodes = sorted(self._nodes, key=lambda node: node.metadata.name)
        return [NodeInfo(node, self._usage_of(node.metadata.name), self._size(node)) for node in nodes]

    def add(self, pod: Pod, node: str) -> None:
        self.remove(pod)
        self._where[pod.metadata.uid] = node
        self._usage_of(node).add(PodInfo(pod, with_one_pod(pod.spec), tuple(pods.host_ports(pod.spec))))

    def remove(self, pod: Pod) -> None:
        node = self._where.pop(pod.metadata.uid, None)
        if node is not None:
            self._usage_of(node).remove(pod.metadata.uid)

    def _usage_of(self, node: str) -> NodeUsage:
        return self._usage.setdefault(node, NodeUsage())

    def _size(self, node: Node) -> Amounts:
        version, size = self._sizes.get(node.metadata.name, ("", {}))
        if version != node.metadata.resource_version:
            size = amounts.of(node.status.get("allocatable"))
            self._sizes[node.metadata.name] = (node.metadata.resource_version, size)
        return size

    def _changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and (after is None or before.metadata.uid != after.metadata.uid):
            self.remove(before)
        if after is None:
            return
        if pods.ended(after):
            self.remove(after)
        elif pods.node_of(after):
            self.add(after, pods.node_of(after))


def with_one_pod(spec: Json) -> dict[str, int]:
    """The requests of one pod, and 1 of the resource `pods`."""
    return {**pods.requests(spec), "pods": 1000}
