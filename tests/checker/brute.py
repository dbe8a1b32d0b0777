"""Rules that search: did the plan overlook a place for a pod, or a slot that was paid for?

`placeable` takes each unplaced pod by itself and leaves all others where the plan has them. Pods whose place
depends on other pods are reported under a name of their own, `placeable-topology`: upstream pins such a pod
to the emptiest domain and gives up if that fails (S-79), so a finding there may be upstream's behaviour.
`exhaustive` is the same question asked without any cleverness, for tiny cases: write the pod into the plan
in every way there is, and check the plan.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from checker import labels, machines, openings, writing
from checker.case import Case, Place, Violation, build
from checker.labels import Expression
from checker.shapes import Shape
from checker.world import Pool, World
from holdfast import names

Check: TypeAlias = Callable[[World, dict[str, Any]], list[Violation]]

TINY_PODS: Final = 4


def placeable(case: Case) -> Iterator[Violation]:
    """placeable, placeable-topology: no unplaced pod could be placed as things are in the end."""
    seen: set[Shape] = set()
    for one in case.plan["unplaced"]:
        pod = case.world.pods.get(one["pod"])
        if pod is None or pod.shape in seen:
            continue
        seen.add(pod.shape)
        where = next(found_places(case, pod.shape), None)
        if where is not None:
            rule = "placeable-topology" if _depends(pod.shape) else "placeable"
            yield Violation(rule, f"{pod.name} could go on {where}")


def _depends(shape: Shape) -> bool:
    return bool(shape.spreads or shape.affinity or shape.anti_affinity)


def found_places(case: Case, shape: Shape) -> Iterator[str]:
    for place in case.nodes():
        if openings.on_node(case, shape, place):
            yield f"node {place.name}"
    for place in case.claims():
        yield from (place.name for _ in openings.on_claim(case, shape, place))
    terms = openings.reachable_terms(shape)
    for pool in case.world.pools.values():
        room = openings.room(case, pool, pessimistic=True)
        for reserved in (True, False):
            for place in openings.fresh(case, shape, pool, room, terms, reserved=reserved):
                yield f"a new node of {pool.name}: {_machine(place)}"


def _machine(place: Place) -> str:
    machine = place.chosen
    assert machine is not None
    assert machine.offering is not None
    slot = machine.reservation.id if machine.reservation else machine.offering.capacity_type
    return f"{machine.instance_type} in {machine.offering.zone}, {slot}"


def paid_slots(case: Case) -> Iterator[Violation]:
    """paid-slot-left: nothing is bought for pods of which each could have had a free slot to itself."""
    if not case.world.settings.get("reservedBeforeWeight", True):
        return
    known: dict[Shape, str | None] = {}
    for place in case.claims():
        if place.claim.get("slot") is not None or not place.planned:
            continue
        for pod in place.planned:
            if pod.shape not in known:
                known[pod.shape] = _free_slot(case, pod.shape)
        slots = [known[pod.shape] for pod in place.planned]
        if None not in slots:
            yield Violation("paid-slot-left", f"{place.name} was bought although there was {slots[0]}")


def _free_slot(case: Case, shape: Shape) -> str | None:
    """A free slot that a planner would surely try first: without preferences, neighbours or a choice
    between alternatives there is nothing that could come before it."""
    if _depends(shape) or shape.prefers or len(list(openings.ways(case, shape, shape.terms))) > 1:
        return None
    for pool in case.world.pools.values():
        if any(one.min_values is not None for one in pool.requirements) or _discourages(pool, shape):
            continue
        room = openings.room(case, pool, pessimistic=True)
        for place in openings.fresh(case, shape, pool, room, shape.terms, reserved=True):
            return f"{_machine(place)} of {pool.name}"
    return None


def _discourages(pool: Pool, shape: Shape) -> bool:
    return bool(labels.untolerated(shape.tolerations, pool.taints, preferences=True))


def exhaustive(case: Case, check: Check) -> Iterator[Violation]:
    """For tiny cases that leave nothing to a planner's caution: no DaemonSets, limits, minValues, waiting."""
    world = case.world
    careful = world.daemons or any(
        pool.limits or any(one.min_values for one in pool.requirements) for pool in world.pools.values()
    )
    if careful or len(world.pending()) > TINY_PODS:
        return
    before = set(check(world, dict(case.plan)))
    for one in case.plan["unplaced"]:
        pod = world.pods.get(one["pod"])
        if pod is None or _depends(pod.shape) or pod.shape.prefers:
            continue
        for plan, where in _variants(case, pod.name):
            if not set(check(world, plan)) - before:
                yield Violation("placeable", f"{pod.name} could go on {where}")
                break


def _variants(case: Case, pod: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The plan with the pod on each node, and on a claim of its own of each machine there is."""
    rest = [one for one in case.plan["unplaced"] if one["pod"] != pod]
    for place in case.nodes():
        others = [one for one in case.plan["nodes"] if one["name"] != place.name]
        nodes = [*others, {"name": place.name, "pods": [*(p.name for p in place.planned), pod]}]
        yield {**case.plan, "nodes": nodes, "unplaced": rest}, f"node {place.name}"
    for pool in case.world.pools.values():
        for claim in single_claims(case, pool, pod):
            claims = [*case.plan["claims"], claim]
            plan = {**case.plan, "claims": claims, "unplaced": rest}
            plan["slotsLeft"] = writing.slots_left(build(case.world, plan))
            plan["cost"] = writing.cost(claims)
            yield plan, f"a new node of {pool.name}: {claim['instanceType']} in {claim['zone']}"


def single_claims(case: Case, pool: Pool, pod: str) -> Iterator[dict[str, Any]]:
    """A claim for the pod alone that can become one machine only, for each machine of the pool."""
    shape = case.world.pods[pod].shape
    for way in openings.ways(case, shape, shape.terms):
        for machine in machines.launchable(case.pool_machines[pool.name]):
            narrowed = machines.narrow(machine, way.wanted)
            if narrowed is not None and narrowed.offering is not None:
                wanted = (*way.wanted, Expression(names.ZONE, "In", (narrowed.offering.zone,)))
                place = Place("", pool.taints, [narrowed], narrowed, pool=pool, wanted=wanted)
                yield writing.claim(replace(place, planned=[case.world.pods[pod]]))
