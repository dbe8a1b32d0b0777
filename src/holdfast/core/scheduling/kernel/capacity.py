"""Checks whether an offering holds the pods of a node and one more, and whether minValues still hold."""

from holdfast.core.scheduling.kernel.packing_state import (
    ARG_A,
    ARG_B,
    ARG_C,
    EMPTY,
    NEED,
    NEEDS_MIN_VALUES,
    Ints,
    PackingState,
)


def keeps_slot(ps: PackingState, v: int, shape: int, n: int) -> bool:
    """Whether the slot of a node is large enough for one more pod."""
    held = ps.n_reservation[n]
    if held < 0 or ps.s_reserved[shape, held] == 0:
        return False
    t = ps.n_template[n]
    for i in range(ps.v_req.shape[1]):
        if ps.v_req[v, i] + ps.n_load[n, i] - count_attached(ps, v, n, i) > ps.r_allocatable[t, held, i]:
            return False
    return True


def row_holds(ps: PackingState, rows: Ints, row: int, v: int, n: int) -> bool:
    shares = ps.claim_first[v] < ps.claim_first[v + 1]
    for i in range(ps.v_req.shape[1]):
        load = ps.v_req[v, i]
        if n >= 0:
            load += ps.n_load[n, i]
            if shares:
                load -= count_attached(ps, v, n, i)
        if load > rows[row, i]:
            return False
    return True


def count_attached(ps: PackingState, v: int, n: int, column: int) -> int:
    """How many of the pod's volumes are attached to the node already, of those that this resource column counts."""
    found = 0
    for j in range(ps.claim_first[v], ps.claim_first[v + 1]):
        if ps.claims[j, 1] == column and ps.host_count[ps.claims[j, 0], n] > 0:
            found += 1
    return found


def check_min_values(ps: PackingState, v: int, n: int, shape: int) -> int:
    """The shape if its minValues hold, a shape with lower minValues, or NO. Python computes each answer once."""
    index = min_values_index(ps.min_values_answers, n, ps.n_pods[n] if n >= 0 else 0, v, shape)
    if ps.min_values_answers[index, 0] != EMPTY:
        return ps.min_values_answers[index, 4]
    ps.reg[ARG_A] = n
    ps.reg[ARG_B] = v
    ps.reg[ARG_C] = shape
    return NEED - NEEDS_MIN_VALUES


def min_values_index(min_values_answers: Ints, n: int, pods: int, v: int, shape: int) -> int:
    """The row of the answer, or the unused row where it belongs."""
    mask = min_values_answers.shape[0] - 1
    index = (n * 8191 + pods * 131071 + v * 524287 + shape * 127) & mask
    while min_values_answers[index, 0] != EMPTY:
        same = min_values_answers[index, 0] == n and min_values_answers[index, 1] == pods
        if same and min_values_answers[index, 2] == v and min_values_answers[index, 3] == shape:
            break
        index = (index + 1) & mask
    return index
