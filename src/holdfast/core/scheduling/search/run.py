"""Runs one packing: calls the kernel until every pod is placed or rejected, and returns the nodes.

Called by `packing_search` for first fit and for each packing that may be cheaper. What all runs share is computed once:
the initial state, and the shapes that nodes can have.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from holdfast.core.scheduling.input import offers
from holdfast.core.scheduling.input.columns import Mask
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.request import MinValuesPolicy, Packing
from holdfast.core.scheduling.input.shapes import Extent, Shapes
from holdfast.core.scheduling.kernel import capacity, compiled
from holdfast.core.scheduling.kernel.packing_state import (
    ARG_A,
    ARG_B,
    ARG_C,
    DONE,
    FREE_SLOTS,
    LOGGED,
    NEEDS_LARGER_ARRAYS,
    NEEDS_LIMIT,
    NEEDS_MIN_VALUES,
    NEEDS_RESTRICTION,
    NEEDS_TRANSITION,
    NO,
    NODES,
    OLDEST_FIRST,
    POSITION,
    RESERVED,
    RUN_VARIANT,
    SPARE_VARIANT,
    STAGE_EXISTING,
    Ints,
    PackingState,
)
from holdfast.core.scheduling.search import initial_state, min_values, opening, settling
from holdfast.core.scheduling.search.packings import Candidate
from holdfast.core.scheduling.search.variants import Variants


@dataclass
class RunInputs:
    """What every run of a solve starts with. Runs share its shapes, and add to them."""

    problem: Problem
    variants: Variants
    pool_masks: list[Mask]  # by template, every row that satisfies the NodePool's requirements
    shapes: Shapes
    state: PackingState  # each run works on a copy
    skip_existing_nodes: bool = False  # whether pods must go on new nodes


@dataclass
class Outcome:
    """The result of a run. Indexes are those of the problem; nodes from `existing` on are new."""

    problem: Problem
    shapes: Shapes
    existing: int
    n_template: Ints
    n_shape: Ints
    n_load: Ints
    n_reservation: Ints  # reservation, or -1
    log_class: Ints
    log_variant: Ints
    log_node: Ints
    unplaced: Ints  # by class: pods without a node
    limits: Ints  # [pool, limited resource] what may still be launched
    r_free: Ints
    domain_count: Ints  # [group, domain] pods that count there
    host_total: Ints  # [host group] pods that count on any node


def prepare(p: Problem, variants: Variants, waits: NDArray[np.uint8]) -> RunInputs:
    """Computes what all runs share. `waits` flags the classes that wait for a slot."""
    extent = Extent(len(p.limited), p.resources.size, len(p.reservation_ids))
    priced = p.settings.packing is Packing.COST
    shapes = Shapes(p.templates, variants.ops, p.domains, p.well_known, extent, priced=priced)
    ps = initial_state.build(p, variants, shapes)
    ps.c_waits[:] = waits
    pool_masks = [offers.satisfying(t.rows, t.requirements) for t in p.templates]
    return RunInputs(p, variants, pool_masks, shapes, ps)


def sample(inputs: RunInputs, pods: Ints, share: int) -> RunInputs:
    """Inputs for a sample of the pods that need unreserved nodes: `pods` of each class, one in `share`. The sample has no
    existing nodes and no slots, which other pods use, and a `share`-th of what the limits allow."""
    ps = initial_state.copy(inputs.state, inputs.shapes, inputs.variants.arrays())
    ps.c_pending[:] = pods
    ps.limits[:] //= share
    ps.r_free[:], ps.d_free[:], ps.reg[FREE_SLOTS] = 0, 0, 0
    return replace(inputs, state=ps, skip_existing_nodes=True)


def place(inputs: RunInputs, candidate: Candidate) -> Outcome:
    """Places every pod that fits. Pods that do not fit on the candidate's rows, or in the domains that it pins groups to,
    are tried again with all rows and domains."""
    p, variants, shapes = inputs.problem, inputs.variants, inputs.shapes
    masks = list(inputs.pool_masks if candidate.masks is None else candidate.masks)
    ps = _state_for(inputs, candidate, masks)
    if candidate.by_price:
        ps = _place_by_price(p, ps, shapes, masks, variants)
    ps = _place_all(p, ps, shapes, masks, variants)
    if candidate.masks is not None and ps.c_pending.any():
        masks = list(inputs.pool_masks)
        ps = _place_all(p, _widen_rows(p, ps, shapes, masks), shapes, masks, variants)
    if candidate.pins and ps.c_pending.any():
        ps = ps._replace(affinity=variants.affinity, eligible=inputs.state.eligible)
        ps = _place_all(p, _restart(ps, np.flatnonzero(ps.c_pending)), shapes, masks, variants)
    return _outcome(p, ps, shapes)


def _state_for(inputs: RunInputs, candidate: Candidate, masks: Sequence[Mask]) -> PackingState:
    """The initial state with the order, rows and pins of a candidate."""
    p, shapes = inputs.problem, inputs.shapes
    bases = [shapes.base(t, mask) for t, mask in enumerate(masks)]
    ps = initial_state.copy(inputs.state, shapes, inputs.variants.arrays())
    ps.reg[OLDEST_FIRST] = candidate.oldest_first
    ps.t_shape[:] = bases
    if candidate.order is not None:
        ps.order[:] = candidate.order
    if candidate.first:
        others = ps.order[~np.isin(ps.order, candidate.first)]
        ps.order[:] = np.concatenate([np.array(candidate.first, dtype=np.int64), others])
    ps = _pin_domains(ps, candidate.pins)
    if candidate.pools is not None:
        ps.t_order[:] = candidate.pools
    cheapest = np.zeros((len(ps.n_shape) if candidate.fill else 0, p.resources.size), dtype=np.int64)
    stages = initial_state.stages(p, fill=candidate.fill)
    if inputs.skip_existing_nodes:
        stages = stages[stages[:, 0] != STAGE_EXISTING]
    return ps._replace(stages=stages, n_cheapest=cheapest)


def _pin_domains(ps: PackingState, pins: Sequence[tuple[int, int]]) -> PackingState:
    """Allows each of these affinity groups to begin in one domain only."""
    for group, domain in pins:
        rows = np.flatnonzero((ps.affinity[:, 0] == group) & (ps.affinity[:, 3] >= 0))
        only = np.zeros((1, ps.eligible.shape[1]), dtype=np.uint8)
        only[0, domain] = 1
        affinity = ps.affinity.copy()
        affinity[rows, 2] = len(ps.eligible)
        ps = ps._replace(affinity=affinity, eligible=np.vstack([ps.eligible, only]))
    return ps


def _place_by_price(
    p: Problem, ps: PackingState, shapes: Shapes, masks: list[Mask], variants: Variants
) -> PackingState:
    """Fills existing nodes and slots, then opens nodes for unconstrained pods by price. The kernel places the other pods
    afterwards. Pods with preferences are among those: without unreserved nodes to choose from, they would give up all
    their preferences for a slot."""
    bases, order = ps.t_shape.tolist(), ps.order
    ps.t_shape[:] = [base if t.kind == RESERVED else NO for base, t in zip(bases, p.templates, strict=True)]
    ps = ps._replace(order=order[np.diff(variants.c_first)[order] == 1])
    ps = _place_all(p, ps, shapes, masks, variants)
    ps = ps._replace(order=order)
    ps.t_shape[:] = bases
    ps = opening.open_patterns(p, variants, ps, shapes, bases)
    return _restart(ps, order[ps.c_pending[order] > 0].astype(np.intp))


def _place_all(
    p: Problem, ps: PackingState, shapes: Shapes, masks: list[Mask], variants: Variants
) -> PackingState:
    kernel = compiled.placement()
    while True:
        before = ps.reg[LOGGED]
        ps = _run_kernel(p, ps, shapes, masks, kernel)
        waiting = np.flatnonzero((ps.c_pending > 0) & variants.may_fit_later)
        if not len(waiting):
            return ps
        if ps.reg[LOGGED] == before:
            ps, found = settling.settle(p, ps, shapes)
            if not found:
                return ps
        # Other pods were placed, or the domain of their node is settled: pod affinity may now be satisfiable (S-20).
        ps = _restart(ps, waiting)


def _restart(ps: PackingState, classes: NDArray[np.intp]) -> PackingState:
    ps.reg[POSITION], ps.reg[RUN_VARIANT], ps.reg[SPARE_VARIANT] = 0, -1, -1
    ps.t_rejects[:] = -1
    ps.n_rejects[:] = -1
    return ps._replace(order=classes.astype(np.int64))


def _widen_rows(p: Problem, ps: PackingState, shapes: Shapes, masks: list[Mask]) -> PackingState:
    """Allows templates and the nodes of this run all rows again, as far as limits permit."""
    for t, mask in enumerate(masks):
        ps.t_shape[t] = shapes.base(t, mask)
    known: dict[tuple[int, bytes], int] = {}  # by shape and remaining limits
    for n in range(len(p.nodes), int(ps.reg[NODES])):
        t, shape = int(ps.n_template[n]), int(ps.n_shape[n])
        pool = p.templates[t].pool
        left = ps.limits[pool]
        charged = shapes.s_max_capacity[shape]
        wider = known.get((shape, left.tobytes()))
        if wider is None:
            within = (p.templates[t].rows.capacity <= charged + left).all(axis=1)
            wider = shapes.of(t, shapes.pinned_requirements(shape), within)
            known[shape, left.tobytes()] = wider
        if ps.p_limited[pool]:
            left -= shapes.s_max_capacity[wider] - charged
        ps.n_shape[n] = wider
    return _restart(initial_state.refresh_shapes(ps, shapes), np.flatnonzero(ps.c_pending))


def _run_kernel(
    p: Problem, ps: PackingState, shapes: Shapes, masks: list[Mask], kernel: Callable[[PackingState], int]
) -> PackingState:
    while (need := kernel(ps)) != DONE:
        a, b, c = int(ps.reg[ARG_A]), int(ps.reg[ARG_B]), int(ps.reg[ARG_C])
        if need == NEEDS_TRANSITION:
            shapes.transition(a, b)
        elif need == NEEDS_RESTRICTION:
            shapes.restriction(a, b, c)
        elif need == NEEDS_LIMIT:
            _apply_limit(p, ps, shapes, masks, a)
        elif need == NEEDS_MIN_VALUES:
            pods = int(ps.n_pods[a]) if a >= 0 else 0
            ps = initial_state.add_verdict(
                ps, (a, pods, b, c), _shape_with_min_values(p, shapes, c, _load(ps, b, a), is_new=a < 0)
            )
        else:
            assert need == NEEDS_LARGER_ARRAYS
            ps = initial_state.enlarge(ps)
        ps = initial_state.refresh_shapes(ps, shapes)
    return ps


def _load(ps: PackingState, v: int, n: int) -> Ints:
    """The load of a node with one more pod. A volume that the pod shares with a pod on the node counts once."""
    load: Ints = ps.v_req[v].copy()
    if n >= 0:
        load += ps.n_load[n] - np.array([capacity.count_attached(ps, v, n, i) for i in range(len(load))])
    return load


def _shape_with_min_values(p: Problem, shapes: Shapes, shape: int, load: Ints, *, is_new: bool) -> int:
    """The shape if its minValues hold, else NO. BestEffort lowers minValues to what is available, for a new node only
    (S-67)."""
    gaps = min_values.gaps(p, shapes, shape, load)
    if not gaps:
        return shape
    if not is_new or p.settings.min_values_policy is MinValuesPolicy.STRICT:
        return NO
    return shapes.with_min_values(shape, {gap.key: gap.found for gap in gaps})


def _apply_limit(p: Problem, ps: PackingState, shapes: Shapes, masks: list[Mask], t: int) -> None:
    """Removes from a template the rows that exceed what the limits of its NodePool still allow."""
    template = p.templates[t]
    masks[t] = masks[t] & (template.rows.capacity <= ps.limits[template.pool]).all(axis=1)
    ps.t_shape[t] = shapes.base(t, masks[t])


def _outcome(p: Problem, ps: PackingState, shapes: Shapes) -> Outcome:
    nodes, logged = int(ps.reg[NODES]), int(ps.reg[LOGGED])
    return Outcome(
        problem=p,
        shapes=shapes,
        existing=len(p.nodes),
        n_template=ps.n_template[:nodes],
        n_shape=ps.n_shape[:nodes],
        n_load=ps.n_load[:nodes],
        n_reservation=ps.n_reservation[:nodes],
        log_class=ps.log_class[:logged],
        log_variant=ps.log_variant[:logged],
        log_node=ps.log_node[:logged],
        unplaced=ps.c_pending,
        limits=ps.limits,
        r_free=ps.r_free,
        domain_count=ps.domain_count,
        host_total=ps.host_total,
    )
