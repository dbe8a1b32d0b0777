"""Whether a pod fits on a node, and why not, with kube-scheduler's messages.

The filters have kube-scheduler's order, and the first that fails gives the reason. They are written from the rules of
Kubernetes, without code of the planner: the planner must not check itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from holdfast.sim.cluster import labels, pods
from holdfast.sim.cluster.amounts import Amounts
from holdfast.sim.cluster.kinds import Json, Pod
from holdfast.sim.cluster.node_infos import NodeInfo, Port, with_one_pod
from holdfast.sim.cluster.scheduling_volumes import Volumes
from holdfast.sim.cluster.topology import Neighbours


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pod needs of a node, whatever runs on other nodes. Pods of one template need the same."""

    spec: Json
    requests: Amounts
    ports: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod to schedule, with values that depend on it alone."""

    pod: Pod
    needs: Needs
    neighbours: Neighbours
    volumes: Volumes


def needs_of(spec: Json) -> Needs:
    return Needs(spec, with_one_pod(spec), tuple(pods.host_ports(spec)))


def refusals(candidate: Candidate, node_info: NodeInfo) -> list[str]:
    """Why the pod cannot run on the node; empty if it can."""
    why = of_node(candidate.needs, node_info)
    if why:
        return why
    other = of_neighbours(candidate, node_info)
    return [other] if other else []


def of_node(needs: Needs, node_info: NodeInfo) -> list[str]:
    """The refusals that depend on the node and its pods alone. These filters are the first ones."""
    return _node(needs, node_info) or _ports(needs, node_info) or _resources(needs, node_info)


def of_neighbours(candidate: Candidate, node_info: NodeInfo) -> str:
    """The refusal that depends on volumes or on pods of other nodes."""
    volumes = candidate.volumes.refusal(node_info)
    return volumes or _spread(candidate, node_info) or _affinity(candidate, node_info)


def _node(needs: Needs, node_info: NodeInfo) -> list[str]:
    spec, node = needs.spec, node_info.node
    unschedulable = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node.spec.get("unschedulable") and not labels.tolerates(spec.get("tolerations") or (), unschedulable):
        return ["node(s) were unschedulable"]
    taint = labels.untolerated(spec, node)
    if taint is not None:
        return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"]
    return [] if labels.selects(spec, node) else ["node(s) didn't match Pod's node affinity/selector"]


def _ports(needs: Needs, node_info: NodeInfo) -> list[str]:
    if not needs.ports:
        return []
    taken = [port for port, count in node_info.usage.ports.items() if count > 0]
    clash = any(_is_same_port(one, other) for one in needs.ports for other in taken)
    return ["node(s) didn't have free ports for the requested pod ports"] if clash else []


def _is_same_port(one: Port, other: Port) -> bool:
    anywhere = "0.0.0.0" in (one[0], other[0])  # noqa: S104 - an address that is asked about, not bound
    return one[1:] == other[1:] and (anywhere or one[0] == other[0])


def _resources(needs: Needs, node_info: NodeInfo) -> list[str]:
    short = [
        name
        for name, amount in needs.requests.items()
        if amount > 0 and node_info.usage.used[name] + amount > node_info.allocatable.get(name, 0)
    ]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]


def _spread(candidate: Candidate, node_info: NodeInfo) -> str:
    for spread in candidate.neighbours.spreads:
        skew = spread.skew(node_info)
        if skew is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        if skew > spread.max_skew:
            return "node(s) didn't match pod topology spread constraints"
    return ""


def _affinity(candidate: Candidate, node_info: NodeInfo) -> str:
    for term, there, may_be_first in candidate.neighbours.wanted:
        domain = term.domain(node_info)
        if domain is None or (domain not in there and not may_be_first):
            return "node(s) didn't match pod affinity rules"
    if any(term.domain(node_info) in there for term, there in candidate.neighbours.unwanted):
        return "node(s) didn't match pod anti-affinity rules"
    has = node_info.node.metadata.labels
    if any(has.get(key) == domain for key, domain in candidate.neighbours.refused_by_anti_affinity):
        return "node(s) didn't satisfy existing pods anti-affinity rules"
    return ""


def name_of(why: str) -> str:
    """The filter that gives a reason: several reasons have one filter."""
    if why.startswith("node(s) had untolerated taint"):
        return "TaintToleration"
    return "NodeResourcesFit" if why.startswith(("Insufficient", "Too many pods")) else why


def explain(total: int, reasons: Iterable[list[str]]) -> str:
    """The message for a pod that fits on no node."""
    return summary(total, Counter(why for each in reasons for why in each))


def summary(total: int, counts: Mapping[str, int]) -> str:
    """The same, with the number of nodes that each reason excludes."""
    if not total:
        return "no nodes available to schedule pods"
    texts = ", ".join(sorted(f"{count} {why}" for why, count in counts.items() if count))
    return f"0/{total} nodes are available: {texts}."
