"""Builds the packing state before the first placement: existing nodes, their pods, free slots, empty lists.

Called by `run` once for each solve; every run works on a copy.
"""

import functools
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.input import constraints, daemons, problem
from holdfast.core.scheduling.input.axes import PLENTY, bounded
from holdfast.core.scheduling.input.problem import Problem
from holdfast.core.scheduling.input.shapes import Op, Shapes
from holdfast.core.scheduling.kernel import capacity as capacity_kernel
from holdfast.core.scheduling.kernel.packing_state import (
    BLOCK,
    EMPTY,
    FREE_SLOTS,
    NO,
    NODES,
    REGISTERS,
    RESERVED,
    RUN_VARIANT,
    SPARE_VARIANT,
    STAGE_EXISTING,
    STAGE_OPEN,
    STAGE_RESERVED,
    STAGE_SPARE,
    STAGE_UNRESERVED,
    Ints,
    PackingState,
    Words,
)
from holdfast.core.scheduling.search.variants import Variants
from holdfast.model import requirements
from holdfast.model.snapshot import NodeView

A = TypeVar("A", bound=np.generic)

KINDS = 3
MIN_ARRAY_SIZE = 256


def build(p: Problem, variants: Variants, shapes: Shapes) -> PackingState:
    """The initial state. It has no stages, and no template opens nodes: each run sets both."""
    existing = len(p.nodes)
    pods = sum(len(c.pods) for c in p.classes)
    size = existing + max(MIN_ARRAY_SIZE, pods // 4)
    host, domain, elsewhere = _counts(p, size)
    capacity = _existing_capacity(p)
    r_free = np.array([p.ledger[id_].free for id_ in p.reservation_ids], dtype=np.int64)
    r_zone = _reservation_zones(p)
    slot_allocatable = _slot_allocatable(p)
    reg = np.zeros(REGISTERS, dtype=np.int64)
    reg[NODES], reg[RUN_VARIANT], reg[FREE_SLOTS] = existing, -1, r_free.sum()
    reg[SPARE_VARIANT] = -1
    words = variants.v_ports.shape[1]
    return PackingState(
        reg=reg,
        order=np.arange(len(p.classes), dtype=np.int64),
        c_pending=np.array([len(c.pods) for c in p.classes], dtype=np.int64),
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
        uncertain=np.zeros((len(domain), size), dtype=np.int32),
        n_shape=_pad_rows(_existing_shapes(p, shapes, variants.ops), size),
        n_load=np.zeros((size, p.resources.size), dtype=np.int64),
        n_capacity=capacity,
        n_pods=np.zeros(size, dtype=np.int64),
        n_reservation=np.full(size, -1, dtype=np.int64),
        n_ports=_pad_rows(_existing_ports(p, words), size),
        n_cheapest=np.zeros((0, p.resources.size), dtype=np.int64),
        spare=np.zeros(size, dtype=np.uint8),
        spare_in_block=np.zeros(size // BLOCK + 1, dtype=np.int64),
        n_template=np.full(size, -1, dtype=np.int64),
        n_rejects=np.full(size, -1, dtype=np.int64),
        listed=np.zeros((KINDS, size), dtype=np.int64),
        list_position=np.zeros(size, dtype=np.int64),
        bucket=np.zeros((KINDS, pods + 4), dtype=np.int64),
        lengths=np.zeros((KINDS, 2), dtype=np.int64),
        min_values_answers=np.full((MIN_ARRAY_SIZE, 5), EMPTY, dtype=np.int64),
        stages=np.zeros((0, 3), dtype=np.int64),
        t_order=np.arange(len(p.templates), dtype=np.int64),
        t_shape=np.full(len(p.templates), NO, dtype=np.int64),
        t_kind=np.array([t.kind for t in p.templates], dtype=np.int64),
        t_pool=np.array([t.pool for t in p.templates], dtype=np.int64),
        t_rejects=np.full(len(p.templates), -1, dtype=np.int64),
        limits=_limits(p),
        p_limited=np.array([bool(pool.limits.amounts) for pool in p.pools], dtype=np.uint8),
        r_allocatable=slot_allocatable,
        r_free=r_free,
        free_max_allocatable=slot_allocatable[:, r_free > 0].max(axis=(0, 1), initial=0)[None, :],
        r_zone=r_zone,
        visit=np.zeros((len(r_free), 3), dtype=np.int64),
        queue=np.zeros(len(r_free), dtype=np.int64),
        log_class=np.zeros(pods, dtype=np.int64),
        log_variant=np.zeros(pods, dtype=np.int64),
        log_node=np.zeros(pods, dtype=np.int64),
        **variants.arrays(),
        **shapes.arrays(),
    )


def copy(ps: PackingState, shapes: Shapes, shared: Iterable[str]) -> PackingState:
    """A copy for another run, which may write to all arrays but the shared ones."""
    shapes.s_excluded[:] = 0  # it holds search numbers, and each run counts searches from 0
    mine = {name: array.copy() for name, array in ps._asdict().items() if name not in shared}
    return refresh_shapes(ps._replace(**mine), shapes)


def refresh_shapes(ps: PackingState, shapes: Shapes) -> PackingState:
    """The state with the current arrays of `shapes`: growing replaces arrays."""
    return ps._replace(**shapes.arrays())


def add_verdict(ps: PackingState, key: tuple[int, int, int, int], answer: int) -> PackingState:
    """Stores an answer about minValues; the table grows when it is half full."""
    min_values_answers = ps.min_values_answers
    if 2 * np.count_nonzero(min_values_answers[:, 0] != EMPTY) >= len(min_values_answers):
        grown = np.full((4 * len(min_values_answers), 5), EMPTY, dtype=np.int64)
        for row in min_values_answers[min_values_answers[:, 0] != EMPTY]:
            grown[capacity_kernel.min_values_index(grown, *row[:4].tolist())] = row
        min_values_answers = grown
    min_values_answers[capacity_kernel.min_values_index(min_values_answers, *key)] = (*key, answer)
    return ps._replace(min_values_answers=min_values_answers)


def enlarge(ps: PackingState) -> PackingState:
    """The state with arrays for twice as many nodes."""
    size = 2 * len(ps.n_shape)
    return ps._replace(
        host_count=_widen_columns(ps.host_count, size),
        uncertain=_widen_columns(ps.uncertain, size),
        listed=_widen_columns(ps.listed, size),
        n_shape=_pad_rows(ps.n_shape, size),
        n_load=_pad_rows(ps.n_load, size),
        n_pods=_pad_rows(ps.n_pods, size),
        n_reservation=_pad_rows(ps.n_reservation, size),
        n_ports=_pad_rows(ps.n_ports, size),
        n_cheapest=_pad_rows(ps.n_cheapest, size) if len(ps.n_cheapest) else ps.n_cheapest,
        spare=_pad_rows(ps.spare, size),
        spare_in_block=_pad_rows(ps.spare_in_block, size // BLOCK + 1),
        n_template=_pad_rows(ps.n_template, size),
        n_rejects=_pad_rows(ps.n_rejects, size),
        list_position=_pad_rows(ps.list_position, size),
    )


def _pad_rows(array: NDArray[A], size: int) -> NDArray[A]:
    padded = np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    padded[: len(array)] = array
    return padded


def _widen_columns(array: NDArray[A], size: int) -> NDArray[A]:
    wider = np.zeros((len(array), size), dtype=array.dtype)
    wider[:, : array.shape[1]] = array
    return wider


def stages(p: Problem, *, fill: bool) -> Ints:
    """Existing nodes, then slots, then unreserved nodes; or Karpenter's order, with weight before slots.

    `fill`: spare capacity is used before a node gets more expensive.
    """
    count = len(p.templates)
    unreserved = [(STAGE_SPARE, 0, 0), (STAGE_UNRESERVED, 0, 0)] if fill else [(STAGE_UNRESERVED, 0, 0)]
    if not p.settings.reserved_before_weight:
        by_weight = [(STAGE_EXISTING, 0, 0), (STAGE_RESERVED, 0, 0), *unreserved, (STAGE_OPEN, 0, count)]
        return np.array(by_weight, dtype=np.int64)
    slots = sum(t.kind == RESERVED for t in p.templates)
    found = [(STAGE_EXISTING, 0, 0)]
    if slots:
        found += [(STAGE_RESERVED, 0, 0), (STAGE_OPEN, 0, slots)]
    return np.array([*found, *unreserved, (STAGE_OPEN, slots, count)], dtype=np.int64)


def _filters(p: Problem, variants: Variants) -> Ints:
    """[domain group] the op that a node must satisfy for its pods to count, or -1."""
    groups = p.constraints.groups.domains
    found = [g.filter_op + variants.first_filter if g.filter_op >= 0 else -1 for g in groups]
    return np.array(found or [-1], dtype=np.int64)


def _limits(p: Problem) -> Ints:
    left = [
        bounded(pool.limits[name] - pool.used[name] if name in pool.limits else PLENTY for name in p.limited)
        for pool in p.pools
    ]
    return np.array(left, dtype=np.int64).reshape(len(p.pools), len(p.limited))


def _slot_allocatable(p: Problem) -> Ints:
    """[template, reservation, resource]"""
    slot_allocatable = np.zeros((len(p.templates), len(p.reservation_ids), p.resources.size), dtype=np.int64)
    for t, template in enumerate(p.templates):
        if template.kind == RESERVED:
            slot_allocatable[t, template.rows.reservation] = template.rows.row_allocatable
    return slot_allocatable


def _reservation_zones(p: Problem) -> Ints:
    zones = [
        p.domains.index.get((names.ZONE, p.ledger[id_].reservation.zone), -1) for id_ in p.reservation_ids
    ]
    return np.array(zones, dtype=np.int64)


def _free_by_domain(p: Problem, r_free: Ints, r_zone: Ints) -> Ints:
    free = np.zeros(max(1, p.domains.size), dtype=np.int64)
    np.add.at(free, r_zone[r_zone >= 0], r_free[r_zone >= 0])
    return free


# --- Existing nodes ----------------------------------------------------------------------------------


def _existing_capacity(p: Problem) -> Ints:
    """[node, resource] free capacity."""
    left = daemons.capacity_left(p.snapshot.daemon_sets, p.nodes)
    columns = [bounded([one.get(name, 0) for one in left]) for name in p.resources.names]
    columns += [[_attachable(node, driver) for node in p.nodes] for driver in p.resources.drivers]
    found = np.array(columns, dtype=np.int64).reshape(p.resources.size, len(p.nodes))
    return np.ascontiguousarray(found.T)


def _attachable(node: NodeView, driver: str) -> int:
    """How many more volumes of a driver can be attached."""
    limit = dict(node.volume_limits).get(driver)
    if limit is None:
        return PLENTY
    return bounded([limit - sum(driver == one for one, _ in node.attached)])[0]


def _existing_ports(p: Problem, words: int) -> Words:
    if not p.ports:
        return np.zeros((len(p.nodes), words), dtype=np.uint64)
    rows = [
        problem.port_words((port for shape in node.shapes for port in shape.host_ports), p.ports)
        for node in p.nodes
    ]
    return np.array(rows, dtype=np.uint64).reshape(len(rows), words)


def _existing_shapes(p: Problem, shapes: Shapes, ops: Sequence[Op]) -> Ints:
    """Nodes share a shape if they differ only in labels that no pod and no topology key uses."""
    used_keys = {key for op in ops for wanted in op.alternatives for key in wanted.by_key} | set(
        p.domains.keys
    )
    keys = sorted(used_keys)
    index: dict[tuple[object, ...], int] = {}
    found = []
    for node in p.nodes:
        labels = tuple(map(node.label_map.get, keys))
        known = index.get((labels, node.taints))
        if known is None:
            has = {key: value for key, value in zip(keys, labels, strict=True) if value is not None}
            known = shapes.existing(requirements.from_labels(has), node.taints)
            index[labels, node.taints] = known
        found.append(known)
    return np.array(found, dtype=np.int64)


def _counts(p: Problem, size: int) -> tuple[NDArray[np.int32], Ints, Ints]:
    """How many running pods the groups count: by node, by domain, and on nodes that receive no pods. Pods on such a node
    still count in its domains, and a group of hostname affinity does not begin a second time."""
    others = (*p.full_nodes, *p.deleting_nodes)
    hosts, counted = _counted(p, p.nodes, size)
    on_others, in_domains = _counted(p, others, len(others))
    found = np.vstack([hosts[: len(p.constraints.groups.hosts)], _attached(p, size)])
    elsewhere = np.zeros(len(found), dtype=np.int64)
    elsewhere[: len(p.constraints.groups.hosts)] = on_others.sum(axis=1)[: len(p.constraints.groups.hosts)]
    return found, counted + in_domains, elsewhere


def _counted(p: Problem, nodes: Sequence[NodeView], size: int) -> tuple[NDArray[np.int32], Ints]:
    @functools.cache
    def domains(node: int) -> list[int]:
        labels = nodes[node].label_map
        found = (p.domains.index.get((key, labels[key])) for key in p.domains.keys if key in labels)
        return [d for d in found if d is not None]

    @functools.cache
    def passes(node: int, filter_op: int) -> bool:
        return constraints.passes(p.constraints.filters[filter_op], nodes[node])

    running = ((n, shape, count) for n, node in enumerate(nodes) for shape, count in node.running_shapes)
    return p.constraints.groups.counts(running, domains, passes, size)


def _attached(p: Problem, size: int) -> NDArray[np.int32]:
    """[shared volume, node] how many pods on the node use it. One row more, so that the array is never empty."""
    index = {claim: i for i, claim in enumerate(p.shared_claims)}
    found = np.zeros((len(index) + 1, size), dtype=np.int32)
    if index:
        for n, node in enumerate(p.nodes):
            for pod in node.pods:
                for claim in pod.shape.volumes.claims:
                    if claim in index:
                        found[index[claim], n] += 1
    return found
