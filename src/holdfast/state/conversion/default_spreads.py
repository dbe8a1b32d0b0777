"""The default spread constraints of a cluster, for pods without their own (S-85).

A default constraint has no selector. As in kube-scheduler, the selector of each pod is built from the Services that
select the pod and from its controller. A pod with neither gets no constraint. The constraints are never written to the
API server.
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
    """The default constraints of a pod without its own constraints."""
    about = _about(pod, known) if known.constraints else None
    return tuple(replace(c, selector=about) for c in known.constraints) if about is not None else ()


def _about(pod: Pod, known: Defaults) -> LabelSelector | None:
    """The selector of the pods that the constraint counts: all conditions of the pod's Services and its controller."""
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
        return None  # without a valid selector there is no default for its pods
