"""The pods and used resources of each node, as in kube-scheduler's NodeInfo.

A pod counts on its node from the moment of the binding: the watch delivers it later, and two pods must not use the same
capacity. Nodes whose values changed are listed, so that `placements` filters only these again.
"""

import bisect
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from holdfast import names
from holdfast.runtime.cache import Caches
from holdfast.sim.cluster import amounts, kinds, pods
from holdfast.sim.cluster.amounts import Amounts
from holdfast.sim.cluster.kinds import Json, Node, Pod

Port = tuple[str, str, int]
T = TypeVar("T")

_CHANGES: Final = 4096  # how many changes of nodes are listed at least
_NOWHERE: Final[Counter[str]] = Counter()


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

    @property
    def counted(self) -> tuple[object, ...]:
        """What its node counts of it."""
        return self.requests, self.ports, self.owner, self.has_anti_affinity


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

    def replace(self, pod_info: PodInfo) -> None:
        """Stores a newer version of a pod that counts the same."""
        uid = pod_info.pod.metadata.uid
        self.pods[uid] = pod_info
        if uid in self.with_anti_affinity:
            self.with_anti_affinity[uid] = pod_info

    def remove(self, uid: str) -> None:
        pod_info = self.pods.pop(uid)
        self.with_anti_affinity.pop(uid, None)
        _add(self.owners, pod_info.owner, -1)
        self.used.subtract(pod_info.requests)
        for port in pod_info.ports:
            _add(self.ports, port, -1)


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node with the resources that its pods use."""

    node: Node
    usage: NodeUsage
    allocatable: Amounts

    @property
    def name(self) -> str:
        return self.node.metadata.name

    @property
    def zone(self) -> str:
        return self.node.metadata.labels.get(names.ZONE, "")

    def pods(self) -> Iterable[Pod]:
        return (pod_info.pod for pod_info in self.usage.pods.values())


class NodeInfos:
    def __init__(self, caches: Caches) -> None:
        self._infos: dict[str, NodeInfo] = {}
        self._names: list[str] = []  # sorted, so that the order does not depend on the arrival of nodes
        self._usage: dict[str, NodeUsage] = {}
        self._where: dict[str, str] = {}  # uid of a pod -> its node
        self._zones: dict[str, Counter[str]] = {}  # uid of an owner -> its pods in each zone
        self._repelling: dict[str, None] = {}  # nodes with a pod that has an anti-affinity
        self._misnamed: set[str] = set()  # nodes whose hostname label is not their name
        self._changes: list[str] = []
        self._first = 0  # the position of _changes[0]
        for node in caches.of(Node):
            self._node_changed(None, node)
        caches.of(Node).subscribe(self._node_changed)
        caches.of(Pod).subscribe(self._pod_changed)

    def __len__(self) -> int:
        return len(self._names)

    def all(self) -> list[NodeInfo]:
        """Every node, sorted by name."""
        return [self._infos[name] for name in self._names]

    def get(self, name: str) -> NodeInfo | None:
        return self._infos.get(name)

    def repelling(self) -> list[NodeInfo]:
        """The nodes with a pod that has an anti-affinity."""
        return [self._infos[name] for name in self._repelling if name in self._infos]

    @property
    def hostnames_are_unique(self) -> bool:
        return not self._misnamed

    def in_zones(self, owner: str) -> Counter[str]:
        """The number of pods of an owner in each zone."""
        return self._zones.get(owner, _NOWHERE)

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._first + len(self._changes)

    def changed_since(self, position: int) -> set[str] | None:
        """The names of the nodes that changed, with added and deleted ones; None: the position is too old."""
        return set(self._changes[position - self._first :]) if position >= self._first else None

    def add(self, pod: Pod, node: str) -> None:
        self._put(PodInfo(pod, with_one_pod(pod.spec), tuple(pods.host_ports(pod.spec))), node)

    def remove(self, pod: Pod) -> None:
        node = self._where.pop(pod.metadata.uid, None)
        if node is not None:
            usage = self._usage_of(node)
            self._count(node, usage.pods[pod.metadata.uid].owner, -1)
            usage.remove(pod.metadata.uid)
            if not usage.with_anti_affinity:
                self._repelling.pop(node, None)
            self._drop_unused(node)
            self._changed(node)

    def _put(self, pod_info: PodInfo, node: str) -> None:
        uid = pod_info.pod.metadata.uid
        usage = self._usage_of(node)
        if self._where.get(uid) == node and usage.pods[uid].counted == pod_info.counted:
            usage.replace(pod_info)
            return
        self.remove(pod_info.pod)
        self._where[uid] = node
        self._usage_of(node).add(pod_info)
        self._count(node, pod_info.owner, 1)
        if pod_info.has_anti_affinity:
            self._repelling[node] = None
        self._changed(node)

    def _usage_of(self, node: str) -> NodeUsage:
        usage = self._usage.get(node)
        if usage is None:
            usage = self._usage[node] = NodeUsage()
        return usage

    def _count(self, node: str, owner: str, by: int) -> None:
        info = self._infos.get(node)
        if info is not None:
            zones = self._zones.setdefault(owner, Counter())
            _add(zones, info.zone, by)
            if not zones:
                del self._zones[owner]

    def _drop_unused(self, node: str) -> None:
        """Drops the usage of a deleted node without pods."""
        if node not in self._infos and not self._usage[node].pods:
            del self._usage[node]

    def _changed(self, node: str) -> None:
        self._changes.append(node)
        if len(self._changes) >= 2 * _CHANGES:
            del self._changes[:_CHANGES]
            self._first += _CHANGES

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        node = after or before
        assert node is not None
        name = node.metadata.name
        known = self._infos.get(name)
        if known is not None and after is not None and offer(known.node) == offer(after):
            self._infos[name] = NodeInfo(after, known.usage, known.allocatable)
            return
        usage = self._usage_of(name)
        self._count_all(name, usage, -1)
        if after is None:
            del self._infos[name]
            del self._names[bisect.bisect_left(self._names, name)]
        else:
            self._infos[name] = NodeInfo(after, usage, amounts.of(after.status.get("allocatable")))
            if known is None:
                bisect.insort(self._names, name)
        self._count_all(name, usage, 1)
        self._drop_unused(name)
        hostname = after.metadata.labels.get(names.HOSTNAME, name) if after is not None else name
        (self._misnamed.discard if hostname == name else self._misnamed.add)(name)
        self._changed(name)

    def _count_all(self, node: str, usage: NodeUsage, by: int) -> None:
        for owner, count in usage.owners.items():
            self._count(node, owner, by * count)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if before is not None and (after is None or before.metadata.uid != after.metadata.uid):
            self.remove(before)
        if after is None:
            return
        node = pods.node_of(after)
        if pods.ended(after):
            self.remove(after)
        elif node:
            usage = self._usage.get(node)
            known = usage.pods.get(after.metadata.uid) if usage is not None else None
            if known is not None and (known.pod.spec is after.spec or known.pod.spec == after.spec):
                self._put(PodInfo(after, known.requests, known.ports), node)
            else:
                self.add(after, node)


def _add(counter: Counter[T], key: T, by: int) -> None:
    """Changes a count; a counter has no zeros, so that it does not grow."""
    counter[key] += by
    if not counter[key]:
        del counter[key]


def offer(node: Node) -> tuple[object, ...]:
    """What of a node matters to the scheduler."""
    return (node.metadata.labels, node.spec, node.status.get("allocatable"))


def with_one_pod(spec: Json) -> dict[str, int]:
    """The requests of one pod, and 1 of the resource `pods`."""
    return {**pods.requests(spec), "pods": 1000}
