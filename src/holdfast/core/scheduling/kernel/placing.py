"""The placement kernel: first fit over existing nodes, reservation slots and unreserved nodes, with every constraint.

`run` calls it through `compiled`. It places pods class by class, and returns whenever it needs something that only
Python can compute: a new shape, a limit, a minValues check. `run` computes that and calls again, and the kernel
continues with the same pod. Nothing may change before a placement is certain, so that repeating a pod is safe.
"""

from holdfast.core.scheduling.kernel.capacity import count_attached
from holdfast.core.scheduling.kernel.fitting import fits_existing, fits_new, fits_node
from holdfast.core.scheduling.kernel.lists import bump, insert
from holdfast.core.scheduling.kernel.packing_state import (
    ARG_A,
    CURSOR_EXISTING,
    CURSOR_RESERVED,
    CURSOR_UNRESERVED,
    DONE,
    FREE_SLOTS,
    LOGGED,
    NEED,
    NEEDS_LARGER_ARRAYS,
    NEEDS_LIMIT,
    NO,
    NODES,
    POSITION,
    RESERVED,
    RUN_VARIANT,
    SEARCH,
    SOFT,
    STAGE_EXISTING,
    STAGE_OPEN,
    STAGE_SPARE,
    UNRESERVED,
    PackingState,
)
from holdfast.core.scheduling.kernel.slots import hold_slot
from holdfast.core.scheduling.kernel.spare_capacity import (
    find_spare,
    next_spare,
    update_cheapest,
    update_spare,
)
from holdfast.core.scheduling.kernel.topology import is_excluded, shape_after


def run(ps: PackingState) -> int:
    """Places every class of `order` from the register POSITION on. Returns DONE, or one of NEEDS_*."""
    while ps.reg[POSITION] < ps.order.shape[0]:
        c = ps.order[ps.reg[POSITION]]
        while ps.c_pending[c] > 0:
            found = place_one(ps, c)
            if found <= NEED:
                return NEED - found
            if found < 0:
                break
            ps.c_pending[c] -= 1
        ps.reg[POSITION] += 1
    return DONE


def place_one(ps: PackingState, c: int) -> int:
    """Places one pod of a class, relaxing it step by step. Returns its node, NO, or a need."""
    for v in range(ps.c_first[c], ps.c_first[c + 1]):
        if ps.reg[RUN_VARIANT] != v or ps.v_steady[v] == 0:
            ps.reg[RUN_VARIANT] = v
            ps.reg[CURSOR_EXISTING] = 0
            ps.reg[CURSOR_UNRESERVED] = 0
            ps.reg[CURSOR_RESERVED] = 0
            ps.reg[SEARCH] += 1
        for i in range(ps.stages.shape[0]):
            stage = ps.stages[i, 0]
            if stage == STAGE_EXISTING:
                found = in_existing(ps, c, v)
            elif stage == STAGE_SPARE:
                found = in_spare(ps, c, v)
            elif stage == STAGE_OPEN:
                found = in_new(ps, c, v, ps.stages[i, 1], ps.stages[i, 2])
            else:
                found = in_listed(ps, c, v, stage)
            if found != NO:
                return found
    return NO


def in_existing(ps: PackingState, c: int, v: int) -> int:
    existing = ps.n_capacity.shape[0]
    changing = ps.v_steady[v] == 0
    for n in range(ps.reg[CURSOR_EXISTING], existing):
        if ps.n_rejects[n] == v or (changing and is_excluded(ps, v, n)):
            continue
        answer = fits_existing(ps, v, n)
        if answer <= NEED:
            return answer
        if answer >= 0:
            ps.reg[CURSOR_EXISTING] = n
            return commit(ps, c, v, n, answer)
        if answer == NO:
            ps.n_rejects[n] = v
    ps.reg[CURSOR_EXISTING] = existing
    return NO


def in_listed(ps: PackingState, c: int, v: int, kind: int) -> int:
    """Places a pod on a node of this run, fewest pods first."""
    cursor = CURSOR_UNRESERVED if kind == UNRESERVED else CURSOR_RESERVED
    changing = ps.v_steady[v] == 0
    for i in range(ps.reg[cursor], ps.lengths[kind, 0]):
        n = ps.listed[kind, i]
        if ps.n_rejects[n] == v or (changing and is_excluded(ps, v, n)):
            continue
        answer = fits_node(ps, v, n, kind)
        if answer <= NEED:
            return answer
        if answer >= 0:
            if kind == RESERVED and not hold_slot(ps, v, n, answer):
                ps.n_rejects[n] = v
                continue
            ps.reg[cursor] = i
            bump(ps, kind, n)
            return commit(ps, c, v, n, answer)
        if answer == NO:
            ps.n_rejects[n] = v
    ps.reg[cursor] = ps.lengths[kind, 0]
    return NO


def in_spare(ps: PackingState, c: int, v: int) -> int:
    """Places a pod on an unreserved node of this run that it does not make more expensive, fewest pods first."""
    find_spare(ps, v)
    changing = ps.v_steady[v] == 0
    i = next_spare(ps, 0)
    while i < ps.lengths[UNRESERVED, 0]:
        n = ps.listed[UNRESERVED, i]
        i = next_spare(ps, i + 1)
        if ps.n_rejects[n] == v or (changing and is_excluded(ps, v, n)):
            continue
        answer = fits_node(ps, v, n, UNRESERVED)
        if answer <= NEED:
            return answer
        if answer >= 0:
            bump(ps, UNRESERVED, n)
            return commit(ps, c, v, n, answer)
        if answer == NO:
            ps.n_rejects[n] = v
    return NO


def in_new(ps: PackingState, c: int, v: int, first: int, end: int) -> int:
    for i in range(first, end):
        t = ps.t_order[i]
        if ps.t_shape[t] < 0 or ps.t_rejects[t] == v or (ps.c_waits[c] and ps.t_kind[t] == UNRESERVED):
            continue
        if ps.t_kind[t] == RESERVED and ps.reg[FREE_SLOTS] == 0:
            continue
        if ps.reg[NODES] == ps.n_shape.shape[0]:
            return NEED - NEEDS_LARGER_ARRAYS
        answer = fits_new(ps, v, t)
        if answer <= NEED:
            return answer
        if answer < 0:
            if answer == NO:
                ps.t_rejects[t] = v
            continue
        found = open_node(ps, c, v, t, answer)
        if found != NO:
            return found
        if ps.v_steady[v]:  # for other variants the kernel may later choose another domain, with a free slot
            ps.t_rejects[t] = v
    return NO


def open_node(ps: PackingState, c: int, v: int, t: int, shape: int) -> int:
    pool = ps.t_pool[t]
    if ps.p_limited[pool]:
        for i in range(ps.limits.shape[1]):
            if ps.s_max_capacity[shape, i] > ps.limits[pool, i]:
                ps.reg[ARG_A] = t
                return NEED - NEEDS_LIMIT
    n = ps.reg[NODES]
    kind = ps.t_kind[t]
    for i in range(ps.n_load.shape[1]):
        ps.n_load[n, i] = 0
    ps.n_reservation[n] = -1
    ps.n_template[n] = t
    ps.n_rejects[n] = -1
    ps.n_shape[n] = shape
    ps.n_pods[n] = 0
    for i in range(ps.n_ports.shape[1]):
        ps.n_ports[n, i] = 0
    if kind == RESERVED and not hold_slot(ps, v, n, shape):
        return NO
    if ps.p_limited[pool]:
        for i in range(ps.limits.shape[1]):
            ps.limits[pool, i] -= ps.s_max_capacity[shape, i]
    ps.reg[NODES] += 1
    insert(ps, kind, n)
    cursor = CURSOR_UNRESERVED if kind == UNRESERVED else CURSOR_RESERVED
    ps.reg[cursor] = min(ps.reg[cursor], ps.list_position[n])
    return commit(ps, c, v, n, shape)


def commit(ps: PackingState, c: int, v: int, n: int, shape: int) -> int:
    update_cheapest(ps, v, n, shape)
    for i in range(ps.v_req.shape[1]):
        ps.n_load[n, i] += ps.v_load[v, i] - count_attached(ps, v, n, i)
    for i in range(ps.v_ports.shape[1]):
        ps.n_ports[n, i] |= ps.v_ports[v, i]
    if ps.n_shape[n] != shape:
        become_certain(ps, n, shape)
    ps.n_shape[n] = shape
    ps.n_pods[n] += 1
    for i in range(ps.counting_first[v], ps.counting_first[v + 1]):
        passes = shape if ps.counting[i, 3] < 0 else shape_after(ps, shape, ps.counting[i, 3])
        if passes != NO:
            count(ps, i, n, shape, passes)
    update_spare(ps, n)
    ps.log_class[ps.reg[LOGGED]] = c
    ps.log_variant[ps.reg[LOGGED]] = v
    ps.log_node[ps.reg[LOGGED]] = n
    ps.reg[LOGGED] += 1
    return n


def count(ps: PackingState, i: int, n: int, shape: int, passes: int) -> None:
    """Counts a placement in a group. Anti-affinity counts every domain that the node may still be in; other groups count
    a domain only if it is certain, and if the node is certain to pass the group's filter."""
    group, key = ps.counting[i, 0], ps.counting[i, 1]
    if key < 0:
        ps.host_count[group, n] += 1
        ps.host_total[group] += 1
        return
    possible = 0
    for d in range(ps.k_first[key], ps.k_first[key + 1]):
        possible += ps.s_domains[shape, d]
    if (possible != 1 or passes == SOFT) and not ps.counting[i, 2]:
        ps.uncertain[group, n] += 1
        return
    for d in range(ps.k_first[key], ps.k_first[key + 1]):
        if ps.s_domains[shape, d]:
            ps.domain_count[group, d] += 1


def become_certain(ps: PackingState, n: int, shape: int) -> None:
    """Counts the pods of a node for every key that has only one possible domain left, in every group whose filter the
    node is now certain to pass."""
    for key in range(ps.k_first.shape[0] - 1):
        possible, only = 0, -1
        for d in range(ps.k_first[key], ps.k_first[key + 1]):
            if ps.s_domains[shape, d]:
                possible += 1
                only = d
        if possible == 1:
            for group in range(ps.uncertain.shape[0]):
                if ps.g_key[group] != key or ps.uncertain[group, n] == 0:
                    continue
                if ps.g_filter[group] < 0 or shape_after(ps, shape, ps.g_filter[group]) >= 0:
                    ps.domain_count[group, only] += ps.uncertain[group, n]
                    ps.uncertain[group, n] = 0
