"""Keeps the nodes of a run sorted by their number of pods, in buckets of equal counts, so that each update is cheap.

With OLDEST_FIRST all nodes stay in the first bucket.
"""

from holdfast.core.scheduling.kernel.packing_state import OLDEST_FIRST, PackingState
from holdfast.core.scheduling.kernel.spare_capacity import update_spare


def insert(ps: PackingState, kind: int, n: int) -> None:
    """Adds a new node with one pod at the end of the first bucket, and moves one node of each later bucket to its end."""
    hole = ps.lengths[kind, 0]
    for pods in range(ps.lengths[kind, 1], 1, -1):
        first = ps.bucket[kind, pods]
        if first != hole:
            moved_node = ps.listed[kind, first]
            ps.listed[kind, hole] = moved_node
            ps.list_position[moved_node] = hole
            update_spare(ps, moved_node)
            hole = first
        ps.bucket[kind, pods] += 1
    ps.listed[kind, hole] = n
    ps.list_position[n] = hole
    ps.lengths[kind, 0] += 1
    ps.bucket[kind, ps.lengths[kind, 1] + 1] = ps.lengths[kind, 0]
    if ps.lengths[kind, 1] == 0:
        ps.lengths[kind, 1] = 1
        ps.bucket[kind, 1] = 0
        ps.bucket[kind, 2] = 1


def bump(ps: PackingState, kind: int, n: int) -> None:
    """Moves a node that gets one more pod to the front of the next bucket."""
    if ps.reg[OLDEST_FIRST]:
        return
    pods = ps.n_pods[n]
    last = ps.bucket[kind, pods + 1] - 1
    here = ps.list_position[n]
    other = ps.listed[kind, last]
    ps.listed[kind, here] = other
    ps.list_position[other] = here
    ps.listed[kind, last] = n
    ps.list_position[n] = last
    update_spare(ps, other)
    ps.bucket[kind, pods + 1] = last
    if pods == ps.lengths[kind, 1]:
        ps.lengths[kind, 1] = pods + 1
        ps.bucket[kind, pods + 2] = ps.lengths[kind, 0]
