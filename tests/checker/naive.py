"""A planner that a child could check: one pod after another, each on the first place that takes it.

A second opinion, and what exercises the generator and the checker where the product is not at hand. It packs
nothing: nodes that exist come first, then a node of its own, and a node shared only if nothing else is left.
It shares the reading of scenarios with the checker, but not the rules that look at a finished plan.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from checker import case, openings, preferences, world, writing
from checker.case import Case, Place
from checker.preferences import Rung
from checker.shapes import Shape
from checker.workloads import Pod
from checker.world import Documents, Pool


def plan_documents(documents: Documents) -> dict[str, Any]:
    """The plan of a scenario; the order of the documents does not matter."""
    looked_at = case.build(world.read(documents), {})
    unplaced = sorted(looked_at.world.pending(), key=lambda pod: pod.name)
    while True:
        left = _one_round(looked_at, unplaced)
        if len(left) == len(unplaced):
            return _document(looked_at, left)
        unplaced = left


def _one_round(looked_at: Case, pods: list[Pod]) -> list[Pod]:
    """Tries each pod once. A pod that looks like one that just failed is not tried again until something
    changed."""
    left: list[Pod] = []
    failed: set[Shape] = set()
    for pod in pods:
        tried = [] if pod.shape in failed else preferences.rungs(looked_at, pod.shape)
        place = next((place for rung in tried for place in _places(looked_at, rung)), None)
        if place is None:
            failed.add(pod.shape)
            left.append(pod)
        else:
            _put(looked_at, place, pod)
            failed.clear()
    return left


def _places(looked_at: Case, rung: Rung) -> Iterator[Place]:
    for place in sorted(looked_at.nodes(), key=lambda place: place.name):
        if openings.on_node(looked_at, rung, place):
            yield place
    yield from _new(looked_at, rung)
    for place in looked_at.claims():
        yield from openings.on_claim(looked_at, rung, place)


def _new(looked_at: Case, rung: Rung) -> Iterator[Place]:
    """A free slot first, then whatever can be bought; or pool by pool where weight comes first."""
    pools = sorted(looked_at.world.pools.values(), key=lambda pool: (-pool.weight, pool.name))
    if looked_at.world.settings.get("reservedBeforeWeight", True):
        order = [(pool, reserved) for reserved in (True, False) for pool in pools]
    else:
        order = [(pool, reserved) for pool in pools for reserved in (True, False)]
    for pool, reserved in order:
        room = openings.room(looked_at, pool, pessimistic=False)
        yield from openings.fresh(looked_at, rung, pool, room, reserved=reserved)


def _put(looked_at: Case, place: Place, pod: Pod) -> None:
    changed = replace(place, planned=[*place.planned, pod])
    if place.node is None:
        changed.claim = writing.claim(changed)
    others = [one for one in looked_at.places if one.name != place.name]
    looked_at.places = [*others, changed]


def _document(looked_at: Case, unplaced: list[Pod]) -> dict[str, Any]:
    claims = sorted((writing.claim(place) for place in looked_at.claims()), key=lambda one: one["pods"])
    nodes = sorted((place for place in looked_at.nodes() if place.planned), key=lambda place: place.name)
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "Plan",
        "claims": claims,
        "nodes": [{"name": one.name, "pods": sorted(pod.name for pod in one.planned)} for one in nodes],
        "unplaced": [{"pods": [pod.name], "reasons": [_reason(looked_at)]} for pod in unplaced],
        "waiting": [],
        "notReserved": [],
        "cost": writing.cost(claims),
        "slotsLeft": writing.slots_left(looked_at),
    }


def _reason(looked_at: Case) -> dict[str, Any]:
    pools: list[Pool] = list(looked_at.world.pools.values())
    code = "Requirements" if pools else "NoNodePool"
    return {"code": code, "kind": "", "subjects": [], "more": 0, "text": "no node takes it"}
