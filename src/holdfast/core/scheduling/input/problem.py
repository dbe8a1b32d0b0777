"""One solve as indexes: templates, classes with their rungs, topology groups, existing nodes, slots.

`solve` builds it once for each request. All packings share it, and nothing changes it afterwards.
"""

import functools
import operator
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from holdfast import names
from holdfast.core.reservations.ledger import Entry
from holdfast.core.scheduling.input import axes, classes, daemons, displaced, lasting, offers
from holdfast.core.scheduling.input.axes import DomainAxis, ResourceAxis
from holdfast.core.scheduling.input.classes import Ladder, PodClass, Rung
from holdfast.core.scheduling.input.columns import CatalogCache, Columns
from holdfast.core.scheduling.input.constraints import Constraints
from holdfast.core.scheduling.input.offers import Measures, Rows
from holdfast.core.scheduling.input.request import Settings, SolveRequest
from holdfast.core.scheduling.input.shapes import Op, Template
from holdfast.core.scheduling.kernel.packing_state import RESERVED, UNRESERVED, Ints, Words
from holdfast.model import reservations, resources
from holdfast.model.host_ports import HostPort
from holdfast.model.pods import PodShape
from holdfast.model.resources import Resources
from holdfast.model.snapshot import NodePoolView, NodeView, Snapshot
from holdfast.model.taints import Effect

WORD_BITS: Final = 64
_PLANNING_ORDER: Final = operator.attrgetter("planning_order")


@dataclass
class Problem:
    snapshot: Snapshot
    settings: Settings
    ledger: Mapping[str, Entry]
    pools: tuple[NodePoolView, ...]  # in the order they are tried
    classes: list[PodClass]
    ladders: list[Ladder]
    ladder_of: list[int]  # by class
    resources: ResourceAxis
    domains: DomainAxis
    templates: list[Template]
    reservation_ids: tuple[str, ...]
    limited: tuple[str, ...]  # resources that some pool limits
    nodes: tuple[NodeView, ...]  # existing nodes that may accept one of the pods, in the order they are tried
    full_nodes: tuple[
        NodeView, ...
    ]  # the others: no pod to place fits, but their pods count for topology constraints
    deleting_nodes: tuple[NodeView, ...]  # their remaining pods count for topology constraints too
    ports: tuple[HostPort, ...]
    shared_claims: tuple[tuple[str, str], ...]  # driver and claim: volumes that more than one pod uses
    constraints: Constraints
    columns: list[Columns]  # by pool, all offerings

    def last_rung(self, c: int) -> Rung:
        """What a class requires, without preferences."""
        return self.ladders[self.ladder_of[c]].rungs[-1]

    @functools.cached_property
    def priorities(self) -> list[int]:
        """Those of the pods, highest first."""
        return sorted({one.priority for one in self.classes}, reverse=True)

    @property
    def well_known(self) -> frozenset[str]:
        return self.snapshot.cloud_labels.well_known


def build(request: SolveRequest, ledger: Mapping[str, Entry], catalogs: CatalogCache) -> Problem:
    snapshot, settings = request.snapshot, request.settings
    pools = tuple(sorted(snapshot.node_pools, key=_reverse_name, reverse=True))
    to_place = lasting.with_lasting(displaced.to_place(snapshot), snapshot, settings.start_estimate_s)
    pods = classes.group(to_place)
    tolerate = any(t.effect is Effect.PREFER_NO_SCHEDULE for pool in pools for t in pool.taints)
    ladders, ladder_of = classes.ladders(pods, settings.preference_policy, tolerate_preferences=tolerate)
    pending = frozenset([pod.uid for pod in to_place]) if snapshot.nodes else frozenset[str]()
    there = [node.without(pending) for node in snapshot.nodes]  # some run on a node that is being deleted
    deleting_nodes = tuple(n for n in there if n.deleting)
    accepting = [n for n in there if not n.deleting]
    nodes, full_nodes = _by_capacity(accepting, pods)
    axis = _resource_axis(pods, pools, nodes)
    ids = free_reservations(ledger, settings)
    limited = tuple(sorted({name for pool in pools for name in pool.limits}))
    measures = Measures(axis, {id_: i for i, id_ in enumerate(ids)}, limited, settings.node_cost_nano)
    columns = [catalogs.columns(pool.instance_types) for pool in pools]
    templates = _templates(pools, columns, snapshot, ledger, measures, catalogs)
    if settings.reserved_before_weight:
        templates.sort(key=lambda t: t.kind != RESERVED)  # stable: by weight within a kind
    domains = _domain_axis(ladders, list(zip(pools, columns, strict=True)), accepting, deleting_nodes)
    ports = _ports(pods, nodes)
    return Problem(
        snapshot=snapshot,
        settings=settings,
        ledger=ledger,
        pools=pools,
        classes=pods,
        ladders=ladders,
        ladder_of=ladder_of,
        resources=axis,
        domains=domains,
        templates=templates,
        reservation_ids=ids,
        limited=limited,
        nodes=nodes,
        full_nodes=full_nodes,
        deleting_nodes=deleting_nodes,
        ports=ports,
        shared_claims=_shared_claims(pods, nodes, axis),
        constraints=Constraints(
            ladders, domains, accepting, deleting_nodes, pools, columns, snapshot.cloud_labels.well_known
        ),
        columns=columns,
    )


def free_reservations(ledger: Mapping[str, Entry], settings: Settings) -> tuple[str, ...]:
    """The reservations with free slots that a plan may use, by id."""
    if not settings.reserved_capacity:
        return ()
    return tuple(sorted(id_ for id_, entry in ledger.items() if entry.free > 0))


def _reverse_name(pool: NodePoolView) -> tuple[int, str]:
    return pool.weight, pool.name  # higher weight first; for equal weights the later name (S-11)


def _by_capacity(
    accepting: Sequence[NodeView], pods: Sequence[PodClass]
) -> tuple[tuple[NodeView, ...], tuple[NodeView, ...]]:
    """The nodes that have the least amount of each resource that any pod requests, and the others. No pod can be placed
    on the others, so most of the work of a plan does not depend on how many there are."""
    left: list[NodeView] = list(accepting)
    for name in sorted(set[str]().union(*(c.shape.requests.by_name for c in pods))):
        least = min(c.shape.requests[name] for c in pods)
        if least > 0:
            left = [node for node in left if node.capacity_left.get(name, 0) >= least]
    open_ = {id(node) for node in left}
    full = tuple(node for node in accepting if id(node) not in open_)
    return tuple(sorted(left, key=_PLANNING_ORDER)), full


def _resource_axis(
    pods: Sequence[PodClass], pools: Sequence[NodePoolView], nodes: Sequence[NodeView]
) -> ResourceAxis:
    wanted = set[str]().union(*(c.shape.requests.by_name for c in pods))
    used = {driver for c in pods for driver, _ in c.shape.volumes.claims}
    limited = set[str]()
    if used:
        limited |= {driver for node in nodes for driver, _ in node.volume_limits}
        limited |= {driver for pool in pools for t in pool.instance_types for driver, _ in t.volume_limits}
    return ResourceAxis(tuple(sorted(wanted | {resources.PODS})), tuple(sorted(limited & used)))


def _domain_axis(
    ladders: Sequence[Ladder],
    pools: Sequence[tuple[NodePoolView, Columns]],
    nodes: Sequence[NodeView],
    deleting_nodes: Sequence[NodeView],
) -> DomainAxis:
    """Every value that a topology key of some pod can have, on new and on existing nodes."""
    keys = {
        key
        for ladder in ladders
        for rung in ladder.rungs
        for key in (
            *(s.key for s in rung.spreads),
            *(t.key for t in rung.affinity),
            *(t.key for t in rung.anti_affinity),
        )
    }
    keys |= {t.key for node in (*nodes, *deleting_nodes) for t in node.anti_affinity}
    keys.discard(names.HOSTNAME)
    values: dict[str, set[str]] = {key: set() for key in sorted(keys)}
    for key, found in values.items():
        for pool, columns in pools:
            found.update(columns.values(key, pool.requirements.get(key)))
        found.update(node.label_map[key] for node in nodes if key in node.label_map)
    return axes.domain_axis(values)


def _templates(
    pools: Sequence[NodePoolView],
    columns_of: Sequence[Columns],
    snapshot: Snapshot,
    ledger: Mapping[str, Entry],
    measures: Measures,
    catalogs: CatalogCache,
) -> list[Template]:
    """For each NodePool a template of its slots, if it has any, and one of its unreserved offerings."""
    templates = []
    for p, (pool, columns) in enumerate(zip(pools, columns_of, strict=True)):
        slots = [
            i
            for i in np.flatnonzero(columns.reserved & columns.healthy).tolist()
            if columns.offerings[i].reservation_id in measures.reservations
            and snapshot.cloud_labels.are_non_defaults_required(
                columns.offerings[i].requirements, pool.requirements
            )
        ]
        if slots:
            found = _launchable(snapshot, pool, columns, np.array(slots, dtype=np.int64), measures)
            found.rows.rank = _slot_rank(found.rows, ledger)
            templates.append(found.template(p, RESERVED, pool))
        unreserved = np.flatnonzero(~columns.reserved & columns.launchable)
        if len(unreserved):
            found = _unreserved(snapshot, pool, columns, unreserved, measures, catalogs)
            templates.append(found.template(p, UNRESERVED, pool))
    return templates


@dataclass(frozen=True)
class _Launchable:
    """What a template has of offerings and DaemonSets."""

    rows: Rows
    overhead: tuple[Resources, ...]
    daemon_ports: Mapping[str, tuple[tuple[HostPort, ...], ...]]

    def template(self, index: int, kind: int, pool: NodePoolView) -> Template:
        return Template(
            index, kind, pool.requirements, pool.taints, self.rows, self.overhead, self.daemon_ports
        )


def _unreserved(
    snapshot: Snapshot,
    pool: NodePoolView,
    columns: Columns,
    offering_index: Ints,
    measures: Measures,
    catalogs: CatalogCache,
) -> _Launchable:
    """The unreserved offerings of a NodePool. Solves share them, with the masks that each has computed: counts of
    reservations do not change them."""
    bare = replace(measures, reservations={})

    key = pool.name, bare.axis, bare.limited, bare.node_cost_nano
    depends_on = pool.requirements, pool.taints, snapshot.daemon_sets, snapshot.cloud_labels.well_known
    return catalogs.keep(
        columns, key, depends_on, lambda: _launchable(snapshot, pool, columns, offering_index, bare)
    )


def _launchable(
    snapshot: Snapshot, pool: NodePoolView, columns: Columns, offering_index: Ints, measures: Measures
) -> _Launchable:
    runs = daemon_sets(snapshot, pool, columns, offering_index)
    overhead = daemons.overhead(runs)
    rows = offers.rows(columns, offering_index, measures, overhead)
    return _Launchable(rows, _least(overhead), daemons.ports(runs))


def _least(overhead: Mapping[str, tuple[Resources, ...]]) -> tuple[Resources, ...]:
    """By instance type, the least that DaemonSets request on a node of any capacity type."""
    known: dict[tuple[int, ...], Resources] = {}
    least = []
    for found in zip(*overhead.values(), strict=True):
        key = tuple(map(id, found))
        if key not in known:
            known[key] = resources.minimum(*found)
        least.append(known[key])
    return tuple(least)


def daemon_sets(
    snapshot: Snapshot, pool: NodePoolView, columns: Columns, offering_index: Ints
) -> dict[str, daemons.ByType]:
    """By capacity type of these offerings and by instance type: the DaemonSets of its nodes. Empty if there are none."""
    if not snapshot.daemon_sets:
        return {}
    well_known = snapshot.cloud_labels.well_known
    kinds = [names.CAPACITY_TYPES[i] for i in axes.distinct(columns.capacity_type[offering_index]).tolist()]
    if not daemons.select_capacity_type(snapshot.daemon_sets):
        found = dict.fromkeys(
            kinds, daemons.by_type(snapshot.daemon_sets, pool, columns, well_known, kinds[0])
        )
    else:
        found = {
            kind: daemons.by_type(snapshot.daemon_sets, pool, columns, well_known, kind) for kind in kinds
        }
    return found if any(any(some) for some in found.values()) else {}


def _slot_rank(rows: Rows, ledger: Mapping[str, Entry]) -> Ints:
    """[row] its rank: cheapest first, then by `reservations.preference`."""
    keys = []
    for row in range(len(rows)):
        offering = rows.offering(row)
        entry = ledger[offering.reservation_id or ""]
        keys.append((rows.type(row).order_key(offering), reservations.preference(entry.reservation), row))
    rank = np.empty(len(rows), dtype=np.int64)
    rank[sorted(range(len(rows)), key=keys.__getitem__)] = np.arange(len(rows))
    return rank


def _ports(pods: Sequence[PodClass], nodes: Sequence[NodeView]) -> tuple[HostPort, ...]:
    """Every host port of pods to place, and those of running pods that conflict with them."""
    wanted = {port for c in pods for port in c.shape.host_ports}
    if not wanted:
        return ()
    taken = {port for node in nodes for shape in node.shapes for port in shape.host_ports}
    clashing = {port for port in taken if any(port.conflicts(want) for want in wanted)}
    return tuple(sorted(wanted | clashing, key=lambda p: (p.port, p.protocol, p.ip)))


def port_words(found: Iterable[HostPort], ports: Sequence[HostPort], *, clashing: bool = False) -> Words:
    """The ports as bits; with `clashing`, all ports that conflict with one of them."""
    bits = np.zeros(words(ports), dtype=np.uint64)
    mine = set(found)
    for i, port in enumerate(ports):
        if (any(port.conflicts(one) for one in mine)) if clashing else port in mine:
            bits[i // WORD_BITS] |= np.uint64(1) << np.uint64(i % WORD_BITS)
    return bits


def words(ports: Sequence[HostPort]) -> int:
    """How many words the bits of these ports take; at least one."""
    return max(1, -(-len(ports) // WORD_BITS))


def _shared_claims(
    pods: Sequence[PodClass], nodes: Sequence[NodeView], axis: ResourceAxis
) -> tuple[tuple[str, str], ...]:
    """Volumes of drivers with limits that pods to place share with each other or with running pods."""
    users = Counter(claim for c in pods for claim in set(c.shape.volumes.claims) for _ in c.pods)
    running = {claim for node in nodes for claim in node.attached} if users else set[tuple[str, str]]()
    return tuple(
        sorted(
            claim
            for claim, count in users.items()
            if claim[0] in axis.drivers and (count > 1 or claim in running)
        )
    )


def requests(shapes: Sequence[PodShape], axis: ResourceAxis) -> Ints:
    """[shape, resource] what one pod requests: resources, and volume attachments by driver."""
    amounts = [shape.requests.by_name for shape in shapes]
    columns = [axes.bounded_requests([one.get(name, 0) for one in amounts]) for name in axis.names]
    columns += [
        [sum(driver == one for one, _ in set(shape.volumes.claims)) for shape in shapes]
        for driver in axis.drivers
    ]
    return np.array(columns, dtype=np.int64).reshape(axis.size, len(shapes)).T


def pod_ops(rung: Rung, shape: PodShape) -> list[Op]:
    """What a pod requires of a node at one rung: one op for each alternative of its node affinity and each topology in
    which its volumes can be attached."""
    sets = list(rung.wanted)
    if not sets:
        return [Op((), rung.tolerations)]
    if shape.volumes.alternatives:
        sets = [
            wanted.union(topology)
            for wanted in rung.wanted
            for topology in shape.volumes.alternatives
            if wanted.intersects(topology)
        ]
    if shape.lasting:
        sets = [one.union(shape.lasting) for one in sets if one.intersects(shape.lasting)]
    return [Op((one,), rung.tolerations, ports=shape.host_ports) for one in sets] or [Op((), ())]
