"""One packing run: the kernel driven to its end, and the nodes that come out.

Called by `solve` for first fit, and again for each packing that may be cheaper. What runs have in common is worked out
once: the world they begin with, and the shapes that nodes can have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling import assemble, compiled, offers, opening, pins, settling, types_left
from holdfast.core.scheduling.columns import Mask
from holdfast.core.scheduling.kernel import room
from holdfast.core.scheduling.packings import Candidate
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.request import MinValuesPolicy, Packing
from holdfast.core.scheduling.shapes import Extent, Shapes
from holdfast.core.scheduling.variants import Variants
from holdfast.core.scheduling.world import (
    ARG_A,
    ARG_B,
    ARG_C,
    DONE,
    FREE_SLOTS,
    LOGGED,
    NEEDS_LIMIT,
    NEEDS_RESTRICTION,
    NEEDS_ROOM,
    NEEDS_TRANSITION,
    NEEDS_VERDICT,
    NO,
    NODES,
    OLDEST_FIRST,
    POSITION,
    RESERVED,
    RUN_VARIANT,
    SIZED,
    STAGE_EXISTING,
    Ints,
    World,
)


@dataclass
class Start:
    """What every run of a solve begins with. Runs share its shapes, and add to them."""

    problem: Problem
    variants: Variants
    whole: list[Mask]  # by template, every row that goes together with what its pool requires
    shapes: Shapes
    world: World  # copied by each run
    buys_only: bool = False  # nodes that exist take nobody


@dataclass
class Outcome:
    """What a run did. Indexes are those of the problem; nodes from `existing` on are new."""

    problem: Problem
    shapes: Shapes
    existing: int
    n_template: Ints
    n_shape: Ints
    n_load: Ints
    n_slot: Ints  # reservation, or -1
    log_class: Ints
    log_variant: Ints
    log_node: Ints
    left: Ints  # by class: pods that found no place
    limits: Ints  # [pool, limited resource] what is left of them
    r_free: Ints
    domain_count: Ints  # [group, domain] pods that count there
    host_total: Ints  # [host group] pods that count on any node


def start(p: Problem, variants: Variants, waits: NDArray[np.uint8]) -> Start:
    """`waits` are the classes that take a slot or nothing new."""
    extent = Extent(len(p.limited), p.resources.size, len(p.reservation_ids))
    priced = p.settings.packing is Packing.COST
    shapes = Shapes(p.templates, variants.ops, p.domains, p.well_known, extent, priced=priced)
    w = assemble.world(p, variants, shapes)
    w.c_waits[:] = waits
    whole = [offers.satisfying(t.rows, t.requirements) for t in p.templates]
    return Start(p, variants, whole, shapes, w)


def sampled(begin: Start, pods: Ints, share: int) -> Start:
    """A start with so many pods of each class, one of each `share` that have to be bought for: without nodes that exist
    and slots, which others have, and with that share of what limits leave."""
    w = assemble.copied(begin.world, begin.shapes, begin.variants.arrays())
    w.c_left[:] = pods
    w.limits[:] //= share
    w.r_free[:], w.d_free[:], w.reg[FREE_SLOTS] = 0, 0, 0
    return replace(begin, world=w, buys_only=True)


def place(begin: Start, candidate: Candidate) -> Outcome:
    """Places every pod that has a place. What finds none with the rows of the candidate, or in the domains that it pins
    groups to, tries again with all."""
    p, variants, shapes = begin.problem, begin.variants, begin.shapes
    masks = list(begin.whole if candidate.masks is None else candidate.masks)
    w = _begun(begin, candidate, masks)
    if candidate.by_price:
        w = _priced(p, w, shapes, masks, variants)
    w = _to_the_end(p, w, shapes, masks, variants)
    if candidate.masks is not None and w.c_left.any():
        masks = list(begin.whole)
        w = _to_the_end(p, _widened(p, w, shapes, masks), shapes, masks, variants)
    if candidate.pins and w.c_left.any():
        w = w._replace(near=variants.near, eligible=begin.world.eligible)
        w = _to_the_end(p, _again(w, np.flatnonzero(w.c_left)), shapes, masks, variants)
    return _outcome(p, w, shapes)


def _begun(begin: Start, candidate: Candidate, masks: Sequence[Mask]) -> World:
    """The world with what the candidate has to say."""
    p, shapes = begin.problem, begin.shapes
    bases = [shapes.base(t, mask) for t, mask in enumerate(masks)]
    w = assemble.copied(begin.world, shapes, begin.variants.arrays())
    w.reg[OLDEST_FIRST] = candidate.oldest_first
    w.t_shape[:] = bases
    if candidate.order is not None:
        w.order[:] = candidate.order
    if candidate.first:
        others = w.order[~np.isin(w.order, candidate.first)]
        w.order[:] = np.concatenate([np.array(candidate.first, dtype=np.int64), others])
    w = _pinned(w, candidate.pins)
    if candidate.pools is not None:
        w.t_order[:] = candidate.pools
    paid = np.zeros((len(w.n_shape) if candidate.fill else 0, p.resources.size), dtype=np.int64)
    stages = assemble.stages(p, fill=candidate.fill)
    if begin.buys_only:
        stages = stages[stages[:, 0] != STAGE_EXISTING]
    return w._replace(stages=stages, n_paid=paid)


def _pinned(w: World, pins: Sequence[tuple[int, int]]) -> World:
    """The world in which these groups of affinity may begin in one domain alone."""
    for group, domain in pins:
        rows = np.flatnonzero((w.near[:, 0] == group) & (w.near[:, 3] >= 0))
        only = np.zeros((1, w.eligible.shape[1]), dtype=np.uint8)
        only[0, domain] = 1
        near = w.near.copy()
        near[rows, 2] = len(w.eligible)
        w = w._replace(near=near, eligible=np.vstack([w.eligible, only]))
    return w


def _priced(p: Problem, w: World, shapes: Shapes, masks: list[Mask], variants: Variants) -> World:
    """Uses up what is paid for, then opens nodes for free pods by price, and leaves the rest to the kernel. Pods with
    preferences are among the rest: while nothing can be bought, they would give up all of them for a slot."""
    bases, order = w.t_shape.tolist(), w.order
    w.t_shape[:] = [base if t.kind == RESERVED else NO for base, t in zip(bases, p.templates, strict=True)]
    w = w._replace(order=order[np.diff(variants.c_first)[order] == 1])
    w = _to_the_end(p, w, shapes, masks, variants)
    w = w._replace(order=order)
    w.t_shape[:] = bases
    w = opening.open_patterns(p, variants, w, shapes, bases)
    return _again(w, order[w.c_left[order] > 0].astype(np.intp))


def _to_the_end(p: Problem, w: World, shapes: Shapes, masks: list[Mask], variants: Variants) -> World:
    kernel = compiled.placement(int(w.c_left.sum()))
    while True:
        before = w.reg[LOGGED]
        w = _pass(p, w, shapes, masks, kernel)
        waiting = np.flatnonzero((w.c_left > 0) & variants.hopeful)
        if not len(waiting):
            return w
        if w.reg[LOGGED] == before:
            w, found = settling.settle(p, w, shapes)
            if not found:
                return w
        # Somebody was placed, or is settled, meanwhile: who wants to be near others may have a place now (S-20).
        w = _again(w, waiting)


def _again(w: World, classes: NDArray[np.intp]) -> World:
    w.reg[POSITION], w.reg[RUN_VARIANT], w.reg[SIZED] = 0, -1, -1
    w.t_rejects[:] = -1
    w.n_rejects[:] = -1
    return w._replace(order=classes.astype(np.int64))


def _widened(p: Problem, w: World, shapes: Shapes, masks: list[Mask]) -> World:
    """Opens templates and the nodes of this run to all rows again, as far as limits allow."""
    for t, mask in enumerate(masks):
        w.t_shape[t] = shapes.base(t, mask)
    known: dict[tuple[int, bytes], int] = {}  # by shape and the limits that are left
    for n in range(len(p.nodes), int(w.reg[NODES])):
        t, shape = int(w.n_template[n]), int(w.n_shape[n])
        pool = p.templates[t].pool
        left = w.limits[pool]
        charged = shapes.s_most[shape]
        wider = known.get((shape, left.tobytes()))
        if wider is None:
            within = (p.templates[t].rows.capacity <= charged + left).all(axis=1)
            wider = shapes.of(t, pins.pinned(p, shapes, shape), within)
            known[shape, left.tobytes()] = wider
        if w.p_limited[pool]:
            left -= shapes.s_most[wider] - charged
        w.n_shape[n] = wider
    return _again(assemble.refreshed(w, shapes), np.flatnonzero(w.c_left))


def _pass(p: Problem, w: World, shapes: Shapes, masks: list[Mask], kernel: Callable[[World], int]) -> World:
    while (need := kernel(w)) != DONE:
        a, b, c = int(w.reg[ARG_A]), int(w.reg[ARG_B]), int(w.reg[ARG_C])
        if need == NEEDS_TRANSITION:
            shapes.transition(a, b)
        elif need == NEEDS_RESTRICTION:
            shapes.restriction(a, b, c)
        elif need == NEEDS_LIMIT:
            _apply_limit(p, w, shapes, masks, a)
        elif need == NEEDS_VERDICT:
            pods = int(w.n_pods[a]) if a >= 0 else 0
            w = assemble.with_verdict(
                w, (a, pods, b, c), _verdict(p, shapes, c, _load(w, b, a), is_new=a < 0)
            )
        else:
            assert need == NEEDS_ROOM
            w = assemble.roomier(w)
        w = assemble.refreshed(w, shapes)
    return w


def _load(w: World, v: int, n: int) -> Ints:
    """What is asked of a node once it has one more pod; a volume that it shares with a pod there counts once."""
    load: Ints = w.v_req[v].copy()
    if n >= 0:
        load += w.n_load[n] - np.array([room.attached(w, v, n, i) for i in range(len(load))])
    return load


def _verdict(p: Problem, shapes: Shapes, shape: int, load: Ints, *, is_new: bool) -> int:
    """The shape if its minValues hold, or NO. A best effort lowers them to what there is, of a new node only (S-67)."""
    gaps = types_left.gaps(p, shapes, shape, load)
    if not gaps:
        return shape
    if not is_new or p.settings.min_values_policy is MinValuesPolicy.STRICT:
        return NO
    return shapes.with_min_values(shape, {gap.key: gap.found for gap in gaps})


def _apply_limit(p: Problem, w: World, shapes: Shapes, masks: list[Mask], t: int) -> None:
    """Leaves a template only the rows that the limits of its pool still allow."""
    template = p.templates[t]
    masks[t] = masks[t] & (template.rows.capacity <= w.limits[template.pool]).all(axis=1)
    w.t_shape[t] = shapes.base(t, masks[t])


def _outcome(p: Problem, w: World, shapes: Shapes) -> Outcome:
    nodes, logged = int(w.reg[NODES]), int(w.reg[LOGGED])
    return Outcome(
        problem=p,
        shapes=shapes,
        existing=len(p.nodes),
        n_template=w.n_template[:nodes],
        n_shape=w.n_shape[:nodes],
        n_load=w.n_load[:nodes],
        n_slot=w.n_slot[:nodes],
        log_class=w.log_class[:logged],
        log_variant=w.log_variant[:logged],
        log_node=w.log_node[:logged],
        left=w.c_left,
        limits=w.limits,
        r_free=w.r_free,
        domain_count=w.domain_count,
        host_total=w.host_total,
    )
