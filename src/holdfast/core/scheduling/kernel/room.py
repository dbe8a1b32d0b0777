"""Whether the pods of a node, and one more, have room in a row, and enough instance types to choose from."""

import numpy as np

from holdfast.core.scheduling.world import (
    ARG_A,
    ARG_B,
    ARG_C,
    EMPTY,
    NEED,
    NEEDS_VERDICT,
    World,
)


def keeps_slot(w: World, v: int, shape: int, n: int) -> bool:
    """Whether the slot that a node holds still holds it with one more pod."""
    held = w.n_slot[n]
    if held < 0 or w.s_reserved[shape, held] == 0:
        return False
    t = w.n_template[n]
    for i in range(w.v_req.shape[1]):
        if w.v_req[v, i] + w.n_load[n, i] - attached(w, v, n, i) > w.r_room[t, held, i]:
            return False
    return True


def row_holds(w: World, rows: np.ndarray, row: int, v: int, n: int) -> bool:
    shares = w.claim_first[v] < w.claim_first[v + 1]
    for i in range(w.v_req.shape[1]):
        load = w.v_req[v, i]
        if n >= 0:
            load += w.n_load[n, i]
            if shares:
                load -= attached(w, v, n, i)
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


def verdict(w: World, v: int, n: int, shape: int) -> int:
    """The shape if enough instance types are left, one that asks for fewer, or NO: Python counts, once a question."""
    slot = verdict_slot(w.verdicts, n, w.n_pods[n] if n >= 0 else 0, v, shape)
    if w.verdicts[slot, 0] != EMPTY:
        return w.verdicts[slot, 4]
    w.reg[ARG_A] = n
    w.reg[ARG_B] = v
    w.reg[ARG_C] = shape
    return NEED - NEEDS_VERDICT


def verdict_slot(verdicts: np.ndarray, n: int, pods: int, v: int, shape: int) -> int:
    """Where the answer is, or the empty place where it belongs."""
    mask = verdicts.shape[0] - 1
    slot = (n * 8191 + pods * 131071 + v * 524287 + shape * 127) & mask
    while verdicts[slot, 0] != EMPTY:
        same = verdicts[slot, 0] == n and verdicts[slot, 1] == pods
        if same and verdicts[slot, 2] == v and verdicts[slot, 3] == shape:
            break
        slot = (slot + 1) & mask
    return slot
