"""The entry point of the checker: it returns the violations of a plan for a scenario.

Independent of the planner on purpose: it reads the documents of docs/scenario.md and nothing else.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, TypeAlias

from checker import (
    brute,
    case,
    preferences,
    rules_claims,
    rules_gangs,
    rules_limits,
    rules_pods,
    rules_slots,
    rules_topology,
    rules_waiting,
    scenario,
)
from checker.case import Case, Plan, Violation
from checker.scenario import Documents, Scenario

Rule: TypeAlias = Callable[[Case], Iterator[Violation]]

# What a plan must never do.
RULES: Final[tuple[Rule, ...]] = (
    rules_pods.once,
    rules_pods.explained,
    rules_waiting.waiting,
    rules_waiting.strict,
    rules_pods.nodes_exist,
    rules_pods.taints,
    rules_pods.selectors,
    rules_pods.resources,
    rules_pods.ports,
    rules_pods.volumes,
    rules_pods.volume_limits,
    rules_pods.claim_requests,
    rules_claims.pools,
    rules_claims.within_pool,
    rules_claims.listed,
    rules_claims.types,
    rules_claims.sizes,
    rules_claims.offerings,
    rules_claims.prices,
    rules_claims.min_values,
    rules_slots.pinned,
    rules_slots.ids,
    rules_slots.usable,
    rules_slots.lasting,
    rules_slots.oversold,
    rules_slots.left,
    rules_topology.spread,
    rules_topology.pinned,
    rules_topology.affinity,
    rules_topology.anti_affinity,
    rules_gangs.whole,
    rules_gangs.together,
    rules_gangs.hold,
    rules_limits.limits,
    rules_limits.cost,
)
# What a plan must not overlook. Not checked if slots are held for a gang: then capacity is left on purpose.
PROMISES: Final[tuple[Rule, ...]] = (
    brute.placeable,
    brute.paid_slots,
    brute.whole_claims,
    brute.free_nodes,
    brute.preferences_satisfied,
    rules_gangs.left_out,
)


def check(documents: Documents, plan: Plan) -> list[Violation]:
    """All violations of the plan, sorted."""
    return judge(documents, plan).violations


class Verdict(NamedTuple):
    violations: list[Violation]
    remarks: list[Violation]  # findings that may follow from the order in which pods were placed


def judge(documents: Documents, plan: Plan) -> Verdict:
    built_case = case.build(scenario.read(documents), plan)
    found = {violation for rule in RULES for violation in rule(built_case)}
    if not rules_gangs.holding(built_case):
        found |= {violation for rule in PROMISES for violation in rule(built_case)}
        found.update(brute.exhaustive(built_case, faults))
    remarks = {one for one in found if one.rule.endswith("-by-order")}
    return Verdict(sorted(found - remarks), sorted(remarks))


def faults(known: Scenario, plan: Plan) -> list[Violation]:
    """Violations of `RULES` only, without what the plan overlooked."""
    built_case = case.build(known, plan)
    return sorted({violation for rule in RULES for violation in rule(built_case)})


def fewer_preferences(documents: Documents, plan: Plan, first_fit: Plan) -> list[Violation]:
    """preferences-fewer: a cheaper packing satisfies as many preferences as first fit: for each shape and each level, at least
    as many pods are on that level or a better one. A plan that places more pods is not compared, nor one in which single
    pods wait because gangs are placed first. Where first fit gives up a ScheduleAnyway constraint, it is arbitrary which
    pods have a node with the label, so the constraint is not compared; nor is anti-affinity to pending pods of other
    shapes."""
    known = scenario.read(documents)
    own_case, first_fit_case = case.build(known, plan), case.build(known, first_fit)
    if preferences.left_out(own_case) < preferences.left_out(first_fit_case) or _has_pods_behind_gangs(plan):
        return []
    for shape in preferences.unspread(first_fit_case):
        preferences.forget_spreads(first_fit_case, shape)
        preferences.forget_spreads(own_case, shape)
    preferences.forget_other_kinds(first_fit_case)
    preferences.forget_other_kinds(own_case)
    before, now = preferences.levels(first_fit_case), preferences.levels(own_case)
    return [
        Violation(
            "preferences-fewer",
            f"{shape.namespace} {sorted(shape.labels.items())}: {counts} became {now[shape]}",
        )
        for shape, counts in before.items()
        if any(after < count for after, count in zip(now[shape], counts, strict=True))
    ]


def _has_pods_behind_gangs(plan: Plan) -> bool:
    return any(reason["code"] == "BehindGang" for one in plan["unplaced"] for reason in one["reasons"])


def difference(first: Plan, second: Plan) -> list[Violation]:
    """determinism: the same scenario gives a plan with the same bytes."""
    one, other = dump(first), dump(second)
    if one == other:
        return []
    at = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return [Violation("determinism", f"{one[at - 60 : at + 60]!r} became {other[at - 60 : at + 60]!r}")]


def dump(plan: Plan | dict[str, Any]) -> str:
    """JSON with keys in their order, since bytes are compared."""
    return json.dumps(plan, ensure_ascii=False)
