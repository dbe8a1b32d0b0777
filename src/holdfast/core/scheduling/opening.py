"""Opens nodes with the patterns of `greedy` in a run that has used up nodes that exist and slots.

Called by `run` for the price-aware packing. Only pods that nothing ties to others are taken: no topology, no ports, no
volumes, selected by nobody, of a NodePool without limits or minValues. What must hold: the world afterwards is one
that the kernel could have reached itself, so that it can go on with the rest.
"""

from collections.abc import Iterator

import numpy as np

from holdfast.core.scheduling import assemble, greedy
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.shapes import Shapes, larger_than_before
from holdfast.core.scheduling.variants import Variants
from holdfast.core.scheduling.world import BOUGHT, LOGGED, NODES, Ints, World

MOST_SIZES = 128  # more would take longer than the saving is worth


def open_patterns(p: Problem, variants: Variants, w: World, shapes: Shapes, bases: list[int]) -> World:
    """The world with nodes opened for every group of free pods that share a template and a shape."""
    groups: dict[tuple[int, int], list[int]] = {}
    for c in np.flatnonzero(w.c_left).tolist():
        home = _home(p, variants, w, shapes, bases, c)
        if home is not None:
            groups.setdefault(home, []).append(c)
    for (t, shape), classes in groups.items():
        w = _open(p, variants, w, shapes, t, shape, classes)
    return _listed(p, assemble.refreshed(w, shapes))


def _home(
    p: Problem, variants: Variants, w: World, shapes: Shapes, bases: list[int], c: int
) -> tuple[int, int] | None:
    """The template and shape that a class opens nodes with, if its pods are free; it has one way to be placed."""
    if not variants.free[c] or w.c_waits[c]:
        return None
    v = int(variants.c_first[c])
    for t in w.t_order.tolist():
        template = p.templates[t]
        if template.kind != BOUGHT or bases[t] < 0:
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
    p: Problem, variants: Variants, w: World, shapes: Shapes, t: int, shape: int, classes: list[int]
) -> World:
    requests = np.array([variants.v_req[variants.c_first[c]] for c in classes])
    sizes, size_of = np.unique(requests, axis=0, return_inverse=True)
    rows, rooms, prices = _types(p, shapes, t, shape)
    if len(sizes) > MOST_SIZES or not len(rows):
        return w
    counts = np.bincount(size_of.ravel(), weights=w.c_left[classes], minlength=len(sizes)).astype(np.int64)
    waiting = [
        _pods_of(w, [c for c, s in zip(classes, size_of.ravel(), strict=True) if s == i])
        for i in range(len(sizes))
    ]
    for pattern in greedy.patterns(sizes, counts, rooms, prices):
        kept = _up_to_price(p, shapes, t, shape, int(prices[pattern.type]))
        for _ in range(pattern.nodes):
            w = _node(w, t, kept, pattern.pods, sizes, waiting)
            if len(w.n_paid):
                w.n_paid[w.reg[NODES] - 1] = rooms[pattern.type]
    return w


def _pods_of(w: World, classes: list[int]) -> Iterator[int]:
    """The class of each pod of a size, in the order they are placed."""
    return iter([c for c in classes for _ in range(int(w.c_left[c]))])


def _types(p: Problem, shapes: Shapes, t: int, shape: int) -> tuple[list[int], Ints, Ints]:
    """Rows that are worth buying: no other has as much room for as little."""
    rows = p.templates[t].rows
    mask = shapes.all[shape].mask
    assert mask is not None
    best: dict[int, tuple[int, int]] = {}
    for row in np.flatnonzero(mask).tolist():
        price, room = int(rows.cost[row]), int(rows.room_of[row])
        if price and (room not in best or (price, row) < best[room]):
            best[room] = (price, row)
    order = sorted(best, key=lambda room: (best[room][0], *(-rows.rooms[room]).tolist()))
    kept = np.array(order, dtype=np.intp)[larger_than_before(rows.rooms[order])].tolist()
    prices = np.array([best[room][0] for room in kept], dtype=np.int64)
    return [best[room][1] for room in kept], rows.rooms[kept], prices


def _up_to_price(p: Problem, shapes: Shapes, t: int, shape: int, price: int) -> int:
    """The shape with what costs no more: whatever else fits on the node later must not make it dearer."""
    mask = shapes.all[shape].mask
    assert mask is not None
    prices = p.templates[t].rows.cost
    return shapes.of(t, shapes.all[shape].requirements, mask & (prices > 0) & (prices <= price))


def _node(w: World, t: int, shape: int, pods: Ints, sizes: Ints, waiting: list[Iterator[int]]) -> World:
    if w.reg[NODES] == len(w.n_shape):
        w = assemble.roomier(w)
    n = int(w.reg[NODES])
    w.n_shape[n], w.n_template[n], w.n_slot[n], w.n_rejects[n] = shape, t, -1, -1
    w.n_load[n] = pods @ sizes
    w.n_pods[n] = pods.sum()
    w.reg[NODES] += 1
    for size in np.flatnonzero(pods).tolist():
        for _ in range(int(pods[size])):
            c = next(waiting[size])
            w.c_left[c] -= 1
            logged = w.reg[LOGGED]
            w.log_class[logged], w.log_variant[logged], w.log_node[logged] = c, w.c_first[c], n
            w.reg[LOGGED] += 1
    return w


def _listed(p: Problem, w: World) -> World:
    """Lists the nodes that were opened by their number of pods, as the kernel keeps them."""
    nodes = np.arange(len(p.nodes), int(w.reg[NODES]))
    bought = nodes[np.array([p.templates[t].kind == BOUGHT for t in w.n_template[nodes]], dtype=bool)]
    ordered = bought[np.argsort(w.n_pods[bought], kind="stable")]
    most = int(w.n_pods[ordered[-1]]) if len(ordered) else 0
    w.listed[BOUGHT, : len(ordered)] = ordered
    w.place[ordered] = np.arange(len(ordered))
    w.bucket[BOUGHT, : most + 2] = np.searchsorted(w.n_pods[ordered], np.arange(most + 2))
    w.lengths[BOUGHT] = len(ordered), most
    return w
