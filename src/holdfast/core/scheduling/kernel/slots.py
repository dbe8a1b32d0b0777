"""Assigns reserved nodes to reservations, never more nodes than free slots, and updates the matching as nodes grow."""

from holdfast.core.scheduling.kernel.capacity import keeps_slot, row_holds
from holdfast.core.scheduling.kernel.packing_state import FREE_SLOTS, RESERVED, PackingState


def has_capacity(ps: PackingState, v: int, shape: int, n: int, kind: int) -> bool:
    """Whether an offering of a shape, or a slot for a reserved node, holds the node with this pod."""
    if kind == RESERVED:
        return can_hold_slot(ps, v, n, shape)
    for row in range(ps.s_rows[shape, 0], ps.s_rows[shape, 1]):
        if row_holds(ps, ps.frontier, row, v, n):
            return True
    return False


def can_hold_slot(ps: PackingState, v: int, n: int, shape: int) -> bool:
    """Whether `hold_slot` will find one; n is -1 for a new node."""
    if n >= 0 and keeps_slot(ps, v, shape, n):
        return True
    if ps.reg[FREE_SLOTS] == 0:
        return False
    return free_slot(ps, v, n, shape) >= 0 or (n < 0 and end_of_path(ps, v, n, shape) >= 0)


def hold_slot(ps: PackingState, v: int, n: int, shape: int) -> bool:
    """Gives a node a slot that holds it with this pod: its own, a free one or, for a new node, one that another node
    frees by moving to another slot. Never more nodes than slots."""
    held = ps.n_reservation[n]
    if keeps_slot(ps, v, shape, n):
        return True
    if ps.reg[FREE_SLOTS] == 0:
        return False
    free = free_slot(ps, v, n, shape)
    if free < 0 and held < 0:  # only for a new node; one that grows can stay as it is
        free = free_slot_by_moves(ps, v, n, shape)
    if free < 0:
        return False
    take_slots(ps, free, 1)
    if held >= 0:
        take_slots(ps, held, -1)
    ps.n_reservation[n] = free
    return True


def free_slot(ps: PackingState, v: int, n: int, shape: int) -> int:
    """The first reservation with a free slot that holds the node with this pod, or -1."""
    if not row_holds(ps, ps.free_max_allocatable, 0, v, n):
        return -1
    for row in range(ps.s_slots[shape, 0], ps.s_slots[shape, 1]):
        r = ps.slot_reservation[row]
        if ps.r_free[r] > 0 and row_holds(ps, ps.slot_allocatable, row, v, n):
            return r
    return -1


def take_slots(ps: PackingState, r: int, slots: int) -> None:
    was_free = ps.r_free[r] > 0
    ps.r_free[r] -= slots
    ps.reg[FREE_SLOTS] -= slots
    if was_free != (ps.r_free[r] > 0):
        update_free_max(ps)
    d = ps.r_zone[r]
    if d >= 0:
        ps.d_free[d] -= slots


def update_free_max(ps: PackingState) -> None:
    """Updates the upper bound of what a free slot holds, so that most checks need not look at every slot."""
    for i in range(ps.free_max_allocatable.shape[1]):
        ps.free_max_allocatable[0, i] = 0
    for r in range(ps.r_free.shape[0]):
        if ps.r_free[r] > 0:
            for t in range(ps.r_allocatable.shape[0]):
                for i in range(ps.free_max_allocatable.shape[1]):
                    ps.free_max_allocatable[0, i] = max(
                        ps.free_max_allocatable[0, i], ps.r_allocatable[t, r, i]
                    )


def has_movable_node(ps: PackingState) -> bool:
    """Whether any node of this run is small enough for a free slot: every path of moves ends with such a node."""
    for j in range(ps.lengths[RESERVED, 0]):
        fits = True
        for i in range(ps.free_max_allocatable.shape[1]):
            if ps.n_load[ps.listed[RESERVED, j], i] > ps.free_max_allocatable[0, i]:
                fits = False
                break
        if fits:
            return True
    return False


def free_slot_by_moves(ps: PackingState, v: int, n: int, shape: int) -> int:
    """Moves nodes along an augmenting path; returns the reservation that now has a slot for n, or -1."""
    target = end_of_path(ps, v, n, shape)
    return move_nodes(ps, target) if target >= 0 else -1


def end_of_path(ps: PackingState, v: int, n: int, shape: int) -> int:
    """The reservation with a free slot at the end of a path of moves that would free a slot for n, or -1."""
    if not has_movable_node(ps):
        return -1
    for r in range(ps.visit.shape[0]):
        ps.visit[r, 0] = 0
    head, tail = 0, 0
    for row in range(ps.s_slots[shape, 0], ps.s_slots[shape, 1]):
        r = ps.slot_reservation[row]
        if ps.visit[r, 0] == 0 and row_holds(ps, ps.slot_allocatable, row, v, n):
            ps.visit[r, 0] = 1
            ps.visit[r, 1] = -1
            ps.queue[tail] = r
            tail += 1
    while head < tail:
        r = ps.queue[head]
        head += 1
        for i in range(ps.lengths[RESERVED, 0]):
            m = ps.listed[RESERVED, i]
            if ps.n_reservation[m] != r:
                continue
            other = ps.n_shape[m]
            for row in range(ps.s_slots[other, 0], ps.s_slots[other, 1]):
                target = ps.slot_reservation[row]
                if ps.visit[target, 0] or not load_fits(ps, row, m):
                    continue
                ps.visit[target, 0] = 1
                ps.visit[target, 1] = r
                ps.visit[target, 2] = m
                if ps.r_free[target] > 0:
                    return target
                ps.queue[tail] = target
                tail += 1
    return -1


def move_nodes(ps: PackingState, target: int) -> int:
    """Moves the nodes along the path; returns the reservation whose slot this frees."""
    take_slots(ps, target, 1)
    while ps.visit[target, 1] >= 0:
        ps.n_reservation[ps.visit[target, 2]] = target
        target = ps.visit[target, 1]
    take_slots(ps, target, -1)
    return target


def load_fits(ps: PackingState, row: int, n: int) -> bool:
    for i in range(ps.n_load.shape[1]):
        if ps.n_load[n, i] > ps.slot_allocatable[row, i]:
            return False
    return True
