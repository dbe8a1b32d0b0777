"""Scores the nodes that a pod fits on.

Each score is between 0 and 100 and has a weight, as in kube-scheduler. On a tie the first node by name is used, where
kube-scheduler chooses at random: a run must replay.
"""

from collections.abc import Callable, Sequence
from typing import Final

from holdfast.sim.cluster import labels
from holdfast.sim.cluster.filters import Candidate
from holdfast.sim.cluster.node_infos import NodeInfo

_BEST: Final = 100


def best(candidate: Candidate, node_infos: Sequence[NodeInfo]) -> NodeInfo:
    scored = [0.0] * len(node_infos)
    for weight, score in _SCORES:
        found = [score(candidate, node_info) for node_info in node_infos]
        low, high = min(found), max(found)
        for index, value in enumerate(found):
            scored[index] += weight * _BEST * (value - low) / (high - low) if high > low else 0
    for index, node_info in enumerate(node_infos):
        scored[index] += _least_allocated(candidate, node_info)
    return node_infos[max(range(len(node_infos)), key=lambda index: (scored[index], -index))]


def _least_allocated(candidate: Candidate, node_info: NodeInfo) -> float:
    """The free share of CPU and memory with the pod; not normalized."""
    free = 0.0
    for name in ("cpu", "memory"):
        size = node_info.allocatable.get(name, 0)
        if size:
            free += max(0.0, (size - node_info.usage.used[name] - candidate.requests.get(name, 0)) / size)
    return _BEST * free / 2


def _few_soft_taints(candidate: Candidate, node_info: NodeInfo) -> float:
    tolerations = candidate.pod.spec.get("tolerations") or ()
    soft = [taint for taint in labels.taints(node_info.node) if taint["effect"] == "PreferNoSchedule"]
    return -sum(not labels.tolerates(tolerations, taint) for taint in soft)


def _preferred_node(candidate: Candidate, node_info: NodeInfo) -> float:
    affinity = (candidate.pod.spec.get("affinity") or {}).get("nodeAffinity") or {}
    meta = node_info.node.metadata
    return sum(
        int(term["weight"])
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if labels.term_matches(term["preference"], meta.labels, meta.name)
    )


def _preferred_neighbours(candidate: Candidate, node_info: NodeInfo) -> float:
    found = 0
    for term, counts in candidate.neighbours.preferences:
        domain = term.domain(node_info)
        if domain is not None:
            found += term.weight * counts[domain]
    return found


def _spread(candidate: Candidate, node_info: NodeInfo) -> float:
    return -sum(spread.skew(node_info) or 0 for spread in candidate.neighbours.soft_spreads)


_SCORES: Final[tuple[tuple[int, Callable[[Candidate, NodeInfo], float]], ...]] = (
    (3, _few_soft_taints),
    (2, _preferred_node),
    (2, _preferred_neighbours),
    (2, _spread),
)
