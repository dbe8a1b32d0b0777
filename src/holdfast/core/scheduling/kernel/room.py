"""Whether the pods of a node, and one more, have room in a shape."""

import numpy as np

from holdfast.core.scheduling.world import RESERVED, World


def has_room(w: World, v: int, shape: int, n: int, kind: int) -> bool:
    if kind == RESERVED:
        for row in range(w.s_slots[shape, 0], w.s_slots[shape, 1]):
            if row_holds(w, w.slot_room, row, v, n):
                return True
        return False
    for row in range(w.s_rows[shape, 0], w.s_rows[shape, 1]):
        if row_holds(w, w.frontier, row, v, n):
            return True
    return False


def row_holds(w: World, rows: np.ndarray, row: int, v: int, n: int) -> bool:
    for i in range(w.v_req.shape[1]):
        load = w.v_req[v, i]
        if n >= 0:
            load += w.n_load[n, i] - attached(w, v, n, i)
        if load > rows[row, i]:
            return False
    return True


def attached(w: World, v: int, n: int, column: int) -> int:
    """How many of the volumes that a pod needs are on the node already, of those that this column counts."""
    found = 0
    for j in range(w.claim_first[v], w.claim_first[v + 1]):
        if w.claims[j, 1] == column and w.host_count[w.claims[j, 0], n] > 0:
            found += 1
    return found
