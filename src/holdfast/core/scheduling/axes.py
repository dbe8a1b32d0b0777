"""The axes that everything is measured on: resources, and the domains of topology keys.

Built once a solve by `problem`. An axis gives every name an index, in sorted order, so that arrays replace maps. The
rule: amounts are exact in Python and bounded in arrays, so that the sum of any two fits in 64 bits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.model.resources import Resources

PLENTY: Final = 2**62  # of a resource that something does not limit
MOST: Final = PLENTY - 1  # of what there is; a request of PLENTY or more fits nowhere


def bounded(amounts: Iterable[int]) -> list[int]:
    """What there is, as far as arrays can hold it."""
    return [max(-MOST, min(MOST, amount)) for amount in amounts]


def bounded_requests(amounts: Iterable[int]) -> list[int]:
    """What pods ask for, as far as arrays can hold it."""
    return [max(-MOST, min(PLENTY, amount)) for amount in amounts]


@dataclass(frozen=True)
class ResourceAxis:
    """The resources that any pod asks for, and one column a storage driver whose attachments are limited."""

    names: tuple[str, ...]
    drivers: tuple[str, ...]

    @property
    def size(self) -> int:
        return len(self.names) + len(self.drivers)

    def row(self, resources: Resources, volumes: Mapping[str, int]) -> list[int]:
        """What there is of each; a driver that `volumes` does not name is not limited."""
        attachable = (volumes.get(driver, PLENTY) for driver in self.drivers)
        return bounded((*(resources[name] for name in self.names), *attachable))


@dataclass(frozen=True)
class DomainAxis:
    """The domains of every topology key but the hostname, one after another."""

    keys: tuple[str, ...]
    domains: tuple[tuple[str, ...], ...]  # by key, sorted
    first: tuple[int, ...]  # where a key's domains begin; one more at the end
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
