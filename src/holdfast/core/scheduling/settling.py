"""Settles where nodes are when pods that wait depend on it.

Called by `run` when nobody else finds a place: pods on a node whose domain is open count nowhere, so whoever wants to
be near them waits for ever. Each such node gets the domain of the cheapest offering that it can be, which is where the
plan would put it anyway.
"""

import numpy as np

from holdfast.core.scheduling import assemble, types_left
from holdfast.core.scheduling.kernel import placing, topology
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.shapes import Shapes
from holdfast.core.scheduling.world import NEED, NO, NODES, World


def settle(p: Problem, w: World, shapes: Shapes) -> tuple[World, bool]:
    """The world with one domain for each node and key that pods would count in, and whether there was any."""
    found, first = False, len(p.nodes)
    for n in (first + np.flatnonzero(w.uncertain[:, first : w.reg[NODES]].any(axis=0))).tolist():
        groups = np.flatnonzero(w.uncertain[:, n])
        for key in sorted({int(w.g_key[g]) for g in groups}):
            shape = _cheapest(p, w, shapes, n, key)
            if shape >= 0 and shape != w.n_shape[n]:
                w = _known(w, shapes, shape, {int(w.g_filter[g]) for g in groups})
                placing.become_certain(w, n, shape)
                w.n_shape[n] = shape
                found = True
    return w, found


def _known(w: World, shapes: Shapes, shape: int, filters: set[int]) -> World:
    """The world that can tell whether nodes of a shape pass these filters."""
    w = assemble.refreshed(w, shapes)
    for op in sorted(filters - {-1}):
        if topology.after(w, shape, op) <= NEED:
            shapes.transition(shape, op)
            w = assemble.refreshed(w, shapes)
    return w


def _cheapest(p: Problem, w: World, shapes: Shapes, n: int, key: int) -> int:
    """The shape of a node in the domain of its cheapest offering, or of its slot, that leaves types enough; NO where
    there is none."""
    old = shapes.all[w.n_shape[n]]
    rows = p.templates[old.template].rows
    assert old.mask is not None
    fitting = np.flatnonzero(old.mask & rows.fitting(w.n_load[n]))
    if w.n_slot[n] >= 0:
        fitting = fitting[rows.reservation[fitting] == w.n_slot[n]]
    first, end = p.domains.first[key], p.domains.first[key + 1]
    possible = shapes.s_domains[w.n_shape[n], first:end].astype(bool)
    table = rows.in_domain(p.domains.keys[key], p.domains.domains[key])
    for row in rows.ordered(fitting):
        here = possible if table is None else possible & table[row]
        if here.any():
            shape = shapes.in_domain(int(w.n_shape[n]), key, first + int(np.argmax(here)))
            if shape >= 0 and not types_left.gaps(p, shapes, shape, w.n_load[n]):
                return shape
    return NO
