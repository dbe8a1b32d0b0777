"""Nodes of a run in the order of their pods: buckets of equal counts, so that each step is cheap.

Oldest first, all of them stay in the first bucket.
"""

from holdfast.core.scheduling.kernel.paid import measure_again
from holdfast.core.scheduling.world import OLDEST_FIRST, World


def insert(w: World, kind: int, n: int) -> None:
    """A new node with one pod goes to the end of the first bucket; one node of each later bucket steps back."""
    hole = w.lengths[kind, 0]
    for pods in range(w.lengths[kind, 1], 1, -1):
        first = w.bucket[kind, pods]
        if first != hole:
            moved_node = w.listed[kind, first]
            w.listed[kind, hole] = moved_node
            w.place[moved_node] = hole
            measure_again(w, moved_node)
            hole = first
        w.bucket[kind, pods] += 1
    w.listed[kind, hole] = n
    w.place[n] = hole
    w.lengths[kind, 0] += 1
    w.bucket[kind, w.lengths[kind, 1] + 1] = w.lengths[kind, 0]
    if w.lengths[kind, 1] == 0:
        w.lengths[kind, 1] = 1
        w.bucket[kind, 1] = 0
        w.bucket[kind, 2] = 1


def bump(w: World, kind: int, n: int) -> None:
    """A node gets one more pod: it becomes the first of the next bucket."""
    if w.reg[OLDEST_FIRST]:
        return
    pods = w.n_pods[n]
    last = w.bucket[kind, pods + 1] - 1
    here = w.place[n]
    other = w.listed[kind, last]
    w.listed[kind, here] = other
    w.place[other] = here
    w.listed[kind, last] = n
    w.place[n] = last
    measure_again(w, other)
    w.bucket[kind, pods + 1] = last
    if pods == w.lengths[kind, 1]:
        w.lengths[kind, 1] = pods + 1
        w.bucket[kind, pods + 2] = w.lengths[kind, 0]
