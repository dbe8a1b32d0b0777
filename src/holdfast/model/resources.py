"""Resource vectors: amounts by resource name.

cpu is in thousandths of a core and everything else in whole units (bytes, pods, devices), rounded up once, when it is
parsed. kube-scheduler rounds the same way, so what fits here fits there. Karpenter compares unrounded quantities; the two
differ only for amounts finer than these units.
"""

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from holdfast import errors
from holdfast.model import quantity

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
NODES: Final = "nodes"  # only in limits
HUGEPAGES_PREFIX: Final = "hugepages-"

_BYTE_SIZED: Final = (MEMORY, EPHEMERAL_STORAGE)
_NATIVE_DOMAIN: Final = "kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Resources:
    """An immutable vector. A missing resource reads as 0, but is not the same as 0: a limit of 0 forbids, a missing limit
    does not."""

    amounts: tuple[tuple[str, int], ...] = ()  # sorted by name, so that equal vectors are equal values
    by_name: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_name = dict(self.amounts)
        object.__setattr__(self, "by_name", by_name)
        names = list(by_name)
        assert names == sorted(names), "names are sorted"
        assert len(names) == len(self.amounts), "names are unique"

    def __getitem__(self, name: str) -> int:
        return self.by_name.get(name, 0)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_name)

    def __str__(self) -> str:
        return ", ".join(f"{name} {text(name, amount)}" for name, amount in self.amounts) or "nothing"

    def subtract(self, other: "Resources") -> "Resources":
        """The difference for the names of this vector; it may be negative. Other names of `other` are ignored."""
        return Resources(tuple((name, amount - other[name]) for name, amount in self.amounts))

    def replace(self, other: "Resources") -> "Resources":
        """This vector with the entries of `other` replaced or added (S-55)."""
        return of({**self.by_name, **other.by_name})

    def without(self, names: Collection[str]) -> "Resources":
        return Resources(tuple((name, amount) for name, amount in self.amounts if name not in names))

    def times(self, count: int) -> "Resources":
        return Resources(tuple((name, amount * count) for name, amount in self.amounts))

    def fits(self, total: "Resources") -> bool:
        """Whether a request of this much fits in `total`; nothing fits if any amount of it is negative (S-54)."""
        if any(amount < 0 for _, amount in total.amounts):
            return False
        return all(amount <= total[name] for name, amount in self.amounts)

    def first_above(self, limits: "Resources") -> str | None:
        """The first resource, by name, whose amount is above its limit, or None."""
        return next((name for name, limit in limits.amounts if self[name] > limit), None)


NOTHING: Final = Resources()


def of(amounts: Mapping[str, int]) -> Resources:
    """A vector of amounts in the units of this module."""
    return Resources(tuple(sorted(amounts.items())))


def parse(wire: Mapping[str, str | float]) -> Resources:
    """A vector from a manifest's map of resource to quantity."""
    return of({name: amount(name, value) for name, value in wire.items()})


def parse_requests(wire: Mapping[str, str | float]) -> Resources:
    """A vector of the requests of a container or pod, which must not be negative."""
    return of({name: request(name, value) for name, value in wire.items()})


def parse_readable(wire: Mapping[str, str | float]) -> Resources:
    """A vector without the entries that are no quantities: for objects of other programs, which must not be rejected."""
    found = {}
    for name, value in wire.items():
        with contextlib.suppress(errors.InvalidInput):
            found[name] = amount(name, value)
    return of(found)


def amount(name: str, value: str | float) -> int:
    """One quantity in the unit of its resource, rounded up and capped to 64 bits."""
    return quantity.millis(value) if name == CPU else quantity.units(value)


def request(name: str, value: str | float) -> int:
    """One amount of a request, which must not be negative."""
    requested = amount(name, value)
    if requested < 0:
        raise errors.InvalidInput(f"{name} is {value!r}, and nothing can be less than 0")
    return requested


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one, such as `nvidia.com/gpu`: it has a domain, which is not that of Kubernetes."""
    return "/" in name and _NATIVE_DOMAIN not in name


def text(name: str, amount: int) -> str:
    """One amount as Kubernetes writes it; `parse` reads it back."""
    if name == CPU:
        return str(quantity.Quantity(amount * quantity.NANO_PER_MILLI))
    binary = name in _BYTE_SIZED or name.startswith(HUGEPAGES_PREFIX)
    form = quantity.Format.BINARY_SI if binary else quantity.Format.DECIMAL_SI
    return str(quantity.Quantity(amount * quantity.NANO_PER_UNIT, form))


def add(*vectors: Resources) -> Resources:
    """The sum, by name."""
    return _merge(vectors, lambda a, b: a + b)


def maximum(*vectors: Resources) -> Resources:
    """The greatest amount of each resource that any vector names."""
    return _merge(vectors, max)


def minimum(*vectors: Resources) -> Resources:
    """The least of each resource that every vector names (S-62)."""
    smallest = _merge(vectors, min)
    return Resources(tuple((n, a) for n, a in smallest.amounts if all(n in vector for vector in vectors)))


def _merge(vectors: Iterable[Resources], combine: Callable[[int, int], int]) -> Resources:
    merged: dict[str, int] = {}
    for vector in vectors:
        for name, amount in vector.amounts:
            merged[name] = combine(merged[name], amount) if name in merged else amount
    return of(merged)
