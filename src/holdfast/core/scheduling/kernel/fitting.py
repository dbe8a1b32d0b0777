"""Whether a pod fits on a node: its room, its ports, and the constraints whose domains are nodes."""

from holdfast.core.scheduling.kernel.room import attached, row_holds, verdict
from holdfast.core.scheduling.kernel.slots import has_room
from holdfast.core.scheduling.kernel.topology import after, known_to_groups, narrowed
from holdfast.core.scheduling.world import (
    BOUGHT,
    EXISTING,
    NEED,
    NO,
    SOFT,
    World,
)


def fits_existing(w: World, v: int, n: int) -> int:
    for i in range(w.v_req.shape[1]):
        more = w.v_req[v, i] - attached(w, v, n, i)
        if more > 0 and w.n_load[n, i] + more > w.n_capacity[n, i]:
            return NO
    answer = host_allows(w, v, n)
    if answer != 0:
        return answer
    rejection = NO
    for j in range(w.v_op_first[v], w.v_op_first[v + 1]):
        shape = after(w, w.n_shape[n], w.v_ops[j])
        if shape >= 0:
            shape = narrowed(w, v, shape, n, EXISTING)
        if shape <= NEED or shape >= 0:
            return known_to_groups(w, v, n, shape)
        if shape == SOFT:
            rejection = SOFT
    return rejection


def fits_node(w: World, v: int, n: int, kind: int) -> int:
    if kind == BOUGHT and not row_holds(w, w.s_room, w.n_shape[n], v, n):
        return NO  # most nodes are full, and this is the quickest way to see it
    answer = host_allows(w, v, n)
    if answer != 0:
        return answer
    return fits_shape(w, v, w.n_shape[n], n, kind)


def fits_new(w: World, v: int, t: int) -> int:
    answer = new_host_allows(w, v)
    if answer != 0:
        return answer
    return fits_shape(w, v, w.t_shape[t], -1, w.t_kind[t])


def fits_shape(w: World, v: int, shape: int, n: int, kind: int) -> int:
    """The shape of a node once it has this pod too; n is -1 for a new node."""
    rejection = NO
    for j in range(w.v_op_first[v], w.v_op_first[v + 1]):
        answer = after(w, shape, w.v_ops[j])
        if answer >= 0 and not has_room(w, v, answer, n, kind):
            answer = NO  # for good, which what follows could not tell
        if answer >= 0:
            answer = narrowed(w, v, answer, n, kind)
        if answer >= 0 and w.s_min_values[answer]:
            answer = verdict(w, v, n, answer)
        if answer >= 0:
            answer = known_to_groups(w, v, n, answer)
        if answer <= NEED or answer >= 0:
            return answer
        if answer == SOFT:
            rejection = SOFT
    return rejection


def host_allows(w: World, v: int, n: int) -> int:
    """0, NO or SOFT: ports, and the constraints whose domains are nodes."""
    for i in range(w.v_clash.shape[1]):
        if w.v_clash[v, i] & w.n_ports[n, i]:
            return NO
    for i in range(w.far_first[v], w.far_first[v + 1]):
        if w.far[i, 1] < 0 and w.host_count[w.far[i, 0], n] > 0:
            return NO
    for i in range(w.spread_first[v], w.spread_first[v + 1]):
        if w.spread[i, 5] < 0 and w.host_count[w.spread[i, 0], n] + w.spread[i, 2] > w.spread[i, 1]:
            return NO
    for i in range(w.near_first[v], w.near_first[v + 1]):
        if w.near[i, 3] < 0 and w.host_count[w.near[i, 0], n] == 0 and not starts_alone(w, i):
            return SOFT
    return 0


def new_host_allows(w: World, v: int) -> int:
    for i in range(w.near_first[v], w.near_first[v + 1]):
        if w.near[i, 3] < 0 and not starts_alone(w, i):
            return SOFT
    return 0


def starts_alone(w: World, i: int) -> bool:
    """Nobody is there to be near to, and the pod is one of those it wants to be near."""
    return w.near[i, 1] == 1 and w.host_total[w.near[i, 0]] == 0
