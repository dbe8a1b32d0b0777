"""Checks whether a pod fits on a node: capacity, host ports, and constraints whose topology key is the hostname."""

from holdfast.core.scheduling.kernel.capacity import check_min_values, count_attached, row_holds
from holdfast.core.scheduling.kernel.packing_state import EXISTING, NEED, NO, SOFT, UNRESERVED, PackingState
from holdfast.core.scheduling.kernel.slots import has_capacity
from holdfast.core.scheduling.kernel.topology import narrow, resolve_filters, shape_after


def fits_existing(ps: PackingState, v: int, n: int) -> int:
    for i in range(ps.v_req.shape[1]):
        more = ps.v_req[v, i] - count_attached(ps, v, n, i)
        if more > 0 and ps.n_load[n, i] + more > ps.n_capacity[n, i]:
            return NO
    answer = host_allows(ps, v, n)
    if answer != 0:
        return answer
    rejection = NO
    for j in range(ps.v_op_first[v], ps.v_op_first[v + 1]):
        shape = shape_after(ps, ps.n_shape[n], ps.v_ops[j])
        if shape >= 0:
            shape = narrow(ps, v, shape, n, EXISTING)
        if shape <= NEED or shape >= 0:
            return resolve_filters(ps, v, n, shape)
        if shape == SOFT:
            rejection = SOFT
    return rejection


def fits_node(ps: PackingState, v: int, n: int, kind: int) -> int:
    if kind == UNRESERVED and not row_holds(ps, ps.s_max_allocatable, ps.n_shape[n], v, n):
        return NO  # most nodes are full, and this check is the cheapest
    answer = host_allows(ps, v, n)
    if answer != 0:
        return answer
    return fits_shape(ps, v, ps.n_shape[n], n, kind)


def fits_new(ps: PackingState, v: int, t: int) -> int:
    answer = new_host_allows(ps, v)
    if answer != 0:
        return answer
    return fits_shape(ps, v, ps.t_shape[t], -1, ps.t_kind[t])


def fits_shape(ps: PackingState, v: int, shape: int, n: int, kind: int) -> int:
    """The shape of a node once it has this pod too; n is -1 for a new node."""
    rejection = NO
    for j in range(ps.v_op_first[v], ps.v_op_first[v + 1]):
        answer = shape_after(ps, shape, ps.v_ops[j])
        if answer >= 0 and not has_capacity(ps, v, answer, n, kind):
            answer = NO  # final; the checks below could only return SOFT
        if answer >= 0:
            answer = narrow(ps, v, answer, n, kind)
        if answer >= 0 and ps.s_min_values[answer]:
            answer = check_min_values(ps, v, n, answer)
        if answer >= 0:
            answer = resolve_filters(ps, v, n, answer)
        if answer <= NEED or answer >= 0:
            return answer
        if answer == SOFT:
            rejection = SOFT
    return rejection


def host_allows(ps: PackingState, v: int, n: int) -> int:
    """Checks host ports and the constraints on the hostname: 0, NO or SOFT."""
    for i in range(ps.v_clash.shape[1]):
        if ps.v_clash[v, i] & ps.n_ports[n, i]:
            return NO
    for i in range(ps.anti_affinity_first[v], ps.anti_affinity_first[v + 1]):
        if ps.anti_affinity[i, 1] < 0 and ps.host_count[ps.anti_affinity[i, 0], n] > 0:
            return NO
    for i in range(ps.spread_first[v], ps.spread_first[v + 1]):
        if ps.spread[i, 5] < 0 and ps.host_count[ps.spread[i, 0], n] + ps.spread[i, 2] > ps.spread[i, 1]:
            return NO
    for i in range(ps.affinity_first[v], ps.affinity_first[v + 1]):
        if (
            ps.affinity[i, 3] < 0
            and ps.host_count[ps.affinity[i, 0], n] == 0
            and not may_begin_on_host(ps, i)
        ):
            return SOFT
    return 0


def new_host_allows(ps: PackingState, v: int) -> int:
    for i in range(ps.affinity_first[v], ps.affinity_first[v + 1]):
        if ps.affinity[i, 3] < 0 and not may_begin_on_host(ps, i):
            return SOFT
    return 0


def may_begin_on_host(ps: PackingState, i: int) -> bool:
    """Whether the pod may be the first of its affinity group: no pod of the group runs, and the term selects the pod."""
    return ps.affinity[i, 1] == 1 and ps.host_total[ps.affinity[i, 0]] == 0
