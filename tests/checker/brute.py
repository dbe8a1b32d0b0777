"""Rules that search: did the plan overlook capacity for a pod, a slot that was paid for, or a preference?

Each takes a pod by itself and leaves all others where the plan has them. Capacity only shrinks while pods are placed, and so
does what anti-affinity and hostname spreads allow: what suits the pod in the end suited it when it was placed. Affinity and
spreads over zones depend on the order. Findings about such pods have a name of their own: `placeable-topology`, and
`...-by-order`, which are remarks and no violations.
`exhaustive` is the same question asked without any cleverness, for tiny cases: write the pod into the plan
in every way there is, and check the plan.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from checker import machines, openings, preferences, rules_waiting, writing
from checker.case import Case, Place, Violation, build
from checker.labels import Expression
from checker.machines import Machine
from checker.preferences import Rung
from checker.shapes import Shape
from checker.workloads import Pod
from checker.world import Pool, World
from holdfast import names

Check: TypeAlias = Callable[[World, dict[str, Any]], list[Violation]]

TINY_PODS: Final = 4
_SIZED: Final = re.compile(r"fill-[0-9]")  # packings of nodes with at most so many cores


def placeable(case: Case) -> Iterator[Violation]:
    """placeable, placeable-topology: no pod is left out or waits that could be placed as things are in the end; one that
    waits, on a node that exists or in a slot."""
    seen: set[tuple[Shape, bool]] = set()
    for one in case.plan["unplaced"] + case.plan["waiting"]:
        pod, waits = case.world.pods.get(one["pod"]), "until" in one
        if pod is None or (pod.shape, waits) in seen:
            continue
        seen.add((pod.shape, waits))
        where = next(found_places(case, preferences.required(case, pod.shape), slots_only=waits), None)
        if where is not None:
            tied = pod.shape.spreads or pod.shape.affinity or pod.shape.anti_affinity
            rule = "placeable-topology" if tied else "placeable"
            yield Violation(rule, f"{pod.name} could go on {where}")


def _is_tied(case: Case, shape: Shape) -> bool:
    """Whether its constraints may suit a node in the end which they did not suit before: the emptiest zone changes, neighbours
    come, and a claim that could be in any zone keeps pods with anti-affinity out of all of them until its zone is settled."""
    if shape.affinity or any(one.key != names.HOSTNAME for one in shape.spreads):
        return True
    over_zones = [one for one in shape.anti_affinity if one.key != names.HOSTNAME]
    return bool(over_zones) and any(
        one.place.node is None and any(case.is_neighbour(wanted, one.pod.shape) for wanted in over_zones)
        for one in case.located()
    )


def found_places(case: Case, rung: Rung, *, slots_only: bool = False, claims: bool = True) -> Iterator[str]:
    for place in case.nodes():
        if openings.on_node(case, rung, place):
            yield f"node {place.name}"
    for place in case.claims() if claims else ():
        if not slots_only or place.claim.get("reservationID"):
            yield from (place.name for _ in openings.on_claim(case, rung, place))
    for pool in case.world.pools.values():
        room = openings.room(case, pool, pessimistic=True)
        for reserved in (True,) if slots_only else (True, False):
            for place in openings.fresh(case, rung, pool, room, reserved=reserved):
                yield f"a new node of {pool.name}: {_machine(place)}"


def _machine(place: Place) -> str:
    machine = place.chosen
    assert machine is not None
    assert machine.offering is not None
    slot = machine.reservation.id if machine.reservation else machine.offering.capacity_type
    return f"{machine.instance_type} in {machine.offering.zone}, {slot}"


# --- what was launched beside free capacity ---------------------------------------------------------


def paid_slots(case: Case) -> Iterator[Violation]:
    """paid-slot-left: nothing is bought for pods of which each could have had a free slot to itself."""
    if case.world.settings.get("reservedBeforeWeight", True):
        bought = [place for place in case.claims() if place.claim.get("reservationID") is None]
        for place, where, tied in _beside(case, bought, _free_slot):
            rule = "paid-slot-left-by-order" if tied else "paid-slot-left"
            yield Violation(rule, f"{place.name} was bought although there was {where}")


def whole_claims(case: Case) -> Iterator[Violation]:
    """paid-slot-left: no node is bought that could be in a free slot of its own NodePool with all of its pods."""
    left = case.slots_left()
    for place in case.claims():
        pool = place.pool
        assert pool is not None
        if (
            place.claim.get("reservationID")
            or pool.limits
            or any(one.min_values for one in pool.requirements)
        ):
            continue
        for machine in machines.launchable(case.pool_machines[pool.name]):
            found = machine.reservation
            if found is not None and left[found.id] > 0 and _moves(case, place, machine):
                yield Violation("paid-slot-left", f"{place.name} could be in {found.id}")
                break


def _moves(case: Case, place: Place, machine: Machine) -> bool:
    """Whether all pods of a claim suit this machine as well, in the same domains and without giving up preferences."""
    assert place.pool is not None
    shapes = [pod.shape for pod in place.planned]
    moved = replace(place, machines=[machine], chosen=machine)
    keys = {key for shape in shapes for key in _keys(case, shape)}
    anything = openings.Way((), ())
    return (
        all(moved.domain(key) == place.domain(key) for key in keys)
        and any(openings.fitting(case, place.pool, [machine], anything, shapes))
        and all(
            any(machines.surely(machine, way.wanted) for way in openings.ways(case, Rung(shape)))
            for shape in set(shapes)
        )
        and all(
            preferences.level(case, pod, moved) <= preferences.level(case, pod, place)
            for pod in place.planned
        )
    )


def free_nodes(case: Case) -> Iterator[Violation]:
    """node-left: nothing is launched for pods of which each suits a node that exists."""
    for place, where, tied in _beside(case, case.claims(), _free_node):
        rule = "node-left-by-order" if tied else "node-left"
        yield Violation(rule, f"{place.name} was launched although there was {where}")


Find: TypeAlias = Callable[[Case, Rung], str | None]


def _beside(case: Case, claims: list[Place], find: Find) -> Iterator[tuple[Place, str, bool]]:
    """The claims whose every pod could have had what `find` looks for, without giving up more preferences; and whether it
    depends on the order in which pods were placed."""
    known: dict[tuple[Any, ...], tuple[str, bool] | None] = {}
    for place in claims:
        instead = []
        for pod in place.planned:
            level = preferences.level(case, pod, place)
            key = pod.shape, level, *_seen_from(case, pod.shape, place)
            if key not in known:
                known[key] = _instead(case, pod, level, find)
            instead.append(known[key])
            if instead[-1] is None:
                break
        found = [one for one in instead if one is not None]
        if found and len(found) == len(instead):
            yield place, found[0][0], any(tied for _, tied in found)


def _seen_from(case: Case, shape: Shape, place: Place) -> tuple[Any, ...]:
    """Pods of one kind that leave claims which agree in this find the same capacity elsewhere."""
    limited = place.name if place.pool and place.pool.limits else ""
    return limited, *(place.domain(key) for key in _keys(case, shape))


def _keys(case: Case, shape: Shape) -> list[str]:
    """The labels that matter to such a pod while it keeps its preferences, and after."""
    return sorted({key for rung in preferences.rungs(case, shape) for key in openings.keys(case, rung.shape)})


def _instead(case: Case, pod: Pod, level: int, find: Find) -> tuple[str, bool] | None:
    """Capacity that comes before what the pod was given, on the rung that its node satisfies or on one before."""
    others = case.without(pod)
    for rung in preferences.rungs(case, pod.shape)[: level + 1]:
        where = find(others, rung)
        if where is not None:
            return where, _is_tied(case, rung.shape)
    return None


def _free_slot(case: Case, rung: Rung) -> str | None:
    for pool in case.world.pools.values():
        if any(one.min_values is not None for one in pool.requirements):
            continue
        room = openings.room(case, pool, pessimistic=True)
        for place in openings.fresh(case, rung, pool, room, reserved=True):
            return f"{_machine(place)} of {pool.name}"
    return None


def _free_node(case: Case, rung: Rung) -> str | None:
    return next((f"node {place.name}" for place in case.nodes() if openings.on_node(case, rung, place)), None)


def preferences_kept(case: Case) -> Iterator[Violation]:
    """preference-dropped: no pod gives up a preference while some node, slot or launch would satisfy it. A packing may limit
    the size of its claims: that a pod could have joined one of them is no proof, nor is a launch beside such a packing, which
    is compared with first fit instead. Where pods wait for slots, they take one rather than a launch that they prefer."""
    patient = rules_waiting.is_strict(case) or any(pool.wait_s for pool in case.world.pools.values())
    sized = _SIZED.match(case.plan["cost"]["packing"])
    known: set[tuple[Shape, int]] = set()
    for place in case.places:
        for pod in place.planned:
            level = preferences.level(case, pod, place)
            if level == 0 or (pod.shape, level) in known:
                continue
            known.add((pod.shape, level))
            others = case.without(pod)
            for rung in preferences.rungs(case, pod.shape)[:level]:
                where = next(
                    found_places(others, rung, claims=False, slots_only=bool(patient or sized)), None
                )
                if where is not None:
                    rule = (
                        "preference-dropped-by-order" if _is_tied(case, rung.shape) else "preference-dropped"
                    )
                    yield Violation(rule, f"{pod.name} on {place.name} prefers {where}")
                    break


# --- the same without cleverness --------------------------------------------------------------------


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
        if pod is None or pod.shape.spreads or pod.shape.affinity or pod.shape.invalid:
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
    for way in openings.ways(case, preferences.required(case, shape)):
        for machine in machines.launchable(case.pool_machines[pool.name]):
            narrowed = machines.narrow(machine, way.wanted)
            if narrowed is not None and narrowed.offering is not None:
                wanted = (*way.wanted, Expression(names.ZONE, "In", (narrowed.offering.zone,)))
                place = Place("", pool.taints, [narrowed], narrowed, pool=pool, wanted=wanted)
                yield writing.claim(replace(place, planned=[case.world.pods[pod]]))
