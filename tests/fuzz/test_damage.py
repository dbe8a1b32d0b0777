"""The checker finds the damage in random damaged plans; otherwise it would prove nothing about undamaged ones."""

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from checker import admission, check, generate, naive

SEEDS = range(40)
Damage = Callable[[dict[str, Any]], bool]  # damages the plan; False where there is nothing to damage


def drop_a_pod(plan: dict[str, Any]) -> bool:
    placed = [one for one in plan["claims"] + plan["nodes"] if one["pods"]]
    return bool(placed and placed[0]["pods"].pop())


def change_a_price(plan: dict[str, Any]) -> bool:
    priced = [one for one in plan["claims"] if one["pricePerHour"] is not None]
    for one in priced[:1]:
        one["pricePerHour"] = "123.45"
    return bool(priced)


def drop_a_requirement(plan: dict[str, Any]) -> bool:
    for one in plan["claims"][:1]:
        other_requirements = [r for r in one["requirements"] if r["key"] != "karpenter.sh/capacity-type"]
        one["requirements"] = other_requirements
    return bool(plan["claims"])


def oversell_a_reservation(plan: dict[str, Any]) -> bool:
    reserved = [one for one in plan["claims"] if one["reservationID"]]
    plan["claims"] += [{**one, "pods": []} for one in reserved for _ in range(6)]
    return bool(reserved)


def understate_free_slots(plan: dict[str, Any]) -> bool:
    with_free_slots = [name for name, count in plan["slotsLeft"].items() if count > 0]
    for name in with_free_slots:
        plan["slotsLeft"][name] -= 1
    return bool(with_free_slots)


DAMAGES: dict[Damage, str] = {
    drop_a_pod: "pod-once",
    change_a_price: "claim-price",
    drop_a_requirement: "slot-pinned",
    oversell_a_reservation: "slot-oversold",
    understate_free_slots: "slots-left",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_checker_finds_damage_in_every_plan(damage: Damage) -> None:
    damaged = 0
    for seed in SEEDS:
        documents = generate.scenario(seed)
        plan = copy.deepcopy(naive.plan_documents(documents))
        if damage(plan):
            damaged += 1
            found = {violation.rule for violation in check.check(documents, plan)}
            assert DAMAGES[damage] in found, f"seed {seed}"
    assert damaged > 5


def test_checker_finds_violations_of_a_planner_without_topology(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "admits", lambda *_: True)
    found: Counter[str] = Counter()
    for seed in SEEDS:
        documents = generate.scenario(seed)
        violations = check.check(documents, naive.plan_documents(documents))
        found.update({violation.rule for violation in violations})
    assert {"spread", "affinity", "anti-affinity"} <= set(found)
