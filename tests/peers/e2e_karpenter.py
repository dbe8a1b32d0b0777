"""Karpenter's scheduler and ours on the same random scenarios.

Run by `make e2e`, since it needs Karpenter. Where the two differ, the reason is one of those in docs/peers.md: each
is a class of `Verdict` here, and each is kept within its bound.
"""

import os
from collections import Counter
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, NamedTuple

import pytest

from checker import case, check, generate, rules_slots, world
from holdfast.cli.plan import plan_documents
from peers import karpenter

SEEDS: Final = range(1, 1 + int(os.environ.get("HOLDFAST_PEER_SEEDS", "100")))
PACKING_ORDER_SHARE: Final = Fraction(1, 20)  # of the scenarios in which both place the same pods


class Verdict(StrEnum):
    SAME = "same pods, same cost"
    CHEAPER = "same pods, we pay less"
    MORE_PODS = "we place more pods"
    OTHER_PODS = "each places some that the other does not, we no fewer"
    PACKING_ORDER = "same pods, Karpenter pays less"
    BREAKS_RULE = "Karpenter's plan breaks a rule of the cluster or of the cloud"
    MISSED = "Karpenter places more"


class Compared(NamedTuple):
    seed: int
    verdict: Verdict
    our_cost: Fraction
    karpenter_cost: Fraction
    oversold: list[str]


def compared(seed: int) -> Compared:
    documents = generate.scenario(seed)
    theirs, ours = karpenter.ask(documents).plan, plan_documents(documents)
    costs = Fraction(ours["cost"]["perHour"]), Fraction(theirs["cost"]["perHour"])
    oversold = [one.what for one in rules_slots.oversold(case.build(world.read(documents), ours))]
    return Compared(seed, verdict(documents, ours, theirs), *costs, oversold)


def verdict(documents: list[dict[str, Any]], ours: dict[str, Any], theirs: dict[str, Any]) -> Verdict:
    if check.faults(world.read(documents), theirs):
        return Verdict.BREAKS_RULE
    we, they = placed(ours), placed(theirs)
    if we == they:
        paid, asked = Fraction(ours["cost"]["perHour"]), Fraction(theirs["cost"]["perHour"])
        return Verdict.SAME if paid == asked else Verdict.CHEAPER if paid < asked else Verdict.PACKING_ORDER
    if we > they:
        return Verdict.MORE_PODS
    return Verdict.OTHER_PODS if len(we) >= len(they) else Verdict.MISSED


def placed(plan: dict[str, Any]) -> set[str]:
    return {pod for one in plan["claims"] + plan["nodes"] for pod in one["pods"]}


@pytest.fixture(scope="module")
def all_compared() -> list[Compared]:
    return [compared(seed) for seed in SEEDS]


def test_what_karpenter_places_we_place(all_compared: list[Compared]) -> None:
    assert [one for one in all_compared if one.verdict is Verdict.MISSED] == []


def test_our_plans_cost_no_more(all_compared: list[Compared]) -> None:
    same = {Verdict.SAME, Verdict.CHEAPER, Verdict.PACKING_ORDER}
    both = [one for one in all_compared if one.verdict in same]
    dearer = [one for one in both if one.verdict is Verdict.PACKING_ORDER]
    assert len(dearer) <= PACKING_ORDER_SHARE * len(both), dearer
    assert sum(one.our_cost for one in both) <= sum(one.karpenter_cost for one in both)


def test_no_reservation_is_oversold(all_compared: list[Compared]) -> None:
    assert [one for one in all_compared if one.oversold] == []


def test_most_scenarios_can_be_compared(all_compared: list[Compared]) -> None:
    """Else the tests above would show little."""
    sound = [one for one in all_compared if one.verdict is not Verdict.BREAKS_RULE]
    assert len(sound) >= len(all_compared) // 2, Counter(one.verdict for one in all_compared)
