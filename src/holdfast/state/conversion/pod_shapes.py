"""Converts a pod to its shape, and finds why a pod is rejected before it is planned.

Called by `pods`, which caches the results. Conversion raises no exception: a field that cannot be parsed is left out of
the shape and gives a reason. Pods with the same meaning have equal shapes, in whatever order their maps and sets are
written.
"""

import ipaddress
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from holdfast import errors, names
from holdfast.api import pods as wire
from holdfast.api.scheduler_config import DefaultConstraint
from holdfast.model import requirements, resources, taints
from holdfast.model.host_ports import HostPort
from holdfast.model.pod_requests import Container, pod_requests
from holdfast.model.pods import (
    PodShape,
    PodTerm,
    PreferredNodeTerm,
    PreferredPodTerm,
    TopologySpread,
    Volumes,
)
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirement import Expression, Operator
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import Resources
from holdfast.model.selectors import LabelSelector
from holdfast.state.conversion import default_spreads, node_terms, pod_states, selectors, volumes
from holdfast.state.conversion.default_spreads import Defaults
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.volumes import Storage

T = TypeVar("T")

DEFAULT_NAMESPACE: Final = "default"
_NO_VOLUMES: Final[tuple[Volumes, tuple[Reason, ...]]] = (Volumes(), ())
_NO_EXPRESSIONS: Final[tuple[Expression, ...]] = ()
_HONOR: Final = {None: True, "Honor": True, "Ignore": False}
_IGNORE: Final = {None: False, "Honor": True, "Ignore": False}
_INT32: Final = 2**31  # the API server accepts smaller numbers only
_REQUIRED: Final = {"DoNotSchedule": True, "ScheduleAnyway": False}
_EFFECTS: Final = {"": None, **{effect.value: effect for effect in taints.Effect}}
_TOLERATION_OPERATORS: Final = {
    "": taints.TolerationOperator.EQUAL,
    **{operator.value: operator for operator in taints.TolerationOperator},
}


@dataclass(frozen=True, slots=True)
class PodContext:
    """The other objects that the conversion of a pod depends on."""

    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # labels by name
    storage: Storage = field(default_factory=Storage)
    spreads: Defaults = field(default_factory=Defaults)  # for pods without spread constraints


class Converted(NamedTuple):
    shape: PodShape
    problems: tuple[Reason, ...]  # why a pending pod is rejected; running pods are not affected
    self_contained: bool  # whether the result is the same in every context
    reads_labels: bool  # whether more than `shape.labels` depends on the pod's labels


def convert(pod: wire.Pod, context: PodContext, rules: LabelRules) -> Converted:
    """The shape of a pod and why it cannot be planned (S-7, S-9, S-100)."""
    spec = pod.spec
    namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
    found = _Problems()
    claims = volumes.claim_names(pod.metadata.name, spec.volumes)
    needs, unserved = found.part(
        _NO_VOLUMES, lambda: volumes.needs(namespace, claims, context.storage, rules)
    )
    affinity = spec.affinity or wire.Affinity()
    together = _PodTerms(affinity.pod_affinity, namespace, pod.metadata.labels, context, found)
    apart = _PodTerms(affinity.pod_anti_affinity, namespace, pod.metadata.labels, context, found)
    shape = PodShape(
        namespace=namespace,
        requests=found.part(resources.of({resources.PODS: 1}), lambda: requests(pod)),
        labels=tuple(sorted(pod.metadata.labels.items())),
        node_selector=_node_selector(spec.node_selector, rules, found),
        required_terms=_required_terms(
            affinity.node_affinity, rules, found, by_name=pod_states.owner(pod) != pod_states.DAEMON_SET
        ),
        preferred_terms=_preferred_terms(affinity.node_affinity, rules),
        tolerations=found.part((), lambda: tolerations(spec.tolerations)),
        spreads=found.part((), lambda: _spreads(spec.topology_spread_constraints, pod.metadata.labels))
        or default_spreads.of(pod, context.spreads),
        affinity=together.required,
        anti_affinity=apart.required,
        preferred_affinity=together.preferred,
        preferred_anti_affinity=apart.preferred,
        host_ports=found.part((), lambda: _host_ports(spec)),
        volumes=needs,
    )
    if spec.resource_claims:
        found.add("it requires devices by resourceClaims, which Holdfast does not support", "resourceClaims")
    by_default = context.spreads.constraints and not spec.topology_spread_constraints
    self_contained = not (claims or together.by_selector or apart.by_selector or by_default)
    reads_labels = (
        together.by_labels
        or apart.by_labels
        or any(c.match_label_keys for c in spec.topology_spread_constraints)
    )
    return Converted(shape, (*found.reasons, *unserved), self_contained, reads_labels)


class _Problems:
    """Collects why a pod is rejected."""

    def __init__(self) -> None:
        self.reasons: list[Reason] = []

    def add(self, text: str, subject: str = "", code: ReasonCode = ReasonCode.INVALID) -> None:
        self.reasons.append(Reason(code, text, (subject,) if subject else ()))

    def part(self, default: T, read: Callable[[], T]) -> T:
        """A converted part of the pod. If it cannot be parsed, adds a reason and returns the default."""
        try:
            return read()
        except errors.InvalidInput as error:
            self.add(str(error))
            return default


# --- Resources --------------------------------------------------------------------------------------


def requests(pod: wire.Pod) -> Resources:
    """The effective requests (S-53). A limit without a request counts as a request, as in the API server."""
    spec, status = pod.spec, pod.status
    if len(spec.containers) == 1 and not (
        spec.init_containers or spec.overhead or spec.resources or status.container_statuses
    ):
        container_resources = spec.containers[0].resources
        return resources.parse_requests(
            {**container_resources.limits, **container_resources.requests, resources.PODS: 1}
        )
    reported = {s.name: s for s in (*status.container_statuses, *status.init_container_statuses)}
    return pod_requests(
        [_container(container, reported.get(container.name)) for container in spec.containers],
        [_container(container, reported.get(container.name)) for container in spec.init_containers],
        overhead=resources.parse_requests(spec.overhead),
        pod_level=resources.parse_requests(_pod_level(spec)),
        resize_infeasible=is_resize_infeasible(status),
    )


def is_resize_infeasible(status: wire.PodStatus) -> bool:
    return any(c.type == "PodResizePending" and c.reason == "Infeasible" for c in status.conditions)


def _container(container: wire.Container, status: wire.ContainerStatus | None) -> Container:
    running = status.resources if status is not None else None
    return Container(
        requests=resources.parse_requests(container.resources.limits | container.resources.requests),
        sidecar=container.restart_policy == "Always",
        actuated=None if running is None else resources.parse_requests(running.requests),
        allocated=resources.parse_requests(status.allocated_resources)
        if status is not None
        else resources.NOTHING,
    )


def _pod_level(spec: wire.PodSpec) -> dict[str, str | int | float]:
    """Requests for the whole pod. A limit is used as the request of a resource that no container requests."""
    if spec.resources is None:
        return {}
    requested = {
        name
        for container in (*spec.containers, *spec.init_containers)
        for name in (*container.resources.requests, *container.resources.limits)
    }
    limits = {name: amount for name, amount in spec.resources.limits.items() if name not in requested}
    return limits | spec.resources.requests


# --- The node's labels ------------------------------------------------------------------------------


def _node_selector(wanted: Mapping[str, str], rules: LabelRules, found: _Problems) -> Requirements:
    for key, value in sorted(wanted.items()):
        for problem in node_terms.problems(Expression(key, Operator.IN, (value,)), rules):
            found.add(f"nodeSelector: {problem}", key)
    return node_terms.all_labels(wanted, rules)


def _required_terms(
    affinity: wire.NodeAffinity | None, rules: LabelRules, found: _Problems, *, by_name: bool
) -> tuple[Requirements, ...]:
    if affinity is None or affinity.required is None:
        return ()
    # A term without any condition matches no node in Kubernetes.
    terms = [t for t in affinity.required.node_selector_terms if t.match_expressions or t.match_fields]
    if not terms:
        found.add("its required node affinity matches no node: every term is empty")
    read = [_required_term(term, rules, found, by_name=by_name) for term in terms]
    avoided = [term.get(names.NODEPOOL).operator is Operator.DOES_NOT_EXIST for term in read]
    if read and all(avoided):
        text = f"it requires a node without the label {names.NODEPOOL}, and every node of Holdfast has it"
        found.add(text, code=ReasonCode.EXCLUDES_NODE_POOLS)
    return tuple(read)


def _required_term(
    term: wire.NodeSelectorTerm, rules: LabelRules, found: _Problems, *, by_name: bool
) -> Requirements:
    if term.match_fields:
        found.add("required node affinity with matchFields names nodes that exist; use matchExpressions")
    expressions = found.part(
        _NO_EXPRESSIONS, lambda: tuple(node_terms.expression(e, rules) for e in term.match_expressions)
    )
    for wanted in expressions:
        for problem in node_terms.problems(wanted, rules):
            found.add(f"required node affinity: {problem}", wanted.key)
    # A running pod is not rejected, and must not be planned onto a node that its matchFields exclude. So the fields
    # become requirements on labels that no node has. Pods of DaemonSets are never planned; one shape for each node
    # would be slow.
    fields = term.match_fields if by_name else ()
    try:
        return requirements.from_expressions(
            (*expressions, *(node_terms.expression(e, rules) for e in fields))
        )
    except errors.InvalidInput:  # reported above, one by one
        return NO_REQUIREMENTS


def _preferred_terms(affinity: wire.NodeAffinity | None, rules: LabelRules) -> tuple[PreferredNodeTerm, ...]:
    """The preferences that a new node can satisfy, without those that are invalid or name nodes."""
    preferred = []
    for term in affinity.preferred if affinity is not None else ():
        try:
            wanted = node_terms.all_of(term.preference.match_expressions, rules)
        except errors.InvalidInput:
            continue
        if wanted.by_key and not term.preference.match_fields:
            preferred.append(PreferredNodeTerm(term.weight, wanted))
    return tuple(preferred)


def tolerations(wires: Iterable[wire.Toleration]) -> tuple[taints.Toleration, ...]:
    read = {
        taints.Toleration(
            t.key,
            _one_of(_TOLERATION_OPERATORS, t.operator, "the operator of a toleration"),
            t.value,
            _one_of(_EFFECTS, t.effect, "the effect of a toleration"),
        )
        for t in wires
    }
    return tuple(sorted(read, key=lambda t: (t.key, t.operator, t.value, t.effect or "")))


# --- Other pods -------------------------------------------------------------------------------------


def _spreads(
    wires: Iterable[wire.TopologySpreadConstraint], labels: Mapping[str, str]
) -> tuple[TopologySpread, ...]:
    return tuple(spread(c, selectors.selector(c.label_selector, labels, c.match_label_keys)) for c in wires)


def spread(
    c: wire.TopologySpreadConstraint | DefaultConstraint, selector: LabelSelector | None = None
) -> TopologySpread:
    """One constraint. A default constraint of the cluster has no selector; `default_spreads` adds it for each pod."""
    return TopologySpread(
        key=names.LABEL_ALIASES.get(c.topology_key, c.topology_key),
        max_skew=_positive(c.max_skew, "maxSkew"),
        required=_one_of(_REQUIRED, c.when_unsatisfiable, "whenUnsatisfiable"),
        selector=selector,
        min_domains=None if c.min_domains is None else _positive(c.min_domains, "minDomains"),
        honors_node_affinity=_one_of(_HONOR, c.node_affinity_policy, "nodeAffinityPolicy"),
        honors_node_taints=_one_of(_IGNORE, c.node_taints_policy, "nodeTaintsPolicy"),
    )


class _PodTerms:
    """The terms of an affinity or an anti-affinity."""

    def __init__(
        self,
        affinity: wire.PodAffinity | None,
        namespace: str,
        labels: Mapping[str, str],
        context: PodContext,
        found: _Problems,
    ) -> None:
        self._namespace, self._labels, self._context = namespace, labels, context
        written = affinity or wire.PodAffinity()
        terms = (*written.required, *(p.pod_affinity_term for p in written.preferred))
        self.by_selector = any(term.namespace_selector is not None for term in terms)
        self.by_labels = any(term.match_label_keys or term.mismatch_label_keys for term in terms)
        self.required: tuple[PodTerm, ...] = found.part((), lambda: tuple(map(self._term, written.required)))
        self.preferred: tuple[PreferredPodTerm, ...] = found.part(
            (),
            lambda: tuple(
                PreferredPodTerm(p.weight, self._term(p.pod_affinity_term)) for p in written.preferred
            ),
        )

    def _term(self, term: wire.PodAffinityTerm) -> PodTerm:
        key = names.LABEL_ALIASES.get(term.topology_key, term.topology_key)
        selector = selectors.selector(
            term.label_selector, self._labels, term.match_label_keys, term.mismatch_label_keys
        )
        return PodTerm(key, selector, self._namespaces(term))

    def _namespaces(self, term: wire.PodAffinityTerm) -> tuple[str, ...]:
        """The listed and the selected namespaces; the pod's own if neither is set (S-80)."""
        chosen = selectors.selector(term.namespace_selector)
        if chosen is None:
            return tuple(sorted(set(term.namespaces))) or (self._namespace,)
        selected = {name for name, labels in self._context.namespaces.items() if chosen.matches(labels)}
        return tuple(sorted(selected.union(term.namespaces)))


# --- Ports ------------------------------------------------------------------------------------------


def _host_ports(spec: wire.PodSpec) -> tuple[HostPort, ...]:
    """The host ports of a pod's containers; with hostNetwork every container port is one (S-87)."""
    taken = {
        HostPort(number, port.protocol or "TCP", _address(port.host_ip))
        for container in spec.containers
        for port in container.ports
        if (number := port.host_port or (port.container_port if spec.host_network else 0))
    }
    return tuple(sorted(taken, key=lambda p: (p.port, p.protocol, p.ip)))


def _address(written: str) -> str:
    try:
        return str(ipaddress.ip_address(written)) if written else ""
    except ValueError as error:
        raise errors.InvalidInput(f"hostIP {written!r} is not an IP address") from error


def _positive(number: int, what: str) -> int:
    if not 0 < number < _INT32:
        raise errors.InvalidInput(f"{what} is {number}; it goes from 1 to {_INT32 - 1}")
    return number


def _one_of(table: Mapping[Any, T], word: str | None, what: str) -> T:
    if word not in table:
        known = ", ".join(sorted(name for name in table if name))
        raise errors.InvalidInput(f"{what} is {word!r}; known are {known}")
    return table[word]
