"""Converts DaemonSets to the pods that they create on nodes.

The newest pod of a DaemonSet predicts the next one best, since admission may have changed it. But its node affinity
names its own node, so the node affinity of the template is used (S-56).
"""

from collections.abc import Iterable

from msgspec.structs import replace

from holdfast.api.meta import ObjectMeta
from holdfast.api.pods import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod
from holdfast.api.workloads import DaemonSet
from holdfast.model.reasons import Reason
from holdfast.model.snapshot import DaemonSetView
from holdfast.state.conversion import pod_shapes, pod_states, times
from holdfast.state.conversion.pods import PodConverter


def view(
    daemon_set: DaemonSet, newest: Pod | None, converter: PodConverter
) -> tuple[DaemonSetView, tuple[Reason, ...]]:
    """The pod that the DaemonSet creates on each matching node, and why it cannot be parsed."""
    meta = daemon_set.metadata
    converted = converter.convert(_next_pod(daemon_set, newest))
    return DaemonSetView(converted.shape.namespace, meta.name, converted.shape), converted.problems


def newest_pods(pods: Iterable[Pod]) -> dict[tuple[str, str], Pod]:
    """The newest live pod of each DaemonSet, by namespace and name of the DaemonSet."""
    newest: dict[tuple[str, str], Pod] = {}
    for pod in pods:
        if pod_states.owner(pod) != pod_states.DAEMON_SET or not pod_states.is_active(pod):
            continue
        owner = next(o.name for o in pod.metadata.owner_references if o.kind == pod_states.DAEMON_SET)
        key = (pod.metadata.namespace or pod_shapes.DEFAULT_NAMESPACE, owner)
        if key not in newest or _age_key(newest[key]) < _age_key(pod):
            newest[key] = pod
    return newest


def _age_key(pod: Pod) -> tuple[int, str]:
    """A newer pod has a greater key. Pods of the same second are ordered by name, so that the order is total."""
    return times.epoch_s_or_none(pod.metadata.creation_timestamp) or 0, pod.metadata.name


def _next_pod(daemon_set: DaemonSet, newest: Pod | None) -> Pod:
    template = daemon_set.spec.template
    if newest is None:
        namespace = daemon_set.metadata.namespace
        return Pod(
            metadata=ObjectMeta(namespace=namespace, labels=template.metadata.labels), spec=template.spec
        )
    wanted = template.spec.affinity
    required = wanted.node_affinity.required if wanted and wanted.node_affinity else None
    affinity = newest.spec.affinity or Affinity()
    on_nodes = affinity.node_affinity or NodeAffinity()
    on_nodes = replace(on_nodes, required=required or _anywhere(on_nodes.required))
    return replace(newest, spec=replace(newest.spec, affinity=replace(affinity, node_affinity=on_nodes)))


def _anywhere(required: NodeSelector | None) -> NodeSelector | None:
    """A required affinity without the node's name that the DaemonSet controller added."""
    if required is None:
        return None
    terms = [NodeSelectorTerm(term.match_expressions) for term in required.node_selector_terms]
    return NodeSelector(tuple(terms)) if all(term.match_expressions for term in terms) else None
