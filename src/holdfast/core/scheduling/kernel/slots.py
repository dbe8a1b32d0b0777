"""Slots: a matching of nodes to reservations that is never more than what is free, kept while nodes grow."""

from holdfast.core.scheduling.kernel.room import row_holds
from holdfast.core.scheduling.world import FREE_SLOTS, RESERVED, World


def hold_slot(w: World, v: int, n: int, shape: int) -> bool:
    """Gives a node a slot that still holds it with this pod: its own, a free one, or one that another
    node can leave for a third. Never more nodes than slots."""
    held = w.n_slot[n]
    free = -1
    for row in range(w.s_slots[shape, 0], w.s_slots[shape, 1]):
        if row_holds(w, w.slot_room, row, v, n):
            r = w.slot_reservation[row]
            if r == held:
                return True
            if free < 0 and w.r_free[r] > 0:
                free = r
    if free < 0:
        free = make_room(w, v, n, shape)
    if free < 0:
        return False
    take(w, free, 1)
    if held >= 0:
        take(w, held, -1)
    w.n_slot[n] = free
    return True


def take(w: World, r: int, slots: int) -> None:
    w.r_free[r] -= slots
    w.reg[FREE_SLOTS] -= slots
    d = w.r_zone[r]
    if d >= 0:
        w.d_free[d] -= slots


def make_room(w: World, v: int, n: int, shape: int) -> int:
    """An augmenting path: the reservation that n can have once others have moved, or -1."""
    if w.reg[FREE_SLOTS] == 0:
        return -1
    w.visit[:, 0] = 0
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
                    return moved(w, target)
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
