"""Proposes repairs for plans that leave pods unplaced or slots unused: place the affected pods first, or pin a group.

Called by `packing_search` after first fit. First fit places the largest pods first, so a pod that fits on other capacity
may take the only slot that another pod can use, and the first pod of a group may choose a zone without capacity for the
other pods of the group. The number of plans that are tried is bounded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from holdfast.core.scheduling.input import axes
from holdfast.core.scheduling.input.columns import Mask
from holdfast.core.scheduling.kernel.packing_state import RESERVED, UNRESERVED
from holdfast.core.scheduling.search.finalize import Nodes
from holdfast.core.scheduling.search.packings import Candidate
from holdfast.core.scheduling.search.run import Outcome, RunInputs

_RUNS_MAX, _RUNS_MIN = 32, 1
_PODS_A_RESERVATION: Final = 10  # a reservation takes as much time in a run as this many pods
_PODS_OF_ALL_RUNS: Final = 5_000
_FEW_PODS: Final = 100  # up to this many pods, other zones are tried even if no slot is free
_ZONES_MAX: Final = 8  # domains that are tried for one group
_CLASSES_MAX: Final = 8  # classes that are each tried first alone


@dataclass(frozen=True)
class Repair:
    """What to change in the next attempt."""

    first: tuple[int, ...] = ()  # classes that are placed before all others
    pins: tuple[tuple[int, int], ...] = ()  # affinity groups, each with the only domain that it may begin in

    def of(self, candidate: Candidate) -> Candidate:
        """The same packing, with these classes first and these groups in these domains."""
        return replace(candidate, first=self.first, pins=self.pins) if self.first or self.pins else candidate


def runs(inputs: RunInputs) -> int:
    """How many plans may be tried: fewer for larger plans, which take longer."""
    size = int(inputs.state.c_pending.sum()) + _PODS_A_RESERVATION * len(inputs.state.r_free)
    return max(_RUNS_MIN, min(_RUNS_MAX, _PODS_OF_ALL_RUNS // max(1, size)))


def repairs(inputs: RunInputs, before: Repair, outcome: Outcome, nodes: Nodes) -> Iterator[Repair]:
    """The repairs to try after a plan that was made with the repair `before`; none if the plan serves all pods well."""
    if inputs.skip_existing_nodes:
        return
    unserved = _left_out(inputs, outcome) | _unreserved_beside_slots(inputs, outcome, nodes)
    if not unserved.any():
        return
    for pin in _pins(inputs, unserved):
        if pin not in before.pins:
            yield replace(before, pins=(*(p for p in before.pins if p[0] != pin[0]), pin))
    found = sorted(np.flatnonzero(unserved).tolist(), key=lambda c: (-inputs.problem.classes[c].priority, c))
    orders = [(*found, *before.first), *((c, *before.first) for c in found[:_CLASSES_MAX])]
    for order in dict.fromkeys(tuple(dict.fromkeys(one)) for one in orders):
        if order != before.first:
            yield replace(before, first=order)


def with_displaced_classes(
    inputs: RunInputs, repair: Repair, before: Outcome, after: Outcome
) -> list[Repair]:
    """For a repair that took capacity from pods of a higher priority: the same with those among the first."""
    if not repair.first:
        return []
    priorities = [one.priority for one in inputs.problem.classes]
    lowest = min(priorities[c] for c in repair.first)
    displaced = [
        c for c in np.flatnonzero(after.unplaced > before.unplaced).tolist() if priorities[c] > lowest
    ]
    orders = ((*repair.first, *displaced), (*displaced, *repair.first)) if displaced else ()
    return [replace(repair, first=tuple(dict.fromkeys(order))) for order in orders]


def _left_out(inputs: RunInputs, outcome: Outcome) -> Mask:
    """[class] whether it has unplaced pods that might be placed if they came first."""
    unplaced = outcome.unplaced > 0
    if not unplaced.any():
        return unplaced
    ps = inputs.state
    if ps.p_limited.any():
        return unplaced
    requests = inputs.variants.v_load[inputs.variants.c_first[:-1]]
    small = (requests <= ps.n_capacity.max(axis=0, initial=0)).all(axis=1)
    for c in np.flatnonzero(unplaced).tolist():
        exists = bool(small[c]) and bool((ps.n_capacity >= requests[c]).all(axis=1).any())
        unplaced[c] = exists or _fits_slot(inputs, c) or bool(_groups(inputs, c))
    return unplaced


def _unreserved_beside_slots(inputs: RunInputs, outcome: Outcome, nodes: Nodes) -> Mask:
    """[class] whether its pods are on unreserved nodes although a slot fits them and slots are free. In a small plan also
    pods that must share a node or a zone: another zone may have more slots for them."""
    found = np.zeros(len(outcome.unplaced), dtype=bool)
    if not inputs.state.r_free.any():
        return found
    is_unreserved = np.array(
        [inputs.problem.templates[t].kind == UNRESERVED for t in nodes.template], dtype=bool
    )
    new = outcome.log_node >= outcome.existing
    unreserved = axes.distinct(
        outcome.log_class[new][is_unreserved[outcome.log_node[new] - outcome.existing]]
    )
    has_free_slots, few = bool(nodes.free.any()), inputs.state.c_pending.sum() <= _FEW_PODS
    for c in unreserved.tolist():
        found[c] = (has_free_slots or (few and _groups(inputs, c))) and _fits_slot(inputs, c)
    return found


def _fits_slot(inputs: RunInputs, c: int) -> bool:
    """Whether a slot that was free before the plan fits a pod of the class, alone on its node."""
    p, ps, variants, shapes = inputs.problem, inputs.state, inputs.variants, inputs.shapes
    free = ps.r_free > 0
    if not free.any():
        return False
    for v in range(int(variants.c_first[c]), int(variants.c_first[c + 1])):
        for t, template in enumerate(p.templates):
            if template.kind != RESERVED:
                continue
            holds = free & (ps.r_allocatable[t] >= variants.v_load[v]).all(axis=1)
            if not holds.any():
                continue
            base = shapes.base(t, inputs.pool_masks[t])
            for i in range(int(variants.v_op_first[v]), int(variants.v_op_first[v + 1])):
                shape = shapes.after(base, int(variants.v_ops[i])) if base >= 0 else base
                if shape >= 0 and (shapes.s_reserved[shape].astype(bool) & holds).any():
                    return True
    return False


def _groups(inputs: RunInputs, c: int) -> set[tuple[int, int]]:
    """The affinity groups of a class that select its own pods, with their keys; a negative key is the hostname."""
    variants = inputs.variants
    last = int(variants.c_first[c + 1]) - 1
    rows = variants.affinity[variants.affinity_first[last] : variants.affinity_first[last + 1]]
    return {(int(group), int(key)) for group, itself, _, key in rows if itself}


def _pins(inputs: RunInputs, unserved: Mask) -> Iterator[tuple[int, int]]:
    """For each affinity group of an unserved class: every domain that it could begin in."""
    ps = inputs.state
    groups = {group for c in np.flatnonzero(unserved).tolist() for group in _groups(inputs, c)}
    for group, key in sorted(groups):
        if key < 0 or ps.domain_count[group].any():  # pods of the group run already
            continue
        for d in range(int(ps.k_first[key]), int(ps.k_first[key + 1]))[:_ZONES_MAX]:
            yield group, d
