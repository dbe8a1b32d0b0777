"""Finds nodes of the run with spare capacity: their cheapest offering holds one more pod, so it adds no cost.

Only packings with STAGE_SPARE use it. First fit fills a node while any type still holds the pods, and so pays for one
resource to get another. Few nodes have spare capacity for a pod, and many pods in a row have the same size. So the
kernel remembers by list position which nodes have it for that size, and skips the others.
"""

from holdfast.core.scheduling.kernel.capacity import count_attached, row_holds
from holdfast.core.scheduling.kernel.packing_state import BLOCK, SPARE_VARIANT, UNRESERVED, PackingState


def has_spare_capacity(ps: PackingState, v: int, n: int) -> bool:
    """Whether the cheapest offering of a node holds one more pod."""
    shares = ps.claim_first[v] < ps.claim_first[v + 1]
    for i in range(ps.v_req.shape[1]):
        more = ps.v_req[v, i]
        if shares:
            more -= count_attached(ps, v, n, i)
        if more > 0 and ps.n_load[n, i] + more > ps.n_cheapest[n, i]:
            return False
    return True


def update_cheapest(ps: PackingState, v: int, n: int, shape: int) -> None:
    """Sets the cheapest offering that holds a node with one more pod and its new shape."""
    if ps.n_cheapest.shape[0] == 0 or not is_unreserved(ps, n):
        return
    if ps.n_shape[n] == shape and ps.n_pods[n] > 0 and has_spare_capacity(ps, v, n):
        return
    for row in range(ps.s_priced[shape, 0], ps.s_priced[shape, 1]):
        if row_holds(ps, ps.priced_allocatable, row, v, n):
            for i in range(ps.n_cheapest.shape[1]):
                ps.n_cheapest[n, i] = ps.priced_allocatable[row, i]
            return


def is_unreserved(ps: PackingState, n: int) -> bool:
    return n >= ps.n_capacity.shape[0] and ps.t_kind[ps.n_template[n]] == UNRESERVED


def find_spare(ps: PackingState, v: int) -> None:
    """Finds the nodes with spare capacity for a pod of this size, unless they are known for the size."""
    is_known = ps.reg[SPARE_VARIANT] >= 0 and same_size(ps, ps.reg[SPARE_VARIANT], v)
    ps.reg[SPARE_VARIANT] = v
    if is_known:
        return
    for block in range(ps.spare_in_block.shape[0]):
        ps.spare_in_block[block] = 0
    for i in range(ps.lengths[UNRESERVED, 0]):
        ps.spare[i] = has_spare_capacity(ps, v, ps.listed[UNRESERVED, i])
        ps.spare_in_block[i // BLOCK] += ps.spare[i]


def same_size(ps: PackingState, v: int, other: int) -> bool:
    """Whether both variants find the same spare capacity. Variants that share volumes with other pods may not."""
    if v == other:
        return True
    if ps.claim_first[v] != ps.claim_first[v + 1] or ps.claim_first[other] != ps.claim_first[other + 1]:
        return False
    for i in range(ps.v_req.shape[1]):
        if ps.v_req[v, i] != ps.v_req[other, i]:
            return False
    return True


def update_spare(ps: PackingState, n: int) -> None:
    """Updates a node that has moved in the list or has one more pod."""
    if ps.reg[SPARE_VARIANT] < 0 or not is_unreserved(ps, n):
        return
    i = ps.list_position[n]
    was, now = ps.spare[i] > 0, has_spare_capacity(ps, ps.reg[SPARE_VARIANT], n)
    ps.spare[i] = now
    if was != now:
        ps.spare_in_block[i // BLOCK] += 1 if now else -1


def next_spare(ps: PackingState, i: int) -> int:
    """The first position from i on whose node has spare capacity; the end of the list if there is none."""
    while i < ps.lengths[UNRESERVED, 0] and ps.spare[i] == 0:
        if ps.spare_in_block[i // BLOCK] == 0:
            i = (i // BLOCK + 1) * BLOCK
        else:
            i += 1
    return i
