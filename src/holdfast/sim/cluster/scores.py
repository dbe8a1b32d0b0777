"""Scores the nodes that a pod fits on.

Each score is between 0 and 100 and has a weight, as in kube-scheduler. On a tie the first node by name is used, where
kube-scheduler chooses at random: a run must replay.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from holdfast.sim.cluster import labels
from holdfast.sim.cluster.filters import Candidate, Needs
from holdfast.sim.cluster.node_infos import NodeInfo

_BEST: Final = 100


class NodeScores(NamedTuple):
    """The scores that depend on the node and its pods alone."""

    soft_taints: int
    preferred_node: int
    free: float


def best(candidate: Candidate, node_infos: Sequence[NodeInfo]) -> NodeInfo:
    alone = [of_node(candidate.needs, node_info) for node_info in node_infos]
    near = [_preferred_neighbours(candidate, node_info) for node_info in node_infos]
    spread = [_spread(candidate, node_info) for node_info in node_infos]
    scored = totals(alone, near, spread)
    return node_infos[scored.index(max(scored))]


def totals(alone: Sequence[NodeScores], near: Sequence[int], spread: Sequence[int]) -> list[float]:
    """The weighted sum of each node's scores. All but the last are normalized over the nodes."""
    scored = [0.0] * len(alone)
    columns = (
        (3, [one.soft_taints for one in alone]),
        (2, [one.preferred_node for one in alone]),
        (2, near),
        (2, spread),
    )
    for weight, found in columns:
        low, high = min(found), max(found)
        if high > low:
            for index, value in enumerate(found):
                scored[index] += weight * _BEST * (value - low) / (high - low)
    return [score + one.free for score, one in zip(scored, alone, strict=True)]


def of_node(needs: Needs, node_info: NodeInfo) -> NodeScores:
    return NodeScores(
        _few_soft_taints(needs, node_info),
        _preferred_node(needs, node_info),
        _least_allocated(needs, node_info),
    )


def _least_allocated(needs: Needs, node_info: NodeInfo) -> float:
    """The free share of CPU and memory with the pod; not normalized."""
    free = 0.0
    for name in ("cpu", "memory"):
        size = node_info.allocatable.get(name, 0)
        if size:
            free += max(0.0, (size - node_info.usage.used[name] - needs.requests.get(name, 0)) / size)
    return _BEST * free / 2


def _few_soft_taints(needs: Needs, node_info: NodeInfo) -> int:
    tolerations = needs.spec.get("tolerations") or ()
    soft = [taint for taint in labels.taints(node_info.node) if taint["effect"] == "PreferNoSchedule"]
    return -sum(not labels.tolerates(tolerations, taint) for taint in soft)


def _preferred_node(needs: Needs, node_info: NodeInfo) -> int:
    affinity = (needs.spec.get("affinity") or {}).get("nodeAffinity") or {}
    meta = node_info.node.metadata
    return sum(
        int(term["weight"])
        for term in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        if labels.term_matches(term["preference"], meta.labels, meta.name)
    )


def _preferred_neighbours(candidate: Candidate, node_info: NodeInfo) -> int:
    found = 0
    for term, counts in candidate.neighbours.preferences:
        domain = term.domain(node_info)
        if domain is not None:
            found += term.weight * counts[domain]
    return found


def _spread(candidate: Candidate, node_info: NodeInfo) -> int:
    return -sum(spread.skew(node_info) or 0 for spread in candidate.neighbours.soft_spreads)
