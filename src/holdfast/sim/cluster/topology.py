"""Constraints between pods: topology spread, pod affinity and anti-affinity.

The counts are computed once over all nodes, and then read for each node.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from holdfast import names
from holdfast.sim.api.storage import selectors
from holdfast.sim.cluster import kinds, labels, pods
from holdfast.sim.cluster.kinds import Json, Pod
from holdfast.sim.cluster.node_infos import NodeInfo

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"

Spaces = Mapping[str, Mapping[str, str]]  # the labels of each namespace


@dataclass(frozen=True, slots=True)
class Term:
    """A term of a pod affinity or anti-affinity."""

    key: str
    matches: Callable[[Pod], bool]
    weight: int = 0

    def domain(self, node_info: NodeInfo) -> str | None:
        return node_info.node.metadata.labels.get(self.key)


@dataclass(frozen=True, slots=True)
class Spread:
    """One spread constraint, with the number of pods in each domain."""

    key: str
    max_skew: int
    counts: Mapping[str, int]
    least: int
    own: int  # 1 if the pod itself matches

    def skew(self, node_info: NodeInfo) -> int | None:
        """The skew with the pod in that domain; None if the domain does not exist."""
        domain = node_info.node.metadata.labels.get(self.key)
        if domain is None or domain not in self.counts:
            return None
        return self.counts[domain] + self.own - self.least


class Neighbours:
    def __init__(
        self, pod: Pod, node_infos: list[NodeInfo], spaces: Spaces, repelling: list[NodeInfo] | None = None
    ) -> None:
        """`repelling`: the nodes with a pod that has an anti-affinity, if they are known."""
        self._pod = pod
        self._node_infos = node_infos
        self._spaces = spaces
        self._repelling = node_infos if repelling is None else repelling

    @cached_property
    def spreads(self) -> list[Spread]:
        return [self._spread(c) for c in self._constraints if c["whenUnsatisfiable"] == "DoNotSchedule"]

    @cached_property
    def soft_spreads(self) -> list[Spread]:
        """The pod's own soft constraints, else the cluster defaults: pods of one owner, over hosts and zones."""
        if self._constraints:
            return [self._spread(c) for c in self._constraints if c["whenUnsatisfiable"] == "ScheduleAnyway"]
        return [self._with_siblings(names.HOSTNAME, 3), self._with_siblings(names.ZONE, 5)]

    @cached_property
    def wanted(self) -> list[tuple[Term, frozenset[str], bool]]:
        """The required affinity terms: the domains that satisfy each, and whether the pod may be the first match."""
        found = []
        for term in self._terms("podAffinity", _REQUIRED):
            there = self._domains(term)
            found.append((term, there, not there and term.matches(self._pod)))
        return found

    @cached_property
    def unwanted(self) -> list[tuple[Term, frozenset[str]]]:
        return [(term, self._domains(term)) for term in self._terms("podAntiAffinity", _REQUIRED)]

    @cached_property
    def refused_by_anti_affinity(self) -> frozenset[tuple[str, str]]:
        """Keys and domains that are excluded by anti-affinity terms of other pods."""
        found = set()
        for node_info in self._repelling:
            for pod_info in node_info.usage.with_anti_affinity.values():
                for term in _terms(pod_info.pod, "podAntiAffinity", _REQUIRED, self._spaces):
                    domain = term.domain(node_info)
                    if domain is not None and term.matches(self._pod):
                        found.add((term.key, domain))
        return frozenset(found)

    @cached_property
    def preferences(self) -> list[tuple[Term, Counter[str]]]:
        """Preferred terms with the number of matching pods in each domain; weights of anti-affinity are negative."""
        liked = list(self._terms("podAffinity", _PREFERRED))
        disliked = [Term(t.key, t.matches, -t.weight) for t in self._terms("podAntiAffinity", _PREFERRED)]
        return [
            (term, self._counts(term.key, term.matches, self._node_infos)) for term in (*liked, *disliked)
        ]

    @cached_property
    def _constraints(self) -> list[Json]:
        return self._pod.spec.get("topologySpreadConstraints") or []

    def _terms(self, side: str, strength: str) -> Iterator[Term]:
        return _terms(self._pod, side, strength, self._spaces)

    def _domains(self, term: Term) -> frozenset[str]:
        return frozenset(self._counts(term.key, term.matches, self._node_infos))

    def _counts(
        self, key: str, matches: Callable[[Pod], bool], node_infos: Iterable[NodeInfo]
    ) -> Counter[str]:
        counts: Counter[str] = Counter()
        for node_info in node_infos:
            domain = node_info.node.metadata.labels.get(key)
            if domain is not None:
                number = sum(matches(pod_info) for pod_info in node_info.pods())
                if number:
                    counts[domain] += number
        return counts

    def _spread(self, constraint: Json) -> Spread:
        selector = _with_keys(constraint.get("labelSelector"), constraint.get("matchLabelKeys"), self._pod)
        test = selectors.label_test(selector)
        namespace = self._pod.metadata.namespace

        def counted(pod: Pod) -> bool:
            meta = pod.metadata
            return meta.namespace == namespace and not pods.is_terminating(pod) and test(meta.labels)

        eligible = [node_info for node_info in self._node_infos if self._is_eligible(constraint, node_info)]
        key = constraint["topologyKey"]
        counts = {node_info.node.metadata.labels[key]: 0 for node_info in eligible}
        counts.update(self._counts(key, counted, eligible))
        enough = len(counts) >= (constraint.get("minDomains") or 1)
        least = min(counts.values(), default=0) if enough else 0
        return Spread(key, constraint["maxSkew"], counts, least, int(test(self._pod.metadata.labels)))

    def _is_eligible(self, constraint: Json, node_info: NodeInfo) -> bool:
        """Whether the pods and the domain of a node count."""
        has = node_info.node.metadata.labels
        if any(other["topologyKey"] not in has for other in self._constraints):
            return False
        if constraint.get("nodeAffinityPolicy") != "Ignore" and not labels.selects(
            self._pod.spec, node_info.node
        ):
            return False
        honours = constraint.get("nodeTaintsPolicy") == "Honor"
        return not (honours and labels.untolerated(self._pod.spec, node_info.node))

    def _with_siblings(self, key: str, max_skew: int) -> Spread:
        owner = kinds.controller_of(self._pod)
        counts: Counter[str] = Counter()
        for node_info in self._node_infos:
            siblings = node_info.usage.owners[owner.uid] if owner is not None else 0
            counts[node_info.node.metadata.labels.get(key, "")] += siblings
        return Spread(key, max_skew, counts, min(counts.values(), default=0), 1)


def _terms(pod: Pod, side: str, strength: str, spaces: Spaces) -> Iterator[Term]:
    stated = ((pod.spec.get("affinity") or {}).get(side) or {}).get(strength) or ()
    for each in stated:
        weight, term = (each["weight"], each["podAffinityTerm"]) if strength == _PREFERRED else (0, each)
        yield Term(term["topologyKey"], _matcher(term, pod, spaces), weight)


def _matcher(term: Json, pod: Pod, spaces: Spaces) -> Callable[[Pod], bool]:
    test = selectors.label_test(_with_keys(term.get("labelSelector"), term.get("matchLabelKeys"), pod))
    listed = frozenset(term.get("namespaces") or ())
    chosen = selectors.label_test(term.get("namespaceSelector"))
    own = pod.metadata.namespace if not listed and term.get("namespaceSelector") is None else None

    def matches(other: Pod) -> bool:
        space = other.metadata.namespace
        inside = space == own or space in listed or chosen(spaces.get(space, {}))
        return inside and not pods.ended(other) and test(other.metadata.labels)

    return matches


def _with_keys(selector: Json | None, keys: list[str] | None, pod: Pod) -> Json | None:
    """A selector that also requires the pod's own values of these labels."""
    if selector is None or not keys:
        return selector
    own: dict[str, Any] = {key: pod.metadata.labels[key] for key in keys if key in pod.metadata.labels}
    return {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **own}}
