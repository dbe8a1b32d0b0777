"""Spreads nodes over zones: if a node costs the same in several zones, the zone with the fewest nodes of its NodePool wins.

Called by `solve` for the best packing. A claim still lists every possible zone. The launch prefers the zone that the plan
counts on among those of equal cost, so that the failure of one zone does not affect all nodes of a NodePool.
"""

import heapq
from collections import Counter, defaultdict

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling.input.offers import Rows
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.kernel.packing_state import UNRESERVED
from holdfast.core.scheduling.search.finalize import Nodes


def spread(p: Problem, nodes: Nodes) -> None:
    """Changes the offering that the plan counts on for each new node, never its cost."""
    alike: dict[tuple[int, int], list[int]] = defaultdict(list)  # nodes with the same template and rows
    for i, (t, rows) in enumerate(zip(nodes.template, nodes.rows, strict=True)):
        if p.templates[t].kind == UNRESERVED:
            alike[t, id(rows)].append(i)
    if not alike:
        return
    there = _nodes_by_zone(p)
    open_ = []
    for (t, _), found in alike.items():
        tied = _tied(p.templates[t].rows, nodes.rows[found[0]])
        if len(tied) == 1:
            there[p.pools[p.templates[t].pool].name][next(iter(tied))] += len(found)
        else:
            open_.append((t, found, tied))
    for t, found, tied in open_:
        counts = there[p.pools[p.templates[t].pool].name]
        fewest = [(counts[zone], k, zone, row) for k, (zone, row) in enumerate(tied.items())]
        heapq.heapify(fewest)
        for i in found:
            count, k, zone, nodes.row[i] = fewest[0]
            heapq.heapreplace(fewest, (count + 1, k, zone, nodes.row[i]))
            counts[zone] += 1


def _nodes_by_zone(p: Problem) -> defaultdict[str, Counter[str]]:
    """How many nodes each NodePool has in each zone."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    counts = Counter(node.pool_and_zone for node in (*p.nodes, *p.full_nodes))
    for (pool, zone), count in counts.items():
        if pool is not None:
            found[pool][zone] = count
    return found


def _tied(rows: Rows, ordered: NDArray[np.intp]) -> dict[str, int]:
    """By zone, the rows at the cost of the first one, of its instance type and capacity type."""
    costs = rows.cost[ordered]
    equal = ordered[: np.argmin(costs == costs[0]) or len(ordered)]
    types, kinds = rows.row_type[equal], rows.columns.capacity_type[rows.offering_index[equal]]
    found: dict[str, int] = {}
    for row in equal[(types == types[0]) & (kinds == kinds[0])].tolist():
        found.setdefault(rows.offering(row).zone, row)
    return found
