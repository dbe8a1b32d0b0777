"""Finds the best node of a pod, or why there is none. The result is that of `filters.refusals` and `scores.best` over all
nodes.

Pods with the same needs and owner share their work: each node is filtered and scored once, and again only after it
changed. Filters that depend on volumes or on pods of other nodes come last, so they run only on the nodes that pass.
"""

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from holdfast import names
from holdfast.sim.cluster import filters, kinds, scores
from holdfast.sim.cluster.filters import Candidate, Needs
from holdfast.sim.cluster.kinds import Json, Pod
from holdfast.sim.cluster.node_infos import NodeInfo, NodeInfos
from holdfast.sim.cluster.scheduling_volumes import Volumes
from holdfast.sim.cluster.scores import NodeScores
from holdfast.sim.cluster.topology import Neighbours, Spaces

_SHARED: Final = 512  # how many different pods are remembered
_OBSOLETE: Final = 2  # how many times the names that pass are in the heaps at most
_FEW: Final = 64
# The fields of a pod's spec that `filters.of_node` and `scores.of_node` read.
_FIELDS: Final = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "containers",
    "initContainers",
    "resources",
    "overhead",
    "hostNetwork",
)
_encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Placement:
    """The node of a pod. Without one, `why` is the message of its condition. If no node passes the filters that depend
    on the node alone, `refusal` tells whether another attempt can have another result."""

    node: str = ""
    why: str = ""
    refusal: "Refusal | None" = field(default=None, compare=False)


class Placements:
    def __init__(self, node_infos: NodeInfos) -> None:
        self._node_infos = node_infos
        self._shared: dict[tuple[bytes, str], _Equal] = {}  # the least recently used first

    def find(self, pod: Pod, volumes: Volumes, spaces: Spaces) -> Placement:
        total = len(self._node_infos)
        if volumes.missing:
            return Placement(why=f"0/{total} nodes are available: {volumes.missing}.")
        only = _only_node(pod.spec)
        if only and self._fits(pod, only, volumes, spaces):
            return Placement(only)
        equal = self._equal(pod, shared=not only)
        equal.refresh()
        if not equal.passing:
            return Placement(why=filters.summary(total, equal.refused), refusal=Refusal(equal, equal.filters))
        if not _has_neighbours(pod.spec) and not volumes.bound and not volumes.unbound:
            repelling = self._node_infos.repelling()
            if not repelling or not Neighbours(pod, repelling, spaces).refused_by_anti_affinity:
                node = equal.best()
                if node:
                    return Placement(node)
        return self._among(equal, pod, volumes, spaces)

    def _fits(self, pod: Pod, node: str, volumes: Volumes, spaces: Spaces) -> bool:
        node_info = self._node_infos.get(node)
        needs = filters.needs_of(pod.spec)
        if node_info is None or filters.of_node(needs, node_info):
            return False
        neighbours = Neighbours(pod, self._node_infos.all(), spaces, self._node_infos.repelling())
        return not filters.of_neighbours(Candidate(pod, needs, neighbours, volumes), node_info)

    def _among(self, equal: "_Equal", pod: Pod, volumes: Volumes, spaces: Spaces) -> Placement:
        """Applies the other filters to the nodes that pass the first ones."""
        neighbours = Neighbours(pod, self._node_infos.all(), spaces, self._node_infos.repelling())
        candidate = Candidate(pod, equal.needs, neighbours, volumes)
        fitting: list[NodeInfo] = []
        refused = Counter(equal.refused)
        for name in sorted(equal.passing):
            node_info = self._node_infos.get(name)
            assert node_info is not None
            why = filters.of_neighbours(candidate, node_info)
            if why:
                refused[why] += 1
            else:
                fitting.append(node_info)
        if fitting:
            return Placement(scores.best(candidate, fitting).name)
        return Placement(why=filters.summary(len(self._node_infos), refused))

    def _equal(self, pod: Pod, *, shared: bool) -> "_Equal":
        spec: Json = {name: pod.spec[name] for name in _FIELDS if name in pod.spec}
        owner = kinds.controller_of(pod)
        key = (_encode(spec), owner.uid if owner is not None else "")
        found = self._shared.pop(key, None)
        if found is None:
            found = _Equal(filters.needs_of(spec), key[1], self._node_infos)
            for other in [other for other, equal in self._shared.items() if equal.is_over]:
                del self._shared[other]
            if len(self._shared) >= _SHARED:
                del self._shared[next(iter(self._shared))]
        if shared:
            self._shared[key] = found
        return found


@dataclass(frozen=True, slots=True)
class Refusal:
    """An attempt in which every node was refused by the first filters."""

    _equal: "_Equal"
    _filters: frozenset[str]

    @property
    def persists(self) -> bool:
        """Whether still no node passes, and the same filters refuse the nodes as then."""
        self._equal.refresh()
        return not self._equal.passing and self._equal.filters == self._filters


class _Group(NamedTuple):
    """Nodes that differ only in their names, for these pods."""

    alone: NodeScores
    zone: str
    siblings: int  # pods of the same owner on each node
    regular: bool  # whether the node has the labels of its zone and hostname


class _Equal:
    """Pods with the same needs and owner, and the nodes that they fit on."""

    def __init__(self, needs: Needs, owner: str, node_infos: NodeInfos) -> None:
        self.needs = needs
        self.refused: Counter[str] = Counter()  # how many nodes each reason excludes
        self.passing: dict[str, _Group] = {}
        self.filters: frozenset[str] = frozenset()  # those that refuse a node
        self._owner = owner
        self._node_infos = node_infos
        self._reasons: dict[str, list[str]] = {}  # of each node that does not pass
        self._groups: dict[
            _Group, list[str]
        ] = {}  # heaps; a name that is not in that group any more is obsolete
        self._entries = 0  # in the heaps
        self._placed = False  # whether a pod of the owner was placed
        self._position = -1

    @property
    def is_over(self) -> bool:
        """Whether their owner has no pods any more: a Job that was deleted, for example."""
        return bool(self._placed and self._owner) and not self._node_infos.in_zones(self._owner)

    def refresh(self) -> None:
        """Filters and scores the nodes that changed."""
        changed = self._node_infos.changed_since(self._position) if self._position >= 0 else None
        if changed is not None and not changed:
            return
        if changed is None:
            self.refused, self.passing, self._reasons = Counter(), {}, {}
            self._groups, self._entries = {}, 0
            changed = {node_info.name for node_info in self._node_infos.all()}
        self._position = self._node_infos.end
        for name in changed:
            self.refused.subtract(self._reasons.pop(name, ()))
            node_info = self._node_infos.get(name)
            why = filters.of_node(self.needs, node_info) if node_info is not None else []
            if node_info is None or why:
                self.passing.pop(name, None)
                if why:
                    self._reasons[name] = why
                    self.refused.update(why)
            else:
                self._pass(node_info)
        self.filters = frozenset(filters.name_of(why) for why, count in self.refused.items() if count)

    def best(self) -> str:
        """The best node, if only the node and the pods of the same owner matter; empty: a node lacks a label for
        that."""
        self._placed = True
        self._drop_obsolete()
        groups = list(self._groups)
        if not self._node_infos.hostnames_are_unique or not all(group.regular for group in groups):
            return ""
        zones = self._node_infos.in_zones(self._owner) if self._owner else Counter()
        # The pods in a node's domains. The default constraints compare them with the least, which is the same for all.
        spread = [-group.siblings - zones[group.zone] for group in groups]
        scored = scores.totals([group.alone for group in groups], [0] * len(groups), spread)
        most = max(scored)
        return min(
            self._groups[group][0] for group, score in zip(groups, scored, strict=True) if score == most
        )

    def _pass(self, node_info: NodeInfo) -> None:
        has: Json = node_info.node.metadata.labels
        group = _Group(
            scores.of_node(self.needs, node_info),
            node_info.zone,
            node_info.usage.owners[self._owner] if self._owner else 0,
            bool(has.get(names.HOSTNAME) and has.get(names.ZONE)),
        )
        if self.passing.get(node_info.name) != group:
            self.passing[node_info.name] = group
            heapq.heappush(self._groups.setdefault(group, []), node_info.name)
            self._entries += 1
            if self._entries > _OBSOLETE * len(self.passing) + _FEW:
                self._build_heaps()

    def _build_heaps(self) -> None:
        """Without this, obsolete names below a valid one would stay for ever."""
        self._groups, self._entries = {}, len(self.passing)
        for name in sorted(self.passing):
            self._groups.setdefault(self.passing[name], []).append(name)

    def _drop_obsolete(self) -> None:
        for group, heap in list(self._groups.items()):
            while heap and self.passing.get(heap[0]) != group:
                heapq.heappop(heap)
                self._entries -= 1
            if not heap:
                del self._groups[group]


def _only_node(spec: Json) -> str:
    """The node of a DaemonSet's pod: its required node affinity names one node. Empty: the pod has no such affinity."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    terms: list[Json] = required.get("nodeSelectorTerms") or []
    fields: list[Json] = (terms[0].get("matchFields") or []) if len(terms) == 1 else []
    if len(fields) != 1 or fields[0]["key"] != "metadata.name" or fields[0]["operator"] != "In":
        return ""
    values: list[str] = fields[0].get("values") or []
    return values[0] if len(values) == 1 else ""


def _has_neighbours(spec: Json) -> bool:
    """Whether the pod has constraints or preferences about pods of other nodes."""
    affinity = spec.get("affinity") or {}
    return bool(
        spec.get("topologySpreadConstraints")
        or affinity.get("podAffinity")
        or affinity.get("podAntiAffinity")
    )
