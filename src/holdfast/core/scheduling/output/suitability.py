"""Explains why a pod is not in a reservation: each reservation is in one reason.

Equal pods have equal reasons, so they are computed once for each class. Reservations with the same reason are in one
group.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from holdfast import names
from holdfast.core.scheduling.input.columns import Mask
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.kernel.packing_state import Ints
from holdfast.core.scheduling.output import reservation_reasons
from holdfast.core.scheduling.output.checks import Check, Checks, without_volumes
from holdfast.core.scheduling.output.plan import NotReserved, Plan, PlannedClaim
from holdfast.core.scheduling.output.reasons import UNSATISFIABLE, PlanExplainer, contradiction
from holdfast.core.scheduling.output.reservation_reasons import CodeAndText
from holdfast.core.scheduling.output.topology_reasons import Domains
from holdfast.core.scheduling.search.run import Outcome
from holdfast.model import resources, wording
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.taints import first_untolerated

_ReservationReason = tuple[str, ReasonCode, str]  # the id, and why no pod of a class uses it

# The code by the label on which a pod and a reservation are incompatible; other labels: WrongReservation.
_CODES: Final = {
    names.CAPACITY_TYPE: ReasonCode.EXCLUDES_RESERVED,
    names.ZONE: ReasonCode.WRONG_ZONE,
    names.INSTANCE_TYPE: ReasonCode.WRONG_INSTANCE_TYPE,
    names.OS: ReasonCode.WRONG_PLATFORM,
    names.ARCH: ReasonCode.WRONG_PLATFORM,
}


@dataclass(frozen=True)
class _Node:
    """The node of a pod in the plan."""

    name: str | None = None  # of an existing node
    pool: str | None = None  # of a new node
    shared: bool = False  # with other pods of the plan
    labels: tuple[tuple[str, str], ...] = ()  # that are certain


@dataclass(frozen=True)
class _Best:
    """The offering of a reservation that passes the most checks, the check it fails, and the alternative."""

    pool: int
    row: int
    check: Check
    term: int


# Reasons that leave a reservation usable by a node, in their order; every other reason comes first.
FITS: Final = (
    ReasonCode.NOT_STARTED,
    ReasonCode.DRAINING,
    ReasonCode.UNHEALTHY,
    ReasonCode.HELD,
    ReasonCode.FULL,
    ReasonCode.EXISTING_NODE,
    ReasonCode.SHARED_NODE,
    ReasonCode.PACKING,
)
_CLASSES_MAX: Final = 2  # how many classes of pods of one node are explained
_EXPLAINED_MAX: Final = 40_000  # how many times a class is compared with a reservation in one plan


_NOT_COMPARED: Final = (
    Reason(
        ReasonCode.NOT_COMPARED,
        "the plan has too many different pods to compare each of them with each reservation",
    ),
)


class Suitability:
    """Explains the reservations of one plan."""

    def __init__(self, p: Problem, plan: Plan, outcome: Outcome, free: Ints) -> None:
        self._problem = p
        self._plan = plan
        self._checks = Checks(p)
        used = Counter(claim.reservation_id for claim in plan.claims)
        self._explain = _NotInSlot(self._checks, PlanExplainer(self._checks, outcome, free), used)
        self._known: dict[tuple[int, _Node], tuple[_ReservationReason, ...]] = {}
        self._best_of: dict[int, dict[int, _Best]] = {}

    def not_reserved(self) -> tuple[NotReserved, ...]:
        """For each pod that is not in a reservation, the reason of each reservation; empty if reservations are not used."""
        p = self._problem
        if not p.settings.reserved_capacity or not p.ledger:
            return ()
        nodes, in_slots = _nodes(p, self._plan), _in_slots(p, self._plan)
        found = []
        for c, pod_class in enumerate(p.classes):
            by_node: dict[_Node, list[str]] = {}
            for pod in pod_class.pods:
                if pod.uid not in in_slots:
                    by_node.setdefault(nodes.get(pod.uid, _Node()), []).append(pod.uid)
            for node, uids in by_node.items():
                reasons = reservation_reasons.group_by_cause(p, self._reasons(c, node))
                found += [NotReserved(uid, reasons) for uid in uids]
        return tuple(sorted(found, key=lambda one: one.pod))

    def explained_claims(self) -> tuple[PlannedClaim, ...]:
        """The claims of the plan. Those without a slot have the reason of each reservation: that of the pods that
        exclude it, if their pods have different ones. The work is bounded: claims beyond the bound have
        the reason NotCompared."""
        p = self._problem
        if not p.settings.reserved_capacity or not p.ledger:
            return self._plan.claims
        class_of = {pod.uid: c for c, pod_class in enumerate(p.classes) for pod in pod_class.pods}
        known: dict[tuple[tuple[int, ...], _Node], tuple[Reason, ...]] = {}
        found = []
        for claim in self._plan.claims:
            if claim.reservation_id is None:
                counted = Counter(class_of[uid] for uid in claim.pods)
                classes = tuple(sorted(c for c, _ in counted.most_common(_CLASSES_MAX)))
                key = classes, _node_of(p, claim)
                if key not in known and len(self._known) * len(p.ledger) < _EXPLAINED_MAX:
                    known[key] = self._of_all(*key)
                claim = claim._replace(not_reserved=known.get(key, _NOT_COMPARED))  # noqa: PLW2901
            found.append(claim)
        return tuple(found)

    def _of_all(self, classes: Iterable[int], node: _Node) -> tuple[Reason, ...]:
        by_class = list({self._reasons(c, node): None for c in classes})
        hardest = (
            by_class[0]
            if len(by_class) == 1
            else (min(of_one, key=_hardness) for of_one in zip(*by_class, strict=True))
        )
        return reservation_reasons.group_by_cause(self._problem, hardest)

    def _reasons(self, c: int, node: _Node) -> tuple[_ReservationReason, ...]:
        if (c, node) not in self._known:
            if c not in self._best_of:
                self._best_of[c] = self._best(c)
            self._known[c, node] = tuple(self._explain.reasons(c, node, self._best_of[c]))
        return self._known[c, node]

    def _best(self, c: int) -> dict[int, _Best]:
        """By reservation, the offering that passes the most checks; of equal ones, that of the first NodePool."""
        best: dict[int, _Best] = {}
        for pool in range(len(self._problem.pools)):
            here = self._checks.offers(pool)
            rows = np.flatnonzero(here.reserved & (here.reservation >= 0))
            if not len(rows):
                continue
            reached = np.array([self._checks.reached(c, pool, term)[rows] for term in self._checks.terms(c)])
            by_term = reached.argmax(axis=0)
            for i, (row, slot) in enumerate(zip(rows.tolist(), here.reservation[rows].tolist(), strict=True)):
                check = Check(int(reached[by_term[i], i]))
                if slot not in best or check > best[slot].check:
                    best[slot] = _Best(pool, row, check, int(by_term[i]))
        return best


class _NotInSlot:
    """Explains why pods of one plan are not in a reservation."""

    def __init__(self, checks: Checks, explain: PlanExplainer, used: Counter[str | None]) -> None:
        self._checks = checks
        self._explain = explain
        self._used = used
        self._no_slot: dict[tuple[str, bool], CodeAndText | None] = {}

    def reasons(self, c: int, node: _Node, best: dict[int, _Best]) -> Iterator[_ReservationReason]:
        known: dict[object, CodeAndText] = {}
        largest = self._largest(c, best)
        for i, id_ in enumerate(self._checks.reservation_ids):
            if i not in best:
                yield id_, ReasonCode.NO_RESERVATION_SELECTED, "is selected by no NodePool's node class"
                continue
            one = best[i]
            if one.check is Check.RESOURCES:
                answer = largest[self._lacking(c, one)]
            elif one.check is Check.AVAILABLE:
                answer = self._passed(c, id_, one, node)
            elif one.check is Check.LASTS:
                answer = reservation_reasons.ends_too_soon(self._checks.problem, id_, c)
            else:
                # Offerings of one pool that fail the same check differ in their own labels at most.
                key = one.pool, one.check, one.term, self._wrong_key(c, one)
                answer = known.get(key) or self._unsuited(c, one)
                known[key] = answer
            yield id_, *answer

    def _unsuited(self, c: int, one: _Best) -> CodeAndText:
        """Why the pod or the NodePool cannot use a reservation, even with a free slot."""
        p, checks = self._checks.problem, self._checks
        here = checks.offers(one.pool)
        pool, shape = here.pool, p.classes[c].shape
        match one.check:
            case Check.POOL:
                return ReasonCode.POOL_EXCLUDES_RESERVED, f"is excluded by NodePool {pool.name}"
            case Check.TAINT:
                taint = first_untolerated(pool.taints, p.last_rung(c).tolerations)
                return (
                    ReasonCode.TAINT,
                    f"has nodes with taint {taint} of NodePool {pool.name}, not tolerated",
                )
            case Check.VOLUME_ZONE:
                topologies = wording.either([f"({topology})" for topology in shape.volumes.alternatives])
                return ReasonCode.VOLUMES, f"is not where the pod's volumes can be attached: {topologies}"
            case Check.VOLUME_LIMITS:
                return (
                    ReasonCode.VOLUMES,
                    f"has instances of {here.rows.type(one.row).name}, whose volume limits the pod exceeds",
                )
            case Check.HOST_PORTS:
                ports = wording.listed([f"{port.port}/{port.protocol}" for port in shape.host_ports])
                return ReasonCode.HOST_PORTS, f"has nodes on which DaemonSets use host port {ports}"
        key = self._wrong_key(c, one)
        if one.check is Check.CONTRADICTION:
            what = contradiction(shape, one.term)
        else:
            required = checks.required(c, one.term)
            what = str(required.by_key.get(key, required))
        return _CODES.get(key, ReasonCode.WRONG_RESERVATION), f"does not match what the pod requires: {what}"

    def _wrong_key(self, c: int, one: _Best) -> str:
        """The label on which a reservation is incompatible with what the pod requires."""
        if one.check not in (Check.CONTRADICTION, Check.CONFLICT, Check.TYPE, Check.OFFERING):
            return (
                self._checks.offers(one.pool).rows.type(one.row).name
                if one.check is Check.VOLUME_LIMITS
                else ""
            )
        keys = self._absent(one, self._checks.required(c, one.term))
        return next((key for key in _CODES if key in keys), min(keys, default=""))

    def _absent(self, one: _Best, required: Requirements) -> set[str]:
        """The labels of which an offering or its NodePool lacks the required values."""
        here = self._checks.offers(one.pool)
        conflicts = here.pool.requirements.incompatibilities(required, self._checks.problem.well_known)
        absent = {r.key for r in required if not here.rows.satisfying(r)[one.row]}
        return absent | {conflict.key for conflict in conflicts}

    def _lacking(self, c: int, one: _Best) -> tuple[str, ...]:
        """The resources of which a node in the reservation has too little for the pod."""
        p, rows = self._checks.problem, self._checks.offers(one.pool).rows
        short = rows.allocatable[rows.allocatable_index[one.row]] < without_volumes(
            p, self._checks.request(c)
        )
        return tuple(name for i, name in enumerate(p.resources.names) if short[i])

    def _largest(self, c: int, best: dict[int, _Best]) -> dict[tuple[str, ...], CodeAndText]:
        """By the lacking resources, the code and text; they name the largest instance type of those reservations."""
        p, found = self._checks.problem, dict[tuple[str, ...], tuple[tuple[int, ...], str, str]]()
        requests = p.classes[c].shape.requests
        for one in best.values():
            if one.check is Check.RESOURCES:
                rows, lacking = self._checks.offers(one.pool).rows, self._lacking(c, one)
                allocatable = rows.allocatable[rows.allocatable_index[one.row]]
                has = tuple(int(allocatable[p.resources.names.index(name)]) for name in lacking)
                available = wording.amounts(resources.of(dict(zip(lacking, has, strict=True))), lacking)
                found[lacking] = max(
                    found.get(lacking, ((), "", "")), (has, rows.type(one.row).name, available)
                )
        return {
            lacking: (
                ReasonCode.TOO_SMALL,
                f"is too small for the pod, which requests {wording.amounts(requests, lacking)}: {type_} has {available}",
            )
            for lacking, (_, type_, available) in found.items()
        }

    def _passed(self, c: int, id_: str, one: _Best, node: _Node) -> CodeAndText:
        """Why a pod that fits a reservation is not in it."""
        p, checks = self._checks.problem, self._checks
        here = checks.offers(one.pool)
        no_slot = self._why_no_slot(id_, healthy=here.rows.offering(one.row).healthy)
        if no_slot is not None:
            return no_slot
        if node.name is not None:
            return ReasonCode.EXISTING_NODE, f"has a free slot, and node {node.name} has capacity for the pod"
        row = np.zeros(len(here.rows), dtype=bool)
        row[one.row] = True
        if not self._explain.within_limits(one.pool)[one.row]:
            limits = here.pool.limits
            return (
                ReasonCode.LIMITS,
                f"has a free slot, and limits of NodePool {here.pool.name} are reached: {limits}",
            )
        heavier = [pool.name for pool in p.pools[: one.pool]]
        if not p.settings.reserved_before_weight and node.pool in heavier:
            text = f"has a free slot, and NodePool {node.pool} comes before {here.pool.name}"
            return ReasonCode.HEAVIER_POOL, text
        if not self._explain.with_min_values(c, one.pool, one.term)[one.row]:
            text = f"has a free slot, and minValues of NodePool {here.pool.name} are not met"
            return ReasonCode.MIN_VALUES, text
        inside: Domains = dict(node.labels)
        topology = self._explain.topology
        wanted = checks.wanted(c, one.pool, one.term)
        excluding = topology.excluding(topology.constraints(c, inside), here.rows, wanted, row)
        if excluding:
            return ReasonCode.TOPOLOGY, f"has a free slot, and {UNSATISFIABLE} {' and '.join(excluding)}"
        preferred = self._preferred(c, one, row, inside)
        if preferred:
            return ReasonCode.PREFERENCE, f"has a free slot, and the pod prefers {preferred}"
        if node.shared:
            return (
                ReasonCode.SHARED_NODE,
                "has a free slot, and a node that is launched for other pods has capacity",
            )
        return ReasonCode.PACKING, "has a free slot, and the packing uses other capacity"

    def _why_no_slot(self, id_: str, *, healthy: bool) -> CodeAndText | None:
        """Equal for all pods of the plan, so it is computed once."""
        if (id_, healthy) not in self._no_slot:
            found = reservation_reasons.why_no_slot(
                self._checks.problem, id_, healthy=healthy, used=self._used[id_]
            )
            self._no_slot[id_, healthy] = found
        return self._no_slot[id_, healthy]

    def _preferred(self, c: int, one: _Best, row: Mask, inside: Domains) -> str:
        """What the pod prefers that a node in the reservation does not have; empty: nothing."""
        checks = self._checks
        here, first = checks.offers(one.pool), checks.rungs(c)[0]
        taint = first_untolerated(here.pool.taints, first.tolerations)
        if taint is not None:
            return f"nodes without taint {taint}"
        absent = [(self._absent(one, wanted), wanted) for wanted in first.wanted]
        keys, wanted = min(absent, key=lambda found: len(found[0]), default=(set(), NO_REQUIREMENTS))
        if keys:
            return ", ".join(str(r) for r in wanted if r.key in keys)
        wanted = here.pool.requirements.union(wanted)
        topology = self._explain.topology
        return " and ".join(
            topology.excluding(topology.constraints(c, inside, preferred=True), here.rows, wanted, row)
        )


def _nodes(p: Problem, plan: Plan) -> dict[str, _Node]:
    """The node of each pod of a plan."""
    labels = {node.name: node.labels for node in p.nodes}
    found = {}
    for placed in plan.placed:
        node = _Node(name=placed.node, labels=_certain(p, dict(labels.get(placed.node, ()))))
        found.update(dict.fromkeys(placed.pods, node))
    for claim in plan.claims:
        found.update(dict.fromkeys(claim.pods, _node_of(p, claim)))
    return found


def _node_of(p: Problem, claim: PlannedClaim) -> _Node:
    shared = len(claim.pods) > 1
    return _Node(pool=claim.node_pool, shared=shared, labels=_certain(p, _single(claim.requirements)))


def _hardness(reason: _ReservationReason) -> int:
    """0 if a node with the pod cannot use the reservation at all."""
    return FITS.index(reason[1]) + 1 if reason[1] in FITS else 0


def _certain(p: Problem, labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """The labels that are topology keys of some pod; for a node without any, its hostname."""
    return tuple((key, labels[key]) for key in p.domains.keys if key in labels) or ((names.HOSTNAME, ""),)


def _single(requirements: Requirements) -> dict[str, str]:
    return {r.key: next(iter(r.values)) for r in requirements if not r.complement and len(r.values) == 1}


def _in_slots(p: Problem, plan: Plan) -> set[str]:
    """Pods whose node is reserved, new or existing."""
    reserved = {node.name for node in p.nodes if dict(node.labels).get(names.CAPACITY_TYPE) == names.RESERVED}
    found = {uid for claim in plan.claims if claim.reservation_id for uid in claim.pods}
    return found | {uid for placed in plan.placed if placed.node in reserved for uid in placed.pods}
