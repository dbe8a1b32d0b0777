"""Which nodes a simulation has to include: the nodes that could run one of the evicted pods.

Without this, each simulation would plan all nodes of a cluster. A node is left out only if the placement of the evicted
pods cannot depend on it. If a pod has spread constraints, pod affinity or anti-affinity over whole zones, no node is
left out.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.disruption.node_columns import Mask, NodeColumns
from holdfast.core.scheduling.input.axes import distinct
from holdfast.model.pods import PodShape, PodTerm, PodView, eviction_order
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import CPU, MEMORY, Resources, add
from holdfast.model.snapshot import NodeView, Snapshot
from holdfast.model.taints import TOLERATE_PREFERENCES, first_untolerated

_UNLIMITED: Final = 2**31  # pods without requests
SPARE: Final = 64  # nodes in addition to the number of pods of a shape: other pods may use some


class Targets:
    """The nodes of one snapshot that accept pods, in the planner's order; unsettled and avoided nodes come last."""

    def __init__(
        self,
        snapshot: Snapshot,
        avoided: AbstractSet[str] = frozenset(),
        columns: NodeColumns | None = None,
    ) -> None:
        self.columns = c = columns or NodeColumns(snapshot.nodes)
        fresh = c.unsettled(snapshot.node_pools, snapshot.taken_s)
        self.unsettled = frozenset(node.name for node in c.where(fresh & ~c.deleting))
        fresh[[c.rows[name] for name in avoided if name in c.rows]] = True
        order = np.lexsort((~c.reserved, ~c.initialized, fresh))
        self._order = order = order[~c.deleting[order]]
        self._nodes = [c.nodes[i] for i in order.tolist()]
        self._kind_of = c.kind[order]
        self._starting: Mask = ~c.initialized[order]
        self._receiving: Mask = (c.initialized & ~fresh)[order]  # whether consolidation may move pods to it
        self._position = np.full(len(c.nodes), -1, dtype=np.int64)
        self._position[order] = np.arange(len(order))
        self._found: dict[int, tuple[PodShape, NDArray[np.intp]]] = {}
        self._on_starting: dict[int, tuple[PodShape, bool]] = {}
        self._like: dict[int, tuple[PodShape, PodShape]] = {}
        self._wanted: dict[int, tuple[NodeView, tuple[tuple[PodShape, int], ...]]] = {}
        self._first: dict[Hashable, PodShape] = {}
        self._anti_affinity = _anti_affinity(c.where(c.repels))
        self._far = tuple(term for term in self._anti_affinity if term.key != names.HOSTNAME)
        self._loose: dict[int, tuple[PodShape, bool]] = {}
        self._places: dict[int, tuple[PodShape, NDArray[np.int64], int]] = {}

    def of(self, shapes: Sequence[PodShape]) -> list[NodeView] | None:
        """Nodes for pods of these shapes, one shape for each pod; None: all nodes are needed."""
        counts: dict[int, int] = {}
        by_id: dict[int, PodShape] = {}
        for shape in shapes:
            counts[id(shape)] = counts.get(id(shape), 0) + 1
            by_id[id(shape)] = shape
        if not self.are_loose(by_id.values()):
            return None
        found = {
            i
            for key, shape in by_id.items()
            for i in self.fitting(shape)[: _enough(shape, counts[key])].tolist()
        }
        return [self._nodes[i] for i in found]

    def are_loose(self, shapes: Iterable[PodShape]) -> bool:
        """Whether each node alone decides if pods of these shapes may run on it."""
        return all(self._is_loose(shape) for shape in shapes)

    def are_selected(self, shapes: Iterable[PodShape], planned: Iterable[PodShape]) -> bool:
        """Whether a term of a running pod or of these planned pods may select pods of the shapes by their labels."""
        terms = (*self._anti_affinity, *(term for shape in planned for term in _terms(shape)))
        return any(_selects(term, shape) for term in terms for shape in shapes)

    def like(self, shape: PodShape) -> PodShape:
        """The first shape that fits on the same nodes: pods of both use the same capacity."""
        known = self._like.get(id(shape))
        if known is None:
            first = self._first.setdefault(capacity_key(shape), shape)
            known = self._like[id(shape)] = shape, first
        return known[1]

    def fitting(self, shape: PodShape) -> NDArray[np.intp]:
        """The nodes that have capacity for one pod of the shape and whose labels and taints allow it."""
        shape = self.like(shape)
        known = self._found.get(id(shape))
        if known is None:
            fits = np.ones(len(self._nodes), dtype=bool)
            for name, amount in shape.requests.amounts:
                fits &= self._column(name) >= amount
            samples = self.columns.samples
            suited = np.zeros(len(samples), dtype=bool)
            for kind in distinct(self._kind_of).tolist():
                suited[kind] = _suits(samples[kind], shape)
            found = np.flatnonzero(fits & suited[self._kind_of])
            known = self._found[id(shape)] = shape, found
        return known[1]

    def fits_on_starting_node(self, shape: PodShape) -> bool:
        shape = self.like(shape)
        known = self._on_starting.get(id(shape))
        if known is None:
            found = bool(self._starting[self.fitting(shape)].any())
            known = self._on_starting[id(shape)] = shape, found
        return known[1]

    def fits_elsewhere(self, shape: PodShape, excluded_node: str) -> bool:
        """Whether another node has capacity for a pod of the shape."""
        found = self.fitting(shape)
        return len(found) > 1 or (len(found) == 1 and self._nodes[int(found[0])].name != excluded_node)

    def fits_on(self, shape: PodShape, nodes: AbstractSet[str]) -> bool:
        """Whether one of these nodes has capacity for a pod of the shape."""
        return any(self._nodes[int(i)].name in nodes for i in self.fitting(shape))

    def without_place(self, nodes: Sequence[NodeView]) -> list[tuple[PodShape, int]]:
        """How many pods, at least, fit on no other node if these are consolidated, with one shape for all that fit on
        the same nodes. These are counted as if they had all free capacity, and constraints between pods are ignored, so
        no plan places more. Consolidation moves no pods to starting, unsettled and avoided nodes."""
        wanted: dict[int, int] = {}
        shapes: dict[int, PodShape] = {}
        for node in nodes:
            for shape, count in self._wanted_by(node):
                wanted[id(shape)] = wanted.get(id(shape), 0) + count
                shapes[id(shape)] = shape
        rows = [self.columns.rows[node.name] for node in nodes]
        at = [i for i in self._position[rows].tolist() if i >= 0]
        found = []
        for key, shape in shapes.items():
            _, places, total = self._places_of(shape)
            left = wanted[key] - (total - sum(int(places[i]) for i in at))
            if left > 0:
                found.append((shape, left))
        return found

    def _wanted_by(self, node: NodeView) -> tuple[tuple[PodShape, int], ...]:
        """The shapes of the pods that need another node, by `like`, with their counts. One node is in many of the sets
        that a pass tries."""
        known = self._wanted.get(id(node))
        if known is None:
            found = tuple([(self.like(one), count) for one, count in node.reschedulable_shapes])
            known = self._wanted[id(node)] = node, found
        return known[1]

    def _places_of(self, shape: PodShape) -> tuple[PodShape, NDArray[np.int64], int]:
        """[node] How many pods of the shape it has capacity for, and the sum."""
        shape = self.like(shape)
        known = self._places.get(id(shape))
        if known is None:
            places = np.zeros(len(self._nodes), dtype=np.int64)
            fitting = self.fitting(shape)
            fitting = fitting[self._receiving[fitting]]
            if len(fitting):
                amounts = [(name, amount) for name, amount in shape.requests.amounts if amount > 0]
                each = [self._column(name)[fitting] // amount for name, amount in amounts]
                places[fitting] = np.min(each, axis=0) if each else _UNLIMITED
            known = self._places[id(shape)] = shape, places, int(places.sum())
        return known

    def left_over(self, node: NodeView) -> list[PodView]:
        """Pods of a node that do not fit on other nodes when it is consolidated, the largest placed first as in the
        planner. This ignores all other pods and all constraints between pods, so the planner does not place more of
        them."""
        pods = [pod for pod in node.pods if pod.reschedulable]
        pods.sort(key=lambda pod: eviction_order(pod.shape.requests))
        taken: dict[int, list[Resources]] = {}
        found = []
        for pod in pods:
            wanted = pod.shape.requests
            for i in map(int, self.fitting(pod.shape)):
                if self._nodes[i].name == node.name or not self._receiving[i]:
                    continue
                before = taken.get(i)
                if before is None or add(wanted, *before).fits(self._nodes[i].free):
                    taken.setdefault(i, []).append(wanted)
                    break
            else:
                found.append(pod)
        return found

    def crowded_out(self, removed: AbstractSet[str], pods: Iterable[PodView]) -> PodView | None:
        """A pod that does not fit if kube-scheduler binds the pods without the plan: the largest first, each to the
        node with the largest share of free cpu and memory (LeastAllocated)."""
        usable = self.columns.initialized[self._order]
        at = self._position[[self.columns.rows[name] for name in removed]]
        usable[at[at >= 0]] = False
        free: dict[str, NDArray[np.int64]] = {}
        for pod in sorted(pods, key=lambda pod: eviction_order(pod.shape.requests)):
            amounts = pod.shape.requests.amounts
            found = self.fitting(pod.shape)
            found = found[usable[found]]
            for name, amount in amounts:
                found = found[free.get(name, self._column(name))[found] >= amount]
            if not len(found):
                return pod
            share = np.zeros(len(found))
            for name in (CPU, MEMORY):
                left = free.get(name, self._column(name))[found] - pod.shape.requests[name]
                share += left / np.maximum(self._sizes(name)[found], 1)
            chosen = found[share.argmax()]
            for name, amount in amounts:
                if name not in free:
                    free[name] = self._column(name).copy()
                free[name][chosen] -= amount
        return None

    def _sizes(self, name: str) -> NDArray[np.int64]:
        return self.columns.size(name)[self._order]

    def _column(self, name: str) -> NDArray[np.int64]:
        return self.columns.free(name)[self._order]

    def _is_loose(self, shape: PodShape) -> bool:
        known = self._loose.get(id(shape))
        if known is None:
            known = self._loose[id(shape)] = shape, _is_loose(shape, self._far)
        return known[1]


def _enough(shape: PodShape, count: int) -> int | None:
    """How many nodes are enough for this many pods; None: not only capacity decides if such a pod fits on a node."""
    if shape.anti_affinity or shape.preferred_anti_affinity or shape.host_ports or shape.volumes.claims:
        return None
    return count + SPARE


def _is_loose(shape: PodShape, far: Iterable[PodTerm]) -> bool:
    if shape.spreads or shape.affinity or shape.preferred_affinity:
        return False
    anti_affinity = (*shape.anti_affinity, *(one.term for one in shape.preferred_anti_affinity))
    if any(term.key != names.HOSTNAME for term in anti_affinity):
        return False
    return not any(_selects(term, shape) for term in far)


def _anti_affinity(nodes: Iterable[NodeView]) -> tuple[PodTerm, ...]:
    """Anti-affinity terms of running pods."""
    return tuple({term: None for node in nodes for term in node.anti_affinity})


def _terms(shape: PodShape) -> Iterator[PodTerm]:
    """The constraints of a pod on other pods. A spread is like a term in its own namespace."""
    for spread in shape.spreads:
        yield PodTerm(spread.key, spread.selector, (shape.namespace,))
    yield from shape.affinity
    yield from shape.anti_affinity
    for one in (*shape.preferred_affinity, *shape.preferred_anti_affinity):
        yield one.term


def _selects(term: PodTerm, shape: PodShape) -> bool:
    return (
        shape.namespace in term.namespaces
        and term.selector is not None
        and term.selector.matches(dict(shape.labels))
    )


def capacity_key(shape: PodShape) -> Hashable:
    """Equal for shapes that fit on the same nodes, apart from constraints between pods."""
    return (
        shape.requests,
        shape.node_selector,
        shape.required_terms,
        shape.tolerations,
        shape.volumes.alternatives,
    )


def _suits(node: NodeView, shape: PodShape) -> bool:
    """Whether labels and taints of the node allow the pod; the planner checks the rest. One node is checked for all
    nodes that differ only in their hostnames, so requirements on the hostname are ignored here."""
    if first_untolerated(node.taints, (*shape.tolerations, TOLERATE_PREFERENCES)) is not None:
        return False
    own = node.label_requirements.without((names.HOSTNAME,))
    alternatives = shape.volumes.alternatives or (NO_REQUIREMENTS,)
    terms = shape.required_terms or (NO_REQUIREMENTS,)
    return any(
        own.compatible(_nameless(shape.node_selector.union(term).union(alternative)))
        for term in terms
        for alternative in alternatives
    )


def _nameless(wanted: Requirements) -> Requirements:
    return wanted.without((names.HOSTNAME,))


def unsettled(snapshot: Snapshot) -> set[str]:
    """Nodes whose pods changed within the last consolidateAfter of their NodePool."""
    after_s = {pool.name: pool.consolidate_after_s for pool in snapshot.node_pools}
    return {
        node.name
        for node in snapshot.nodes
        if node.last_pod_event_s is not None
        and (window_s := after_s.get(node.node_pool or "")) is not None
        and snapshot.taken_s < node.last_pod_event_s + window_s
    }
