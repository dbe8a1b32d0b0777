"""Rules that search: did the plan overlook capacity for a pod, a slot that was paid for, or a preference?

Each rule moves one pod and leaves all others where the plan has them, so pods that a gang ties to others are left out. Capacity only shrinks while pods are placed, and so
does what anti-affinity and hostname spreads allow: a node that fits the pod in the end did so when the pod was placed.
Affinity and spreads over zones depend on the order. Findings about such pods have their own names: `placeable-topology`,
and `...-by-order`, which are remarks and not violations.

`exhaustive` checks the same for tiny cases without any shortcuts: it writes the pod into the plan in every possible way,
and checks the plan.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from checker import node_options, openings, preferences, rules_gangs, rules_waiting, writing
from checker.case import Case, Target, Violation, build
from checker.labels import Expression
from checker.node_options import NodeOption
from checker.preferences import Rung
from checker.scenario import Pool, Scenario
from checker.shapes import Shape
from checker.workloads import Pod
from holdfast import names

Check: TypeAlias = Callable[[Scenario, dict[str, Any]], list[Violation]]

TINY_PODS: Final = 4
_SIZED: Final = re.compile(r"fill-[0-9]")  # packings of nodes with at most so many cores


def placeable(case: Case) -> Iterator[Violation]:
    """placeable, placeable-topology: no pod is unplaced or waits that fits in the finished plan. For a pod that waits, only
    existing nodes and slots count."""
    checked_shapes: set[tuple[Shape, bool]] = set()
    for one in case.plan["unplaced"] + case.plan["waiting"]:
        pod, waits = case.scenario.pods.get(one["pod"]), "until" in one
        if pod is None or (pod.shape, waits) in checked_shapes:
            continue
        if rules_gangs.may_be_left_out(case, pod, {reason["code"] for reason in one["reasons"]}):
            continue
        checked_shapes.add((pod.shape, waits))
        where = next(found_targets(case, preferences.required(case, pod.shape), slots_only=waits), None)
        if where is not None:
            tied = pod.shape.spreads or pod.shape.affinity or pod.shape.anti_affinity
            rule = "placeable-topology" if tied else "placeable"
            yield Violation(rule, f"{pod.name} could go on {where}")


def _is_tied(case: Case, shape: Shape) -> bool:
    """Whether its constraints may allow a node in the end that they did not allow before: the minimum zone changes, pods of
    its affinity are placed, and a claim whose zone is open excludes pods with anti-affinity from all zones."""
    if shape.affinity or any(one.key != names.HOSTNAME for one in shape.spreads):
        return True
    over_zones = [one for one in shape.anti_affinity if one.key != names.HOSTNAME]
    return bool(over_zones) and any(
        one.target.node is None and any(case.is_neighbour(wanted, one.pod.shape) for wanted in over_zones)
        for one in case.located()
    )


def found_targets(case: Case, rung: Rung, *, slots_only: bool = False, claims: bool = True) -> Iterator[str]:
    for target in case.nodes():
        if openings.on_node(case, rung, target):
            yield f"node {target.name}"
    for target in case.claims() if claims else ():
        if not slots_only or target.claim.get("reservationID"):
            yield from (target.name for _ in openings.on_claim(case, rung, target))
    for pool in case.scenario.pools.values():
        remaining = openings.remaining_limits(case, pool, pessimistic=True)
        for reserved in (True,) if slots_only else (True, False):
            for target in openings.fresh(case, rung, pool, remaining, reserved=reserved):
                yield f"a new node of {pool.name}: {_option_text(target)}"


def _option_text(target: Target) -> str:
    option = target.chosen
    assert option is not None
    assert option.offering is not None
    slot = option.reservation.id if option.reservation else option.offering.capacity_type
    return f"{option.instance_type} in {option.offering.zone}, {slot}"


# --- launches although capacity was free ------------------------------------------------------------


def paid_slots(case: Case) -> Iterator[Violation]:
    """paid-slot-left: no on-demand or spot node is launched if each of its pods fits a free slot of its own."""
    if case.scenario.settings.get("reservedBeforeWeight", True):
        not_reserved = [target for target in case.claims() if target.claim.get("reservationID") is None]
        for target, where, tied in _beside(case, not_reserved, _free_slot):
            rule = "paid-slot-left-by-order" if tied else "paid-slot-left"
            yield Violation(rule, f"{target.name} was bought although there was {where}")


def whole_claims(case: Case) -> Iterator[Violation]:
    """paid-slot-left: no on-demand or spot node is launched that fits a free slot of its NodePool with all of its pods."""
    left = case.slots_left()
    for target in case.claims():
        pool = target.pool
        assert pool is not None
        if (
            target.claim.get("reservationID")
            or pool.limits
            or any(one.min_values for one in pool.requirements)
        ):
            continue
        for option in node_options.launchable(case.pool_options[pool.name]):
            found = option.reservation
            if found is not None and left[found.id] > 0 and _fits_option(case, target, option):
                yield Violation("paid-slot-left", f"{target.name} could be in {found.id}")
                break


def _fits_option(case: Case, target: Target, option: NodeOption) -> bool:
    """Whether all pods of a claim also fit this option, in the same domains and with the same preferences."""
    assert target.pool is not None
    shapes = [pod.shape for pod in target.planned]
    moved = replace(target, options=[option], chosen=option)
    keys = {key for shape in shapes for key in _keys(case, shape)}
    keys |= rules_gangs.tied_keys(case, target.planned)
    anything = openings.Way((), ())
    return (
        all(moved.domain(key) == target.domain(key) for key in keys)
        and any(openings.fitting(case, target.pool, [option], anything, shapes))
        and all(
            any(node_options.surely(option, way.wanted) for way in openings.ways(case, Rung(shape)))
            for shape in set(shapes)
        )
        and all(
            preferences.level(case, pod, moved) <= preferences.level(case, pod, target)
            for pod in target.planned
        )
    )


def free_nodes(case: Case) -> Iterator[Violation]:
    """node-left: no node is launched if each of its pods fits an existing node."""
    for target, where, tied in _beside(case, case.claims(), _free_node):
        rule = "node-left-by-order" if tied else "node-left"
        yield Violation(rule, f"{target.name} was launched although there was {where}")


Find: TypeAlias = Callable[[Case, Rung], str | None]


def _beside(case: Case, claims: list[Target], find: Find) -> Iterator[tuple[Target, str, bool]]:
    """The claims for all of whose pods `find` returns capacity without giving up more preferences; and whether this depends
    on the order in which pods were placed."""
    known: dict[tuple[Any, ...], tuple[str, bool] | None] = {}
    for target in claims:
        if any(rules_gangs.is_tied(case, pod) for pod in target.planned):
            continue
        instead = []
        for pod in target.planned:
            level = preferences.level(case, pod, target)
            key = pod.shape, level, *_cache_key(case, pod.shape, target)
            if key not in known:
                known[key] = _instead(case, pod, level, find)
            instead.append(known[key])
            if instead[-1] is None:
                break
        found = [one for one in instead if one is not None]
        if found and len(found) == len(instead):
            yield target, found[0][0], any(tied for _, tied in found)


def _cache_key(case: Case, shape: Shape, target: Target) -> tuple[Any, ...]:
    """A cache key: pods of one shape on claims with equal keys find the same capacity elsewhere."""
    limited = target.name if target.pool and target.pool.limits else ""
    return limited, *(target.domain(key) for key in _keys(case, shape))


def _keys(case: Case, shape: Shape) -> list[str]:
    """The topology labels of such a pod on all levels of its preferences."""
    return sorted({key for rung in preferences.rungs(case, shape) for key in openings.keys(case, rung.shape)})


def _instead(case: Case, pod: Pod, level: int, find: Find) -> tuple[str, bool] | None:
    """Capacity with precedence over the pod's node, on the rung that its node satisfies or on an earlier one."""
    others = case.without(pod)
    for rung in preferences.rungs(case, pod.shape)[: level + 1]:
        where = find(others, rung)
        if where is not None:
            return where, _is_tied(case, rung.shape)
    return None


def _free_slot(case: Case, rung: Rung) -> str | None:
    for pool in case.scenario.pools.values():
        if any(one.min_values is not None for one in pool.requirements):
            continue
        remaining = openings.remaining_limits(case, pool, pessimistic=True)
        for target in openings.fresh(case, rung, pool, remaining, reserved=True):
            return f"{_option_text(target)} of {pool.name}"
    return None


def _free_node(case: Case, rung: Rung) -> str | None:
    return next(
        (f"node {target.name}" for target in case.nodes() if openings.on_node(case, rung, target)), None
    )


def preferences_satisfied(case: Case) -> Iterator[Violation]:
    """preference-dropped: no pod gives up a preference that some node, slot or launch satisfies. A packing may limit the size
    of its claims: then neither its claims nor new launches count, and the plan is compared with first fit instead. Where pods
    wait for slots, a slot has precedence over a launch that they prefer."""
    patient = rules_waiting.is_strict(case) or any(pool.wait_s for pool in case.scenario.pools.values())
    sized = _SIZED.match(case.plan["cost"]["packing"])
    known: set[tuple[Shape, int]] = set()
    for target in case.targets:
        for pod in target.planned:
            level = preferences.level(case, pod, target)
            if level == 0 or (pod.shape, level) in known or rules_gangs.is_tied(case, pod):
                continue
            known.add((pod.shape, level))
            others = case.without(pod)
            for rung in preferences.rungs(case, pod.shape)[:level]:
                where = next(
                    found_targets(others, rung, claims=False, slots_only=bool(patient or sized)), None
                )
                if where is not None:
                    rule = (
                        "preference-dropped-by-order" if _is_tied(case, rung.shape) else "preference-dropped"
                    )
                    yield Violation(rule, f"{pod.name} on {target.name} prefers {where}")
                    break


# --- exhaustive search ------------------------------------------------------------------------------


def exhaustive(case: Case, check: Check) -> Iterator[Violation]:
    """Only for tiny cases in which a planner need not be careful: no DaemonSets, limits, minValues, waiting."""
    scenario = case.scenario
    careful = scenario.daemons or any(
        pool.limits or any(one.min_values for one in pool.requirements) for pool in scenario.pools.values()
    )
    if careful or len(scenario.pending()) > TINY_PODS:
        return
    before = set(check(scenario, dict(case.plan)))
    for one in case.plan["unplaced"]:
        pod = scenario.pods.get(one["pod"])
        if pod is None or pod.shape.spreads or pod.shape.affinity or pod.shape.invalid:
            continue
        if rules_gangs.may_be_left_out(case, pod, {reason["code"] for reason in one["reasons"]}):
            continue
        for plan, where in _variants(case, pod.name):
            if not set(check(scenario, plan)) - before:
                yield Violation("placeable", f"{pod.name} could go on {where}")
                break


def _variants(case: Case, pod: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The plan with the pod on each node, and on a claim of its own for each option."""
    rest = [one for one in case.plan["unplaced"] if one["pod"] != pod]
    for target in case.nodes():
        others = [one for one in case.plan["nodes"] if one["name"] != target.name]
        nodes = [*others, {"name": target.name, "pods": [*(p.name for p in target.planned), pod]}]
        yield {**case.plan, "nodes": nodes, "unplaced": rest}, f"node {target.name}"
    for pool in case.scenario.pools.values():
        for claim in single_claims(case, pool, pod):
            claims = [*case.plan["claims"], claim]
            plan = {**case.plan, "claims": claims, "unplaced": rest}
            plan["slotsLeft"] = writing.slots_left(build(case.scenario, plan))
            plan["cost"] = writing.cost(claims)
            yield plan, f"a new node of {pool.name}: {claim['instanceType']} in {claim['zone']}"


def single_claims(case: Case, pool: Pool, pod: str) -> Iterator[dict[str, Any]]:
    """For each option of the NodePool, a claim for the pod alone that only allows this option."""
    shape = case.scenario.pods[pod].shape
    for way in openings.ways(case, preferences.required(case, shape)):
        for option in node_options.launchable(case.pool_options[pool.name]):
            narrowed = node_options.narrow(option, way.wanted)
            if narrowed is not None and narrowed.offering is not None:
                wanted = (*way.wanted, Expression(names.ZONE, "In", (narrowed.offering.zone,)))
                target = Target("", pool.taints, [narrowed], narrowed, pool=pool, wanted=wanted)
                yield writing.claim(replace(target, planned=[case.scenario.pods[pod]]))
