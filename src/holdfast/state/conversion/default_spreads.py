"""Spread constraints that a cluster gives to pods that have none (S-85).

The rule: kube-scheduler's own. A default says nothing of whom it is about; that is deduced for each pod, from the
Services that select it and from what made it, and a pod about which neither says anything gets no constraint. Nothing
of this is ever written.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast import errors
from holdfast.api.cluster import Service
from holdfast.api.pods import Pod
from holdfast.api.workloads import Deployment, ReplicaSet, ReplicationController, StatefulSet
from holdfast.model.pods import TopologySpread
from holdfast.model.requirement import Expression, Operator
from holdfast.model.selectors import LabelSelector
from holdfast.state.conversion import selectors

Maker = Deployment | ReplicaSet | ReplicationController | StatefulSet
_DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Defaults:
    constraints: tuple[TopologySpread, ...] = ()  # without selectors
    services: Mapping[str, tuple[Mapping[str, str], ...]] = field(
        default_factory=dict
    )  # selectors, by namespace
    makers: Mapping[tuple[str, str, str], LabelSelector] = field(
        default_factory=dict
    )  # namespace, kind, name


def defaults(
    constraints: Iterable[TopologySpread], services: Iterable[Service] = (), makers: Iterable[Maker] = ()
) -> Defaults:
    by_namespace: dict[str, list[Mapping[str, str]]] = {}
    for service in services:
        if service.spec.selector:
            of = by_namespace.setdefault(service.metadata.namespace or _DEFAULT_NAMESPACE, [])
            of.append(service.spec.selector)
    found = {
        (maker.metadata.namespace or _DEFAULT_NAMESPACE, maker.kind, maker.metadata.name): selector
        for maker in makers
        if (selector := _selector(maker)) is not None
    }
    return Defaults(tuple(constraints), {name: tuple(of) for name, of in by_namespace.items()}, found)


def of(pod: Pod, known: Defaults) -> tuple[TopologySpread, ...]:
    """The constraints of a pod that has none of its own."""
    about = _about(pod, known) if known.constraints else None
    return tuple(replace(c, selector=about) for c in known.constraints) if about is not None else ()


def _about(pod: Pod, known: Defaults) -> LabelSelector | None:
    """The selector of the pods that count: those that all of these selectors match."""
    namespace, labels = pod.metadata.namespace or _DEFAULT_NAMESPACE, pod.metadata.labels
    conditions = {
        Expression(key, Operator.IN, (value,))
        for selector in known.services.get(namespace, ())
        if selector.items() <= labels.items()
        for key, value in selector.items()
    }
    for owner in pod.metadata.owner_references:
        maker = known.makers.get((namespace, owner.kind, owner.name)) if owner.controller else None
        conditions |= set(maker.expressions) if maker is not None else set()
    ordered = sorted(conditions, key=lambda e: (e.key, e.operator, e.values))
    return LabelSelector(tuple(ordered)) if ordered else None


def _selector(maker: Maker) -> LabelSelector | None:
    if isinstance(maker, ReplicationController):
        labels = maker.spec.selector.items()
        return LabelSelector(tuple(Expression(k, Operator.IN, (v,)) for k, v in sorted(labels)))
    try:
        return selectors.selector(maker.spec.selector)
    except errors.InvalidInput:
        return None  # it says nothing about its pods
