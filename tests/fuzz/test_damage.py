"""The checker on random plans that were damaged: a referee that never whistles is not a referee."""

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from checker import admission, check, generate, naive

SEEDS = range(40)
Damage = Callable[[dict[str, Any]], bool]  # damages the plan; False where there is nothing to damage


def loses_a_pod(plan: dict[str, Any]) -> bool:
    placed = [one for one in plan["claims"] + plan["nodes"] if one["pods"]]
    return bool(placed and placed[0]["pods"].pop())


def cheats_on_a_price(plan: dict[str, Any]) -> bool:
    priced = [one for one in plan["claims"] if one["pricePerHour"] is not None]
    for one in priced[:1]:
        one["pricePerHour"] = "123.45"
    return bool(priced)


def drops_a_requirement(plan: dict[str, Any]) -> bool:
    for one in plan["claims"][:1]:
        kept = [r for r in one["requirements"] if r["key"] != "karpenter.sh/capacity-type"]
        one["requirements"] = kept
    return bool(plan["claims"])


def sells_a_slot_again(plan: dict[str, Any]) -> bool:
    sold = [one for one in plan["claims"] if one["reservationID"]]
    plan["claims"] += [{**one, "pods": []} for one in sold for _ in range(6)]
    return bool(sold)


def keeps_a_slot_secret(plan: dict[str, Any]) -> bool:
    told = [name for name, count in plan["slotsLeft"].items() if count > 0]
    for name in told:
        plan["slotsLeft"][name] -= 1
    return bool(told)


DAMAGES: dict[Damage, str] = {
    loses_a_pod: "pod-once",
    cheats_on_a_price: "claim-price",
    drops_a_requirement: "slot-pinned",
    sells_a_slot_again: "slot-oversold",
    keeps_a_slot_secret: "slots-left",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_in_every_plan(damage: Damage) -> None:
    damaged = 0
    for seed in SEEDS:
        documents = generate.scenario(seed)
        plan = copy.deepcopy(naive.plan_documents(documents))
        if damage(plan):
            damaged += 1
            found = {violation.rule for violation in check.check(documents, plan)}
            assert DAMAGES[damage] in found, f"seed {seed}"
    assert damaged > 5


def test_a_planner_that_forgets_topology_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "admits", lambda *_: True)
    found: Counter[str] = Counter()
    for seed in SEEDS:
        documents = generate.scenario(seed)
        violations = check.check(documents, naive.plan_documents(documents))
        found.update({violation.rule for violation in violations})
    assert {"spread", "affinity", "anti-affinity"} <= set(found)
