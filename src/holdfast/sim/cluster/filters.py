"""Whether a pod fits on a node, and if not, why, in the words of kube-scheduler.

Callers: `scheduler`. Filters are asked in its order, and the first that refuses gives the reason. Written from
Kubernetes' rules alone: what decides for the autoscaler must not be what judges it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.sim.cluster import labels, pods
from holdfast.sim.cluster.amounts import Amounts
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.cluster.scheduling_volumes import Volumes
from holdfast.sim.cluster.seats import Place, Port, with_one_pod
from holdfast.sim.cluster.topology import Neighbours


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that is to be placed, with what follows from it alone."""

    pod: Pod
    requests: Amounts
    ports: tuple[Port, ...]
    neighbours: Neighbours
    volumes: Volumes


def candidate(pod: Pod, neighbours: Neighbours, volumes: Volumes) -> Candidate:
    return Candidate(pod, with_one_pod(pod.spec), tuple(pods.host_ports(pod.spec)), neighbours, volumes)


def refusals(who: Candidate, place: Place) -> list[str]:
    """Why the pod cannot run there; nothing when it can."""
    for why in (_node(who, place), _ports(who, place), _resources(who, place)):
        if why:
            return why
    volumes = who.volumes.refusal(place)
    other = volumes or _spread(who, place) or _affinity(who, place)
    return [other] if other else []


def _node(who: Candidate, place: Place) -> list[str]:
    spec, node = who.pod.spec, place.node
    unschedulable = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    if node.spec.get("unschedulable") and not labels.tolerates(spec.get("tolerations") or (), unschedulable):
        return ["node(s) were unschedulable"]
    taint = labels.untolerated(spec, node)
    if taint is not None:
        return [f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"]
    return [] if labels.selects(spec, node) else ["node(s) didn't match Pod's node affinity/selector"]


def _ports(who: Candidate, place: Place) -> list[str]:
    taken = [port for port, count in place.seat.ports.items() if count > 0]
    clash = any(_is_same_port(one, other) for one in who.ports for other in taken)
    return ["node(s) didn't have free ports for the requested pod ports"] if clash else []


def _is_same_port(one: Port, other: Port) -> bool:
    anywhere = "0.0.0.0" in (one[0], other[0])  # noqa: S104 - an address that is asked about, not bound
    return one[1:] == other[1:] and (anywhere or one[0] == other[0])


def _resources(who: Candidate, place: Place) -> list[str]:
    short = [
        name
        for name, amount in who.requests.items()
        if amount > 0 and place.seat.used[name] + amount > place.allocatable.get(name, 0)
    ]
    return ["Too many pods" if name == "pods" else f"Insufficient {name}" for name in sorted(short)]


def _spread(who: Candidate, place: Place) -> str:
    for spread in who.neighbours.spreads:
        skew = spread.skew(place)
        if skew is None:
            return "node(s) didn't match pod topology spread constraints (missing required label)"
        if skew > spread.max_skew:
            return "node(s) didn't match pod topology spread constraints"
    return ""


def _affinity(who: Candidate, place: Place) -> str:
    for term, there, may_be_first in who.neighbours.wanted:
        domain = term.domain(place)
        if domain is None or (domain not in there and not may_be_first):
            return "node(s) didn't match pod affinity rules"
    if any(term.domain(place) in there for term, there in who.neighbours.unwanted):
        return "node(s) didn't match pod anti-affinity rules"
    has = place.node.metadata.labels
    if any(has.get(key) == domain for key, domain in who.neighbours.refused_by_others):
        return "node(s) didn't satisfy existing pods anti-affinity rules"
    return ""


def explain(total: int, reasons: Iterable[list[str]]) -> str:
    """The message of a pod that fits nowhere."""
    if not total:
        return "no nodes available to schedule pods"
    counts: dict[str, int] = {}
    for each in reasons:
        for why in each:
            counts[why] = counts.get(why, 0) + 1
    summary = ", ".join(sorted(f"{count} {why}" for why, count in counts.items()))
    return f"0/{total} nodes are available: {summary}."
