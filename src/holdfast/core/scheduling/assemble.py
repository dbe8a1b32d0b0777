"""The world before its first pod: nodes that exist, what runs on them, free slots, empty lists.

Called by `run`, once a solve; every run begins with a copy.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling import constraints, daemons, problem
from holdfast.core.scheduling.axes import PLENTY, bounded
from holdfast.core.scheduling.kernel import room as room_kernel
from holdfast.core.scheduling.problem import Problem
from holdfast.core.scheduling.shapes import Op, Shapes
from holdfast.core.scheduling.variants import Variants
from holdfast.core.scheduling.world import (
    BLOCK,
    EMPTY,
    FREE_SLOTS,
    NO,
    NODES,
    REGISTERS,
    RESERVED,
    RUN_VARIANT,
    SIZED,
    STAGE_BOUGHT,
    STAGE_EXISTING,
    STAGE_OPEN,
    STAGE_PAID,
    STAGE_RESERVED,
    Ints,
    Words,
    World,
)
from holdfast.model import requirements
from holdfast.model.resources import NOTHING
from holdfast.model.snapshot import NodeView

A = TypeVar("A", bound=np.generic)

KINDS = 3
SMALLEST_ROOM = 256


def world(p: Problem, variants: Variants, shapes: Shapes) -> World:
    """The world, with every template closed and no stage to go through yet: those are the run's to choose."""
    existing = len(p.nodes)
    pods = sum(len(c.pods) for c in p.classes)
    room = existing + max(SMALLEST_ROOM, pods // 4)
    host, domain, elsewhere = _counts(p, room)
    capacity = _existing_capacity(p)
    r_free = np.array([p.ledger[id_].free for id_ in p.reservation_ids], dtype=np.int64)
    r_zone = _reservation_zones(p)
    rooms = _slot_rooms(p)
    reg = np.zeros(REGISTERS, dtype=np.int64)
    reg[NODES], reg[RUN_VARIANT], reg[FREE_SLOTS] = existing, -1, r_free.sum()
    reg[SIZED] = -1
    words = variants.v_ports.shape[1]
    return World(
        reg=reg,
        order=np.arange(len(p.classes), dtype=np.int64),
        c_left=np.array([len(c.pods) for c in p.classes], dtype=np.int64),
        c_waits=np.zeros(len(p.classes), dtype=np.uint8),
        eligible=p.constraints.eligible(),
        k_first=np.array(p.domains.first, dtype=np.int64),
        trail=np.zeros((len(p.domains.keys) + 1, 2), dtype=np.int64),
        zone_key=np.array([p.domains.key_index(names.ZONE) if names.ZONE in p.domains.keys else -1]),
        d_free=_free_by_domain(p, r_free, r_zone),
        host_count=host,
        host_total=host.sum(axis=1, dtype=np.int64) + elsewhere,
        domain_count=domain,
        g_key=np.array(
            [p.domains.key_index(g.key) for g in p.constraints.groups.domains] or [-1], dtype=np.int64
        ),
        g_filter=_filters(p, variants),
        uncertain=np.zeros((len(domain), room), dtype=np.int32),
        n_shape=_padded(_existing_shapes(p, shapes, variants.ops), room),
        n_load=np.zeros((room, p.resources.size), dtype=np.int64),
        n_capacity=capacity,
        n_pods=np.zeros(room, dtype=np.int64),
        n_slot=np.full(room, -1, dtype=np.int64),
        n_ports=_padded(_existing_ports(p, words), room),
        n_paid=np.zeros((0, p.resources.size), dtype=np.int64),
        roomy=np.zeros(room, dtype=np.uint8),
        roomy_in=np.zeros(room // BLOCK + 1, dtype=np.int64),
        n_template=np.full(room, -1, dtype=np.int64),
        n_rejects=np.full(room, -1, dtype=np.int64),
        listed=np.zeros((KINDS, room), dtype=np.int64),
        place=np.zeros(room, dtype=np.int64),
        bucket=np.zeros((KINDS, pods + 4), dtype=np.int64),
        lengths=np.zeros((KINDS, 2), dtype=np.int64),
        verdicts=np.full((SMALLEST_ROOM, 5), EMPTY, dtype=np.int64),
        stages=np.zeros((0, 3), dtype=np.int64),
        t_order=np.arange(len(p.templates), dtype=np.int64),
        t_shape=np.full(len(p.templates), NO, dtype=np.int64),
        t_kind=np.array([t.kind for t in p.templates], dtype=np.int64),
        t_pool=np.array([t.pool for t in p.templates], dtype=np.int64),
        t_rejects=np.full(len(p.templates), -1, dtype=np.int64),
        limits=_limits(p),
        p_limited=np.array([bool(pool.limits.amounts) for pool in p.pools], dtype=np.uint8),
        r_room=rooms,
        r_free=r_free,
        free_most=rooms[:, r_free > 0].max(axis=(0, 1), initial=0)[None, :],
        r_zone=r_zone,
        visit=np.zeros((len(r_free), 3), dtype=np.int64),
        queue=np.zeros(len(r_free), dtype=np.int64),
        log_class=np.zeros(pods, dtype=np.int64),
        log_variant=np.zeros(pods, dtype=np.int64),
        log_node=np.zeros(pods, dtype=np.int64),
        **variants.arrays(),
        **shapes.arrays(),
    )


def copied(w: World, shapes: Shapes, shared: Iterable[str]) -> World:
    """The same world for another run, which may write to all but the arrays that are shared."""
    shapes.s_judged[:] = 0  # in which search, counted by each run anew
    mine = {name: array.copy() for name, array in w._asdict().items() if name not in shared}
    return refreshed(w._replace(**mine), shapes)


def refreshed(w: World, shapes: Shapes) -> World:
    """The world with the arrays of shapes as they are now: growing replaces them."""
    return w._replace(**shapes.arrays())


def with_verdict(w: World, asked: tuple[int, int, int, int], answer: int) -> World:
    """The world that remembers an answer about minValues; the table grows when it is half full."""
    verdicts = w.verdicts
    if 2 * np.count_nonzero(verdicts[:, 0] != EMPTY) >= len(verdicts):
        grown = np.full((4 * len(verdicts), 5), EMPTY, dtype=np.int64)
        for row in verdicts[verdicts[:, 0] != EMPTY]:
            grown[room_kernel.verdict_slot(grown, *row[:4].tolist())] = row
        verdicts = grown
    verdicts[room_kernel.verdict_slot(verdicts, *asked)] = (*asked, answer)
    return w._replace(verdicts=verdicts)


def roomier(w: World) -> World:
    """The world with room for twice as many nodes."""
    room = 2 * len(w.n_shape)
    return w._replace(
        host_count=_widened(w.host_count, room),
        uncertain=_widened(w.uncertain, room),
        listed=_widened(w.listed, room),
        n_shape=_padded(w.n_shape, room),
        n_load=_padded(w.n_load, room),
        n_pods=_padded(w.n_pods, room),
        n_slot=_padded(w.n_slot, room),
        n_ports=_padded(w.n_ports, room),
        n_paid=_padded(w.n_paid, room) if len(w.n_paid) else w.n_paid,
        roomy=_padded(w.roomy, room),
        roomy_in=_padded(w.roomy_in, room // BLOCK + 1),
        n_template=_padded(w.n_template, room),
        n_rejects=_padded(w.n_rejects, room),
        place=_padded(w.place, room),
    )


def _padded(array: NDArray[A], room: int) -> NDArray[A]:
    padded = np.zeros((room, *array.shape[1:]), dtype=array.dtype)
    padded[: len(array)] = array
    return padded


def _widened(array: NDArray[A], room: int) -> NDArray[A]:
    wider = np.zeros((len(array), room), dtype=array.dtype)
    wider[:, : array.shape[1]] = array
    return wider


def stages(p: Problem, *, fill: bool) -> Ints:
    """Nodes that exist, then slots, then what is bought; or, weight before slots, in Karpenter's order.

    `fill`: what is paid for is filled before a node gets dearer.
    """
    count = len(p.templates)
    bought = [(STAGE_PAID, 0, 0), (STAGE_BOUGHT, 0, 0)] if fill else [(STAGE_BOUGHT, 0, 0)]
    if not p.settings.reserved_before_weight:
        by_weight = [(STAGE_EXISTING, 0, 0), (STAGE_RESERVED, 0, 0), *bought, (STAGE_OPEN, 0, count)]
        return np.array(by_weight, dtype=np.int64)
    slots = sum(t.kind == RESERVED for t in p.templates)
    found = [(STAGE_EXISTING, 0, 0)]
    if slots:
        found += [(STAGE_RESERVED, 0, 0), (STAGE_OPEN, 0, slots)]
    return np.array([*found, *bought, (STAGE_OPEN, slots, count)], dtype=np.int64)


def _filters(p: Problem, variants: Variants) -> Ints:
    """[domain group] the op that nodes must pass to count, or -1."""
    groups = p.constraints.groups.domains
    found = [g.filter_op + variants.first_filter if g.filter_op >= 0 else -1 for g in groups]
    return np.array(found or [-1], dtype=np.int64)


def _limits(p: Problem) -> Ints:
    left = [
        bounded(pool.limits[name] - pool.used[name] if name in pool.limits else PLENTY for name in p.limited)
        for pool in p.pools
    ]
    return np.array(left, dtype=np.int64).reshape(len(p.pools), len(p.limited))


def _slot_rooms(p: Problem) -> Ints:
    """[template, reservation, resource]"""
    rooms = np.zeros((len(p.templates), len(p.reservation_ids), p.resources.size), dtype=np.int64)
    for t, template in enumerate(p.templates):
        if template.kind == RESERVED:
            rooms[t, template.rows.reservation] = template.rows.room
    return rooms


def _reservation_zones(p: Problem) -> Ints:
    zones = [
        p.domains.index.get((names.ZONE, p.ledger[id_].reservation.zone), -1) for id_ in p.reservation_ids
    ]
    return np.array(zones, dtype=np.int64)


def _free_by_domain(p: Problem, r_free: Ints, r_zone: Ints) -> Ints:
    free = np.zeros(max(1, p.domains.size), dtype=np.int64)
    np.add.at(free, r_zone[r_zone >= 0], r_free[r_zone >= 0])
    return free


# --- Nodes that exist --------------------------------------------------------------------------------


def _existing_capacity(p: Problem) -> Ints:
    """[node, resource] what pods to place can have."""
    rows = [_room(p, node) for node in p.nodes]
    return np.array(rows, dtype=np.int64).reshape(len(rows), p.resources.size)


def _room(p: Problem, node: NodeView) -> list[int]:
    """Allocatable less what runs there and what DaemonSets will take; nothing at all once that is negative."""
    coming = daemons.still_to_come(p.snapshot.daemon_sets, node)
    left = node.free.subtract(coming) if coming.amounts else node.free
    if min((amount for _, amount in left.amounts), default=0) < 0:
        left = NOTHING
    volumes = {
        driver: limit - sum(driver == one for one, _ in node.attached) for driver, limit in node.volume_limits
    }
    return p.resources.row(left, volumes)


def _existing_ports(p: Problem, words: int) -> Words:
    if not p.ports:
        return np.zeros((len(p.nodes), words), dtype=np.uint64)
    rows = [
        problem.port_words((port for shape in node.shapes for port in shape.host_ports), p.ports)
        for node in p.nodes
    ]
    return np.array(rows, dtype=np.uint64).reshape(len(rows), words)


def _existing_shapes(p: Problem, shapes: Shapes, ops: Sequence[Op]) -> Ints:
    """Nodes that no pod can tell apart share a shape: only labels that somebody asks about matter."""
    asked = {key for op in ops for wanted in op.alternatives for key in wanted.by_key} | set(p.domains.keys)
    index: dict[tuple[object, ...], int] = {}
    found = []
    for node in p.nodes:
        labels = tuple((key, value) for key, value in node.labels if key in asked)
        known = index.get((labels, node.taints))
        if known is None:
            known = shapes.existing(requirements.from_labels(dict(labels)), node.taints)
            index[labels, node.taints] = known
        found.append(known)
    return np.array(found, dtype=np.int64)


def _counts(p: Problem, room: int) -> tuple[NDArray[np.int32], Ints, Ints]:
    """What the pods that run add to the groups: by node, by domain, and on nodes that are being deleted. Pods that stay on
    such a node still count in its domains, and a group of hostname affinity does not begin anew beside them."""
    hosts, counted = _counted(p, p.nodes, room)
    staying, in_domains = _counted(p, p.leaving, len(p.leaving))
    found = np.vstack([hosts[: len(p.constraints.groups.hosts)], _attached(p, room)])
    elsewhere = np.zeros(len(found), dtype=np.int64)
    elsewhere[: len(p.constraints.groups.hosts)] = staying.sum(axis=1)[: len(p.constraints.groups.hosts)]
    return found, counted + in_domains, elsewhere


def _counted(p: Problem, nodes: Sequence[NodeView], room: int) -> tuple[NDArray[np.int32], Ints]:
    domains = [[d for item in node.labels if (d := p.domains.index.get(item)) is not None] for node in nodes]

    def passes(node: int, filter_op: int) -> bool:
        return constraints.passes(p.constraints.filters[filter_op], nodes[node])

    running = ((n, shape, count) for n, node in enumerate(nodes) for shape, count in node.staying)
    return p.constraints.groups.counts(running, domains.__getitem__, passes, room)


def _attached(p: Problem, room: int) -> NDArray[np.int32]:
    """[shared volume, node] pods that run there with it; one row more, so that there is always one."""
    index = {claim: i for i, claim in enumerate(p.shared_claims)}
    found = np.zeros((len(index) + 1, room), dtype=np.int32)
    if index:
        for n, node in enumerate(p.nodes):
            for pod in node.pods:
                for claim in pod.shape.volumes.claims:
                    if claim in index:
                        found[index[claim], n] += 1
    return found
