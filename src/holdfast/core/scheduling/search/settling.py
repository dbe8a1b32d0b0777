"""Settles the domain of nodes when the placement of other pods depends on it.

Called by `run` when no other pod can be placed. Pods on a node with several possible domains count in none, so pods with
affinity to them could never be placed. Each such node gets the domain of its cheapest offering, which the plan would
choose anyway.
"""

import numpy as np

from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.shapes import Shapes
from holdfast.core.scheduling.kernel import placing, topology
from holdfast.core.scheduling.kernel.packing_state import NEED, NO, NODES, PackingState
from holdfast.core.scheduling.search import initial_state, min_values


def settle(p: Problem, ps: PackingState, shapes: Shapes) -> tuple[PackingState, bool]:
    """Settles one domain for each node and key that groups with uncertain pods need; returns whether there was any."""
    found, first = False, len(p.nodes)
    for n in (first + np.flatnonzero(ps.uncertain[:, first : ps.reg[NODES]].any(axis=0))).tolist():
        groups = np.flatnonzero(ps.uncertain[:, n])
        for key in sorted({int(ps.g_key[g]) for g in groups}):
            shape = _cheapest_shape(p, ps, shapes, n, key)
            if shape >= 0 and shape != ps.n_shape[n]:
                ps = _resolve_filters(ps, shapes, shape, {int(ps.g_filter[g]) for g in groups})
                placing.become_certain(ps, n, shape)
                ps.n_shape[n] = shape
                found = True
    return ps, found


def _resolve_filters(ps: PackingState, shapes: Shapes, shape: int, filters: set[int]) -> PackingState:
    """Makes sure that the results of these filters for a shape are in the table."""
    ps = initial_state.refresh_shapes(ps, shapes)
    for op in sorted(filters - {-1}):
        if topology.shape_after(ps, shape, op) <= NEED:
            shapes.transition(shape, op)
            ps = initial_state.refresh_shapes(ps, shapes)
    return ps


def _cheapest_shape(p: Problem, ps: PackingState, shapes: Shapes, n: int, key: int) -> int:
    """The shape of a node in the domain of its cheapest offering, or of its slot, whose minValues hold; NO if there is
    none."""
    old = shapes.all[ps.n_shape[n]]
    rows = p.templates[old.template].rows
    assert old.mask is not None
    fitting = old.mask & rows.fitting(ps.n_load[n])
    if ps.n_reservation[n] >= 0:
        fitting &= rows.reservation == ps.n_reservation[n]
    first, end = p.domains.first[key], p.domains.first[key + 1]
    possible = shapes.s_domains[ps.n_shape[n], first:end].astype(bool)
    table = rows.in_domain(p.domains.keys[key], p.domains.domains[key])
    for row in rows.cheapest_first(fitting):
        here = possible if table is None else possible & table[:, row]
        if here.any():
            shape = shapes.in_domain(int(ps.n_shape[n]), key, first + int(np.argmax(here)))
            if shape >= 0 and not min_values.gaps(p, shapes, shape, ps.n_load[n]):
                return shape
    return NO
