"""Filling what is paid for: a pod goes where no node gets dearer, if there is such a place.

Only in packings that try it: first fit fills a node while any type still holds it, and so buys room of one resource
for the sake of another.
"""

from holdfast.core.scheduling.kernel.room import attached, row_holds
from holdfast.core.scheduling.world import BOUGHT, World


def costs_nothing(w: World, v: int, n: int) -> bool:
    """Whether the offering that a node is counted on holds one more pod."""
    for i in range(w.v_req.shape[1]):
        more = w.v_req[v, i] - attached(w, v, n, i)
        if more > 0 and w.n_load[n, i] + more > w.n_paid[n, i]:
            return False
    return True


def pay(w: World, v: int, n: int, shape: int) -> None:
    """Counts a node that gets a pod, and with it a shape, on the cheapest offering that will hold it then."""
    if w.n_paid.shape[0] == 0 or n < w.n_capacity.shape[0] or w.t_kind[w.n_template[n]] != BOUGHT:
        return
    if w.n_shape[n] == shape and w.n_pods[n] > 0 and costs_nothing(w, v, n):
        return
    for row in range(w.s_priced[shape, 0], w.s_priced[shape, 1]):
        if row_holds(w, w.priced_room, row, v, n):
            for i in range(w.n_paid.shape[1]):
                w.n_paid[n, i] = w.priced_room[row, i]
            return
