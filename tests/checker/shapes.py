"""The shape of a pod: its constraints on nodes and on other pods, read from a pod template.

All pods of one workload share one Shape, which is compared by identity: results for one of them hold for all.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from checker import labels, quantities
from checker.labels import Expression, Selector, Term
from checker.quantities import Resources

Port: TypeAlias = tuple[str, str, int]  # address, protocol, number

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


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
    terms: tuple[Term, ...]  # alternatives; each includes the nodeSelector
    spreads: tuple[Spread, ...]
    affinity: tuple[Neighbours, ...]
    anti_affinity: tuple[Neighbours, ...]
    volumes: tuple[str, ...]  # names of PersistentVolumeClaims
    # Preferences, the highest weight first; ScheduleAnyway constraints in their order.
    preferred_terms: tuple[Term, ...] = ()
    preferred_spreads: tuple[Spread, ...] = ()
    preferred_affinity: tuple[Neighbours, ...] = ()
    preferred_anti_affinity: tuple[Neighbours, ...] = ()
    priority: int = 0
    invalid: bool = False  # it uses matchFields, so it is not planned (S-7)
    lasting: Term = ()  # excludes reservations that end before the pod

    @property
    def prefers(self) -> bool:
        return bool(
            self.preferred_terms
            or self.preferred_spreads
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )

    def keys(self) -> set[str]:
        """The labels whose value must be known before such a pod can be placed."""
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
        affinity=tuple(_required(affinity.get("podAffinity"), namespace, found)),
        anti_affinity=tuple(_required(affinity.get("podAntiAffinity"), namespace, found)),
        volumes=tuple(_volumes(spec, metadata.get("name", ""))),
        preferred_terms=_preferred_terms(affinity.get("nodeAffinity") or {}),
        preferred_spreads=tuple(
            _spread(c, found) for c in constraints if c["whenUnsatisfiable"] == "ScheduleAnyway"
        ),
        preferred_affinity=tuple(_preferred(affinity.get("podAffinity"), namespace, found)),
        preferred_anti_affinity=tuple(_preferred(affinity.get("podAntiAffinity"), namespace, found)),
        priority=spec.get("priority") or 0,
        invalid=any(one.get("matchFields") for one in _alternatives(affinity.get("nodeAffinity") or {})),
    )


def requests(spec: Mapping[str, Any]) -> Resources:
    """The requests that the scheduler counts: the sum of containers and sidecars, or the maximum during start-up if that is
    higher; pod-level requests override them; plus the overhead and one of `pods` (S-53)."""
    running = [_container(one) for one in spec["containers"]]
    sidecars: list[Resources] = []
    peaks: list[Resources] = []
    for one in spec.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            sidecars.append(_container(one))
            peaks.append(quantities.total(sidecars))
        else:
            peaks.append(quantities.total([*sidecars, _container(one)]))
    needed = quantities.largest([quantities.total(running + sidecars), *peaks]) | _pod_level(spec)
    return quantities.total([needed, quantities.resources(spec.get("overhead")), {"pods": quantities.ONE}])


def _pod_level(spec: Mapping[str, Any]) -> Resources:
    """Pod-level requests, for the resources that Kubernetes allows there. A limit is used as the request if no container
    requests that resource."""
    found = spec.get("resources") or {}
    containers = [*spec["containers"], *(spec.get("initContainers") or ())]
    asked = {name for one in containers for name in _container(one)}
    limits = {name: amount for name, amount in (found.get("limits") or {}).items() if name not in asked}
    whole = quantities.resources(limits) | quantities.resources(found.get("requests"))
    allowed = ("cpu", "memory")
    return {
        name: amount for name, amount in whole.items() if name in allowed or name.startswith("hugepages-")
    }


def _container(container: Mapping[str, Any]) -> Resources:
    """Its requests; a limit without a request counts as a request, as in the API server."""
    found = container.get("resources") or {}
    return quantities.resources(found.get("limits")) | quantities.resources(found.get("requests"))


def ports(spec: Mapping[str, Any]) -> Iterable[Port]:
    """Host ports of the pod; with hostNetwork, every container port is one."""
    for container in spec["containers"]:
        for port in container.get("ports") or ():
            number = port.get("hostPort") or (port.get("containerPort") if spec.get("hostNetwork") else None)
            if number:
                yield port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", number  # noqa: S104


def _terms(node_selector: Mapping[str, Any] | None, affinity: Mapping[str, Any]) -> tuple[Term, ...]:
    """The alternatives. A term without conditions matches no node, so it is left out."""
    always, alternatives = labels.equals(node_selector), _alternatives(affinity)
    if not alternatives:
        return (always,)
    read = [labels.expressions(one.get("matchExpressions")) + _fields(one) for one in alternatives]
    return tuple(always + term for term in read if term)


def _alternatives(affinity: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ())


def _fields(term: Mapping[str, Any]) -> Term:
    """matchFields as expressions on the node's name, which a planned node does not have."""
    found = labels.expressions(term.get("matchFields"))
    return tuple(replace(one, key=labels.NODE_NAME) for one in found)


def _preferred_terms(affinity: Mapping[str, Any]) -> tuple[Term, ...]:
    """Preferred node terms; a term with matchFields or without conditions is ignored."""
    weighted = sorted(affinity.get(_PREFERRED) or (), key=lambda one: -one["weight"])
    terms = [one["preference"] for one in weighted if not one["preference"].get("matchFields")]
    return tuple(term for one in terms if (term := labels.expressions(one.get("matchExpressions"))))


def _spread(wire: Mapping[str, Any], own: Mapping[str, str]) -> Spread:
    return Spread(
        key=labels.name(wire["topologyKey"]),
        max_skew=wire["maxSkew"],
        selector=_selector(wire, own),
        min_domains=wire.get("minDomains") or 1,
        honors_affinity=wire.get("nodeAffinityPolicy", "Honor") == "Honor",
        honors_taints=wire.get("nodeTaintsPolicy", "Ignore") == "Honor",
    )


def _selector(wire: Mapping[str, Any], own: Mapping[str, str]) -> Selector:
    """The label selector with matchLabelKeys and mismatchLabelKeys; keys that the pod has no label for are ignored."""
    selector = labels.selector(wire.get("labelSelector"))
    if selector is None:
        return None
    same = [(key, "In") for key in wire.get("matchLabelKeys") or ()]
    keys = same + [(key, "NotIn") for key in wire.get("mismatchLabelKeys") or ()]
    return selector + tuple(Expression(key, operator, (own[key],)) for key, operator in keys if key in own)


def _required(
    affinity: Mapping[str, Any] | None, namespace: str, own: Mapping[str, str]
) -> Iterable[Neighbours]:
    return (_neighbours(term, namespace, own) for term in (affinity or {}).get(_REQUIRED) or ())


def _preferred(
    affinity: Mapping[str, Any] | None, namespace: str, own: Mapping[str, str]
) -> Iterable[Neighbours]:
    weighted = sorted((affinity or {}).get(_PREFERRED) or (), key=lambda one: -one["weight"])
    return (_neighbours(one["podAffinityTerm"], namespace, own) for one in weighted)


def _neighbours(term: Mapping[str, Any], namespace: str, own: Mapping[str, str]) -> Neighbours:
    listed = frozenset(term.get("namespaces") or ())
    by_labels = labels.selector(term.get("namespaceSelector"))
    if not listed and by_labels is None:
        listed = frozenset({namespace})
    return Neighbours(labels.name(term["topologyKey"]), _selector(term, own), listed, by_labels)


def _volumes(spec: Mapping[str, Any], pod: str) -> Iterable[str]:
    for volume in spec.get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            yield volume["persistentVolumeClaim"]["claimName"]
        elif "ephemeral" in volume:
            yield f"{pod}-{volume['name']}"
