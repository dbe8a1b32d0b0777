"""Filling what is paid for: a pod goes where no node gets dearer, if there is such a place.

Only in packings that try it: first fit fills a node while any type still holds it, and so buys room of one resource
for the sake of another. Few nodes hold one more pod of a size at no cost, and many pods in a row are of one size: which
nodes those are is kept by position in the list of nodes, so that the others are passed over.
"""

from holdfast.core.scheduling.kernel.room import attached, row_holds
from holdfast.core.scheduling.world import BLOCK, BOUGHT, SIZED, World


def costs_nothing(w: World, v: int, n: int) -> bool:
    """Whether the offering that a node is counted on holds one more pod."""
    shares = w.claim_first[v] < w.claim_first[v + 1]
    for i in range(w.v_req.shape[1]):
        more = w.v_req[v, i]
        if shares:
            more -= attached(w, v, n, i)
        if more > 0 and w.n_load[n, i] + more > w.n_paid[n, i]:
            return False
    return True


def pay(w: World, v: int, n: int, shape: int) -> None:
    """Counts a node that gets a pod, and with it a shape, on the cheapest offering that will hold it then."""
    if w.n_paid.shape[0] == 0 or not is_bought(w, n):
        return
    if w.n_shape[n] == shape and w.n_pods[n] > 0 and costs_nothing(w, v, n):
        return
    for row in range(w.s_priced[shape, 0], w.s_priced[shape, 1]):
        if row_holds(w, w.priced_room, row, v, n):
            for i in range(w.n_paid.shape[1]):
                w.n_paid[n, i] = w.priced_room[row, i]
            return


def is_bought(w: World, n: int) -> bool:
    return n >= w.n_capacity.shape[0] and w.t_kind[w.n_template[n]] == BOUGHT


def measure(w: World, v: int) -> None:
    """Finds the nodes that hold one more pod of this size at no cost, unless those of its size are known."""
    is_known = w.reg[SIZED] >= 0 and same_size(w, w.reg[SIZED], v)
    w.reg[SIZED] = v
    if is_known:
        return
    for block in range(w.roomy_in.shape[0]):
        w.roomy_in[block] = 0
    for i in range(w.lengths[BOUGHT, 0]):
        w.roomy[i] = costs_nothing(w, v, w.listed[BOUGHT, i])
        w.roomy_in[i // BLOCK] += w.roomy[i]


def same_size(w: World, v: int, other: int) -> bool:
    """Whether a node holds the one at no cost where it holds the other. Shared volumes tell pods apart."""
    if v == other:
        return True
    if w.claim_first[v] != w.claim_first[v + 1] or w.claim_first[other] != w.claim_first[other + 1]:
        return False
    for i in range(w.v_req.shape[1]):
        if w.v_req[v, i] != w.v_req[other, i]:
            return False
    return True


def measure_again(w: World, n: int) -> None:
    """A node has moved in the list, or has one more pod."""
    if w.reg[SIZED] < 0 or not is_bought(w, n):
        return
    i = w.place[n]
    was, now = w.roomy[i] > 0, costs_nothing(w, w.reg[SIZED], n)
    w.roomy[i] = now
    if was != now:
        w.roomy_in[i // BLOCK] += 1 if now else -1


def next_roomy(w: World, i: int) -> int:
    """The first position from i on whose node holds one more pod at no cost; the end of the list where there is none."""
    while i < w.lengths[BOUGHT, 0] and w.roomy[i] == 0:
        if w.roomy_in[i // BLOCK] == 0:
            i = (i // BLOCK + 1) * BLOCK
        else:
            i += 1
    return i
