"""The packing that is kept, as what is written: claims with their requirements, and pods on nodes that exist.

Called by `solve`. A claim with a slot is pinned to `reserved` and to the reservations that would do; a claim without
one does not list `reserved` at all, so that it can never reach a slot that another claim holds.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterator

from holdfast import names
from holdfast.core.scheduling import daemons, pins
from holdfast.core.scheduling.finalize import Nodes
from holdfast.core.scheduling.plan import Placed, PlannedClaim
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.run import Outcome
from holdfast.core.scheduling.world import RESERVED
from holdfast.model import requirement, resources
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import Requirements
from holdfast.model.resources import Resources

PodsByNode = dict[int, list[str]]
_Written = tuple[Requirements, tuple[str, ...], tuple[str, ...], bool]
"""Requirements, instance types, reservations, and whether minValues were lowered."""


def planned(p: Problem, outcome: Outcome, nodes: Nodes, pods: PodsByNode) -> tuple[PlannedClaim, ...]:
    """A claim for every new node, in the order they were opened."""
    writer = _Writer(p, outcome, nodes)
    return tuple(writer.claim(i, pods[outcome.existing + i]) for i in range(len(nodes.row)))


def placed(p: Problem, outcome: Outcome, pods: PodsByNode) -> tuple[Placed, ...]:
    """Pods on nodes that exist, by the name of the node."""
    found = [Placed(p.nodes[n].name, tuple(sorted(pods[n]))) for n in pods if n < outcome.existing]
    return tuple(sorted(found, key=lambda one: one.node))


def pods_by_node(p: Problem, outcome: Outcome) -> PodsByNode:
    """Uids of the pods on each node; of equal pods the oldest are placed first."""
    next_of = [iter(c.pods) for c in p.classes]
    found: PodsByNode = defaultdict(list)
    for c, n in zip(outcome.log_class.tolist(), outcome.log_node.tolist(), strict=True):
        found[n].append(next(next_of[c]).uid)
    return found


class _Writer:
    """Claims of one shape with the same rows have the same requirements, made once."""

    def __init__(self, p: Problem, outcome: Outcome, nodes: Nodes) -> None:
        self._problem = p
        self._outcome = outcome
        self._nodes = nodes
        self._written: dict[tuple[int, int, int], _Written] = {}

    def claim(self, i: int, pods: list[str]) -> PlannedClaim:
        p, nodes = self._problem, self._nodes
        t = nodes.template[i]
        template = p.templates[t]
        offering = template.rows.offerings[nodes.row[i]]
        wanted, types, ids, relaxed = self._requirements(i)
        reserved = template.kind == RESERVED
        return PlannedClaim(
            node_pool=p.pools[template.pool].name,
            requirements=wanted,
            instance_types=types,
            instance_type=template.rows.types[template.rows.row_type[nodes.row[i]]].name,
            zone=offering.zone,
            capacity_type=offering.capacity_type,
            price_nano_usd_per_hour=0 if reserved else offering.price_nano_usd_per_hour,
            requests=self._requests(i),
            pods=tuple(sorted(pods)),
            slot=offering.reservation_id,
            reservation_ids=ids,
            min_values_relaxed=relaxed,
        )

    def _requirements(self, i: int) -> _Written:
        nodes = self._nodes
        shape = int(self._outcome.n_shape[self._outcome.existing + i])
        key = (nodes.template[i], shape, id(nodes.rows[i]))
        if key not in self._written:
            self._written[key] = self._write(nodes.template[i], shape, nodes.rows[i])
        return self._written[key]

    def _write(self, t: int, shape: int, rows: tuple[int, ...]) -> _Written:
        p = self._problem
        of = p.templates[t].rows
        types = tuple(dict.fromkeys(of.types[of.row_type[row]].name for row in rows))
        types = types[: p.settings.max_instance_types]
        listed = set(types)
        offerings = [of.offerings[row] for row in rows if of.types[of.row_type[row]].name in listed]
        ids = tuple(sorted({o.reservation_id for o in offerings if o.reservation_id is not None}))
        capacity_types = {o.capacity_type for o in offerings}
        extra = list(self._pins(types, capacity_types, ids))
        wanted = pins.pinned(p, self._outcome.shapes, shape).add(*extra)
        relaxed = _asks_for_less(self._outcome.shapes.all[shape].requirements, p.templates[t].requirements)
        return _without_broken_min_values(wanted) if ids else wanted, types, ids, relaxed

    def _pins(
        self, types: tuple[str, ...], capacity_types: set[str], ids: tuple[str, ...]
    ) -> Iterator[Requirement]:
        yield requirement.of(names.INSTANCE_TYPE, Operator.IN, types)
        yield requirement.of(names.CAPACITY_TYPE, Operator.IN, sorted(capacity_types))
        key = self._problem.snapshot.cloud_labels.reservation_id
        if ids and key is not None:
            yield requirement.of(key, Operator.IN, ids)

    def _requests(self, i: int) -> Resources:
        """What the pods ask for, and the least that DaemonSets will take on any listed type (S-62)."""
        p = self._problem
        t = self._nodes.template[i]
        template = p.templates[t]
        load = self._outcome.n_load[self._outcome.existing + i].tolist()
        of_pods = resources.of(
            {name: amount for name, amount in zip(p.resources.names, load, strict=False) if amount}
        )
        if not p.snapshot.daemon_sets:
            return of_pods
        pool = p.pools[template.pool]
        suiting = [d for d in p.snapshot.daemon_sets if daemons.suits_pool(d, pool, p.well_known)]
        types = {int(template.rows.row_type[row]) for row in self._nodes.rows[i]}
        least = resources.minimum(
            *(
                daemons.requests(daemons.of_type(suiting, pool, template.rows.types[type_], p.well_known))
                for type_ in sorted(types)
            )
        )
        return resources.add(of_pods, least)


def _without_broken_min_values(wanted: Requirements) -> Requirements:
    """A slot has one type and one zone: minValues was judged before the node was pinned to it, and a claim that asked
    for more values than it lists would be refused."""
    kept = {
        key: dataclasses.replace(r, min_values=None)
        if r.min_values is not None and not r.complement and len(r.values) < r.min_values
        else r
        for key, r in wanted.by_key.items()
    }
    return Requirements(kept)


def _asks_for_less(written: Requirements, asked: Requirements) -> bool:
    """Whether a best effort lowered minValues of the pool (S-68)."""
    return any((written.get(r.key).min_values or 0) < (r.min_values or 0) for r in asked)
