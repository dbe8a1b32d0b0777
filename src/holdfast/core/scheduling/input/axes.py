"""The axes of the planner's arrays: resources, and the domains of topology keys.

`problem` builds them once for each solve. An axis gives every name an index, in sorted order, so that arrays replace
maps. Amounts are exact in Python and bounded in arrays, so that the sum of any two fits in 64 bits.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

PLENTY: Final = 2**62  # an unlimited amount
MOST: Final = PLENTY - 1  # the largest capacity; a request of PLENTY or more fits nowhere


def bounded(amounts: Iterable[int]) -> list[int]:
    """Capacities, bounded so that arrays can hold them."""
    found = list(amounts)
    if not found or (max(found) <= MOST and min(found) >= -MOST):  # nearly always
        return found
    return [max(-MOST, min(MOST, amount)) for amount in found]


def bounded_requests(amounts: Sequence[int]) -> Sequence[int]:
    """Requests, bounded so that arrays can hold them."""
    if not amounts or (max(amounts) <= PLENTY and min(amounts) >= -MOST):  # nearly always
        return amounts
    return [max(-MOST, min(PLENTY, amount)) for amount in amounts]


def in_order(indexes: NDArray[np.int64]) -> NDArray[np.intp]:
    """The different indexes, in the order in which they first occur."""
    first = np.full(int(indexes.max(initial=-1)) + 1, len(indexes), dtype=np.intp)
    first[indexes[::-1]] = np.arange(len(indexes))[::-1]  # of equal indexes the last assignment holds
    order = np.argsort(first)
    return order[: np.count_nonzero(first < len(indexes))]


def distinct(indexes: NDArray[np.int64]) -> NDArray[np.intp]:
    """The different indexes, sorted: faster than np.unique, which also loads another part of numpy."""
    return np.flatnonzero(np.bincount(indexes))


@dataclass(frozen=True)
class ResourceAxis:
    """The resources that any pod requests, and one column for each storage driver with a volume limit."""

    names: tuple[str, ...]
    drivers: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.names) + len(self.drivers)


@dataclass(frozen=True)
class DomainAxis:
    """The domains of every topology key except the hostname, one key after another."""

    keys: tuple[str, ...]
    domains: tuple[tuple[str, ...], ...]  # by key, sorted
    first: tuple[int, ...]  # the index of a key's first domain; the last entry is the number of domains
    index: Mapping[tuple[str, str], int]

    @property
    def size(self) -> int:
        return self.first[-1]

    def key_index(self, key: str) -> int:
        return self.keys.index(key)


def domain_axis(values: Mapping[str, Iterable[str]]) -> DomainAxis:
    keys = tuple(sorted(values))
    domains = tuple(tuple(sorted(set(values[key]))) for key in keys)
    first = [0]
    for of_key in domains:
        first.append(first[-1] + len(of_key))
    index = {(key, domain): first[k] + i for k, key in enumerate(keys) for i, domain in enumerate(domains[k])}
    return DomainAxis(keys, domains, tuple(first), index)
