"""Explains why a pod is not placed: for each NodePool the constraint that failed.

Called by `solve` for classes with unplaced pods; equal pods have equal reasons. Of the alternatives that a pod allows,
the one that passed the most checks is explained (R-39).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from holdfast import names
from holdfast.core.scheduling.input import offers
from holdfast.core.scheduling.input.columns import Mask
from holdfast.core.scheduling.input.offers import Rows
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.request import MinValuesPolicy
from holdfast.core.scheduling.kernel.packing_state import UNRESERVED, Ints
from holdfast.core.scheduling.output import reservation_reasons
from holdfast.core.scheduling.output.checks import Check, Checks, Offers, without_clashes, without_volumes
from holdfast.core.scheduling.output.plan import Unplaced
from holdfast.core.scheduling.output.topology_reasons import Topology
from holdfast.core.scheduling.output.waiting import Wait
from holdfast.core.scheduling.search import min_values
from holdfast.core.scheduling.search.run import Outcome
from holdfast.model import resources, wording
from holdfast.model.pods import PodShape
from holdfast.model.reasons import NODE_POOL, Reason, ReasonCode
from holdfast.model.requirement import Requirement
from holdfast.model.requirements import Requirements, are_compatible
from holdfast.model.taints import first_untolerated

_MILLION_CORES: Final = 10**9  # in thousandths
_WAITS: Final = (ReasonCode.WAITS_FOR_SLOT, reservation_reasons.FULL)
UNSATISFIABLE: Final = "unsatisfiable topology constraint for"


def unplaced(p: Problem, outcome: Outcome, free: Ints, waiting: Mapping[int, Wait]) -> tuple[Unplaced, ...]:
    """The pods without a node, sorted by uid. `free` holds the slots that stay free, by reservation."""
    found: list[Unplaced] = []
    classes = np.flatnonzero(outcome.unplaced).tolist()
    if not classes:
        return ()
    explain = PlanExplainer(Checks(p), outcome, free)
    for c in classes:
        wait = waiting.get(c)
        if wait is None:
            reasons, reservation_id, until_s = tuple(explain.reasons(c)), None, None
        else:
            reasons = (_waits(explain.checks, c, wait),)
            reservation_id, until_s = wait.reservation, wait.until_s
        without = p.classes[c].pods[-int(outcome.unplaced[c]) :]
        found += [Unplaced(pod.uid, reasons, reservation_id, until_s) for pod in without]
    return tuple(sorted(found, key=lambda one: one.pod))


def _waits(checks: Checks, c: int, wait: Wait) -> Reason:
    p = checks.problem
    text = "has no free slot left; the pod waits for one"
    if wait.until_s is not None:
        text += f" until {wording.moment(wait.until_s, p.snapshot.taken_s)} (UTC)"
        then = wording.either(checks.capacity_types(c))
        text += f", then {then} is launched" if then else ", and no other capacity suits it"
    id_ = wait.reservation
    return Reason(ReasonCode.WAITS_FOR_SLOT, text, (id_,), reservation_reasons.reservation_kind(p, id_))


@dataclass(frozen=True)
class _Failed:
    """The check that a class failed in a NodePool."""

    check: Check
    remaining: Mask  # the offerings that passed all earlier checks
    term: int


class PlanExplainer:
    """Explains the unplaced pods of one plan."""

    def __init__(self, checks: Checks, outcome: Outcome, free: Ints) -> None:
        p = checks.problem
        self.checks = checks
        self.topology = Topology(checks, outcome)
        self._limits = outcome.limits
        free_of = dict(zip(p.reservation_ids, free.tolist(), strict=True))
        self._free = np.array(
            [*(free_of.get(id_, 0) > 0 for id_ in checks.reservation_ids), False], dtype=bool
        )

    def reasons(self, c: int) -> list[Reason]:
        """The start of a reservation comes first: it is known when that changes."""
        return sorted(self._of_pools(c), key=lambda one: one.code is not ReasonCode.NOT_STARTED)

    def _of_pools(self, c: int) -> Iterator[Reason]:
        p = self.checks.problem
        if not p.pools:
            yield Reason(ReasonCode.NO_NODE_POOL, "no NodePool is ready")
        for pool in range(len(p.pools)):
            tried = [self._failed(c, pool, term) for term in self.checks.terms(c)]
            furthest = max(tried, key=lambda one: one.check)  # the first of equals
            yield from self._of_pool(c, pool, furthest)

    def _of_plan(self, c: int, pool: int, term: int) -> Iterator[tuple[Check, Mask]]:
        """The checks that depend on the plan, except topology; lazy, since most pods fail an earlier one."""
        here = self.checks.offers(pool)
        yield Check.AVAILABLE, here.available
        yield Check.LIMITS, self.within_limits(pool)
        yield Check.SLOTS, ~here.reserved | self._free[here.reservation]
        yield Check.MIN_VALUES, self.with_min_values(c, pool, term)

    def within_limits(self, pool: int) -> Mask:
        within: Mask = (self.checks.offers(pool).rows.capacity <= self._limits[pool]).all(axis=1)
        return within

    def with_min_values(self, c: int, pool: int, term: int) -> Mask:
        """[offering] whether minValues hold for nodes of its kind, reserved or unreserved."""
        p, here = self.checks.problem, self.checks.offers(pool)
        enough = np.full(len(here.rows), True)
        if p.settings.min_values_policy is not MinValuesPolicy.STRICT:
            return enough
        for template in (t for t in p.templates if t.pool == pool):
            if self._gap(c, pool, term, template.kind) is not None:
                enough &= here.reserved if template.kind == UNRESERVED else ~here.reserved
        return enough

    def _gap(self, c: int, pool: int, term: int, kind: int) -> str | None:
        """Which minValues a node of a NodePool, reserved or unreserved, misses with a pod of the class."""
        p, checks = self.checks.problem, self.checks
        wanted, ports = checks.wanted(c, pool, term), p.classes[c].shape.host_ports
        if not any(required.min_values for required in wanted):
            return None
        template = next(t for t in p.templates if t.pool == pool and t.kind == kind)
        limited = kind == UNRESERVED and p.pools[pool].limits.amounts
        text = None
        for topology in checks.volume_topologies(c, pool, term) or [wanted]:
            required = topology.add(*without_clashes(template, ports))
            usable = None
            if limited:
                within = (template.rows.capacity <= self._limits[pool]).all(axis=1)
                usable = offers.satisfying(template.rows, required) & within
            gaps = min_values.missing(p, template, required, checks.request(c), usable)
            if not gaps:
                return None
            gap = gaps[0]
            text = f"minValues requirement is not met for label {gap.key}: fewer than {gap.wanted} values are left"
        return text

    def _failed(self, c: int, pool: int, term: int) -> _Failed:
        here = self.checks.offers(pool)
        remaining = np.full(len(here.rows), True)
        for check, mask in self.checks.of_pod(c, pool, term):
            if not (remaining & mask).any():
                return _Failed(check, remaining, term)
            remaining &= mask
        for check, mask in self._of_plan(c, pool, term):
            if not (remaining & mask).any():
                return _Failed(check, remaining, term)
            remaining &= mask
        return _Failed(Check.TOPOLOGY, remaining, term)

    def _of_pool(self, c: int, pool: int, failed: _Failed) -> Iterator[Reason]:
        if failed.check in (Check.AVAILABLE, Check.SLOTS):
            yield from self._too_soon(c, pool, self._ending(c, pool, failed.term))
        if failed.check is Check.AVAILABLE:
            yield from self._unavailable(c, pool, failed)
        elif failed.check is Check.LASTS:
            yield from self._too_soon(c, pool, failed)
        elif failed.check is Check.SLOTS:
            # The free slots are used by other pods of the plan. Which slots those are changes from plan to plan, so the
            # reason names every reservation that suits the pod, as it does while all of them are full.
            suiting = np.full(len(self.checks.offers(pool).rows), True)
            for _, mask in self.checks.of_pod(c, pool, failed.term):
                suiting &= mask
            yield from self._unavailable(c, pool, _Failed(Check.AVAILABLE, suiting, failed.term))
        else:
            code, text = self._code_and_text(c, pool, failed)
            yield Reason(code, text, (self.checks.offers(pool).pool.name,), NODE_POOL)

    def _code_and_text(self, c: int, pool: int, failed: _Failed) -> tuple[ReasonCode, str]:
        checks, p = self.checks, self.checks.problem
        here, required = checks.offers(pool), checks.required(c, failed.term)
        match failed.check:
            case Check.TAINT:
                taint = first_untolerated(here.pool.taints, p.last_rung(c).tolerations)
                return ReasonCode.TAINT, f"did not tolerate taint {taint}"
            case Check.CONTRADICTION:
                return ReasonCode.REQUIREMENTS, contradiction(p.classes[c].shape, failed.term)
            case Check.CONFLICT:
                conflicts = here.pool.requirements.incompatibilities(required, p.well_known)
                return ReasonCode.REQUIREMENTS, f"incompatible requirements: {conflicts[0]}"
            case Check.POOL | Check.TYPE | Check.OFFERING:
                return _not_offered(here, failed, checks.wanted(c, pool, failed.term))
            case Check.VOLUME_ZONE:
                topologies = wording.either(
                    [f"({topology})" for topology in p.classes[c].shape.volumes.alternatives]
                )
                text = f"no offering is where the pod's volumes can be attached: {topologies}"
                return ReasonCode.VOLUMES, text
            case Check.RESOURCES:
                return _not_enough(checks, c, here, failed.remaining)
            case Check.VOLUME_LIMITS:
                drivers = dict.fromkeys(driver for driver, _ in p.classes[c].shape.volumes.claims)
                limited = [driver for driver in drivers if driver in p.resources.drivers]
                text = f"would exceed the volume limits of every instance type: {wording.listed(limited)}"
                return ReasonCode.VOLUMES, text
            case Check.HOST_PORTS:
                ports = [f"{one.port}/{one.protocol}" for one in p.classes[c].shape.host_ports]
                text = f"DaemonSets use host port {wording.listed(ports)} on every instance type that suits the pod"
                return ReasonCode.HOST_PORTS, text
            case Check.LIMITS:
                limits = here.pool.limits
                over = [
                    name
                    for i, name in enumerate(p.limited)
                    if not (here.rows.capacity[failed.remaining, i] <= self._limits[pool, i]).any()
                ]
                shown = ", ".join(f"{name} {resources.text(name, limits[name])}" for name in over or limits)
                return ReasonCode.LIMITS, f"all available instance types exceed limits: {shown}"
            case Check.MIN_VALUES:
                gaps = (self._gap(c, pool, failed.term, t.kind) for t in p.templates if t.pool == pool)
                return ReasonCode.MIN_VALUES, next(gap for gap in gaps if gap is not None)
        return self._topology(c, pool, failed)

    def _topology(self, c: int, pool: int, failed: _Failed) -> tuple[ReasonCode, str]:
        here, wanted = self.checks.offers(pool), self.checks.wanted(c, pool, failed.term)
        found = self.topology.constraints(c, {})
        excluding = self.topology.excluding(found, here.rows, wanted, failed.remaining)
        if excluding:
            return ReasonCode.TOPOLOGY, f"{UNSATISFIABLE} {' and '.join(excluding)}"
        # Each constraint has a node, but no node satisfies all: a node pinned to a domain can miss minValues.
        several = [one.text for one in found]
        several += [f"minValues, key={required.key}" for required in wanted if required.min_values]
        if several:
            return ReasonCode.TOPOLOGY, f"no node satisfies all of {' and '.join(dict.fromkeys(several))}"
        return ReasonCode.PACKING, "no constraint is in the way, and the packing left the pod out"

    def _ending(self, c: int, pool: int, term: int) -> _Failed:
        """The offerings that would suit the pod if it ended earlier."""
        ending = np.full(len(self.checks.offers(pool).rows), True)
        for check, mask in self.checks.of_pod(c, pool, term):
            ending &= ~mask if check is Check.LASTS else mask
        return _Failed(Check.LASTS, ending, term)

    def _too_soon(self, c: int, pool: int, failed: _Failed) -> Iterator[Reason]:
        """The reservations that suit the pod and end before it."""
        checks, here = self.checks, self.checks.offers(pool)
        slots = np.unique(here.reservation[failed.remaining & here.reserved]).tolist()
        ids = sorted(checks.reservation_ids[i] for i in slots)
        found = [(id_, *reservation_reasons.ends_too_soon(checks.problem, id_, c)) for id_ in ids]
        yield from reservation_reasons.group_by_cause(checks.problem, found)

    def _unavailable(self, c: int, pool: int, failed: _Failed) -> Iterator[Reason]:
        """Why nothing that fits the pod can be launched: every reservation, and the other capacity types."""
        checks, here = self.checks, self.checks.offers(pool)
        yield from reservation_reasons.group_by_cause(
            checks.problem, self._reservations(c, here, failed.remaining)
        )
        text = _not_launched(
            here, failed.remaining, checks.wanted(c, pool, failed.term).get(names.CAPACITY_TYPE)
        )
        if text:
            yield Reason(ReasonCode.OFFERINGS, text, (here.pool.name,), NODE_POOL)

    def _reservations(self, c: int, here: Offers, remaining: Mask) -> Iterator[tuple[str, ReasonCode, str]]:
        p = self.checks.problem
        healthy: dict[str, bool] = {}
        for row in np.flatnonzero(remaining & here.reserved).tolist():
            offering = here.rows.offering(row)
            id_ = offering.reservation_id or ""
            healthy[id_] = healthy.get(id_, False) or offering.healthy
        for id_ in sorted(healthy, key=lambda one: (_starts_s(p, one), one)):
            answer = reservation_reasons.why_no_slot(p, id_, healthy=healthy[id_], used=0)
            if answer is None or answer[0] in (ReasonCode.FULL, ReasonCode.HELD):
                answer = _WAITS
            elif answer[0] is ReasonCode.NOT_STARTED:
                answer = reservation_reasons.starts_later(p, id_, c)
            yield id_, *answer


def _starts_s(p: Problem, id_: str) -> int:
    """When a reservation starts; the time of the plan for one that has started."""
    entry = p.ledger.get(id_)
    return max(p.snapshot.taken_s, (entry.reservation.start_s or 0) if entry is not None else 0)


def contradiction(shape: PodShape, term: int) -> str:
    """How the nodeSelector of a pod contradicts one of its required terms."""
    required = shape.required_terms[term]
    pairs = (
        (selector, required.by_key[selector.key])
        for selector in shape.node_selector
        if selector.key in required
    )
    one, other = next(pair for pair in pairs if not are_compatible(*pair))
    return f"the pod's nodeSelector contradicts its node affinity: {one} and {other}"


def _not_offered(here: Offers, failed: _Failed, wanted: Requirements) -> tuple[ReasonCode, str]:
    """Which requirement no instance type or no offering satisfies."""
    if wanted.get(names.CAPACITY_TYPE).values == {names.RESERVED} and not here.reserved.any():
        return ReasonCode.NO_RESERVATION_SELECTED, "its node class selects no reservation"
    rows, types = here.rows, failed.remaining.copy()
    for required in wanted:
        types &= rows.of_types(required)
    if not types.any():
        keys = _excluding(failed.remaining, [(required, rows.of_types(required)) for required in wanted])
        text = "no instance type has" if rows.types else "the node class has no instance types with"
        return ReasonCode.REQUIREMENTS, f"{text} {keys}"
    keys = _excluding(types, [(required, rows.satisfying(required)) for required in wanted])
    return ReasonCode.OFFERINGS, f"no instance type that suits the pod is offered with {keys}"


def _excluding(remaining: Mask, masks: list[tuple[Requirement, Mask]]) -> str:
    """The requirements that exclude all remaining offerings: each alone or, if none does, together."""
    alone = [required for required, mask in masks if not (remaining & mask).any()]
    some = [required for required, mask in masks if (remaining & ~mask).any()]
    return " and ".join(str(required) for required in alone or some or [required for required, _ in masks])


def _not_enough(checks: Checks, c: int, here: Offers, remaining: Mask) -> tuple[ReasonCode, str]:
    """Which resource no instance type has enough of. One that no NodePool offers at all has a code of its own, since no
    smaller pod and no other NodePool would do."""
    requests = checks.problem.classes[c].shape.requests
    extended = [name for name in requests if requests[name] > 0 and resources.is_extended(name)]
    absent = [name for name in extended if not checks.is_offered(name)]
    if not absent:
        return ReasonCode.RESOURCES, _too_large(checks, c, here, remaining)
    which = f"{wording.plural('resource', len(absent))} {wording.listed(absent)}"
    return ReasonCode.NO_SUCH_RESOURCE, f"no instance type of any ready NodePool has the extended {which}"


def _too_large(checks: Checks, c: int, here: Offers, remaining: Mask) -> str:
    p, requests = checks.problem, checks.problem.classes[c].shape.requests
    request = without_volumes(p, checks.request(c))
    allocatable = here.rows.row_allocatable[remaining]
    lacking = [
        name for i, name in enumerate(p.resources.names) if not (allocatable[:, i] >= request[i]).any()
    ]
    text = f"no instance type has enough resources: {wording.amounts(requests, lacking or requests)} is requested"
    if here.daemon_sets:
        text += " beside DaemonSets"
    if requests[resources.CPU] >= _MILLION_CORES:
        text += "; a million cores are requested: was m, a thousandth, meant instead of M?"
    return text


def _not_launched(here: Offers, remaining: Mask, required: Requirement) -> str:
    """Which of the allowed capacity types other than reserved are not offered, and which are not available."""
    unreserved = here.allowed & ~here.reserved
    everywhere, suiting = (
        _capacity_types(here.rows, unreserved),
        _capacity_types(here.rows, remaining & unreserved),
    )
    allowed = [name for name in names.CAPACITY_TYPES if name != names.RESERVED and required.has(name)]
    absent = [n for n in allowed if n not in suiting and (not required.complement or n in everywhere)]
    parts = []
    if suiting:
        parts.append(
            f"{wording.either(suiting)} is not available at the moment for any instance type that suits the pod"
        )
    if absent:
        parts.append(f"{wording.either(absent)} is not offered for any instance type that suits the pod")
    return ", and ".join(parts)


def _capacity_types(rows: Rows, mask: Mask) -> list[str]:
    return rows.capacity_types(np.flatnonzero(mask))
