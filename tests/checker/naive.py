"""A planner that is simple enough to verify by reading: it places one pod after another on the first target that fits.

It tests the generator and the checker without Holdfast's planner. It does not pack: existing nodes come first, then a new
node, and a shared claim only if nothing else is left. It shares the reading of scenarios with the checker, but not the
rules that check a finished plan.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from checker import case, openings, preferences, rules_gangs, scenario, writing
from checker.case import Case, Target
from checker.preferences import Rung
from checker.scenario import Documents, Pool
from checker.shapes import Shape
from checker.workloads import Pod


def plan_documents(documents: Documents) -> dict[str, Any]:
    """The plan of a scenario; the order of the documents does not matter."""
    known, left_out = scenario.read(documents), set[str]()  # gangs that do not fit, one after another
    while True:
        built_case = case.build(known, {})
        pending = sorted(known.pending(), key=lambda pod: pod.name)
        left = _placed(built_case, [pod for pod in pending if pod.group not in left_out])
        broken = next(rules_gangs.broken(built_case), None)
        if broken is None:
            return _document(built_case, [*left, *(pod for pod in pending if pod.group in left_out)])
        left_out.add(broken)


def _placed(built_case: Case, pods: list[Pod]) -> list[Pod]:
    """Places the pods, and returns those that do not fit."""
    while True:
        left = _one_round(built_case, pods)
        if len(left) == len(pods):
            return left
        pods = left


def _one_round(built_case: Case, pods: list[Pod]) -> list[Pod]:
    """Tries each pod once. After a pod failed, pods of the same shape are skipped until another pod is placed."""
    left: list[Pod] = []
    failed: set[Shape] = set()
    for pod in pods:
        tried = [] if pod.shape in failed else preferences.rungs(built_case, pod.shape)
        target = next((target for rung in tried for target in _targets(built_case, rung)), None)
        if target is None:
            failed.add(pod.shape)
            left.append(pod)
        else:
            _place(built_case, target, pod)
            failed.clear()
    return left


def _targets(built_case: Case, rung: Rung) -> Iterator[Target]:
    for target in sorted(built_case.nodes(), key=lambda target: target.name):
        if openings.on_node(built_case, rung, target):
            yield target
    yield from _new(built_case, rung)
    for target in built_case.claims():
        yield from openings.on_claim(built_case, rung, target)


def _new(built_case: Case, rung: Rung) -> Iterator[Target]:
    """A free slot first, then on-demand and spot; or by NodePool where weight has precedence."""
    pools = sorted(built_case.scenario.pools.values(), key=lambda pool: (-pool.weight, pool.name))
    if built_case.scenario.settings.get("reservedBeforeWeight", True):
        attempts = [(pool, reserved) for reserved in (True, False) for pool in pools]
    else:
        attempts = [(pool, reserved) for pool in pools for reserved in (True, False)]
    for pool, reserved in attempts:
        remaining = openings.remaining_limits(built_case, pool, pessimistic=False)
        yield from openings.fresh(built_case, rung, pool, remaining, reserved=reserved)


def _place(built_case: Case, target: Target, pod: Pod) -> None:
    changed = replace(target, planned=[*target.planned, pod])
    if target.node is None:
        changed.claim = writing.claim(changed)
    others = [one for one in built_case.targets if one.name != target.name]
    built_case.targets = [*others, changed]


def _document(built_case: Case, unplaced: list[Pod]) -> dict[str, Any]:
    claims = sorted((writing.claim(target) for target in built_case.claims()), key=lambda one: one["pods"])
    nodes = sorted(
        (target for target in built_case.nodes() if target.planned), key=lambda target: target.name
    )
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "Plan",
        "claims": claims,
        "nodes": [{"name": one.name, "pods": sorted(pod.name for pod in one.planned)} for one in nodes],
        "unplaced": [{"pods": [pod.name], "reasons": [_reason(built_case)]} for pod in unplaced],
        "waiting": [],
        "notReserved": [],
        "cost": writing.cost(claims),
        "slotsLeft": writing.slots_left(built_case),
    }


def _reason(built_case: Case) -> dict[str, Any]:
    pools: list[Pool] = list(built_case.scenario.pools.values())
    code = "Requirements" if pools else "NoNodePool"
    return {"code": code, "kind": "", "subjects": [], "more": 0, "text": "no node takes it"}
