"""Turns the best packing into planned NodeClaims and placements on existing nodes.

Called by `solve`. A claim with a slot requires `reserved` and the reservations that it can use. A claim without one does
not list `reserved` at all, so that it can never take a slot that another claim holds.
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.input import axes
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.kernel.packing_state import RESERVED
from holdfast.core.scheduling.output.plan import Placed, PlannedClaim
from holdfast.core.scheduling.search.finalize import Nodes
from holdfast.core.scheduling.search.run import Outcome
from holdfast.model import requirement, resources
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import Requirements
from holdfast.model.resources import NOTHING, Resources
from holdfast.model.snapshot import CountBefore

PodsByNode = dict[int, list[str]]


def planned_claims(p: Problem, outcome: Outcome, nodes: Nodes, pods: PodsByNode) -> tuple[PlannedClaim, ...]:
    """A claim for every new node, in the order they were opened."""
    writer = _Writer(p, outcome, nodes)
    return tuple(writer.claim(i, pods[outcome.existing + i]) for i in range(len(nodes.row)))


def placed_pods(p: Problem, outcome: Outcome, pods: PodsByNode) -> tuple[Placed, ...]:
    """Pods on existing nodes, sorted by the name of the node."""
    found = [Placed(p.nodes[n].name, tuple(sorted(pods[n]))) for n in pods if n < outcome.existing]
    return tuple(sorted(found, key=lambda one: one.node))


def pods_by_node(p: Problem, outcome: Outcome) -> PodsByNode:
    """Uids of the pods on each node; of equal pods the oldest are placed first."""
    uids = [pod.uid for c in p.classes for pod in c.pods]
    pods = np.array([len(c.pods) for c in p.classes], dtype=np.int64)
    placed = np.bincount(outcome.log_class, minlength=len(pods))
    # By class, in the order of the log: the first of its pods, the next, and so on.
    in_order = np.arange(len(outcome.log_class)) + np.repeat(
        (np.cumsum(pods) - pods) - (np.cumsum(placed) - placed), placed
    )
    of_log = np.empty_like(in_order)
    of_log[np.argsort(outcome.log_class, kind="stable")] = in_order
    found: PodsByNode = defaultdict(list)
    for pod, n in zip(of_log.tolist(), outcome.log_node.tolist(), strict=True):
        found[n].append(uids[pod])
    return found


@dataclass(frozen=True)
class _Written:
    """What claims with the same template, shape and rows have in common."""

    requirements: Requirements
    types: tuple[str, ...]
    reservation_ids: tuple[str, ...]
    overhead: Resources  # the least that DaemonSets request on any listed type (S-62)
    min_values_relaxed: bool


class _Writer:
    """Builds claims. Most nodes of a plan are alike, so what they have in common is computed once."""

    def __init__(self, p: Problem, outcome: Outcome, nodes: Nodes) -> None:
        self._problem = p
        self._outcome = outcome
        self._nodes = nodes
        self._shapes: list[int] = outcome.n_shape[outcome.existing :].tolist()
        self._loads: list[list[int]] = outcome.n_load[outcome.existing :].tolist()
        self._written: dict[tuple[int, int, int], _Written] = {}
        self._pinned: dict[int, Requirements] = {}
        self._sums: dict[tuple[int, ...], Resources] = {}

    def claim(self, i: int, pods: list[str]) -> PlannedClaim:
        p, nodes = self._problem, self._nodes
        template = p.templates[nodes.template[i]]
        rows, row = template.rows, nodes.row[i]
        offering = rows.offering(row)
        written = self._of(i)
        return PlannedClaim(
            node_pool=p.pools[template.pool].name,
            requirements=written.requirements,
            instance_types=written.types,
            instance_type=rows.type(row).name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            price_nano_usd_per_hour=0 if template.kind == RESERVED else offering.price_nano_usd_per_hour,
            requests=self._requests(i, written.overhead),
            pods=tuple(sorted(pods)),
            reservation_id=offering.reservation_id,
            reservation_ids=written.reservation_ids,
            min_values_relaxed=written.min_values_relaxed,
            counted=self._counted.get(offering.reservation_id) if offering.reservation_id else None,
        )

    @functools.cached_property
    def _counted(self) -> Mapping[str, CountBefore]:
        return ledger.count_before(self._problem.snapshot, self._problem.settings.ledger_lag_s)

    def _of(self, i: int) -> _Written:
        t, rows, shape = self._nodes.template[i], self._nodes.rows[i], self._shapes[i]
        key = (t, shape, id(rows))
        written = self._written.get(key)
        if written is None:
            written = self._written[key] = self._write(t, shape, rows)
        return written

    def _write(self, t: int, shape: int, found: NDArray[np.intp]) -> _Written:
        p = self._problem
        template = p.templates[t]
        of_rows = template.rows.row_type[found]
        types = axes.in_order(of_rows)[: p.settings.max_instance_types].tolist()
        is_listed = np.zeros(len(template.rows.types), dtype=bool)
        is_listed[types] = True
        listed = found[is_listed[of_rows]]
        ids: tuple[str, ...] = ()
        if template.kind == RESERVED:  # sorted, as their indexes are
            ids = tuple(p.reservation_ids[i] for i in axes.distinct(template.rows.reservation[listed]))
        type_names = tuple(map(template.rows.columns.type_names.__getitem__, types))
        extra = self._pins(type_names, template.rows.capacity_types(listed), ids)
        wanted = self._pinned_shape(shape).add(*extra)
        return _Written(
            _without_broken_min_values(wanted) if ids else wanted,
            type_names,
            ids,
            resources.minimum(*{id(one): one for one in map(template.overhead.__getitem__, types)}.values())
            if template.overhead
            else NOTHING,
            _lowers_min_values(self._outcome.shapes.all[shape].requirements, template.requirements),
        )

    def _pinned_shape(self, shape: int) -> Requirements:
        if shape not in self._pinned:
            self._pinned[shape] = self._outcome.shapes.pinned_requirements(shape)
        return self._pinned[shape]

    def _pins(
        self, types: tuple[str, ...], capacity_types: Sequence[str], ids: tuple[str, ...]
    ) -> Iterator[Requirement]:
        yield requirement.of(names.INSTANCE_TYPE, Operator.IN, types)
        yield requirement.of(names.CAPACITY_TYPE, Operator.IN, capacity_types)
        key = self._problem.snapshot.cloud_labels.reservation_id
        if ids and key is not None:
            yield requirement.of(key, Operator.IN, ids)

    def _requests(self, i: int, overhead: Resources) -> Resources:
        """The requests of the pods and the DaemonSets."""
        key = (id(overhead), *self._loads[i])
        found = self._sums.get(key)
        if found is None:
            amounts = zip(self._problem.resources.names, self._loads[i], strict=False)
            of_pods = Resources(tuple((name, amount) for name, amount in amounts if amount))
            found = resources.add(of_pods, overhead) if overhead.amounts else of_pods
            self._sums[key] = found
        return found


def _without_broken_min_values(wanted: Requirements) -> Requirements:
    """Removes minValues that the claim cannot meet. A slot has one type and one zone; minValues were checked before the
    node was pinned to it. The API server would reject a claim with fewer values than minValues."""
    by_key = {
        key: dataclasses.replace(r, min_values=None)
        if r.min_values is not None and not r.complement and len(r.values) < r.min_values
        else r
        for key, r in wanted.by_key.items()
    }
    return Requirements(by_key)


def _lowers_min_values(written: Requirements, required: Requirements) -> bool:
    """Whether BestEffort lowered minValues of the NodePool (S-68)."""
    return any((written.get(r.key).min_values or 0) < (r.min_values or 0) for r in required)
