"""Shapes: the offerings that a new node can still be launched as.

A shape is a template with a set of requirements and the rows that satisfy them; nodes share shapes. The kernel requests
the shape after adding requirements, or after restricting a topology key to one domain. Each result is computed once. A
shape never gains rows, so a NO of the kernel stays valid.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.input import axes, offers
from holdfast.core.scheduling.input.axes import DomainAxis
from holdfast.core.scheduling.input.columns import Mask
from holdfast.core.scheduling.input.offers import Rows
from holdfast.core.scheduling.kernel import topology
from holdfast.core.scheduling.kernel.packing_state import NO, RESERVED, SOFT, Bytes, Ints
from holdfast.model import requirement
from holdfast.model.host_ports import HostPort
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import Requirements
from holdfast.model.resources import Resources
from holdfast.model.taints import Taint, Toleration, first_untolerated

EXISTING_TEMPLATE: Final = -1
_AT_ONCE: Final = 64  # rows that are compared with all others together
_ARRAYS: Final = (
    "s_domains", "s_rows", "s_max_allocatable", "frontier", "s_priced", "priced_allocatable", "s_slots", "s_reserved", "slot_reservation", "slot_allocatable", "s_max_capacity", "s_min_values", "s_excluded",
    "next_keys", "next_values", "cut_keys", "cut_values",
)  # fmt: skip
A = TypeVar("A", bound=np.generic)


@dataclass(frozen=True)
class Op:
    """What a pod, or the node filter of a group, requires of a node: one of these requirement sets, and tolerations.

    The op of a pod has one set and changes the shape. A filter may have several, and a node passes it or does not.
    """

    alternatives: tuple[Requirements, ...]
    tolerations: tuple[Toleration, ...] | None  # None: taints do not matter
    is_filter: bool = False
    ports: tuple[HostPort, ...] = ()  # that a pod uses on the node


@dataclass(frozen=True)
class Shape:
    template: int  # EXISTING_TEMPLATE: the labels of existing nodes
    requirements: Requirements
    taints: tuple[Taint, ...]
    mask: Mask | None


@dataclass(frozen=True)
class Template:
    """The reserved or the unreserved offerings of a NodePool."""

    pool: int
    kind: int
    requirements: Requirements
    taints: tuple[Taint, ...]
    rows: Rows
    overhead: tuple[Resources, ...]  # by type, what DaemonSets request on its nodes; empty: there are none
    daemon_ports: Mapping[
        str, tuple[tuple[HostPort, ...], ...]
    ]  # by capacity type and type, the host ports of DaemonSets

    def clashing_types(self, ports: Sequence[HostPort]) -> set[str]:
        """The types on which a DaemonSet uses a port that conflicts with one of these, on nodes of any capacity type."""
        return set().union(*self._clashes(ports).values())

    def without_clashes(self, ports: Sequence[HostPort]) -> Iterator[Requirement]:
        """What nodes need so that no DaemonSet uses a port that conflicts with one of these. A capacity type is excluded if
        it has no type without a conflict, and others have one. Otherwise types are excluded from all capacity types."""
        clashing = self._clashes(ports)
        kept = {kind for kind, types in clashing.items() if types < self._types_of(kind)}
        if kept and len(kept) < len(clashing):
            yield requirement.of(names.CAPACITY_TYPE, Operator.NOT_IN, sorted(clashing.keys() - kept))
        excluded = set().union(*(types for kind, types in clashing.items() if kind in kept or not kept))
        if excluded:
            yield requirement.of(names.INSTANCE_TYPE, Operator.NOT_IN, sorted(excluded))

    def _clashes(self, ports: Sequence[HostPort]) -> dict[str, set[str]]:
        """By capacity type, the types on which a DaemonSet uses a port that conflicts with one of these."""
        return {
            kind: {
                t.name
                for t, taken in zip(self.rows.types, of_types, strict=True)
                if any(a.conflicts(b) for a in taken for b in ports)
            }
            & self._types_of(kind)
            for kind, of_types in self.daemon_ports.items()
        }

    def _types_of(self, kind: str) -> set[str]:
        """The types with offerings of a capacity type."""
        return {
            self.rows.types[t].name for t in axes.distinct(self.rows.row_type[self.rows.is_of(kind)]).tolist()
        }

    def excluded_types(self, wanted: Requirement) -> list[str]:
        """The types with a label of their own that is not compatible with a requirement."""
        columns = self.rows.columns
        codes = columns.codes(wanted.key)
        excluded = ~codes.types.compatible_with(wanted)[codes.of_type]
        return [columns.type_names[t] for t in np.flatnonzero(excluded).tolist()]


class Extent(NamedTuple):
    """The number of limited resources, resources and reservations."""

    limited: int  # resources that some pool limits
    resources: int
    reservations: int


class Shapes:
    """All shapes, and the arrays that describe them to the kernel. The arrays are replaced when they grow."""

    def __init__(
        self,
        templates: Sequence[Template],
        ops: Sequence[Op],
        axis: DomainAxis,
        well_known: frozenset[str],
        extent: Extent,
        *,
        priced: bool,
    ) -> None:
        limited, resources, reservations = extent
        self.templates = templates
        self.all: list[Shape] = []
        self._ops = ops
        self._axis = axis
        self._well_known = well_known
        self._priced = priced
        self._index: dict[tuple[int, Requirements, bytes], int] = {}
        self._frontiers: dict[tuple[int, bytes], tuple[int, int]] = {}
        self._priced_of: dict[tuple[int, bytes], tuple[int, int]] = {}
        self.s_domains: Bytes = np.zeros((64, axis.size), dtype=np.uint8)
        self.s_rows: Ints = np.zeros((64, 2), dtype=np.int64)
        self.s_max_allocatable: Ints = np.zeros((64, resources), dtype=np.int64)
        self.s_priced: Ints = np.zeros((64, 2), dtype=np.int64)
        self.s_slots: Ints = np.zeros((64, 2), dtype=np.int64)
        self.s_reserved: Bytes = np.zeros((64, reservations), dtype=np.uint8)
        self.s_max_capacity: Ints = np.zeros((64, limited), dtype=np.int64)
        self.s_min_values: Bytes = np.zeros(64, dtype=np.uint8)
        self.s_excluded: Ints = np.zeros((64, 2), dtype=np.int64)
        self.frontier: Ints = np.zeros((64, resources), dtype=np.int64)
        self.priced_allocatable: Ints = np.zeros((64, resources), dtype=np.int64)
        self.slot_reservation: Ints = np.zeros(64, dtype=np.int64)
        self.slot_allocatable: Ints = np.zeros((64, resources), dtype=np.int64)
        self._frontier_rows = 0
        self._slot_rows = 0
        self._priced_rows = 0
        self.next_keys: Ints = np.full(1024, -1, dtype=np.int64)
        self.next_values: Ints = np.zeros(1024, dtype=np.int64)
        self._next_used = 0
        self.cut_keys: Ints = np.full(256, -1, dtype=np.int64)
        self.cut_values: Ints = np.zeros(256, dtype=np.int64)
        self._cut_used = 0

    def arrays(self) -> dict[str, Any]:
        """The current arrays, by their names in the packing state."""
        return {name: getattr(self, name) for name in _ARRAYS}

    def base(self, template: int, mask: Mask) -> int:
        """The shape of an empty node of a template with these of its rows; NO if there are none."""
        return self._intern(template, self.templates[template].requirements, mask)

    def of(self, template: int, requirements: Requirements, mask: Mask) -> int:
        """The shape of a node of a template with these requirements and those of the rows that satisfy them."""
        mask = _satisfying(self.templates[template].rows, requirements, mask)
        return self._intern(template, requirements, mask)

    def existing(self, requirements: Requirements, taints: tuple[Taint, ...]) -> int:
        """The shape of existing nodes with these labels and taints."""
        domains = np.zeros(self._axis.size, dtype=np.uint8)
        for wanted in requirements.by_key.values():
            for value in wanted.values:
                index = self._axis.index.get((wanted.key, value))
                if index is not None:
                    domains[index] = 1
        return self._append(Shape(EXISTING_TEMPLATE, requirements, taints, None), domains)

    def after(self, shape: int, op: int) -> int:
        """The shape once an op is added, or NO."""
        return self._after(shape, self._ops[op])

    def pinned_requirements(self, shape: int) -> Requirements:
        """The requirements of a shape, pinned to the domains that the run counted on where more would be possible.

        A run that may use only some rows can put a node in one zone without a requirement on the zone. Once all rows may
        be used again, the requirements must state the zone, or pods would be counted in the wrong one.
        """
        rows, wanted = self.templates[self.all[shape].template].rows, self.all[shape].requirements
        axis = self._axis
        possible = offers.possible_domains(rows, offers.satisfying(rows, wanted), wanted, axis)
        counted = self.s_domains[shape]
        for k, key in enumerate(axis.keys):
            begin, end = axis.first[k], axis.first[k + 1]
            if (possible[begin:end] > counted[begin:end]).any():
                domains = [d for d, counts in zip(axis.domains[k], counted[begin:end], strict=True) if counts]
                wanted = wanted.add(requirement.of(key, Operator.IN, domains))
        return wanted

    def satisfies(self, shape: int, op: int, row: tuple[int, int] | None) -> bool:
        """Whether a node of a shape satisfies an op. `row` is the template and the row that the plan counts on for a new
        node; None: the node exists."""
        old, required = self.all[shape], self._ops[op]
        if required.tolerations is not None and first_untolerated(old.taints, required.tolerations):
            return False
        undefined = self._well_known if row else frozenset[str]()
        fitting = [one for one in required.alternatives if old.requirements.compatible(one, undefined)]
        return bool(fitting) and (row is None or self._row_satisfies(old.requirements, fitting[0], *row))

    def _row_satisfies(self, required: Requirements, wanted: Requirements, template: int, row: int) -> bool:
        rows = self.templates[template].rows
        return all(
            bool(rows.satisfying(one)[row]) if rows.defines(one.key) else _is_within(required, one)
            for one in wanted.by_key.values()
        )

    def transition(self, shape: int, op: int) -> None:
        """Stores for the kernel: the shape once an op is added, or NO."""
        answer = self._after(shape, self._ops[op])
        if 2 * self._next_used >= len(self.next_keys):
            self.next_keys, self.next_values = _grown_table(self.next_keys, self.next_values)
        _put(self.next_keys, self.next_values, shape, op, answer)
        self._next_used += 1

    def in_domain(self, shape: int, key: int, domain: int) -> int:
        """The shape with only this domain of a key, or NO."""
        value = self._axis.domains[key][domain - self._axis.first[key]]
        wanted = requirement.of(self._axis.keys[key], Operator.IN, (value,))
        old = self.all[shape]
        return self._narrow(old, old.requirements.add(wanted), (wanted.key,))

    def with_min_values(self, shape: int, lowered: Mapping[str, int]) -> int:
        """The shape with these minValues; 0 removes them."""
        old = self.all[shape]
        assert old.mask is not None
        changed = {
            key: dataclasses.replace(old.requirements.by_key[key], min_values=least or None)
            for key, least in lowered.items()
        }
        return self._intern(old.template, Requirements({**old.requirements.by_key, **changed}), old.mask)

    def restriction(self, shape: int, key: int, domain: int) -> None:
        """Stores for the kernel: the shape with only this domain of a key, or NO."""
        answer = self.in_domain(shape, key, domain)
        if 2 * self._cut_used >= len(self.cut_keys):
            self.cut_keys, self.cut_values = _grown_table(self.cut_keys, self.cut_values)
        _put(self.cut_keys, self.cut_values, shape, domain, answer)
        self._cut_used += 1

    def _after(self, shape: int, op: Op) -> int:
        old = self.all[shape]
        if op.tolerations is not None and first_untolerated(old.taints, op.tolerations):
            return NO
        undefined = frozenset[str]() if old.mask is None else self._well_known
        fitting = [a for a in op.alternatives if old.requirements.compatible(a, undefined)]
        if not fitting:
            return NO
        if old.mask is None or (not op.is_filter and not fitting[0].by_key and not op.ports):
            return shape
        if op.is_filter:
            return self._passes(shape, fitting)
        # A label that neither the NodePool nor the cloud sets will be absent, so NotIn holds. Do not add it to the
        # requirements: a later pod with In on the label would seem to fit.
        absent = {k for k in fitting[0].by_key if k not in old.requirements and k not in undefined}
        added = fitting[0].without(absent) if absent else fitting[0]
        template = self.templates[old.template]
        # As requirements, so that the NodeClaim has them even if its rows are widened again.
        for one in template.without_clashes(op.ports) if op.ports else ():
            added = added.add(one)
        unsuited = [
            name for key in sorted(absent) for name in template.excluded_types(fitting[0].by_key[key])
        ]
        if unsuited:
            added = added.add(requirement.of(names.INSTANCE_TYPE, Operator.NOT_IN, unsuited))
        return self._narrow(old, old.requirements.union(added), tuple(added.by_key))

    def _passes(self, shape: int, alternatives: Sequence[Requirements]) -> int:
        """The shape if all of its possible nodes pass a filter, SOFT if only some do, NO if none does.

        All rows that satisfy the requirements count, in this template and in the slots of the NodePool: rows that a packing
        left out are allowed again later, and an unreserved node may still move into a slot.
        """
        required = self.all[shape].requirements
        own = self.templates[self.all[shape].template]
        some, every = False, True
        for template in self.templates:
            if template is not own and (template.pool != own.pool or own.kind == RESERVED):
                continue
            rows = template.rows
            possible = _satisfying(rows, required, np.ones(len(rows), dtype=bool))
            sure = np.zeros(len(rows), dtype=bool)
            for wanted in alternatives:
                passing = _satisfying(rows, wanted, possible)
                some = some or bool(passing.any())
                if all(rows.defines(r.key) or _is_within(required, r) for r in wanted.by_key.values()):
                    sure |= passing
            every = every and bool((sure >= possible).all())
        return shape if every else SOFT if some else NO

    def _narrow(self, old: Shape, requirements: Requirements, keys: Sequence[str]) -> int:
        mask = old.mask
        assert mask is not None
        rows = self.templates[old.template].rows
        for key in keys:
            mask = mask & rows.satisfying(requirements.by_key[key])
        return self._intern(old.template, requirements, mask)

    def _intern(self, template: int, requirements: Requirements, mask: Mask) -> int:
        if not mask.any():
            return NO
        packed = np.packbits(mask).tobytes()
        known = self._index.get((template, requirements, packed))
        if known is None:
            t = self.templates[template]
            domains = offers.possible_domains(t.rows, mask, requirements, self._axis)
            known = self._append(Shape(template, requirements, t.taints, mask), domains)
            self._index[template, requirements, packed] = known
            self._describe(known, t, mask, packed)
        return known

    def _append(self, shape: Shape, domains: NDArray[np.uint8]) -> int:
        index = len(self.all)
        if index == len(self.s_rows):
            self.s_domains = _doubled(self.s_domains)
            self.s_rows = _doubled(self.s_rows)
            self.s_max_allocatable = _doubled(self.s_max_allocatable)
            self.s_priced = _doubled(self.s_priced)
            self.s_slots = _doubled(self.s_slots)
            self.s_reserved = _doubled(self.s_reserved)
            self.s_max_capacity = _doubled(self.s_max_capacity)
            self.s_min_values = _doubled(self.s_min_values)
            self.s_excluded = _doubled(self.s_excluded)
        self.all.append(shape)
        self.s_domains[index] = domains
        self.s_min_values[index] = any(r.min_values for r in shape.requirements.by_key.values())
        return index

    def _describe(self, index: int, t: Template, mask: Mask, packed: bytes) -> None:
        self.s_max_capacity[index] = t.rows.capacity[mask].max(axis=0, initial=0)
        found = np.flatnonzero(mask)
        if t.kind == RESERVED:
            self.s_slots[index] = self._slots(t.rows, found)
            self.s_reserved[index, t.rows.reservation[found]] = 1
        elif self._priced:
            self.s_priced[index] = self._prices(t.rows, mask)
        known = self._frontiers.get((index_of_rows(t), packed))
        if known is None:
            known = self._add_frontier(
                pareto(t.rows.allocatable[axes.distinct(t.rows.allocatable_index[found])])
            )
            self._frontiers[index_of_rows(t), packed] = known
        self.s_rows[index] = known
        self.s_max_allocatable[index] = self.frontier[slice(*known)].max(axis=0, initial=0)

    def _add_frontier(self, rows: Ints) -> tuple[int, int]:
        first, end = self._frontier_rows, self._frontier_rows + len(rows)
        while end > len(self.frontier):
            self.frontier = _doubled(self.frontier)
        self.frontier[first:end] = rows
        self._frontier_rows = end
        return first, end

    def _prices(self, rows: Rows, mask: Mask) -> tuple[int, int]:
        """Allocatable of unreserved rows, cheapest first, without those that a cheaper one covers."""
        ordered = axes.in_order(rows.allocatable_index[rows.cheapest_first(mask)])
        key = id(rows), ordered.tobytes()  # often equal in several zones
        if key not in self._priced_of:
            allocatable = rows.allocatable[ordered]
            self._priced_of[key] = self._add_priced(allocatable[larger_than_before(allocatable)])
        return self._priced_of[key]

    def _add_priced(self, largest: Ints) -> tuple[int, int]:
        first, end = self._priced_rows, self._priced_rows + len(largest)
        while end > len(self.priced_allocatable):
            self.priced_allocatable = _doubled(self.priced_allocatable)
        self.priced_allocatable[first:end] = largest
        self._priced_rows = end
        return first, end

    def _slots(self, rows: Rows, found: NDArray[np.intp]) -> tuple[int, int]:
        """Reserved rows in the order of their rank."""
        first, end = self._slot_rows, self._slot_rows + len(found)
        while end > len(self.slot_reservation):
            self.slot_reservation = _doubled(self.slot_reservation)
            self.slot_allocatable = _doubled(self.slot_allocatable)
        preferred = rows.ordered(found)
        self.slot_reservation[first:end] = rows.reservation[preferred]
        self.slot_allocatable[first:end] = rows.allocatable[rows.allocatable_index[preferred]]
        self._slot_rows = end
        return first, end


def _satisfying(rows: Rows, requirements: Requirements, mask: Mask) -> Mask:
    for wanted in requirements.by_key.values():
        mask = mask & rows.satisfying(wanted)
    return mask


def _is_within(required: Requirements, wanted: Requirement) -> bool:
    """Whether the requirements allow only wanted values of a label, or do not have the label."""
    own = required.by_key.get(wanted.key)
    return own is None or own.intersection(wanted) == own


def _put(keys: Ints, values: Ints, shape: int, other: int, answer: int) -> None:
    slot = topology.table_index(keys, shape, other)
    keys[slot] = (shape << 22) | other
    values[slot] = answer


def _grown_table(keys: Ints, values: Ints) -> tuple[Ints, Ints]:
    grown = np.full(4 * len(keys), -1, dtype=np.int64), np.zeros(4 * len(keys), dtype=np.int64)
    for i in np.flatnonzero(keys >= 0).tolist():
        _put(*grown, int(keys[i]) >> 22, int(keys[i]) & (1 << 22) - 1, int(values[i]))
    return grown


def index_of_rows(template: Template) -> int:
    return id(template.rows)


def pareto(rows: Ints) -> Ints:
    """The rows that no other row covers in every resource: a load fits on some row if and only if it fits on one of these."""
    left, largest = rows, []
    while len(left):
        top = left[np.argmax(left.astype(float).sum(axis=1))]  # a row that covers another has a larger sum
        largest.append(top)
        left = left[(left > top).any(axis=1)]
    return np.array(largest, dtype=np.int64).reshape(len(largest), rows.shape[1])


def larger_than_before(rows: Ints) -> Mask:
    """[row] whether no earlier row covers it."""
    found = np.zeros(len(rows), dtype=bool)
    amounts, left = np.ascontiguousarray(rows.T), np.arange(len(rows))
    while len(left):  # few rows are not covered, and most are covered by one of the first
        some = min(_AT_ONCE, len(left))
        is_covered = np.triu(_covers(amounts[:, :some], amounts[:, :some]), 1).any(axis=0)
        found[left[:some]] = ~is_covered
        uncovered = ~_covers(amounts[:, :some][:, ~is_covered], amounts[:, some:]).any(axis=0)
        amounts, left = amounts[:, some:][:, uncovered], left[some:][uncovered]
    return found


def _covers(some: Ints, others: Ints) -> Mask:
    """[i, j] whether the first are at least as large as the others in every resource; both are [resource, i]."""
    found = np.ones((some.shape[1], others.shape[1]), dtype=bool)
    for one, other in zip(some, others, strict=True):
        found &= one[:, None] >= other
    return found


def _doubled(array: NDArray[A]) -> NDArray[A]:
    grown = np.zeros((2 * len(array), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
