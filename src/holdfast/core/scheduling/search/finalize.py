"""Chooses an offering for each new node of a run: the offerings it can be, the one the plan counts on, and its slot.

Called by `packing_search` for every packing. Two rules: a free slot that fits is used before a node is launched on demand
or on spot, and no reservation gets more nodes than it has free slots.
"""

from collections.abc import Iterator
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

_AT_ONCE = 512  # nodes that are compared with all types together


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
    """Caches the rows in order by shape and by what fits: most nodes of all packings are alike."""

    problem: Problem
    shapes: Shapes
    _masks: list[Mask] = field(default_factory=list)
    _mask_of: dict[tuple[int, int], int] = field(default_factory=dict)  # by template and shape, in `_masks`
    _mask_for: dict[tuple[int, Requirements], int] = field(default_factory=dict)
    _ordered: dict[tuple[int, bytes], NDArray[np.intp]] = field(default_factory=dict)

    def rows(self, template: int, shape: int, load: Ints) -> NDArray[np.intp]:
        """The rows of a template that a node of this shape and load can be, cheapest first."""
        fits = self.problem.templates[template].rows.fits_allocatable(load)
        return self._of(template, shape, fits, np.packbits(fits).tobytes())

    def rows_of_all(self, outcome: Outcome) -> list[NDArray[np.intp]]:
        """The rows of every new node, of the template it was opened with."""
        templates = outcome.n_template[outcome.existing :]
        shapes = outcome.n_shape[outcome.existing :].tolist()
        loads = outcome.n_load[outcome.existing :]
        found = [np.empty(0, dtype=np.intp)] * len(shapes)
        for t in axes.distinct(templates).tolist():
            allocatable = self.problem.templates[t].rows.allocatable
            for some in np.array_split(of := np.flatnonzero(templates == t), 1 + len(of) // _AT_ONCE):
                fits = np.ones((len(some), len(allocatable)), dtype=bool)
                for resource in range(allocatable.shape[1]):
                    fits &= allocatable[:, resource] >= loads[some, resource, None]
                packed = np.packbits(fits, axis=1)
                width, keys = packed.shape[1], packed.tobytes()
                known: dict[tuple[int, bytes], NDArray[np.intp]] = {}
                for j, i in enumerate(some.tolist()):
                    key = shapes[i], keys[j * width : (j + 1) * width]
                    if key not in known:
                        known[key] = self._of(t, shapes[i], fits[j], key[1])
                    found[i] = known[key]
        return found

    def _of(self, template: int, shape: int, fits: Mask, packed: bytes) -> NDArray[np.intp]:
        mask = self._mask_of.get((template, shape))
        if mask is None:
            mask = self._mask_of[template, shape] = self._mask(template, shape)
        known = self._ordered.get((mask, packed))
        if known is None:
            of = self.problem.templates[template].rows
            known = of.cheapest_first(self._masks[mask] & fits[of.allocatable_index])
            self._ordered[mask, packed] = known
        return known

    def _mask(self, template: int, shape: int) -> int:
        """All rows that satisfy the shape, including those that a packing left out.

        A node of a NodePool with limits keeps the rows it was opened with: larger ones might exceed the limits.
        """
        p, of_shape = self.problem, self.shapes.all[shape]
        limited = p.pools[p.templates[template].pool].limits.amounts
        if limited and of_shape.template == template and of_shape.mask is not None:
            self._masks.append(of_shape.mask)
            return len(self._masks) - 1
        wanted = self.shapes.pinned_requirements(shape)
        if (template, wanted) not in self._mask_for:
            self._mask_for[template, wanted] = len(self._masks)
            self._masks.append(offers.satisfying(p.templates[template].rows, wanted))
        return self._mask_for[template, wanted]


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
        rows = chooser.rows(slots, int(outcome.n_shape[n]), outcome.n_load[n])
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
