"""The offerings of a catalog as columns, and the `CatalogCache` that keeps them between solves.

Nothing here depends on a request, so a column is valid for every solve with the same instance types.
"""

import functools
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.input import axes
from holdfast.core.scheduling.input.axes import PLENTY, bounded
from holdfast.core.scheduling.kernel.packing_state import Ints
from holdfast.model import resources
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.requirement import Requirement
from holdfast.model.requirements import Requirements, are_compatible
from holdfast.model.resources import Resources

Mask = NDArray[np.bool_]

UNKNOWN_COST: Final = 0
_CATALOGS_MAX: Final = 64  # in the cache; each node class has one catalog
_KEPT_MAX: Final = 64  # values that follow from catalogs

K = TypeVar("K")


@dataclass(frozen=True)
class Values:
    """The different requirements on one key."""

    all: tuple[Requirement | None, ...]
    single: Mapping[str, int]  # by value, the index of the requirement that allows only this value: most do
    others: tuple[int, ...]  # indexes of all other requirements

    def compatible_with(self, wanted: Requirement) -> Mask:
        """[i] whether each of them is compatible with a requirement."""
        if wanted.lower is not None or wanted.upper is not None:
            return np.array([u is None or are_compatible(wanted, u) for u in self.all], dtype=bool)
        found = np.full(len(self.all), wanted.complement)
        found[[self.single[value] for value in wanted.values if value in self.single]] = not wanted.complement
        for i in self.others:
            one = self.all[i]
            found[i] = one is None or are_compatible(wanted, one)
        return found

    def having(self, domains: Sequence[str]) -> Mask:
        """[i, domain] whether each of them allows a domain."""
        table = np.array([[u is None or u.has(d) for d in domains] for u in self.all], dtype=bool)
        return table.reshape(len(self.all), len(domains))


@dataclass(frozen=True)
class Codes:
    """By type and by offering, the index of its requirement on one key."""

    of_type: NDArray[np.int32]
    types: Values
    of_offering: NDArray[np.int32]
    offerings: Values


@dataclass
class Columns:
    """All offerings of a catalog."""

    types: tuple[InstanceType, ...]
    offerings: tuple[Offering, ...]
    type_of: Ints  # [offering] index in `types`
    allocatable_index: Ints  # [offering] index in `_allocatable`
    reserved: Mask
    healthy: Mask
    launchable: Mask
    rank: Ints  # [offering] cheapest first, no two alike
    price: Ints  # [offering] nano-USD an hour; 0: unknown
    cost: Ints  # [offering] price and surcharge, for comparisons; or UNKNOWN_COST
    capacity_type: Ints  # [offering] index in names.CAPACITY_TYPES
    allocatable_type: Ints  # [allocatable] index in `types`
    _allocatable: tuple[Resources, ...]  # offerings of a type share one unless they override it
    _requirements: tuple[Requirements, ...]  # of offerings; nearly all offerings share one of a few
    _requirements_index: Ints  # [offering] index in `_requirements`
    type_names: tuple[str, ...]
    _by_name: dict[str, Ints] = field(default_factory=dict)
    _codes: dict[str, Codes] = field(default_factory=dict)
    _values: dict[tuple[str, Requirement], frozenset[str]] = field(default_factory=dict)  # of all offerings

    def allocatable(self, name: str) -> Ints:
        """[allocatable] the amount of a resource."""
        return self._column(f"allocatable {name}", lambda: [one[name] for one in self._allocatable])

    def attachable(self, driver: str) -> Ints:
        """[allocatable] how many volumes of a storage driver can be attached."""
        return self._column(
            f"attachable {driver}",
            lambda: [
                dict(self.types[t].volume_limits).get(driver, PLENTY) for t in self.allocatable_type.tolist()
            ],
        )

    def capacity(self, name: str) -> Ints:
        """[type] what a node counts against a limit; it counts 1 against a limit on `nodes`."""
        return self._column(
            f"capacity {name}",
            lambda: [1 if name == resources.NODES else t.capacity[name] for t in self.types],
        )

    def codes(self, key: str) -> Codes:
        found = self._codes.get(key)
        if found is None:
            of_types = [t.requirements.by_key.get(key) for t in self.types]
            codes, offerings = _encoded([one.by_key.get(key) for one in self._requirements])
            found = self._codes[key] = Codes(*_encoded(of_types), codes[self._requirements_index], offerings)
        return found

    def values(self, key: str, wanted: Requirement, offerings: Mask | None = None) -> set[str]:
        """The values that nodes of these offerings, or of all, can have for a key. The offerings need not be available, but
        the type must allow the value of its offering: no node can be in a zone without a subnet (S-75)."""
        if offerings is None or offerings.all():
            if (key, wanted) not in self._values:
                self._values[key, wanted] = frozenset(self._values_of(key, wanted, slice(None)))
            return set(self._values[key, wanted])
        return self._values_of(key, wanted, offerings)

    def _values_of(self, key: str, wanted: Requirement, offerings: Mask | slice) -> set[str]:
        codes = self.codes(key)
        of_type, of_offering = codes.of_type[self.type_of][offerings], codes.of_offering[offerings]
        pairs = axes.distinct(of_type.astype(np.int64) * len(codes.offerings.all) + of_offering)
        found: set[str] = set()
        for pair in pairs.tolist():
            t, o = divmod(pair, len(codes.offerings.all))
            own = [one for one in (codes.types.all[t], codes.offerings.all[o], wanted) if one is not None]
            combined = functools.reduce(Requirement.intersection, own)
            found |= set() if combined.complement else set(combined.values)
        return found

    def compatible_with(self, wanted: Requirements) -> Mask:
        """[offering] whether each is compatible with all requirements."""
        found = np.ones(len(self.offerings), dtype=bool)
        for one in wanted.by_key.values():
            codes = self.codes(one.key)
            found &= codes.types.compatible_with(one)[codes.of_type[self.type_of]]
            found &= codes.offerings.compatible_with(one)[codes.of_offering]
        return found

    def _column(self, name: str, amounts: Callable[[], list[int]]) -> Ints:
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = np.array(bounded(amounts()), dtype=np.int64)
        return found


class CatalogCache:
    """Keeps the columns of catalogs between solves. Plans never depend on it."""

    def __init__(self) -> None:
        self._columns: dict[int, Columns] = {}
        self._kept: dict[Hashable, tuple[Columns, object, Any]] = {}

    def columns(self, types: tuple[InstanceType, ...]) -> Columns:
        """The columns of a catalog, computed once for each tuple of types."""
        known = self._columns.get(id(types))
        if known is None or known.types is not types:
            if len(self._columns) >= _CATALOGS_MAX:
                self._columns.clear()
            known = self._columns[id(types)] = columns(types)
        return known

    def keep(
        self, columns: Columns, key: Hashable, depends_on: tuple[object, ...], compute: Callable[[], K]
    ) -> K:
        """A value that follows from the columns, the key and what it depends on. For each key the last value is kept."""
        key = id(columns), key
        known = self._kept.get(key)
        if known is None or known[1] != depends_on:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            known = self._kept[key] = columns, depends_on, compute()
        found: K = known[2]
        return found


def columns(types: tuple[InstanceType, ...]) -> Columns:
    offerings = tuple(o for t in types for o in t.offerings)
    type_of = np.repeat(np.arange(len(types)), [len(t.offerings) for t in types])
    allocatable, allocatable_type, allocatable_index = _allocatable(types)
    requirements = {id(o.requirements): o.requirements for o in offerings}
    index = {key: i for i, key in enumerate(requirements)}
    kinds = {kind: i for i, kind in enumerate(names.CAPACITY_TYPES)}
    capacity_type = np.array([kinds[o.capacity_type] for o in offerings], dtype=np.int64)
    reserved = capacity_type == kinds[names.RESERVED]
    cost = np.array([o.cost_nano_usd_per_hour or UNKNOWN_COST for o in offerings], dtype=np.int64)
    found = Columns(
        types=types,
        offerings=offerings,
        type_of=type_of,
        allocatable_index=np.array(allocatable_index, dtype=np.int64),
        reserved=reserved,
        healthy=np.array([o.healthy for o in offerings], dtype=bool),
        launchable=np.array([o.launchable for o in offerings], dtype=bool),
        rank=np.empty(len(offerings), dtype=np.int64),
        price=np.array([o.price_nano_usd_per_hour or 0 for o in offerings], dtype=np.int64),
        cost=cost,
        capacity_type=capacity_type,
        allocatable_type=np.array(allocatable_type, dtype=np.int64),
        _allocatable=tuple(allocatable),
        _requirements=tuple(requirements.values()),
        _requirements_index=np.array([index[id(o.requirements)] for o in offerings], dtype=np.int64),
        type_names=tuple(t.name for t in types),
    )
    # The order of prices.order_key: slots first; a known cost, or by cpu and memory where it is unknown.
    cpu, memory = found.capacity(resources.CPU)[type_of], found.capacity(resources.MEMORY)[type_of]
    unknown = cost == UNKNOWN_COST
    order = np.lexsort((np.where(unknown, memory, 0), np.where(unknown, cpu, cost), unknown, ~reserved))
    found.rank[order] = np.arange(len(offerings))
    return found


def _allocatable(types: tuple[InstanceType, ...]) -> tuple[list[Resources], list[int], list[int]]:
    """The different allocatables, the type of each, and by offering the index of its own."""
    allocatable: list[Resources] = []
    allocatable_type: list[int] = []
    of_offering: list[int] = []
    for i, t in enumerate(types):
        index: dict[tuple[object, object], int] = {}
        for o in t.offerings:
            key = o.capacity_override.amounts, o.overhead_override.amounts
            position = index.setdefault(key, len(allocatable))
            if position == len(allocatable):
                allocatable.append(t.allocatable_of(o))
                allocatable_type.append(i)
            of_offering.append(position)
    return allocatable, allocatable_type, of_offering


def _encoded(found: Sequence[Requirement | None]) -> tuple[NDArray[np.int32], Values]:
    """The different requirements, and the index of each given one among them."""
    index: dict[Requirement | None, int] = {}
    codes = np.array([index.setdefault(one, len(index)) for one in found], dtype=np.int32)
    single = {
        next(iter(one.values)): i
        for one, i in index.items()
        if one is not None and not one.complement and len(one.values) == 1 and one.min_values is None
    }
    others = sorted(set(index.values()) - set(single.values()))
    return codes, Values(tuple(index), single, tuple(others))
