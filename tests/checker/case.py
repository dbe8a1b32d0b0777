"""A scenario and its plan side by side: every node, old or planned, as a place with pods on it.

What the rules look at. A claim that names an unknown pool is no place: one rule says so, the others have
nothing to ask about it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

from checker import labels, machines
from checker.catalog import Reservation
from checker.labels import Selector, Taint, Term, Value
from checker.machines import Machine
from checker.shapes import Neighbours, Shape
from checker.workloads import Pod
from checker.world import Node, Pool, World
from holdfast import names

Plan: TypeAlias = Mapping[str, Any]


class Violation(NamedTuple):
    rule: str
    what: str


@dataclass(slots=True, eq=False)
class Place:
    """A node that exists, or a claim: then with every machine it could become."""

    name: str
    taints: tuple[Taint, ...]
    machines: list[Machine]
    chosen: Machine | None  # what the plan counts on; of a node, the node
    bound: list[Pod] = field(default_factory=list)
    planned: list[Pod] = field(default_factory=list)
    node: Node | None = None
    pool: Pool | None = None
    claim: Mapping[str, Any] = field(default_factory=dict)
    wanted: Term = ()  # what a claim requires beside its NodePool

    @property
    def pods(self) -> list[Pod]:
        return self.bound + self.planned

    def domains(self, key: str) -> frozenset[Value]:
        """Every value the label may turn out to have; of a claim's hostname, one of its own."""
        if key == names.HOSTNAME and self.node is None:
            return frozenset({self.name})
        return frozenset().union(*(machine.values(key) for machine in self.machines))

    def domain(self, key: str) -> Value:
        """The value that the plan counts on; None where the node has no such label or it is not settled."""
        if key == names.HOSTNAME and self.node is None:
            return self.name
        values = self.chosen.values(key) if self.chosen else frozenset()
        return next(iter(values)) if len(values) == 1 else None


class Located(NamedTuple):
    pod: Pod
    place: Place
    planned: bool


@dataclass(slots=True)
class Case:
    world: World
    plan: Plan
    reservations: dict[str, Reservation]
    pool_machines: dict[str, list[Machine]]
    places: list[Place]
    # What was worked out once: who matches a selector, and which DaemonSets a type of a pool gets.
    _matches: dict[tuple[Selector, Shape], bool] = field(default_factory=dict)
    keys_of: dict[Shape, set[str]] = field(default_factory=dict)
    rungs_of: dict[Shape, list[Any]] = field(default_factory=dict)
    daemons_of: dict[tuple[str, str, frozenset[str]], list[Shape]] = field(default_factory=dict)

    def located(self) -> Iterator[Located]:
        for place in self.places:
            yield from (Located(pod, place, False) for pod in place.bound if not pod.leaving)
            yield from (Located(pod, place, True) for pod in place.planned)

    def claims(self) -> list[Place]:
        return [place for place in self.places if place.node is None]

    def nodes(self) -> list[Place]:
        return [place for place in self.places if place.node is not None]

    def without(self, pod: Pod) -> "Case":
        """The same without one of the planned pods; a claim that has no other pod is gone as well."""
        places = []
        for place in self.places:
            if pod not in place.planned:
                places.append(place)
            elif place.node is not None or len(place.planned) > 1:
                places.append(replace(place, planned=[one for one in place.planned if one is not pod]))
        return replace(self, places=places)

    def slots_left(self) -> dict[str, int]:
        """Free slots by id, less those that the places hold."""
        left = {found.id: self.world.free(found) for found in self.reservations.values()}
        for place in self.claims():
            slot = place.claim.get("reservationID")
            if slot in left:
                left[slot] -= 1
        return left

    def matches(self, selector: Selector, shape: Shape) -> bool:
        key = (selector, shape)
        if key not in self._matches:
            self._matches[key] = labels.selects(selector, shape.labels)
        return self._matches[key]

    def is_neighbour(self, wanted: Neighbours, shape: Shape) -> bool:
        """Whether a pod is one that the (anti-)affinity term speaks of."""
        if not self.matches(wanted.selector, shape):
            return False
        marks = self.world.namespaces.get(shape.namespace, {})
        return shape.namespace in wanted.namespaces or labels.selects(wanted.namespace_selector, marks)


def per_pod(plan: Plan) -> Plan:
    """The plan with one entry for each pod that has reasons: the document has one for all pods that share them."""
    lists = ("unplaced", "waiting", "notReserved")
    told = {key: [one for entry in plan.get(key, ()) for one in _entries(entry)] for key in lists}
    return {**plan, **told}


def _entries(entry: dict[str, Any]) -> list[dict[str, Any]]:
    rest = {key: value for key, value in entry.items() if key != "pods"}
    return [{"pod": pod, **rest} for pod in entry["pods"]] if "pods" in entry else [entry]


def build(world: World, plan: Plan) -> Case:
    pool_machines = {pool.name: machines.of_pool(world, pool) for pool in world.pools.values()}
    bound: dict[str, list[Pod]] = {}
    for pod in world.pods.values():
        bound.setdefault(pod.node or "", []).append(pod)
    on_nodes = {one["name"]: one["pods"] for one in plan.get("nodes", ())}
    places = [_node(world, node, bound.get(node.name, []), on_nodes) for node in world.nodes.values()]
    for index, claim in enumerate(plan.get("claims", ())):
        pool = world.pools.get(claim["nodePool"])
        if pool is not None and pool.opens:
            places.append(_claim(world, index, claim, pool_machines[claim["nodePool"]]))
    return Case(world, per_pod(plan), world.reservations(), pool_machines, places)


def _node(world: World, node: Node, bound: list[Pod], on_nodes: Mapping[str, list[str]]) -> Place:
    machine = machines.of_node(node)
    planned = _pods(world, on_nodes.get(node.name, []))
    pool = world.pools.get(node.pool or "")
    return Place(node.name, node.taints, [machine], machine, bound, planned, node, pool)


def _claim(world: World, index: int, claim: Mapping[str, Any], found: list[Machine]) -> Place:
    pool = world.pools[claim["nodePool"]]
    wanted = requirements(claim)
    listed = set(claim["instanceTypes"])
    candidates = (machine for machine in machines.launchable(found) if machine.instance_type in listed)
    possible = [kept for machine in candidates if (kept := machines.narrow(machine, wanted))]
    chosen = next((machine for machine in possible if is_chosen(machine, claim)), None)
    pods = _pods(world, claim["pods"])
    return Place(f"claim {index}", pool.taints, possible, chosen, [], pods, None, pool, claim, wanted)


def requirements(claim: Mapping[str, Any]) -> Term:
    return labels.expressions(claim["requirements"])


def is_chosen(machine: Machine, claim: Mapping[str, Any]) -> bool:
    offering = machine.offering
    if offering is None or machine.instance_type != claim["instanceType"]:
        return False
    slot = offering.reservation.id if offering.reservation else None
    same = offering.zone == claim["zone"] and offering.capacity_type == claim["capacityType"]
    return same and (slot is None or slot == claim.get("reservationID"))


def _pods(world: World, listed: list[str]) -> list[Pod]:
    return [world.pods[name] for name in listed if name in world.pods]
