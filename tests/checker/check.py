"""The checker's door: a scenario and its plan go in, what is wrong with the plan comes out.

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
    rules_limits,
    rules_pods,
    rules_slots,
    rules_topology,
    rules_waiting,
    world,
)
from checker.case import Case, Plan, Violation
from checker.world import Documents, World

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
    rules_slots.oversold,
    rules_slots.left,
    rules_topology.spread,
    rules_topology.pinned,
    rules_topology.affinity,
    rules_topology.anti_affinity,
    rules_limits.limits,
    rules_limits.cost,
)
# What a plan must not overlook.
PROMISES: Final[tuple[Rule, ...]] = (
    brute.placeable,
    brute.paid_slots,
    brute.whole_claims,
    brute.free_nodes,
    brute.preferences_kept,
)


def check(documents: Documents, plan: Plan) -> list[Violation]:
    """Everything that is wrong with the plan, sorted."""
    return judge(documents, plan).violations


class Verdict(NamedTuple):
    violations: list[Violation]
    remarks: list[
        Violation
    ]  # what may be worse than possible, or follows from the order in which pods were placed


def judge(documents: Documents, plan: Plan) -> Verdict:
    looked_at = case.build(world.read(documents), plan)
    found = {violation for rule in (*RULES, *PROMISES) for violation in rule(looked_at)}
    found.update(brute.exhaustive(looked_at, faults))
    remarks = {one for one in found if one.rule.endswith("-by-order")}
    return Verdict(sorted(found - remarks), sorted(remarks))


def faults(known: World, plan: Plan) -> list[Violation]:
    """What the plan does wrong, without asking what it overlooked."""
    looked_at = case.build(known, plan)
    return sorted({violation for rule in RULES for violation in rule(looked_at)})


def fewer_preferences(documents: Documents, plan: Plan, first_fit: Plan) -> list[Violation]:
    """preferences-fewer: a cheaper packing keeps as many preferences as first fit: of each kind of pod, as many have given up
    so many of them or fewer. A plan that leaves fewer pods out need not. Where first fit gives up a ScheduleAnyway constraint,
    it is chance which of those pods have a node with the label, and the constraint is not compared; nor is anti-affinity to
    pods of other kinds that are pending too."""
    known = world.read(documents)
    ours, theirs = case.build(known, plan), case.build(known, first_fit)
    if preferences.left_out(ours) < preferences.left_out(theirs):
        return []
    for shape in preferences.unspread(theirs):
        preferences.forget_spreads(theirs, shape)
        preferences.forget_spreads(ours, shape)
    preferences.forget_other_kinds(theirs)
    preferences.forget_other_kinds(ours)
    before, now = preferences.levels(theirs), preferences.levels(ours)
    return [
        Violation(
            "preferences-fewer",
            f"{shape.namespace} {sorted(shape.labels.items())}: {counts} became {now[shape]}",
        )
        for shape, counts in before.items()
        if any(after < count for after, count in zip(now[shape], counts, strict=True))
    ]


def difference(first: Plan, second: Plan) -> list[Violation]:
    """determinism: the same scenario gives the same bytes."""
    one, other = dump(first), dump(second)
    if one == other:
        return []
    at = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )
    return [Violation("determinism", f"{one[at - 60 : at + 60]!r} became {other[at - 60 : at + 60]!r}")]


def dump(plan: Plan | dict[str, Any]) -> str:
    """The order of keys counts: bytes are compared."""
    return json.dumps(plan, ensure_ascii=False)
