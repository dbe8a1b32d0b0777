"""Chooses an offering for each new node of a run: the offerings it can be, the one the plan counts on, and its slot.

Called by `packing_search` for every packing. Two rules: a free slot that fits is used before a node is launched on demand
or on spot, and no reservation gets more nodes than it has free slots.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling.input import axes, offers
from holdfast.core.scheduling.input.columns import UNKNOWN_COST, Mask
from holdfast.core.scheduling.input.offers import Rows
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.shapes import Shapes
from holdfast.core.scheduling.kernel.packing_state import RESERVED, UNRESERVED, Ints
from holdfast.core.scheduling.search.run import Outcome
from holdfast.model import resources
from holdfast.model.requirements import Requirements


@dataclass
class Nodes:
    """The new nodes of a run, each with the row that the plan counts on."""

    template: list[int]
    row: list[int]  # in the rows of its template
    rows: list[NDArray[np.intp]]  # every row that fits, cheapest first
    free: Ints  # free slots, by reservation
    price_nano: int  # of unreserved nodes with a known price, an hour
    cost_nano: int  # for comparing packings: the price with surcharges and the cost of each node
    unpriced: int  # nodes without a known price

    def largest_millis(self, p: Problem) -> int:
        """The cpu of their largest instance type, in thousandths."""
        largest = 0
        for rows, found in self.by_template(p):
            sizes = rows.columns.capacity(resources.CPU)[rows.row_type[found]]
            largest = max(largest, int(sizes.max(initial=0)))
        return largest

    def unreserved_count(self, p: Problem) -> int:
        """How many of them are launched on demand or on spot."""
        return sum(p.templates[t].kind == UNRESERVED for t in self.template)

    def by_template(self, p: Problem) -> Iterator[tuple[Rows, Ints]]:
        """For each template, its rows and those that the plan counts on."""
        templates, found = np.array(self.template, dtype=np.int64), np.array(self.row, dtype=np.int64)
        for t, template in enumerate(p.templates):
            yield template.rows, found[templates == t]


@dataclass
class Chooser:
    """Finds the rows that a node can be, cheapest first. Most nodes of all packings are alike, so everything is cached."""

    problem: Problem
    shapes: Shapes
    _bits: dict[int, list[dict[int, int]]] = field(default_factory=dict)  # by template, resource and amount
    _rows: dict[tuple[int, int, int], NDArray[np.intp]] = field(default_factory=dict)
    _suitable: list[tuple[NDArray[np.intp], Ints]] = field(default_factory=list)  # with `allocatable_index`
    _index: dict[tuple[int, int], int] = field(default_factory=dict)  # by template and shape, in `_suitable`
    _index_for: dict[tuple[int, Requirements], int] = field(default_factory=dict)
    _fitting: dict[tuple[int, int], NDArray[np.intp]] = field(default_factory=dict)

    def rows_of_all(self, outcome: Outcome) -> list[NDArray[np.intp]]:
        """The rows of every new node, of the template it was opened with."""
        of = (outcome.n_template, outcome.n_shape, outcome.n_load)
        return list(map(self.rows, *(array[outcome.existing :].tolist() for array in of)))

    def rows(self, template: int, shape: int, load: Sequence[int]) -> NDArray[np.intp]:
        """The rows of a template that a node of this shape and load can be, cheapest first."""
        bits = self._fitting_bits(template, load)
        known = self._rows.get((template, shape, bits))
        if known is None:
            known = self._rows[template, shape, bits] = self._find(template, shape, bits)
        return known

    def _fitting_bits(self, template: int, load: Sequence[int]) -> int:
        """A bit for each entry of the template's `allocatable`: whether the load fits. Loads have few different amounts of
        each resource, and numbers are combined faster than arrays."""
        of_template = self._bits.get(template)
        if of_template is None:
            of_template = self._bits[template] = [{} for _ in load]
        found = -1
        for resource, amount in enumerate(load):
            bits = of_template[resource].get(amount)
            if bits is None:
                fits = self.problem.templates[template].rows.allocatable[:, resource] >= amount
                bits = of_template[resource][amount] = int.from_bytes(np.packbits(fits).tobytes(), "big")
            found &= bits
        return found

    def _find(self, template: int, shape: int, bits: int) -> NDArray[np.intp]:
        index = self._index.get((template, shape))
        if index is None:
            index = self._index[template, shape] = self._suitable_index(template, shape)
        known = self._fitting.get((index, bits))
        if known is None:
            rows, allocatable_index = self._suitable[index]
            count = len(self.problem.templates[template].rows.allocatable)
            packed = np.frombuffer(bits.to_bytes(-(-count // 8), "big"), dtype=np.uint8)
            fits = np.unpackbits(packed, count=count).view(bool)
            known = self._fitting[index, bits] = rows[fits[allocatable_index]]
        return known

    def _suitable_index(self, template: int, shape: int) -> int:
        """All rows that satisfy the shape, including those that a packing left out.

        A node of a NodePool with limits keeps the rows it was opened with: larger ones might exceed the limits.
        """
        p, of_shape = self.problem, self.shapes.all[shape]
        limited = p.pools[p.templates[template].pool].limits.amounts
        if limited and of_shape.template == template and of_shape.mask is not None:
            return self._add(template, of_shape.mask)
        wanted = self.shapes.pinned_requirements(shape)
        if (template, wanted) not in self._index_for:
            mask = offers.satisfying(p.templates[template].rows, wanted)
            self._index_for[template, wanted] = self._add(template, mask)
        return self._index_for[template, wanted]

    def _add(self, template: int, mask: Mask) -> int:
        of = self.problem.templates[template].rows
        rows = of.cheapest_first(mask)
        self._suitable.append((rows, of.allocatable_index[rows]))
        return len(self._suitable) - 1


def choose(chooser: Chooser, outcome: Outcome) -> Nodes:
    """Every new node with its row, slots first."""
    p = chooser.problem
    free = outcome.r_free.copy()
    template = outcome.n_template[outcome.existing :].tolist()
    found = chooser.rows_of_all(outcome)
    assert all(map(len, found)), "a node that was packed has a row that fits"
    row = [int(rows[0]) for rows in found]
    nodes = Nodes(template, row, found, free, 0, 0, 0)
    _settle_slots(p, outcome, nodes)
    _use_free_slots(p, outcome, nodes, chooser)
    _sum_costs(p, nodes)
    return nodes


def _settle_slots(p: Problem, outcome: Outcome, nodes: Nodes) -> None:
    """Moves every reserved node to the best free slot: the kernel only made sure that there is one."""
    held = {
        i: int(outcome.n_reservation[outcome.existing + i])
        for i, t in enumerate(nodes.template)
        if p.templates[t].kind == RESERVED
    }
    for i, reservation in held.items():
        of = p.templates[nodes.template[i]].rows
        nodes.row[i] = next(row for row in nodes.rows[i].tolist() if of.reservation[row] == reservation)
    moved = True
    while moved:  # this ends, since every move is to a better slot
        moved = False
        for i in held:
            of = p.templates[nodes.template[i]].rows
            for row in nodes.rows[i].tolist():
                if row == nodes.row[i]:
                    break
                if nodes.free[of.reservation[row]] > 0:
                    nodes.free[of.reservation[row]] -= 1
                    nodes.free[of.reservation[nodes.row[i]]] += 1
                    nodes.row[i] = row
                    moved = True
                    break


def _use_free_slots(p: Problem, outcome: Outcome, nodes: Nodes, chooser: Chooser) -> None:
    """Moves unreserved nodes into free slots of their NodePool, the most expensive first."""
    if not nodes.free.any():
        return
    slots_of = {t.pool: i for i, t in enumerate(p.templates) if t.kind == RESERVED}
    unreserved = [i for i, t in enumerate(nodes.template) if p.templates[t].kind == UNRESERVED]
    for i in sorted(unreserved, key=lambda i: (-_cost(p, nodes, i), i)):
        slots = slots_of.get(p.templates[nodes.template[i]].pool)
        if slots is None:
            continue
        n = outcome.existing + i
        of = p.templates[slots].rows
        unsuited = _clashing_types(p, outcome, slots, n)
        rows = chooser.rows(slots, int(outcome.n_shape[n]), outcome.n_load[n].tolist())
        if unsuited:
            rows = rows[[of.type(row).name not in unsuited for row in rows.tolist()]]
        most = outcome.shapes.s_max_capacity[outcome.n_shape[n]]  # at most what the limits were charged
        row = next(
            (
                r
                for r in rows.tolist()
                if nodes.free[of.reservation[r]] > 0 and (of.capacity[r] <= most).all()
            ),
            None,
        )
        if row is not None:
            nodes.free[of.reservation[row]] -= 1
            nodes.template[i], nodes.row[i], nodes.rows[i] = slots, row, rows


def _clashing_types(p: Problem, outcome: Outcome, template: int, n: int) -> set[str]:
    """The types on which a DaemonSet of this template uses a host port of the node's pods. Another capacity type may have
    other DaemonSets."""
    if not p.ports or not any(p.templates[template].daemon_ports):
        return set()
    classes = axes.distinct(outcome.log_class[outcome.log_node == n]).tolist()
    return set(
        p.templates[template].clashing_types(
            [port for c in classes for port in p.classes[c].shape.host_ports]
        )
    )


def _sum_costs(p: Problem, nodes: Nodes) -> None:
    for template, (rows, found) in zip(p.templates, nodes.by_template(p), strict=True):
        if template.kind == UNRESERVED:
            costs = rows.cost[found]
            nodes.price_nano += sum(rows.price[found].tolist())  # exact, where int64 would wrap around
            nodes.cost_nano += sum(costs.tolist())
            nodes.unpriced += int((costs == UNKNOWN_COST).sum())


def _cost(p: Problem, nodes: Nodes, i: int) -> int:
    return int(p.templates[nodes.template[i]].rows.cost[nodes.row[i]])
