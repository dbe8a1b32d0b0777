"""A pod without its name: what it asks of a node and of its neighbours, read from a pod template.

All pods of one workload share one Shape, which is compared by identity: what was worked out for one of
them holds for all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from checker import labels, quantities
from checker.labels import Selector, Term
from checker.quantities import Resources

Port: TypeAlias = tuple[str, str, int]  # address, protocol, number


@dataclass(frozen=True, slots=True)
class Spread:
    """A topologySpreadConstraint that must hold."""

    key: str
    max_skew: int
    selector: Selector  # matchLabelKeys included
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A required pod affinity or anti-affinity term."""

    key: str
    selector: Selector
    namespaces: frozenset[str]  # as listed
    namespace_selector: Selector  # None: only those listed


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    namespace: str
    labels: Mapping[str, str]
    requests: Resources
    ports: tuple[Port, ...]
    tolerations: tuple[Mapping[str, Any], ...]
    terms: tuple[Term, ...]  # any of them will do; the nodeSelector is in each
    spreads: tuple[Spread, ...]
    affinity: tuple[Neighbours, ...]
    anti_affinity: tuple[Neighbours, ...]
    volumes: tuple[str, ...]  # names of PersistentVolumeClaims
    prefers: bool  # it has preferences, which a planner may keep for as long as it can

    def keys(self) -> set[str]:
        """The labels whose one value must be known before such a pod can be placed."""
        return {one.key for one in self.spreads} | {one.key for one in self.affinity}


def read(metadata: Mapping[str, Any], spec: Mapping[str, Any], namespace: str) -> Shape:
    found = {key: str(value) for key, value in (metadata.get("labels") or {}).items()}
    affinity = spec.get("affinity") or {}
    constraints = spec.get("topologySpreadConstraints") or []
    return Shape(
        namespace=namespace,
        labels=found,
        requests=requests(spec),
        ports=tuple(ports(spec)),
        tolerations=tuple(spec.get("tolerations") or ()),
        terms=_terms(spec.get("nodeSelector"), affinity.get("nodeAffinity") or {}),
        spreads=tuple(_spread(c, found) for c in constraints if c["whenUnsatisfiable"] == "DoNotSchedule"),
        affinity=tuple(_neighbours(affinity.get("podAffinity"), namespace)),
        anti_affinity=tuple(_neighbours(affinity.get("podAntiAffinity"), namespace)),
        volumes=tuple(_volumes(spec)),
        prefers=_prefers(affinity, constraints),
    )


def requests(spec: Mapping[str, Any]) -> Resources:
    """What the scheduler counts for a pod: containers and sidecars together, or the start-up if that needs
    more at some point, and the overhead; and one of `pods` (S-53)."""
    running = [_container(one) for one in spec["containers"]]
    sidecars: list[Resources] = []
    peaks: list[Resources] = []
    for one in spec.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            sidecars.append(_container(one))
            peaks.append(quantities.total(sidecars))
        else:
            peaks.append(quantities.total([*sidecars, _container(one)]))
    needed = quantities.largest([quantities.total(running + sidecars), *peaks])
    return quantities.total([needed, quantities.resources(spec.get("overhead")), {"pods": quantities.ONE}])


def _container(container: Mapping[str, Any]) -> Resources:
    """Its requests; a limit without a request is one, as the API server has it."""
    found = container.get("resources") or {}
    return quantities.resources(found.get("limits")) | quantities.resources(found.get("requests"))


def ports(spec: Mapping[str, Any]) -> Iterable[Port]:
    for container in spec["containers"]:
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                yield port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"]  # noqa: S104


def _terms(node_selector: Mapping[str, Any] | None, affinity: Mapping[str, Any]) -> tuple[Term, ...]:
    always = labels.equals(node_selector)
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    alternatives = required.get("nodeSelectorTerms")
    if not alternatives:
        return (always,)
    return tuple(always + labels.expressions(one.get("matchExpressions")) for one in alternatives)


def _spread(wire: Mapping[str, Any], own: Mapping[str, str]) -> Spread:
    selector = labels.selector(wire.get("labelSelector"))
    if selector is not None:
        shared = {key: own[key] for key in wire.get("matchLabelKeys") or () if key in own}
        selector += labels.equals(shared)
    return Spread(
        key=labels.name(wire["topologyKey"]),
        max_skew=wire["maxSkew"],
        selector=selector,
        min_domains=wire.get("minDomains") or 1,
        honors_affinity=wire.get("nodeAffinityPolicy", "Honor") == "Honor",
        honors_taints=wire.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _neighbours(affinity: Mapping[str, Any] | None, namespace: str) -> Iterable[Neighbours]:
    for term in (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ():
        listed = frozenset(term.get("namespaces") or ())
        by_labels = labels.selector(term.get("namespaceSelector"))
        if not listed and by_labels is None:
            listed = frozenset({namespace})
        selector = labels.selector(term.get("labelSelector"))
        yield Neighbours(labels.name(term["topologyKey"]), selector, listed, by_labels)


def _volumes(spec: Mapping[str, Any]) -> Iterable[str]:
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]


def _prefers(affinity: Mapping[str, Any], constraints: Iterable[Mapping[str, Any]]) -> bool:
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    return any((part or {}).get(preferred) for part in affinity.values()) or any(
        constraint["whenUnsatisfiable"] == "ScheduleAnyway" for constraint in constraints
    )
