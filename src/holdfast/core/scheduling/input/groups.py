"""Topology groups: the pods that spread constraints, affinity and anti-affinity count, by domain.

`constraints` builds them from pending and running pods. A *host* group counts by node, any other by domain of its key.
There are three sorts, as in Karpenter (S-75 to S-84):

- *count*: pods that a spread constraint or an affinity term selects; a domain counts once it is certain;
- *blocked*: pods that an anti-affinity term selects; every domain that a node may still be in counts;
- *owner*: pods that have an anti-affinity term, which blocks the pods that the term selects.
"""

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from holdfast import names
from holdfast.core.scheduling.input.axes import DomainAxis
from holdfast.core.scheduling.kernel.packing_state import Ints
from holdfast.model.pods import Labels, PodShape, PodTerm, TopologySpread
from holdfast.model.selectors import LabelSelector

HOST = -1  # in place of a key


class Sort(enum.Enum):
    COUNT = "count"
    BLOCKED = "blocked"
    OWNER = "owner"


@dataclass(frozen=True)
class Group:
    sort: Sort
    key: str
    namespaces: tuple[str, ...]
    selector: LabelSelector | None
    filter_op: int  # only nodes that satisfy it count; -1: all nodes

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return self.selector is not None and namespace in self.namespaces and self.selector.matches(labels)


@dataclass
class Groups:
    """All groups of a solve, by index within their kind of key."""

    axis: DomainAxis
    hosts: list[Group] = field(default_factory=list)
    domains: list[Group] = field(default_factory=list)
    _index: dict[Group, int] = field(default_factory=dict)
    _selected: dict[tuple[str, Labels], tuple[tuple[Group, int], ...]] = field(default_factory=dict)

    def of_spread(self, spread: TopologySpread, namespace: str, filter_op: int) -> int:
        return self.add(Group(Sort.COUNT, spread.key, (namespace,), spread.selector, filter_op))

    def of_term(self, term: PodTerm, sort: Sort) -> int:
        return self.add(Group(sort, term.key, term.namespaces, term.selector, -1))

    def add(self, group: Group) -> int:
        known = self._index.get(group)
        if known is None:
            of_kind = self.hosts if group.key == names.HOSTNAME else self.domains
            known = self._index[group] = len(of_kind)
            of_kind.append(group)
            self._selected.clear()
        return known

    def find(self, group: Group) -> int | None:
        return self._index.get(group)

    def key_index(self, key: str) -> int:
        return HOST if key == names.HOSTNAME else self.axis.key_index(key)

    def selecting(self, namespace: str, labels: Labels) -> tuple[tuple[Group, int], ...]:
        """The groups that select a pod with these labels."""
        found = self._selected.get((namespace, labels))
        if found is None:
            as_map = dict(labels)
            found = tuple((g, i) for g, i in self._index.items() if g.selects(namespace, as_map))
            self._selected[namespace, labels] = found
        return found

    def counts(
        self,
        pods: Iterable[tuple[int, PodShape, int]],
        domains_of: Callable[[int], Sequence[int]],
        passes: Callable[[int, int], bool],
        nodes: int,
    ) -> tuple[NDArray[np.int32], Ints]:
        """[host group, node] and [domain group, domain]: how many running pods each group counts.

        `pods` holds node, shape and count; `domains_of` returns the domains of a node; `passes` returns whether a node
        satisfies a filter.
        """
        hosts = np.zeros((max(1, len(self.hosts)), nodes), dtype=np.int32)
        domains = np.zeros((max(1, len(self.domains)), self.axis.size), dtype=np.int64)
        counting: dict[int, list[tuple[Group, int]]] = {}  # by shape
        for node, shape, count in pods if self._index else ():
            if id(shape) not in counting:
                counting[id(shape)] = list(self._counting(shape.namespace, shape.labels, shape.anti_affinity))
            for group, index in counting[id(shape)]:
                if group.filter_op >= 0 and not passes(node, group.filter_op):
                    continue
                if group.key == names.HOSTNAME:
                    hosts[index, node] += count
                    continue
                k = self.axis.key_index(group.key)
                for d in domains_of(node):
                    if self.axis.first[k] <= d < self.axis.first[k + 1]:
                        domains[index, d] += count
        return hosts, domains

    def _counting(
        self, namespace: str, labels: Labels, terms: Sequence[PodTerm]
    ) -> Iterable[tuple[Group, int]]:
        for group, index in self.selecting(namespace, labels):
            if group.sort is not Sort.OWNER:
                yield group, index
        for term in terms:
            owner = Group(Sort.OWNER, term.key, term.namespaces, term.selector, -1)
            if owner in self._index:
                yield owner, self._index[owner]
