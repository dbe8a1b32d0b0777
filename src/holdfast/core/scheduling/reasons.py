"""Why a pod has no place: for each NodePool the first thing that stands in the way.

Called by `solve` for classes that were not placed; equal pods have equal reasons, so it costs little. The order of
checks is the order in which a node is judged: taints, requirements, offerings, size, limits, slots, then everything
that depends on where other pods are (R-39).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from holdfast import names
from holdfast.core.scheduling import problem, types_left
from holdfast.core.scheduling.classes import Rung
from holdfast.core.scheduling.columns import Mask
from holdfast.core.scheduling.offers import Rows
from holdfast.core.scheduling.plan import Reason, ReasonCode, Unplaced
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.request import MinValuesPolicy
from holdfast.core.scheduling.run import Outcome
from holdfast.core.scheduling.shapes import Template
from holdfast.core.scheduling.waiting import Wait
from holdfast.core.scheduling.world import BOUGHT, Ints
from holdfast.model import resources
from holdfast.model.host_ports import HostPort
from holdfast.model.requirements import Requirements
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodePoolView
from holdfast.model.taints import first_untolerated

_MILLION_CORES: Final = 10**9  # in thousandths
_Fitting = Sequence[tuple[Template, Mask]]
"""The templates of a pool, each with the rows that suit a pod."""


def unplaced(p: Problem, outcome: Outcome, waiting: Mapping[int, Wait]) -> tuple[Unplaced, ...]:
    """The pods without a place, by uid; those that wait say for what, and until when."""
    found: list[Unplaced] = []
    for c in np.flatnonzero(outcome.left).tolist():
        wait = waiting.get(c)
        if wait is None:
            reasons, slot, until_s = tuple(_reasons(p, outcome, c)), None, None
        else:
            text = f"it waits for a slot of {wait.reservation}"
            reasons = (Reason(ReasonCode.WAITS_FOR_SLOT, text, wait.reservation),)
            slot, until_s = wait.reservation, wait.until_s
        without = p.classes[c].pods[-int(outcome.left[c]) :]
        found += [Unplaced(pod.uid, reasons, slot, until_s) for pod in without]
    return tuple(sorted(found, key=lambda one: one.pod))


def _reasons(p: Problem, outcome: Outcome, c: int) -> Iterator[Reason]:
    if not p.pools:
        yield Reason(ReasonCode.NO_NODE_POOL, "there is no NodePool that is ready")
    for index, pool in enumerate(p.pools):
        yield _of_pool(p, outcome, c, index, pool)


def _of_pool(p: Problem, outcome: Outcome, c: int, index: int, pool: NodePoolView) -> Reason:
    """What keeps the pods of a class off the nodes of a pool."""
    rung = p.last_rung(c)
    taint = first_untolerated(pool.taints, rung.tolerations)
    if taint is not None:
        return Reason(ReasonCode.TAINT, f"it does not tolerate {taint}", pool.name)
    if not rung.wanted:
        return Reason(ReasonCode.REQUIREMENTS, "what it asks for contradicts itself", pool.name)
    conflicts = pool.requirements.incompatibilities(rung.strict, p.well_known)
    if conflicts:
        return Reason(ReasonCode.REQUIREMENTS, str(conflicts[0]), pool.name)
    wanted = pool.requirements.union(rung.strict)
    if wanted.get(names.CAPACITY_TYPE).values == {names.RESERVED} and not _has_reservations(pool):
        return Reason(ReasonCode.NO_RESERVATION_SELECTED, "its class selects no reservation", pool.name)
    if not any(t.requirements.intersects(wanted) for t in pool.instance_types):
        return Reason(ReasonCode.REQUIREMENTS, f"no instance type is {wanted}", pool.name)
    fitting = [(t, types_left.satisfying(t.rows, wanted)) for t in p.templates if t.pool == index]
    if not any(mask.any() for _, mask in fitting):
        return _no_offering(p, pool, wanted)
    return _of_rows(p, c, pool, wanted, fitting) or _of_others(p, outcome, c, index, fitting)


def _of_rows(
    p: Problem, c: int, pool: NodePoolView, wanted: Requirements, suiting: _Fitting
) -> Reason | None:
    """What about the pod keeps it off every node that the pool could open, were it alone there."""
    shape = p.classes[c].shape
    request = problem.requests([shape], p.resources)[0]
    volumes = shape.volumes.alternatives
    if volumes and not any(_any_row(t.rows, mask, wanted, place) for t, mask in suiting for place in volumes):
        return Reason(ReasonCode.VOLUMES, "its volumes cannot be where a node would be", pool.name)
    roomy = [(t, mask & t.rows.fitting(_without_volumes(p, request))) for t, mask in suiting]
    if not any(mask.any() for _, mask in roomy):
        return Reason(ReasonCode.RESOURCES, _too_large(p, shape.requests), pool.name)
    if not any((mask & t.rows.fitting(request)).any() for t, mask in roomy):
        return Reason(ReasonCode.VOLUMES, "it has more volumes than a node can attach", pool.name)
    if not any((mask & t.rows.fitting(request) & _free_of(t, shape.host_ports)).any() for t, mask in roomy):
        return Reason(ReasonCode.HOST_PORTS, "a DaemonSet has its ports on every node", pool.name)
    gaps = [types_left.missing(p, t, wanted, request) for t, _ in suiting]
    if all(gaps) and p.settings.min_values_policy is MinValuesPolicy.STRICT:
        gap = gaps[0][0]
        text = f"only {gap.found} of {gap.wanted} different values of {gap.key} are left"
        return Reason(ReasonCode.MIN_VALUES, text, pool.name)
    return None


def _of_others(p: Problem, outcome: Outcome, c: int, index: int, suiting: _Fitting) -> Reason:
    """What else there is keeps it from where it could be: the limits of the pool, or other pods."""
    request = problem.requests([p.classes[c].shape], p.resources)[0]
    pool, left = p.pools[index], outcome.limits[index]
    within = [mask & t.rows.fitting(request) & (t.rows.capacity <= left).all(axis=1) for t, mask in suiting]
    if not any(mask.any() for mask in within):
        return Reason(ReasonCode.LIMITS, f"its limits of {pool.limits} are reached", pool.name)
    rows = [(t, mask) for (t, _), mask in zip(suiting, within, strict=True)]
    return _no_slot(p, outcome, rows) or _apart(p.last_rung(c), pool)


def _no_slot(p: Problem, outcome: Outcome, suiting: _Fitting) -> Reason | None:
    """When only slots would do and all of them went to other nodes of this plan."""
    if any(t.kind == BOUGHT and mask.any() for t, mask in suiting):
        return None
    found = {int(r) for t, mask in suiting for r in t.rows.reservation[mask]}
    if any(outcome.r_free[r] for r in found):
        return None
    ids = sorted(p.reservation_ids[r] for r in found)
    text = f"the free slots of {', '.join(ids)} go to other nodes of this plan"
    return Reason(ReasonCode.WAITS_FOR_SLOT, text, ids[0])


def _apart(rung: Rung, pool: NodePoolView) -> Reason:
    """It would fit if it were alone."""
    ties = {
        "spread over": [s.key for s in rung.spreads],
        "near others on": [t.key for t in rung.affinity],
        "apart from others on": [t.key for t in rung.anti_affinity],
    }
    said = [f"{how} {key}" for how, keys in ties.items() for key in dict.fromkeys(keys)]
    text = "other pods keep it from every place that suits it"
    return Reason(ReasonCode.TOPOLOGY, f"{text}: {', '.join(said)}" if said else text, pool.name)


def _any_row(rows: Rows, mask: Mask, wanted: Requirements, place: Requirements) -> bool:
    return wanted.intersects(place) and bool((mask & types_left.satisfying(rows, wanted.union(place))).any())


def _free_of(template: Template, ports: Sequence[HostPort]) -> Mask:
    """The rows of types on which no DaemonSet has one of these ports."""
    clashing = set(template.clashing_types(ports))
    free = [type_.name not in clashing for type_ in template.rows.types]
    return np.array(free, dtype=bool)[template.rows.row_type]


def _without_volumes(p: Problem, request: Ints) -> Ints:
    """The request as if nothing were to be attached."""
    alone = request.copy()
    alone[len(p.resources.names) :] = 0
    return alone


def _too_large(p: Problem, asked: Resources) -> str:
    text = f"no instance type that suits it has room for {asked}"
    if p.snapshot.daemon_sets:
        text += " beside its DaemonSets"
    if asked[resources.CPU] >= _MILLION_CORES:
        text += "; a million cores are asked for: was m, a thousandth, meant instead of M?"
    return text


def _has_reservations(pool: NodePoolView) -> bool:
    return any(o.reservation_id is not None for t in pool.instance_types for o in t.offerings)


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
    if full and p.settings.reserved_capacity:
        entry = p.ledger.get(full[0])
        state = f"{entry.held} held, {entry.releasing} being released" if entry else "not known"
        return Reason(
            ReasonCode.WAITS_FOR_SLOT, f"reservation {', '.join(full)} has no free slot ({state})", full[0]
        )
    stated = {key for t in pool.instance_types for o in t.offerings for key in o.requirements.by_key}
    asked = wanted.without([key for key in wanted.by_key if key not in stated])
    text = f"nothing is available where {asked}" if len(asked) else "nothing is available"
    return Reason(ReasonCode.OFFERINGS, text, pool.name)
