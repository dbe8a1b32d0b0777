"""The topology constraints of every rung as rows of integers.

`problem` builds them. They define which groups exist, which groups constrain a pod, and which groups count it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.input import classes
from holdfast.core.scheduling.input.axes import DomainAxis
from holdfast.core.scheduling.input.classes import Ladder, Rung
from holdfast.core.scheduling.input.columns import Columns
from holdfast.core.scheduling.input.groups import Group, Groups, Sort
from holdfast.core.scheduling.input.shapes import Op
from holdfast.core.scheduling.kernel.packing_state import Bytes
from holdfast.model.pods import Labels, PodShape, PodTerm, TopologySpread
from holdfast.model.requirement import Requirement
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.snapshot import NodePoolView, NodeView
from holdfast.model.taints import TOLERATE_PREFERENCES, Toleration, first_untolerated

Row = tuple[int, ...]
Running = tuple[int, str, Labels, tuple[PodTerm, ...]]
"""A pod that runs: its node, namespace, labels and anti-affinity."""
_Rows = tuple[list[Row], list[Row], list[Row], list[Row]]


class Constraints:
    """Rows by rung, over the rungs of all ladders, one ladder after another."""

    def __init__(
        self,
        ladders: Sequence[Ladder],
        axis: DomainAxis,
        nodes: Sequence[NodeView],
        deleting_nodes: Sequence[NodeView],
        pools: Sequence[NodePoolView],
        columns: Sequence[Columns],
        well_known: frozenset[str],
    ) -> None:
        self.axis = axis
        self._well_known = well_known
        self.groups = Groups(axis)
        self.filters: list[Op] = []
        self._filter_index: dict[Op, int] = {}
        self._eligible: dict[tuple[object, ...], int] = {}
        self._launched_by: dict[tuple[str, Requirements, Requirements, int], set[str]] = {}
        self._sets: list[NDArray[np.uint8]] = []
        self._nodes = nodes
        self._deleting_nodes = deleting_nodes
        self._pools = pools
        self._columns = columns
        for ladder in ladders:
            for rung in ladder.rungs:
                self._register(ladder.shape, rung)
        self._register_owners([ladder.shape for ladder in ladders])
        rows = [self._rows(ladder.shape, rung) for ladder in ladders for rung in ladder.rungs]
        self.spread = [spread for spread, _, _, _ in rows]
        self.affinity = [affinity for _, affinity, _, _ in rows]
        self.anti_affinity = [anti_affinity for _, _, anti_affinity, _ in rows]
        self.counting = [counting for _, _, _, counting in rows]

    def _rows(self, shape: PodShape, rung: Rung) -> _Rows:
        selecting = self.groups.selecting(shape.namespace, shape.labels)
        return (
            [self._spread_row(spread, shape, rung) for spread in rung.spreads],
            [self._near_row(term, shape) for term in rung.affinity],
            self._far_rows(rung, selecting),
            self._note_rows(shape, selecting),
        )

    def eligible(self) -> Bytes:
        """[set, domain]"""
        return np.array(self._sets or [np.zeros(self.axis.size, dtype=np.uint8)], dtype=np.uint8)

    # --- Registering ------------------------------------------------------------------------------------

    def _register(self, shape: PodShape, rung: Rung) -> None:
        for spread in rung.spreads:
            self.groups.of_spread(spread, shape.namespace, self._filter(spread, shape, rung))
        for term in rung.affinity:
            self.groups.of_term(term, Sort.COUNT)
        for term in rung.anti_affinity:
            self.groups.of_term(term, Sort.BLOCKED)

    def _register_owners(self, shapes: Sequence[PodShape]) -> None:
        """Adds the groups of pods with required anti-affinity, pending or running: it also blocks the pods that it selects
        (S-82)."""
        owners = {term for shape in shapes for term in shape.anti_affinity}
        owners |= {term for node in (*self._nodes, *self._deleting_nodes) for term in node.anti_affinity}
        placed = sorted({(shape.namespace, shape.labels) for shape in shapes}) if owners else []
        for term in sorted(owners, key=repr):
            owner = Group(Sort.OWNER, term.key, term.namespaces, term.selector, -1)
            if any(owner.selects(namespace, dict(labels)) for namespace, labels in placed):
                self.groups.add(owner)

    def _filter(self, spread: TopologySpread, shape: PodShape, rung: Rung) -> int:
        """The op that a node must satisfy for its pods to count, or -1 if every node counts (S-78)."""
        terms: tuple[Requirements, ...] = (NO_REQUIREMENTS,)
        if spread.honors_node_affinity:
            terms = tuple(shape.node_selector.union(t) for t in (shape.required_terms or (NO_REQUIREMENTS,)))
        tolerations = _lasting(rung) if spread.honors_node_taints else None
        if tolerations is None and all(not t.by_key for t in terms):
            return -1
        op = Op(terms, tolerations, is_filter=True)
        if op not in self._filter_index:
            self._filter_index[op] = len(self.filters)
            self.filters.append(op)
        return self._filter_index[op]

    # --- Rows --------------------------------------------------------------------------------------------

    def _spread_row(self, spread: TopologySpread, shape: PodShape, rung: Rung) -> Row:
        filter_op = self._filter(spread, shape, rung)
        group = self.groups.of_spread(spread, shape.namespace, filter_op)
        itself = spread.selector is not None and spread.selector.matches(dict(shape.labels))
        eligible = 0
        if spread.key != names.HOSTNAME:
            terms = rung.alternatives if spread.honors_node_affinity else (NO_REQUIREMENTS,)
            wanted = tuple(one.by_key.get(spread.key) for one in terms)
            served = _Served(terms, _lasting(rung))
            eligible = self._eligible_set(spread.key, wanted, filter_op, served)
        key = self.groups.key_index(spread.key)
        return group, spread.max_skew, int(itself), spread.min_domains or 0, eligible, key

    def _near_row(self, term: PodTerm, shape: PodShape) -> Row:
        group = self.groups.of_term(term, Sort.COUNT)
        itself = classes.is_of_own_group(term, shape)
        eligible = 0
        if term.key != names.HOSTNAME:
            # Of any alternative: if another alternative reaches a pod of the group, this pod must not begin a new one.
            terms = shape.required_terms or (NO_REQUIREMENTS,)
            wanted = tuple(shape.node_selector.union(t).by_key.get(term.key) for t in terms)
            eligible = self._eligible_set(term.key, wanted, -1, None)
        return group, int(itself), eligible, self.groups.key_index(term.key)

    def _far_rows(self, rung: Rung, selecting: Sequence[tuple[Group, int]]) -> list[Row]:
        own: list[Row] = [
            (self.groups.of_term(t, Sort.BLOCKED), self.groups.key_index(t.key)) for t in rung.anti_affinity
        ]
        others: list[Row] = [(i, self.groups.key_index(g.key)) for g, i in selecting if g.sort is Sort.OWNER]
        return own + others

    def _note_rows(self, shape: PodShape, selecting: Sequence[tuple[Group, int]]) -> list[Row]:
        """The groups that count a placement. Preferred anti-affinity does not block other pods (S-82)."""
        rows: list[Row] = [
            (i, self.groups.key_index(g.key), int(g.sort is Sort.BLOCKED), g.filter_op)
            for g, i in selecting
            if g.sort is not Sort.OWNER
        ]
        for term in shape.anti_affinity:
            owner = Group(Sort.OWNER, term.key, term.namespaces, term.selector, -1)
            index = self.groups.find(owner)
            if index is not None:
                rows.append((index, self.groups.key_index(term.key), 1, -1))
        return rows

    def _eligible_set(
        self, key: str, wanted: tuple[Requirement | None, ...], filter_op: int, served: "_Served | None"
    ) -> int:
        """The domains over which the global minimum is taken: those that the pod could be in (S-79)."""
        known = self._eligible.get((key, wanted, filter_op, served))
        if known is None:
            known = self._eligible[key, wanted, filter_op, served] = len(self._sets)
            reachable = None if served is None else self._reachable(key, filter_op, served)
            row = np.zeros(self.axis.size, dtype=np.uint8)
            k = self.axis.key_index(key)
            for i, domain in enumerate(self.axis.domains[k]):
                allowed = any(one is None or one.has(domain) for one in wanted)
                row[self.axis.first[k] + i] = allowed and (reachable is None or domain in reachable)
            self._sets.append(row)
        return known

    def _reachable(self, key: str, filter_op: int, served: "_Served") -> set[str]:
        """The domains of nodes that pass the filter, and of nodes that NodePools can launch for the pod (S-75)."""
        nodes = (node for node in self._nodes if filter_op < 0 or passes(self.filters[filter_op], node))
        found = {node.label_map[key] for node in nodes if key in node.label_map}
        for pool, columns in zip(self._pools, self._columns, strict=True):
            if not first_untolerated(pool.taints, served.tolerations):
                for wanted in served.alternatives:
                    if not pool.requirements.compatible(wanted, self._well_known):
                        continue
                    found |= self._launched(key, pool.requirements, wanted, columns)
        return found

    def _launched(self, key: str, of_pool: Requirements, wanted: Requirements, columns: Columns) -> set[str]:
        """The domains of nodes that a NodePool can launch for such pods; cached, since NodePools are often alike."""
        cache_key = key, of_pool, wanted, id(columns)
        if cache_key not in self._launched_by:
            rows = columns.compatible_with(of_pool.union(wanted))
            self._launched_by[cache_key] = columns.values(key, of_pool.get(key), rows)
        return self._launched_by[cache_key]


class _Served(NamedTuple):
    """What a pod requires of a NodePool."""

    alternatives: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...]


def passes(op: Op, node: NodeView) -> bool:
    """Whether pods on an existing node count for a group with this filter (S-78)."""
    if op.tolerations is not None and first_untolerated(node.taints, op.tolerations):
        return False
    return any(node.label_requirements.compatible(wanted) for wanted in op.alternatives)


def _lasting(rung: Rung) -> tuple[Toleration, ...]:
    """The tolerations that decide which nodes count: a PreferNoSchedule taint excludes no node."""
    return tuple(dict.fromkeys((*rung.tolerations, TOLERATE_PREFERENCES)))
