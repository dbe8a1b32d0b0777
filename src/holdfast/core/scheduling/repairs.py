"""Plans that leave pods out or slots unused, tried again with the pods first that need what others took.

Called by `trials` after first fit, whatever the packing. First fit takes the largest pods first, so a pod that could be
launched elsewhere may take the only slot that serves another, and the first pod of a group may choose a zone that has
no capacity for the others. The number of plans that are tried is bounded.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from holdfast.core.scheduling.columns import Mask
from holdfast.core.scheduling.finalize import Nodes
from holdfast.core.scheduling.packing_state import RESERVED, UNRESERVED
from holdfast.core.scheduling.packings import Candidate
from holdfast.core.scheduling.run import Outcome, Start

_RUNS_MAX, _RUNS_MIN = 32, 1
_PODS_A_RESERVATION: Final = 10  # what one costs a run, in pods
_PODS_OF_ALL_RUNS: Final = 5_000
_FEW_PODS: Final = 100  # that it is worth to look for better zones for, though no slot is left
_ZONES_MAX: Final = 8  # domains that are tried for one group
_CLASSES_MAX: Final = 8  # classes that are tried first by themselves


@dataclass(frozen=True)
class Repair:
    """What a plan is tried again with."""

    first: tuple[int, ...] = ()  # classes that are placed before all others
    pins: tuple[
        tuple[int, int], ...
    ] = ()  # groups of affinity, each with the one domain that it may begin in

    def of(self, candidate: Candidate) -> Candidate:
        """The same packing, with these classes first and these groups in these domains."""
        return replace(candidate, first=self.first, pins=self.pins) if self.first or self.pins else candidate


def runs(begin: Start) -> int:
    """How many plans may be tried: the fewer, the longer one takes."""
    size = int(begin.world.c_pending.sum()) + _PODS_A_RESERVATION * len(begin.world.r_free)
    return max(_RUNS_MIN, min(_RUNS_MAX, _PODS_OF_ALL_RUNS // max(1, size)))


def repairs(begin: Start, before: Repair, outcome: Outcome, nodes: Nodes) -> Iterator[Repair]:
    """What is worth trying after a plan that was made with another repair; nothing where all is as it should be."""
    if begin.buys_only:
        return
    needy = _left_out(begin, outcome) | _bought_beside_slots(begin, outcome, nodes)
    if not needy.any():
        return
    for pin in _pins(begin, needy):
        if pin not in before.pins:
            yield replace(before, pins=(*(p for p in before.pins if p[0] != pin[0]), pin))
    found = sorted(np.flatnonzero(needy).tolist(), key=lambda c: (-begin.problem.classes[c].priority, c))
    orders = [(*found, *before.first), *((c, *before.first) for c in found[:_CLASSES_MAX])]
    for order in dict.fromkeys(tuple(dict.fromkeys(one)) for one in orders):
        if order != before.first:
            yield replace(before, first=order)


def with_those_that_lost(begin: Start, repair: Repair, before: Outcome, after: Outcome) -> list[Repair]:
    """A repair that took capacity from pods of a higher priority, tried again with these among the first."""
    if not repair.first:
        return []
    priorities = [one.priority for one in begin.problem.classes]
    lowest = min(priorities[c] for c in repair.first)
    lost = [c for c in np.flatnonzero(after.left > before.left).tolist() if priorities[c] > lowest]
    orders = ((*repair.first, *lost), (*lost, *repair.first)) if lost else ()
    return [replace(repair, first=tuple(dict.fromkeys(order))) for order in orders]


def _left_out(begin: Start, outcome: Outcome) -> Mask:
    """[class] pods are left out that might be placed if they came first."""
    left = outcome.left > 0
    if not left.any():
        return left
    ps = begin.world
    if ps.p_limited.any():
        return left
    requests = begin.variants.v_load[begin.variants.c_first[:-1]]
    small = (requests <= ps.n_capacity.max(axis=0, initial=0)).all(axis=1)
    for c in np.flatnonzero(left).tolist():
        exists = bool(small[c]) and bool((ps.n_capacity >= requests[c]).all(axis=1).any())
        left[c] = exists or _fits_slot(begin, c) or bool(_groups(begin, c))
    return left


def _bought_beside_slots(begin: Start, outcome: Outcome, nodes: Nodes) -> Mask:
    """[class] nodes are bought for pods that a slot could serve, and slots are left. Of few pods also those that have to
    share a node or a zone: another one may have more slots for them."""
    found = np.zeros(len(outcome.left), dtype=bool)
    if not begin.world.r_free.any():
        return found
    is_bought = np.array([begin.problem.templates[t].kind == UNRESERVED for t in nodes.template], dtype=bool)
    new = outcome.log_node >= outcome.existing
    bought = np.unique(outcome.log_class[new][is_bought[outcome.log_node[new] - outcome.existing]])
    left, few = bool(nodes.free.any()), begin.world.c_pending.sum() <= _FEW_PODS
    for c in bought.tolist():
        found[c] = (left or (few and _groups(begin, c))) and _fits_slot(begin, c)
    return found


def _fits_slot(begin: Start, c: int) -> bool:
    """Whether some slot that was free at the beginning serves a pod of the class, with nothing else in it."""
    p, ps, variants, shapes = begin.problem, begin.world, begin.variants, begin.shapes
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
            base = shapes.base(t, begin.whole[t])
            for i in range(int(variants.v_op_first[v]), int(variants.v_op_first[v + 1])):
                shape = shapes.after(base, int(variants.v_ops[i])) if base >= 0 else base
                if shape >= 0 and (shapes.s_reserved[shape].astype(bool) & holds).any():
                    return True
    return False


def _groups(begin: Start, c: int) -> set[tuple[int, int]]:
    """Groups of affinity that the pods of a class must share with pods like them, and their keys; a negative key is that
    of nodes."""
    variants = begin.variants
    last = int(variants.c_first[c + 1]) - 1
    rows = variants.affinity[variants.affinity_first[last] : variants.affinity_first[last + 1]]
    return {(int(group), int(key)) for group, itself, _, key in rows if itself}


def _pins(begin: Start, needy: Mask) -> Iterator[tuple[int, int]]:
    """For each group of affinity that a needy class has: every domain that it could begin in."""
    ps = begin.world
    groups = {group for c in np.flatnonzero(needy).tolist() for group in _groups(begin, c)}
    for group, key in sorted(groups):
        if key < 0 or ps.domain_count[group].any():  # the group is somewhere already
            continue
        for d in range(int(ps.k_first[key]), int(ps.k_first[key + 1]))[:_ZONES_MAX]:
            yield group, d
