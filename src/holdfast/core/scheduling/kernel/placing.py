"""The placement kernel: first fit over nodes that exist, slots, and nodes to buy, with every constraint.

Called by `run`, as it stands or compiled: one source, the same answers. It places pods class by class and returns
whenever it needs something that only Python can compute (a new shape, a limit, a verdict); `run` supplies that and
calls again, and the kernel goes on with the same pod. What must hold: nothing is changed before a placement is
certain, so starting a pod again is safe.
"""

from holdfast.core.scheduling.kernel.fitting import fits_existing, fits_new, fits_node
from holdfast.core.scheduling.kernel.lists import bump, insert
from holdfast.core.scheduling.kernel.paid import measure, measure_again, next_roomy, pay
from holdfast.core.scheduling.kernel.room import attached
from holdfast.core.scheduling.kernel.slots import hold_slot
from holdfast.core.scheduling.kernel.topology import after, turned_away
from holdfast.core.scheduling.world import (
    ARG_A,
    BOUGHT,
    CURSOR_BOUGHT,
    CURSOR_EXISTING,
    CURSOR_RESERVED,
    DONE,
    FREE_SLOTS,
    LOGGED,
    NEED,
    NEEDS_LIMIT,
    NEEDS_ROOM,
    NO,
    NODES,
    POSITION,
    RESERVED,
    RUN_VARIANT,
    SEARCH,
    SOFT,
    STAGE_EXISTING,
    STAGE_OPEN,
    STAGE_PAID,
    World,
)


def run(w: World) -> int:
    """Places every class of `order` from the register POSITION on; DONE, or what is needed."""
    while w.reg[POSITION] < w.order.shape[0]:
        c = w.order[w.reg[POSITION]]
        while w.c_left[c] > 0:
            found = place_one(w, c)
            if found <= NEED:
                return NEED - found
            if found < 0:
                break
            w.c_left[c] -= 1
        w.reg[POSITION] += 1
    return DONE


def place_one(w: World, c: int) -> int:
    """One pod of a class, relaxed step by step: the node it got, NO, or a need."""
    for v in range(w.c_first[c], w.c_first[c + 1]):
        if w.reg[RUN_VARIANT] != v or w.v_steady[v] == 0:
            w.reg[RUN_VARIANT] = v
            w.reg[CURSOR_EXISTING] = 0
            w.reg[CURSOR_BOUGHT] = 0
            w.reg[CURSOR_RESERVED] = 0
            w.reg[SEARCH] += 1
        for i in range(w.stages.shape[0]):
            stage = w.stages[i, 0]
            if stage == STAGE_EXISTING:
                found = in_existing(w, c, v)
            elif stage == STAGE_PAID:
                found = in_paid(w, c, v)
            elif stage == STAGE_OPEN:
                found = in_new(w, c, v, w.stages[i, 1], w.stages[i, 2])
            else:
                found = in_listed(w, c, v, stage)
            if found != NO:
                return found
    return NO


def in_existing(w: World, c: int, v: int) -> int:
    existing = w.n_capacity.shape[0]
    changing = w.v_steady[v] == 0
    for n in range(w.reg[CURSOR_EXISTING], existing):
        if w.n_rejects[n] == v or (changing and turned_away(w, v, n)):
            continue
        answer = fits_existing(w, v, n)
        if answer <= NEED:
            return answer
        if answer >= 0:
            w.reg[CURSOR_EXISTING] = n
            return commit(w, c, v, n, answer)
        if answer == NO:
            w.n_rejects[n] = v
    w.reg[CURSOR_EXISTING] = existing
    return NO


def in_listed(w: World, c: int, v: int, kind: int) -> int:
    """Nodes of this run, fewest pods first."""
    cursor = CURSOR_BOUGHT if kind == BOUGHT else CURSOR_RESERVED
    changing = w.v_steady[v] == 0
    for i in range(w.reg[cursor], w.lengths[kind, 0]):
        n = w.listed[kind, i]
        if w.n_rejects[n] == v or (changing and turned_away(w, v, n)):
            continue
        answer = fits_node(w, v, n, kind)
        if answer <= NEED:
            return answer
        if answer >= 0:
            if kind == RESERVED and not hold_slot(w, v, n, answer):
                w.n_rejects[n] = v
                continue
            w.reg[cursor] = i
            bump(w, kind, n)
            return commit(w, c, v, n, answer)
        if answer == NO:
            w.n_rejects[n] = v
    w.reg[cursor] = w.lengths[kind, 0]
    return NO


def in_paid(w: World, c: int, v: int) -> int:
    """Nodes of this run that are bought and stay as cheap as they are, fewest pods first."""
    measure(w, v)
    changing = w.v_steady[v] == 0
    i = next_roomy(w, 0)
    while i < w.lengths[BOUGHT, 0]:
        n = w.listed[BOUGHT, i]
        i = next_roomy(w, i + 1)
        if w.n_rejects[n] == v or (changing and turned_away(w, v, n)):
            continue
        answer = fits_node(w, v, n, BOUGHT)
        if answer <= NEED:
            return answer
        if answer >= 0:
            bump(w, BOUGHT, n)
            return commit(w, c, v, n, answer)
        if answer == NO:
            w.n_rejects[n] = v
    return NO


def in_new(w: World, c: int, v: int, first: int, end: int) -> int:
    for i in range(first, end):
        t = w.t_order[i]
        if w.t_shape[t] < 0 or w.t_rejects[t] == v or (w.c_waits[c] and w.t_kind[t] == BOUGHT):
            continue
        if w.t_kind[t] == RESERVED and w.reg[FREE_SLOTS] == 0:
            continue
        if w.reg[NODES] == w.n_shape.shape[0]:
            return NEED - NEEDS_ROOM
        answer = fits_new(w, v, t)
        if answer <= NEED:
            return answer
        if answer < 0:
            if answer == NO:
                w.t_rejects[t] = v
            continue
        found = open_node(w, c, v, t, answer)
        if found != NO:
            return found
        if w.v_steady[v]:  # for the others another domain may be chosen later, with a slot in it
            w.t_rejects[t] = v
    return NO


def open_node(w: World, c: int, v: int, t: int, shape: int) -> int:
    pool = w.t_pool[t]
    if w.p_limited[pool]:
        for i in range(w.limits.shape[1]):
            if w.s_most[shape, i] > w.limits[pool, i]:
                w.reg[ARG_A] = t
                return NEED - NEEDS_LIMIT
    n = w.reg[NODES]
    kind = w.t_kind[t]
    for i in range(w.n_load.shape[1]):
        w.n_load[n, i] = 0
    w.n_slot[n] = -1
    w.n_template[n] = t
    w.n_rejects[n] = -1
    w.n_shape[n] = shape
    w.n_pods[n] = 0
    for i in range(w.n_ports.shape[1]):
        w.n_ports[n, i] = 0
    if kind == RESERVED and not hold_slot(w, v, n, shape):
        return NO
    if w.p_limited[pool]:
        for i in range(w.limits.shape[1]):
            w.limits[pool, i] -= w.s_most[shape, i]
    w.reg[NODES] += 1
    insert(w, kind, n)
    cursor = CURSOR_BOUGHT if kind == BOUGHT else CURSOR_RESERVED
    w.reg[cursor] = min(w.reg[cursor], w.place[n])
    return commit(w, c, v, n, shape)


def commit(w: World, c: int, v: int, n: int, shape: int) -> int:
    pay(w, v, n, shape)
    for i in range(w.v_req.shape[1]):
        w.n_load[n, i] += w.v_load[v, i] - attached(w, v, n, i)
    for i in range(w.v_ports.shape[1]):
        w.n_ports[n, i] |= w.v_ports[v, i]
    if w.n_shape[n] != shape:
        become_certain(w, n, shape)
    w.n_shape[n] = shape
    w.n_pods[n] += 1
    for i in range(w.note_first[v], w.note_first[v + 1]):
        passes = shape if w.note[i, 3] < 0 else after(w, shape, w.note[i, 3])
        if passes != NO:
            count(w, i, n, shape, passes)
    measure_again(w, n)
    w.log_class[w.reg[LOGGED]] = c
    w.log_variant[w.reg[LOGGED]] = v
    w.log_node[w.reg[LOGGED]] = n
    w.reg[LOGGED] += 1
    return n


def count(w: World, i: int, n: int, shape: int, passes: int) -> None:
    """Anti-affinity counts every domain a node may still be in; the others only one that is certain, on a node that
    is certain to pass the group's filter."""
    group, key = w.note[i, 0], w.note[i, 1]
    if key < 0:
        w.host_count[group, n] += 1
        w.host_total[group] += 1
        return
    possible = 0
    for d in range(w.k_first[key], w.k_first[key + 1]):
        possible += w.s_domains[shape, d]
    if (possible != 1 or passes == SOFT) and not w.note[i, 2]:
        w.uncertain[group, n] += 1
        return
    for d in range(w.k_first[key], w.k_first[key + 1]):
        if w.s_domains[shape, d]:
            w.domain_count[group, d] += 1


def become_certain(w: World, n: int, shape: int) -> None:
    """Counts the pods of a node in the domain that it now must be in, for every key that has come down to one, and
    every group whose filter it is now certain to pass."""
    for key in range(w.k_first.shape[0] - 1):
        possible, only = 0, -1
        for d in range(w.k_first[key], w.k_first[key + 1]):
            if w.s_domains[shape, d]:
                possible += 1
                only = d
        if possible == 1:
            for group in range(w.uncertain.shape[0]):
                if w.g_key[group] != key or w.uncertain[group, n] == 0:
                    continue
                if w.g_filter[group] < 0 or after(w, shape, w.g_filter[group]) >= 0:
                    w.domain_count[group, only] += w.uncertain[group, n]
                    w.uncertain[group, n] = 0
