"""Opens nodes with the patterns of `greedy`, after a run has filled existing nodes and slots.

Called by `run` for the price-aware packing. It places only unconstrained pods: no topology constraint of their own or of
other pods, no host ports, no volumes, and a NodePool without limits or minValues. The resulting state must be one that
the kernel could have reached, so that the kernel can place the other pods.
"""

from collections.abc import Iterator

import numpy as np

from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.shapes import Shapes, larger_than_before
from holdfast.core.scheduling.kernel.packing_state import LOGGED, NODES, UNRESERVED, Ints, PackingState
from holdfast.core.scheduling.search import greedy, initial_state
from holdfast.core.scheduling.search.variants import Variants

MOST_SIZES = 128  # more would take longer than the saving is worth


def open_patterns(
    p: Problem, variants: Variants, ps: PackingState, shapes: Shapes, bases: list[int]
) -> PackingState:
    """Opens nodes for every set of unconstrained classes with the same template and shape."""
    groups: dict[tuple[int, int], list[int]] = {}
    for c in np.flatnonzero(ps.c_pending).tolist():
        key = _template_and_shape(p, variants, ps, shapes, bases, c)
        if key is not None:
            groups.setdefault(key, []).append(c)
    for (t, shape), classes in groups.items():
        ps = _open(p, variants, ps, shapes, t, shape, classes)
    return _listed(p, initial_state.refresh_shapes(ps, shapes))


def _template_and_shape(
    p: Problem, variants: Variants, ps: PackingState, shapes: Shapes, bases: list[int], c: int
) -> tuple[int, int] | None:
    """The template and shape that a class opens nodes with; None if its pods are constrained."""
    if not variants.unconstrained[c] or ps.c_waits[c]:
        return None
    v = int(variants.c_first[c])
    for t in ps.t_order.tolist():
        template = p.templates[t]
        if template.kind != UNRESERVED or bases[t] < 0:
            continue
        shape = shapes.after(bases[t], int(variants.v_ops[variants.v_op_first[v]]))
        if shape < 0 or not _fits(shapes, shape, variants.v_req[v]):
            continue
        limited = p.pools[template.pool].limits.amounts
        return None if limited or shapes.s_min_values[shape] else (t, shape)
    return None


def _fits(shapes: Shapes, shape: int, request: Ints) -> bool:
    first, end = shapes.s_rows[shape]
    return bool((shapes.frontier[first:end] >= request).all(axis=1).any())


def _open(
    p: Problem, variants: Variants, ps: PackingState, shapes: Shapes, t: int, shape: int, classes: list[int]
) -> PackingState:
    requests = np.array([variants.v_req[variants.c_first[c]] for c in classes])
    sizes, size_of = np.unique(requests, axis=0, return_inverse=True)
    rows, allocatable, prices = _types(p, shapes, t, shape)
    if len(sizes) > MOST_SIZES or not len(rows):
        return ps
    counts = np.bincount(size_of.ravel(), weights=ps.c_pending[classes], minlength=len(sizes)).astype(
        np.int64
    )
    waiting = [
        _pods_of(ps, [c for c, s in zip(classes, size_of.ravel(), strict=True) if s == i])
        for i in range(len(sizes))
    ]
    for pattern in greedy.patterns(sizes, counts, allocatable, prices):
        remaining = _up_to_price(p, shapes, t, shape, int(prices[pattern.type]))
        for _ in range(pattern.nodes):
            ps = _node(ps, t, remaining, pattern.pods, sizes, waiting)
            if len(ps.n_cheapest):
                ps.n_cheapest[ps.reg[NODES] - 1] = allocatable[pattern.type]
    return ps


def _pods_of(ps: PackingState, classes: list[int]) -> Iterator[int]:
    """The class of each pod of a size, in the order they are placed."""
    return iter([c for c in classes for _ in range(int(ps.c_pending[c]))])


def _types(p: Problem, shapes: Shapes, t: int, shape: int) -> tuple[list[int], Ints, Ints]:
    """Rows worth launching: no other row has as much allocatable at a price as low."""
    rows = p.templates[t].rows
    mask = shapes.all[shape].mask
    assert mask is not None
    best: dict[int, tuple[int, int]] = {}
    for row in np.flatnonzero(mask).tolist():
        price, index = int(rows.cost[row]), int(rows.allocatable_index[row])
        if price and (index not in best or (price, row) < best[index]):
            best[index] = (price, row)
    order = sorted(best, key=lambda index: (best[index][0], *(-rows.allocatable[index]).tolist()))
    remaining = np.array(order, dtype=np.intp)[larger_than_before(rows.allocatable[order])].tolist()
    prices = np.array([best[index][0] for index in remaining], dtype=np.int64)
    return [best[index][1] for index in remaining], rows.allocatable[remaining], prices


def _up_to_price(p: Problem, shapes: Shapes, t: int, shape: int, price: int) -> int:
    """The shape with the rows up to a price: pods that the kernel adds later must not make the node more expensive."""
    mask = shapes.all[shape].mask
    assert mask is not None
    prices = p.templates[t].rows.cost
    return shapes.of(t, shapes.all[shape].requirements, mask & (prices > 0) & (prices <= price))


def _node(
    ps: PackingState, t: int, shape: int, pods: Ints, sizes: Ints, waiting: list[Iterator[int]]
) -> PackingState:
    if ps.reg[NODES] == len(ps.n_shape):
        ps = initial_state.enlarge(ps)
    n = int(ps.reg[NODES])
    ps.n_shape[n], ps.n_template[n], ps.n_reservation[n], ps.n_rejects[n] = shape, t, -1, -1
    ps.n_load[n] = pods @ sizes
    ps.n_pods[n] = pods.sum()
    ps.reg[NODES] += 1
    for size in np.flatnonzero(pods).tolist():
        for _ in range(int(pods[size])):
            c = next(waiting[size])
            ps.c_pending[c] -= 1
            logged = ps.reg[LOGGED]
            ps.log_class[logged], ps.log_variant[logged], ps.log_node[logged] = c, ps.c_first[c], n
            ps.reg[LOGGED] += 1
    return ps


def _listed(p: Problem, ps: PackingState) -> PackingState:
    """Sorts the opened nodes by their number of pods into the kernel's lists."""
    nodes = np.arange(len(p.nodes), int(ps.reg[NODES]))
    unreserved = nodes[
        np.array([p.templates[t].kind == UNRESERVED for t in ps.n_template[nodes]], dtype=bool)
    ]
    ordered = unreserved[np.argsort(ps.n_pods[unreserved], kind="stable")]
    most = int(ps.n_pods[ordered[-1]]) if len(ordered) else 0
    ps.listed[UNRESERVED, : len(ordered)] = ordered
    ps.list_position[ordered] = np.arange(len(ordered))
    ps.bucket[UNRESERVED, : most + 2] = np.searchsorted(ps.n_pods[ordered], np.arange(most + 2))
    ps.lengths[UNRESERVED] = len(ordered), most
    return ps
