"""What a NodePool can launch, as rows: one for each offering, with precomputed columns.

Each template (the reserved or the unreserved offerings of a NodePool) picks its rows from the columns of a catalog. Both
the instance type and the offering must be compatible with the requirements of a node; see `model.requirements`.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.input import axes
from holdfast.core.scheduling.input.axes import DomainAxis, ResourceAxis, bounded
from holdfast.core.scheduling.input.columns import UNKNOWN_COST, Columns, Mask
from holdfast.core.scheduling.kernel.packing_state import Ints
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirement import Requirement
from holdfast.model.requirements import Requirements
from holdfast.model.resources import Resources

_KEPT_MAX: Final = 512  # of each kind, by template

K = TypeVar("K")
V = TypeVar("V")


@dataclass
class Rows:
    """The offerings of one template. Two rows of one type differ in zone, capacity type or reservation."""

    columns: Columns
    offering_index: Ints  # [row] index of the offering in `columns`
    row_type: Ints  # index in the types of `columns`
    allocatable: Ints  # [i, resource] allocatable minus DaemonSets; rows share them
    allocatable_index: Ints  # [row] index in `allocatable`
    reservation: Ints  # index, or -1
    rank: Ints  # cheapest first, no two alike
    price: Ints  # nano-USD an hour; 0: unknown
    cost: Ints  # for comparing packings: price, surcharge and the cost of a node; or UNKNOWN_COST
    capacity: Ints  # [row, limited resource]
    _masks: dict[Requirement, Mask] = field(default_factory=dict)
    _type_masks: dict[Requirement, Mask] = field(default_factory=dict)
    _domains: dict[tuple[str, tuple[str, ...]], NDArray[np.bool_] | None] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.offering_index)

    @property
    def types(self) -> tuple[InstanceType, ...]:
        return self.columns.types

    @property
    def row_allocatable(self) -> Ints:
        """[row, resource]"""
        return self.allocatable[self.allocatable_index]

    def offering(self, row: int) -> Offering:
        return self.columns.offerings[int(self.offering_index[row])]

    def type(self, row: int) -> InstanceType:
        return self.columns.types[int(self.row_type[row])]

    def capacity_types(self, rows: Ints) -> list[str]:
        """The capacity types of these rows."""
        found = axes.distinct(self.columns.capacity_type[self.offering_index[rows]])
        return [names.CAPACITY_TYPES[i] for i in found.tolist()]

    def is_of(self, capacity_type: str) -> Mask:
        """The rows of a capacity type."""
        index = names.CAPACITY_TYPES.index(capacity_type)
        mask: Mask = self.columns.capacity_type[self.offering_index] == index
        return mask

    @functools.cached_property
    def _by_rank(self) -> NDArray[np.intp]:
        return np.argsort(self.rank)

    def cheapest_first(self, mask: Mask) -> NDArray[np.intp]:
        """The rows of a mask, cheapest first. They are sorted once for all masks."""
        return self._by_rank[mask[self._by_rank]]

    def ordered(self, rows: Ints) -> NDArray[np.intp]:
        """These rows, cheapest first."""
        return rows[np.argsort(self.rank[rows])]

    def fitting(self, load: Ints) -> Mask:
        """The rows that hold a load."""
        return self.fits_allocatable(load)[self.allocatable_index]

    def fits_allocatable(self, load: Ints) -> Mask:
        fits: Mask = np.all(self.allocatable >= load, axis=1)
        return fits

    def satisfying(self, wanted: Requirement) -> Mask:
        """The rows that are compatible with a requirement."""
        mask = self._masks.get(wanted)
        if mask is None:
            codes = self.columns.codes(wanted.key)
            own = codes.offerings.compatible_with(wanted)[codes.of_offering[self.offering_index]]
            mask = own & self.of_types(wanted)
            _keep(self._masks, wanted, mask)
        return mask

    def of_types(self, wanted: Requirement) -> Mask:
        """The rows whose instance type is compatible with a requirement."""
        mask = self._type_masks.get(wanted)
        if mask is None:
            codes = self.columns.codes(wanted.key)
            mask = codes.types.compatible_with(wanted)[codes.of_type[self.row_type]]
            _keep(self._type_masks, wanted, mask)
        return mask

    def defines(self, key: str) -> bool:
        """Whether the cloud, not the NodePool, sets this label on nodes."""
        codes = self.columns.codes(key)
        return any(u is not None for u in (*codes.types.all, *codes.offerings.all))

    def in_domain(self, key: str, domains: Sequence[str]) -> NDArray[np.bool_] | None:
        """[domain, row]: whether a node of the row can be in the domain; None if no row defines the key."""
        known = key, tuple(domains)
        if known not in self._domains:
            codes, found = self.columns.codes(key), None
            if self.defines(key):
                by_type, by_row = codes.types.having(domains), codes.offerings.having(domains)
                table = by_type[codes.of_type[self.row_type]] & by_row[codes.of_offering[self.offering_index]]
                found = np.ascontiguousarray(table.T)
            _keep(self._domains, known, found)
        return self._domains[known]


def _keep(cache: dict[K, V], key: K, value: V) -> None:
    """Rows may be used by many solves, so what they keep has a bound."""
    if len(cache) >= _KEPT_MAX:
        cache.clear()
    cache[key] = value


@dataclass(frozen=True)
class Measures:
    """What the rows of a solve have columns for."""

    axis: ResourceAxis
    reservations: Mapping[str, int]  # index of each that has a free slot
    limited: tuple[str, ...]  # resources that some pool limits
    node_cost_nano: int = 0  # what each node costs in addition to its instance, in nano-USD an hour


def rows(
    columns: Columns, offering_index: Ints, measures: Measures, overhead: Mapping[str, Sequence[Resources]]
) -> Rows:
    """The rows of a template: the offerings at `offering_index`. `overhead` is what DaemonSets request, by capacity
    type and instance type; empty if there are none."""
    reservations, limited = measures.reservations, measures.limited
    allocatable, allocatable_index = _allocatable(columns, offering_index, measures.axis, overhead)
    row_type = columns.type_of[offering_index]
    capacity = [columns.capacity(name)[row_type] for name in limited]
    return Rows(
        columns=columns,
        offering_index=offering_index,
        row_type=row_type,
        allocatable=allocatable,
        allocatable_index=allocatable_index,
        reservation=np.array(
            [reservations.get(columns.offerings[i].reservation_id or "", -1) for i in offering_index.tolist()]
            if reservations
            else [-1] * len(offering_index),
            dtype=np.int64,
        ),
        rank=columns.rank[offering_index],
        price=columns.price[offering_index],
        cost=_costs(columns.cost[offering_index], measures.node_cost_nano),
        capacity=np.array(capacity, dtype=np.int64).reshape(len(limited), len(offering_index)).T,
    )


def _costs(costs: Ints, node_cost_nano: int) -> Ints:
    most = np.iinfo(np.int64).max - node_cost_nano
    return np.where(costs == UNKNOWN_COST, UNKNOWN_COST, np.minimum(costs, most) + node_cost_nano)


def _allocatable(
    columns: Columns, offering_index: Ints, axis: ResourceAxis, overhead: Mapping[str, Sequence[Resources]]
) -> tuple[Ints, Ints]:
    """[i, resource] allocatable minus DaemonSets, and [row] the index of a row's entry. If DaemonSets select nodes by
    capacity type, each capacity type has its own entries."""
    drivers = [columns.attachable(driver) for driver in axis.drivers]
    own = np.column_stack([*(columns.allocatable(name) for name in axis.names), *drivers])
    allocatable_index = columns.allocatable_index[offering_index]
    if not overhead:
        return own, allocatable_index
    found: dict[tuple[Resources, ...], int] = {}  # index of the copy of `own`, by what DaemonSets request
    copy_of = np.zeros(len(names.CAPACITY_TYPES), dtype=np.int64)
    for kind, of_types in overhead.items():
        copy_of[names.CAPACITY_TYPES.index(kind)] = found.setdefault(tuple(of_types), len(found))
    allocatable = []
    for of_types in found:
        different = {id(one): one for one in of_types}
        row_of = {key: bounded(one[name] for name in axis.names) for key, one in different.items()}
        taken = np.array([row_of[id(one)] for one in of_types], dtype=np.int64)
        less = own.copy()
        less[:, : len(axis.names)] -= taken[columns.allocatable_type]
        allocatable.append(less)
    return np.vstack(allocatable), allocatable_index + copy_of[columns.capacity_type[offering_index]] * len(
        own
    )


def satisfying(rows: Rows, wanted: Requirements) -> Mask:
    """The rows that are compatible with every requirement."""
    mask = np.ones(len(rows), dtype=bool)
    for requirement in wanted.by_key.values():
        mask &= rows.satisfying(requirement)
    return mask


def possible_domains(found: Rows, mask: Mask, wanted: Requirements, axis: DomainAxis) -> NDArray[np.uint8]:
    """[domain]: whether a node of these rows and requirements may be in it, over all keys."""
    possible = np.zeros(axis.size, dtype=np.uint8)
    for k, key in enumerate(axis.keys):
        begin, end = axis.first[k], axis.first[k + 1]
        if begin == end:
            continue
        required = wanted.by_key.get(key)
        table = found.in_domain(key, axis.domains[k])
        if table is None:
            if required is not None:  # a custom label of the NodePool
                possible[begin:end] = [required.has(d) for d in axis.domains[k]]
            continue
        allowed = [required is None or required.has(d) for d in axis.domains[k]]
        possible[begin:end] = (table & mask).any(axis=1) & np.array(allowed)
    return possible
