"""Why a pod has no place: for each NodePool the first thing that stands in the way.

Called by `solve` for classes that were not placed; equal pods have equal reasons, so it costs little. The order of
checks is the order in which a node is judged: taints, requirements, offerings, size, limits, then everything that
depends on where other pods are.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from holdfast import names
from holdfast.core.scheduling import problem, types_left
from holdfast.core.scheduling.classes import Rung
from holdfast.core.scheduling.plan import Reason, ReasonCode, Unplaced
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.run import Outcome
from holdfast.core.scheduling.shapes import Template
from holdfast.core.scheduling.waiting import Wait
from holdfast.model.requirements import Requirements
from holdfast.model.snapshot import NodePoolView
from holdfast.model.taints import first_untolerated


def unplaced(p: Problem, outcome: Outcome, waiting: Mapping[int, Wait]) -> tuple[Unplaced, ...]:
    """The pods without a place, by uid; those that wait say for what, and until when."""
    found: list[Unplaced] = []
    for c in np.flatnonzero(outcome.left).tolist():
        wait = waiting.get(c)
        if wait is None:
            reasons, slot, until_s = tuple(_reasons(p, c)), None, None
        else:
            text = f"it waits for a slot of {wait.reservation}"
            reasons = (Reason(ReasonCode.WAITS_FOR_SLOT, text, wait.reservation),)
            slot, until_s = wait.reservation, wait.until_s
        without = p.classes[c].pods[-int(outcome.left[c]) :]
        found += [Unplaced(pod.uid, reasons, slot, until_s) for pod in without]
    return tuple(sorted(found, key=lambda one: one.pod))


def _reasons(p: Problem, c: int) -> Iterator[Reason]:
    if not p.pools:
        yield Reason(ReasonCode.NO_NODE_POOL, "there is no NodePool that is ready")
    for index, pool in enumerate(p.pools):
        yield _of_pool(p, c, index, pool)


def _of_pool(p: Problem, c: int, index: int, pool: NodePoolView) -> Reason:
    """What keeps the pods of a class off the nodes of a pool."""
    rung = p.last_rung(c)
    taint = first_untolerated(pool.taints, rung.tolerations)
    if taint is not None:
        return Reason(ReasonCode.TAINT, f"it does not tolerate {taint}", pool.name)
    conflicts = pool.requirements.incompatibilities(rung.strict, p.well_known)
    if conflicts:
        return Reason(ReasonCode.REQUIREMENTS, str(conflicts[0]), pool.name)
    request = problem.requests([p.classes[c].shape], p.resources)[0]
    return _of_types(p, c, pool, [t for t in p.templates if t.pool == index], rung, request)


def _of_types(
    p: Problem, c: int, pool: NodePoolView, templates: list[Template], rung: Rung, request: np.ndarray
) -> Reason:
    wanted = pool.requirements.union(rung.strict)
    named = [t for t in pool.instance_types if t.requirements.intersects(wanted)]
    if not named:
        return Reason(ReasonCode.REQUIREMENTS, f"no instance type is {wanted}", pool.name)
    masks = [types_left.satisfying(t.rows, wanted) for t in templates]
    if not any(mask.any() for mask in masks):
        return _no_offering(p, pool, wanted)
    fitting = [mask & t.rows.fitting(request) for mask, t in zip(masks, templates, strict=True)]
    if not any(mask.any() for mask in fitting):
        asked = p.classes[c].shape.requests
        return Reason(ReasonCode.RESOURCES, f"no instance type that suits it has room for {asked}", pool.name)
    if pool.limits.amounts:
        return Reason(ReasonCode.LIMITS, f"its limits of {pool.limits} are reached", pool.name)
    return Reason(ReasonCode.TOPOLOGY, "other pods keep it from every place that suits it", pool.name)


def _no_offering(p: Problem, pool: NodePoolView, wanted: Requirements) -> Reason:
    """Nothing can be launched: a full reservation is said to be full, anything else to be unavailable."""
    full = sorted(
        {
            o.reservation_id
            for t in pool.instance_types
            if t.requirements.intersects(wanted)
            for o in t.offerings
            if o.reservation_id is not None and wanted.compatible(o.requirements, p.well_known)
        }
    )
    if full:
        entry = p.ledger.get(full[0])
        state = f"{entry.held} held, {entry.releasing} being released" if entry else "not known"
        return Reason(
            ReasonCode.WAITS_FOR_SLOT, f"reservation {', '.join(full)} has no free slot ({state})", full[0]
        )
    asked = wanted.get(names.CAPACITY_TYPE)
    return Reason(ReasonCode.OFFERINGS, f"nothing is available where {asked}", pool.name)
