"""A scenario and its plan together: every existing node and every planned claim as a target with its pods.

The input of the rules. A claim with an unknown NodePool is not a target: one rule reports it, the others skip it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from checker import labels, node_options
from checker.catalog import Reservation
from checker.labels import Selector, Taint, Term, Value
from checker.node_options import NodeOption
from checker.scenario import Node, Pool, Scenario
from checker.shapes import Neighbours, Shape
from checker.workloads import Pod
from holdfast import names

Plan: TypeAlias = Mapping[str, Any]


class Violation(NamedTuple):
    rule: str
    what: str


@dataclass(slots=True, eq=False)
class Target:
    """An existing node, or a claim with every option that it could become."""

    name: str
    taints: tuple[Taint, ...]
    options: list[NodeOption]
    chosen: NodeOption | None  # what the plan expects; of a node, the node itself
    bound: list[Pod] = field(default_factory=list)
    planned: list[Pod] = field(default_factory=list)
    node: Node | None = None
    pool: Pool | None = None
    claim: Mapping[str, Any] = field(default_factory=dict)
    wanted: Term = ()  # requirements of a claim in addition to those of its NodePool

    @property
    def pods(self) -> list[Pod]:
        return self.bound + self.planned

    def domains(self, key: str) -> frozenset[Value]:
        """Every value that the label may get; the hostname of a claim is unique."""
        if key == names.HOSTNAME and self.node is None:
            return frozenset({self.name})
        return frozenset().union(*(option.values(key) for option in self.options))

    def domain(self, key: str) -> Value:
        """The value that the plan expects; None if the node has no such label or its value is open."""
        if key == names.HOSTNAME and self.node is None:
            return self.name
        values = self.chosen.values(key) if self.chosen else frozenset()
        return next(iter(values)) if len(values) == 1 else None


class Located(NamedTuple):
    pod: Pod
    target: Target
    planned: bool


@dataclass(slots=True)
class Case:
    scenario: Scenario
    plan: Plan
    reservations: dict[str, Reservation]
    pool_options: dict[str, list[NodeOption]]
    targets: list[Target]
    # Caches: which shapes a selector matches, and which DaemonSets run on an instance type of a NodePool.
    _matches: dict[tuple[Selector, Shape], bool] = field(default_factory=dict)
    keys_of: dict[Shape, set[str]] = field(default_factory=dict)
    rungs_of: dict[Shape, list[Any]] = field(default_factory=dict)
    daemons_of: dict[tuple[str, str, frozenset[str]], list[Shape]] = field(default_factory=dict)

    def located(self) -> Iterator[Located]:
        for target in self.targets:
            yield from (Located(pod, target, False) for pod in target.bound if not pod.terminating)
            yield from (Located(pod, target, True) for pod in target.planned)

    def claims(self) -> list[Target]:
        return [target for target in self.targets if target.node is None]

    def nodes(self) -> list[Target]:
        return [target for target in self.targets if target.node is not None]

    def without(self, pod: Pod) -> "Case":
        """The case without one of the planned pods, and without its claim if that has no other pod."""
        targets = []
        for target in self.targets:
            if pod not in target.planned:
                targets.append(target)
            elif target.node is not None or len(target.planned) > 1:
                targets.append(replace(target, planned=[one for one in target.planned if one is not pod]))
        return replace(self, targets=targets)

    def slots_left(self) -> dict[str, int]:
        """Free slots by id, minus those that the claims hold."""
        left = {found.id: self.scenario.free(found) for found in self.reservations.values()}
        for target in self.claims():
            slot = target.claim.get("reservationID")
            if slot in left:
                left[slot] -= 1
        return left

    def matches(self, selector: Selector, shape: Shape) -> bool:
        key = (selector, shape)
        if key not in self._matches:
            self._matches[key] = labels.selects(selector, shape.labels)
        return self._matches[key]

    def is_neighbour(self, wanted: Neighbours, shape: Shape) -> bool:
        """Whether the (anti-)affinity term selects such pods."""
        if not self.matches(wanted.selector, shape):
            return False
        namespace_labels = self.scenario.namespaces.get(shape.namespace, {})
        return shape.namespace in wanted.namespaces or labels.selects(
            wanted.namespace_selector, namespace_labels
        )


def per_pod(plan: Plan) -> Plan:
    """The plan with one entry for each pod with reasons; the document has one entry for all pods with equal reasons."""
    lists = ("unplaced", "waiting", "notReserved")
    expanded = {key: [one for entry in plan.get(key, ()) for one in _entries(entry)] for key in lists}
    return {**plan, **expanded}


def _entries(entry: dict[str, Any]) -> list[dict[str, Any]]:
    rest = {key: value for key, value in entry.items() if key != "pods"}
    return [{"pod": pod, **rest} for pod in entry["pods"]] if "pods" in entry else [entry]


def build(scenario: Scenario, plan: Plan) -> Case:
    pool_options = {pool.name: node_options.of_pool(scenario, pool) for pool in scenario.pools.values()}
    bound: dict[str, list[Pod]] = {}
    for pod in scenario.pods.values():
        bound.setdefault(pod.node or "", []).append(pod)
    on_nodes = {one["name"]: one["pods"] for one in plan.get("nodes", ())}
    targets = [_node(scenario, node, bound.get(node.name, []), on_nodes) for node in scenario.nodes.values()]
    for index, claim in enumerate(plan.get("claims", ())):
        pool = scenario.pools.get(claim["nodePool"])
        if pool is not None and pool.opens:
            targets.append(_claim(scenario, index, claim, pool_options[claim["nodePool"]]))
    return Case(scenario, per_pod(plan), scenario.reservations(), pool_options, targets)


def _node(scenario: Scenario, node: Node, bound: list[Pod], on_nodes: Mapping[str, list[str]]) -> Target:
    option = node_options.of_node(node)
    planned = _pods(scenario, on_nodes.get(node.name, []))
    pool = scenario.pools.get(node.pool or "")
    return Target(node.name, node.taints, [option], option, bound, planned, node, pool)


def _claim(scenario: Scenario, index: int, claim: Mapping[str, Any], found: list[NodeOption]) -> Target:
    pool = scenario.pools[claim["nodePool"]]
    wanted = requirements(claim)
    listed = set(claim["instanceTypes"])
    candidates = (option for option in node_options.launchable(found) if option.instance_type in listed)
    possible = [narrowed for option in candidates if (narrowed := node_options.narrow(option, wanted))]
    chosen = next((option for option in possible if is_chosen(option, claim)), None)
    pods = _pods(scenario, claim["pods"])
    return Target(f"claim {index}", pool.taints, possible, chosen, [], pods, None, pool, claim, wanted)


def requirements(claim: Mapping[str, Any]) -> Term:
    return labels.expressions(claim["requirements"])


def is_chosen(option: NodeOption, claim: Mapping[str, Any]) -> bool:
    offering = option.offering
    if offering is None or option.instance_type != claim["instanceType"]:
        return False
    slot = offering.reservation.id if offering.reservation else None
    same = offering.zone == claim["zone"] and offering.capacity_type == claim["capacityType"]
    return same and (slot is None or slot == claim.get("reservationID"))


def _pods(scenario: Scenario, listed: list[str]) -> list[Pod]:
    return [scenario.pods[name] for name in listed if name in scenario.pods]
