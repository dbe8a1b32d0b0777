"""Slots: a matching of nodes to reservations that is never more than what is free, kept while nodes grow."""

from holdfast.core.scheduling.kernel.room import keeps_slot, row_holds
from holdfast.core.scheduling.world import FREE_SLOTS, RESERVED, World


def has_room(w: World, v: int, shape: int, n: int, kind: int) -> bool:
    """Whether a shape has room for a node with this pod; in a slot, where it is one that holds a slot."""
    if kind == RESERVED:
        return can_hold(w, v, n, shape)
    for row in range(w.s_rows[shape, 0], w.s_rows[shape, 1]):
        if row_holds(w, w.frontier, row, v, n):
            return True
    return False


def can_hold(w: World, v: int, n: int, shape: int) -> bool:
    """Whether `hold_slot` will find one; n is -1 for a new node."""
    if n >= 0 and keeps_slot(w, v, shape, n):
        return True
    if w.reg[FREE_SLOTS] == 0:
        return False
    return free_slot(w, v, n, shape) >= 0 or (n < 0 and end_of_path(w, v, n, shape) >= 0)


def hold_slot(w: World, v: int, n: int, shape: int) -> bool:
    """Gives a node a slot that still holds it with this pod: its own, a free one or, when it is new, one that
    another node can leave for a third. Never more nodes than slots."""
    held = w.n_slot[n]
    if keeps_slot(w, v, shape, n):
        return True
    if w.reg[FREE_SLOTS] == 0:
        return False
    free = free_slot(w, v, n, shape)
    if free < 0 and held < 0:  # only a new node is worth moving others for; one that grows may stay as it is
        free = make_room(w, v, n, shape)
    if free < 0:
        return False
    take(w, free, 1)
    if held >= 0:
        take(w, held, -1)
    w.n_slot[n] = free
    return True


def free_slot(w: World, v: int, n: int, shape: int) -> int:
    """The first reservation with a free slot that holds the node with this pod, or -1."""
    if not row_holds(w, w.free_most, 0, v, n):
        return -1
    for row in range(w.s_slots[shape, 0], w.s_slots[shape, 1]):
        r = w.slot_reservation[row]
        if w.r_free[r] > 0 and row_holds(w, w.slot_room, row, v, n):
            return r
    return -1


def take(w: World, r: int, slots: int) -> None:
    was_free = w.r_free[r] > 0
    w.r_free[r] -= slots
    w.reg[FREE_SLOTS] -= slots
    if was_free != (w.r_free[r] > 0):
        measure_free(w)
    d = w.r_zone[r]
    if d >= 0:
        w.d_free[d] -= slots


def measure_free(w: World) -> None:
    """Bounds what free slots can hold, so that most questions about them are answered without looking at each."""
    for i in range(w.free_most.shape[1]):
        w.free_most[0, i] = 0
    for r in range(w.r_free.shape[0]):
        if w.r_free[r] > 0:
            for t in range(w.r_room.shape[0]):
                for i in range(w.free_most.shape[1]):
                    w.free_most[0, i] = max(w.free_most[0, i], w.r_room[t, r, i])


def somebody_can_move(w: World) -> bool:
    """Whether any node of this run is small enough for a free slot: the end of every path is such a node."""
    for j in range(w.lengths[RESERVED, 0]):
        fits = True
        for i in range(w.free_most.shape[1]):
            if w.n_load[w.listed[RESERVED, j], i] > w.free_most[0, i]:
                fits = False
                break
        if fits:
            return True
    return False


def make_room(w: World, v: int, n: int, shape: int) -> int:
    """An augmenting path: the reservation that n can have once others have moved, or -1."""
    target = end_of_path(w, v, n, shape)
    return moved(w, target) if target >= 0 else -1


def end_of_path(w: World, v: int, n: int, shape: int) -> int:
    """The free reservation at the end of a path of moves that would make room for n, or -1."""
    if not somebody_can_move(w):
        return -1
    for r in range(w.visit.shape[0]):
        w.visit[r, 0] = 0
    head, tail = 0, 0
    for row in range(w.s_slots[shape, 0], w.s_slots[shape, 1]):
        r = w.slot_reservation[row]
        if w.visit[r, 0] == 0 and row_holds(w, w.slot_room, row, v, n):
            w.visit[r, 0] = 1
            w.visit[r, 1] = -1
            w.queue[tail] = r
            tail += 1
    while head < tail:
        r = w.queue[head]
        head += 1
        for i in range(w.lengths[RESERVED, 0]):
            m = w.listed[RESERVED, i]
            if m == n or w.n_slot[m] != r:
                continue
            other = w.n_shape[m]
            for row in range(w.s_slots[other, 0], w.s_slots[other, 1]):
                target = w.slot_reservation[row]
                if w.visit[target, 0] or not load_fits(w, row, m):
                    continue
                w.visit[target, 0] = 1
                w.visit[target, 1] = r
                w.visit[target, 2] = m
                if w.r_free[target] > 0:
                    return target
                w.queue[tail] = target
                tail += 1
    return -1


def moved(w: World, target: int) -> int:
    """Moves the nodes along the path; answers the reservation that has room now."""
    take(w, target, 1)
    while w.visit[target, 1] >= 0:
        w.n_slot[w.visit[target, 2]] = target
        target = w.visit[target, 1]
    take(w, target, -1)
    return target


def load_fits(w: World, row: int, n: int) -> bool:
    for i in range(w.n_load.shape[1]):
        if w.n_load[n, i] > w.slot_room[row, i]:
            return False
    return True
