"""The checks that a pod and an offering of a NodePool must pass before a node can be launched, in order.

Called by `reasons`, `suitability` and `waiting`: the first check that an offering fails names the constraint. All
offerings of a NodePool are checked, available or not, since "does not fit" and "is not available" are different reasons.
The order: NodePool, taints, requirements, volumes, size, host ports, run time; then what depends on the plan (S-63, S-65).
"""

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from holdfast import names
from holdfast.core.scheduling.input import daemons, offers, problem
from holdfast.core.scheduling.input.classes import Rung
from holdfast.core.scheduling.input.columns import Mask
from holdfast.core.scheduling.input.offers import Measures, Rows
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.shapes import Template
from holdfast.core.scheduling.kernel.packing_state import Ints
from holdfast.model.host_ports import HostPort
from holdfast.model.requirement import Requirement
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.snapshot import DaemonSetView, NodePoolView
from holdfast.model.taints import first_untolerated


class Check(enum.IntEnum):
    # of the pod and the NodePool, independent of availability
    POOL = 0  # the NodePool's own requirements
    TAINT = 1
    CONTRADICTION = 2  # the pod's nodeSelector contradicts its node affinity
    CONFLICT = 3  # the pod's requirements conflict with the NodePool's
    TYPE = 4
    OFFERING = 5
    VOLUME_ZONE = 6
    RESOURCES = 7
    VOLUME_LIMITS = 8
    HOST_PORTS = 9
    LASTS = 10  # reservations that end before the pod
    # of the plan
    AVAILABLE = 11
    LIMITS = 12
    SLOTS = 13
    MIN_VALUES = 14
    TOPOLOGY = 15
    PASSED = 16


Stage: TypeAlias = tuple[Check, Mask]
"""A check, with the offerings that pass it."""


@dataclass(frozen=True)
class Offers:
    """All offerings of a NodePool."""

    pool: NodePoolView
    rows: Rows
    daemon_sets: Mapping[str, Sequence[Sequence[DaemonSetView]]]  # by capacity type and instance type
    allowed: Mask  # by the NodePool's requirements
    reserved: Mask
    available: Mask  # before the plan: it can be launched or, if reserved, has a free slot
    reservation: Ints  # index of its reservation in the ledger, or -1

    def with_resource(self, name: str) -> Mask:
        """The offerings that the NodePool allows and whose nodes have a resource, whatever DaemonSets use of it."""
        columns = self.rows.columns
        return self.allowed & (
            columns.allocatable(name)[columns.allocatable_index[self.rows.offering_index]] > 0
        )

    def without_ports(self, ports: Sequence[HostPort]) -> Mask:
        """The offerings on whose nodes no DaemonSet uses one of these ports."""
        free = np.full(len(self.rows), True)
        for kind, by_type in self.daemon_sets.items() if ports else ():
            clashing = np.array([_clash(found, ports) for found in by_type], dtype=bool)
            free[self.rows.is_of(kind) & clashing[self.rows.row_type]] = False
        return free


class Checks:
    """The checks of one problem. Pods that differ only in size share most results."""

    def __init__(self, p: Problem) -> None:
        self.problem = p
        self.reservation_ids = tuple(p.ledger)
        self._offers: dict[int, Offers] = {}
        self._rows: dict[int, Rows] = {}  # by catalog: of NodePools on whose nodes no DaemonSet runs
        self._fitting: dict[tuple[int, bytes], Mask] = {}  # by rows and request
        self._stages: dict[tuple[int, int, int], list[Stage]] = {}
        self._offered: dict[str, bool] = {}  # by resource

    def offers(self, pool: int) -> Offers:
        if pool not in self._offers:
            self._offers[pool] = _offers(self.problem, pool, self._rows)
        return self._offers[pool]

    def rungs(self, c: int) -> tuple[Rung, ...]:
        p = self.problem
        return p.ladders[p.ladder_of[c]].rungs

    def terms(self, c: int) -> range:
        """The indexes of the alternatives that a class requires."""
        return range(len(self.problem.last_rung(c).alternatives))

    def required(self, c: int, term: int) -> Requirements:
        """What a class requires in one alternative, without preferences."""
        return self.problem.last_rung(c).alternatives[term]

    def of_pod(self, c: int, pool: int, term: int) -> Iterator[Stage]:
        """The checks that depend only on the pod and the NodePool; lazy, since many pods fail an early one."""
        p, found = self.problem, self.offers(pool)
        key = p.ladder_of[c], pool, term
        if key not in self._stages:
            self._stages[key] = self._of_ladder(c, pool, term)
        *first, ports, lasts = self._stages[key]
        yield from first
        request = self.request(c)
        sized = without_volumes(p, request)
        yield Check.RESOURCES, self._fits(found.rows, sized)
        yield Check.VOLUME_LIMITS, self._fits(found.rows, request)
        yield ports
        yield lasts

    def _fits(self, rows: Rows, request: Ints) -> Mask:
        key = id(rows), request.tobytes()
        if key not in self._fitting:
            self._fitting[key] = rows.fitting(request)
        return self._fitting[key]

    def reached(self, c: int, pool: int, term: int) -> Ints:
        """[offering] the first of these checks that it fails; AVAILABLE if it passes all."""
        found = np.full(len(self.offers(pool).rows), int(Check.AVAILABLE), dtype=np.int64)
        for check, mask in reversed(list(self.of_pod(c, pool, term))):
            found[~mask] = int(check)
        return found

    def suiting(self, c: int, pool: int) -> Mask:
        """The offerings that pass these checks under any alternative."""
        found = [self.reached(c, pool, term) == Check.AVAILABLE for term in self.terms(c)]
        suiting: Mask = np.logical_or.reduce(found)
        return suiting

    def request(self, c: int) -> Ints:
        found: Ints = problem.requests([self.problem.classes[c].shape], self.problem.resources)[0]
        return found

    def is_offered(self, resource: str) -> bool:
        """Whether an instance type that some NodePool allows has a resource: available or not, and before DaemonSets."""
        if resource not in self._offered:
            pools = map(self.offers, range(len(self.problem.pools)))
            self._offered[resource] = any(here.with_resource(resource).any() for here in pools)
        return self._offered[resource]

    def wanted(self, c: int, pool: int, term: int) -> Requirements:
        """The requirements of a node of the NodePool with the pod on it."""
        return self.problem.pools[pool].requirements.union(self.required(c, term))

    def volume_topologies(self, c: int, pool: int, term: int) -> list[Requirements] | None:
        """The requirements of a node for each topology in which the pod's volumes can be attached; None: no such volumes."""
        alternatives = self.problem.classes[c].shape.volumes.alternatives
        if not alternatives:
            return None
        required, of_pool = self.required(c, term), self.problem.pools[pool].requirements
        fitting = [required.union(topology) for topology in alternatives if required.intersects(topology)]
        return [of_pool.union(one) for one in fitting if of_pool.compatible(one, self.problem.well_known)]

    def _of_ladder(self, c: int, pool: int, term: int) -> list[Stage]:
        """The checks that do not depend on the size of the pod; host ports and run time last."""
        p, here, shape = self.problem, self.offers(pool), self.problem.classes[c].shape
        required, wanted = self.required(c, term), self.wanted(c, pool, term)
        topologies = self.volume_topologies(c, pool, term)
        of_pool, rows = here.pool.requirements, here.rows

        def all_or_none(passes: object) -> Mask:
            return np.full(len(rows), bool(passes))

        types = all_or_none(passes=True)
        for one in wanted:
            types &= rows.of_types(one)
        attachable = all_or_none(passes=topologies is None)
        for topology in topologies or ():
            attachable |= offers.satisfying(rows, topology)
        untolerated = first_untolerated(here.pool.taints, p.last_rung(c).tolerations)
        terms = shape.required_terms or (NO_REQUIREMENTS,)
        return [
            (Check.POOL, here.allowed),
            (Check.TAINT, all_or_none(untolerated is None)),
            (Check.CONTRADICTION, all_or_none(shape.node_selector.intersects(terms[term]))),
            (Check.CONFLICT, all_or_none(of_pool.compatible(required, p.well_known))),
            (Check.TYPE, types),
            (Check.OFFERING, offers.satisfying(rows, wanted)),
            (Check.VOLUME_ZONE, attachable),
            (Check.HOST_PORTS, here.without_ports(shape.host_ports)),
            (Check.LASTS, offers.satisfying(rows, shape.lasting)),
        ]

    def reservations_for(self, c: int, pool: int) -> tuple[str, ...]:
        """The reservations of a NodePool that a pod of the class could use if they had a free slot."""
        here = self.offers(pool)
        healthy = here.rows.columns.healthy & here.reserved & (here.reservation >= 0)
        slots = np.unique(here.reservation[self.suiting(c, pool) & healthy]).tolist()
        return tuple(sorted(self.reservation_ids[i] for i in slots))

    def has_unreserved_offering(self, c: int, pool: int) -> bool:
        """Whether the NodePool has an available on-demand or spot offering for a pod of the class."""
        here = self.offers(pool)
        return bool((self.suiting(c, pool) & here.available & ~here.reserved).any())

    def capacity_types(self, c: int) -> list[str]:
        """The capacity types other than reserved that can be launched for a class."""
        found: set[str] = set()
        for pool in range(len(self.problem.pools)):
            here = self.offers(pool)
            mask = self.suiting(c, pool) & here.available & ~here.reserved
            found.update(here.rows.capacity_types(np.flatnonzero(mask)))
        return [name for name in names.CAPACITY_TYPES if name in found]


def _offers(p: Problem, pool: int, known: dict[int, Rows]) -> Offers:
    of_pool, columns, labels = p.pools[pool], p.columns[pool], p.snapshot.cloud_labels
    every = np.arange(len(columns.offerings), dtype=np.int64)
    runs = problem.daemon_sets(p.snapshot, of_pool, columns, every)
    overhead = daemons.overhead(runs)
    rows = None if runs else known.get(id(columns))
    if rows is None:
        index = {id_: i for i, id_ in enumerate(p.ledger)}
        rows = offers.rows(columns, every, Measures(p.resources, index, p.limited), overhead)
        if not runs:
            known[id(columns)] = rows
    free = np.array([*(entry.free > 0 for entry in p.ledger.values()), False], dtype=bool)
    usable = ~columns.reserved
    if p.settings.reserved_capacity:
        for i in np.flatnonzero(columns.reserved).tolist():
            usable[i] = labels.are_non_defaults_required(
                columns.offerings[i].requirements, of_pool.requirements
            )
    return Offers(
        pool=of_pool,
        rows=rows,
        daemon_sets=runs,
        allowed=offers.satisfying(rows, of_pool.requirements) & usable,
        reserved=columns.reserved,
        available=np.where(columns.reserved, columns.healthy & free[rows.reservation], columns.launchable),
        reservation=rows.reservation,
    )


def _clash(daemon_sets: Sequence[DaemonSetView], ports: Sequence[HostPort]) -> bool:
    return any(a.conflicts(b) for one in daemon_sets for a in one.pod.host_ports for b in ports)


def without_volumes(p: Problem, request: Ints) -> Ints:
    """The request without volume attachments."""
    alone = request.copy()
    alone[len(p.resources.names) :] = 0
    return alone


def without_clashes(template: Template, ports: Sequence[HostPort]) -> tuple[Requirement, ...]:
    """What excludes nodes on which a DaemonSet uses one of these ports."""
    return tuple(template.without_clashes(ports)) if ports else ()
