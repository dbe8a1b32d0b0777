"""Karpenter's scheduler and Holdfast's planner on the same random scenarios.

Run by `make e2e`, since it needs Karpenter. Every difference gets one of the reasons of docs/peers.md, each with a
condition on the scenario and a bound for its frequency.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from checker import case, check, generate, labels, rules_slots, scenario
from checker.case import Violation
from checker.scenario import SOMETHING_ELSE, Scenario
from holdfast.api import kinds
from holdfast.cli.plan import plan_documents
from holdfast.model.reasons import ReasonCode
from peers import karpenter

SEEDS: Final = range(1, 1 + int(os.environ.get("HOLDFAST_PEER_SEEDS", "100")))
COMPARABLE_SHARE: Final = Fraction(80, 100)
PACKING_SHARE: Final = Fraction(1, 25)  # of the scenarios in which both place the same pods
FEWER_SHARE: Final = Fraction(3, 100)  # of those that can be compared


class Fault(StrEnum):
    """Rules that Karpenter's plan violates; such a plan is not compared."""

    COUNTED_ANEW = "a pod that gives something up is counted apart from those placed before"
    CONTRADICTION = "a selector that contradicts an alternative is read as: without the label"
    AFFINITY = "the first pod of an affinity leaves its domain open, or begins beside running neighbours"


class Missed(StrEnum):
    """Why Karpenter places a pod that Holdfast does not."""

    LIMITS = "a limit leaves room for some only"
    NEIGHBOURS = "where others went decides, and they went elsewhere"
    INVENTED = "Karpenter invents a label that no NodePool has"
    LATER = "Karpenter places it in a later round, on a node that is there by then"


class Dearer(StrEnum):
    """Why both place the same pods and Karpenter's plan is cheaper."""

    PREFERENCE = "we keep a wish that Karpenter gives up"
    WEIGHT = "we keep to heavier NodePools"
    PACKING = "we try a few packings, not all"


class Compared(NamedTuple):
    seed: int
    faults: frozenset[Fault | str]  # violations without a known reason are texts of the checker
    missed: frozenset[Missed | str]
    fewer: bool
    same_pods: bool
    dearer: Dearer | None
    our_cost: Fraction
    karpenter_cost: Fraction
    oversold: list[str]


def documents_of(seed: int) -> list[dict[str, Any]]:
    """Without features that Karpenter does not guarantee (a node limit of a NodePool that is not static) or does not have
    (packings, waiting for a slot)."""
    documents = generate.plain(seed)
    for setting in ("packing", "packingCandidates", "reservationWait"):
        documents[0]["spec"]["settings"].pop(setting, None)
    documents[0]["spec"]["settings"]["nodeCost"] = "0"  # Karpenter counts prices alone
    for one in documents:
        if one["kind"] == "NodePool" and "limits" in one["spec"]:
            one["spec"]["limits"] = {k: v for k, v in one["spec"]["limits"].items() if k != "nodes"}
    return documents


def compared(seed: int) -> Compared:
    documents = documents_of(seed)
    theirs, ours = karpenter.ask(documents), plan_documents(documents)
    known = scenario.read(documents)
    our_pods, karpenter_pods = placed(ours), placed(theirs.plan)
    our_cost, karpenter_cost = Fraction(ours["cost"]["perHour"]), Fraction(theirs.plan["cost"]["perHour"])
    found = faults(known, theirs.plan)
    is_dearer = not found and our_pods == karpenter_pods and our_cost > karpenter_cost
    return Compared(
        seed=seed,
        faults=found,
        missed=frozenset() if found else missed(ours, karpenter_pods - our_pods, theirs.later),
        fewer=not found and len(our_pods) < len(karpenter_pods),
        same_pods=not found and our_pods == karpenter_pods,
        dearer=dearer(documents, karpenter_cost) if is_dearer else None,
        our_cost=our_cost,
        karpenter_cost=karpenter_cost,
        oversold=[one.what for one in rules_slots.oversold(case.build(known, ours))],
    )


def placed(plan: Mapping[str, Any]) -> set[str]:
    return {pod for one in plan["claims"] + plan["nodes"] for pod in one["pods"]}


# --- Faults -----------------------------------------------------------------------------------------


def faults(known: Scenario, plan: Mapping[str, Any]) -> frozenset[Fault | str]:
    return frozenset(_fault(known, one) for one in check.faults(known, plan))


def _fault(known: Scenario, found: Violation) -> Fault | str:
    """The known fault, if the scenario meets its condition; otherwise the text of the violation."""
    for fault, rules, is_possible in _FAULTS:
        if found.rule in rules and is_possible(known):
            return fault
    return f"{found.rule}: {found.what}"


def _contradicts(known: Scenario) -> bool:
    return any(not _satisfiable(term) for pod in known.pending() for term in pod.shape.terms)


def _satisfiable(term: labels.Term) -> bool:
    by_key: dict[str, list[labels.Expression]] = {}
    for one in term:
        by_key.setdefault(one.key, []).append(one)
    return all(
        any(all(labels.holds(one, value) for one in wanted) for value in _values(wanted))
        for wanted in by_key.values()
    )


def _values(wanted: list[labels.Expression]) -> set[str | None]:
    """Every value that could matter, including the numbers next to a bound."""
    named = {value for one in wanted for value in one.values}
    beside = {str(int(value) + step) for value in named if value.isdigit() for step in (-1, 1)}
    return named | beside | {SOMETHING_ELSE, None}


def _may_relax(known: Scenario) -> bool:
    """Whether a pod may give up something that its spread constraints depend on: an alternative, or the avoidance of
    PreferNoSchedule taints."""
    prefers = any(taint["effect"] == "PreferNoSchedule" for p in known.pools.values() for taint in p.taints)
    return prefers or any(len(pod.shape.terms) > 1 for pod in known.pending())


def _has_affinity(known: Scenario) -> bool:
    return any(pod.shape.affinity for pod in known.pending())


_FAULTS: Final[tuple[tuple[Fault, frozenset[str], Callable[[Scenario], bool]], ...]] = (
    (Fault.CONTRADICTION, frozenset({"pod-selector", "claim-type", "claim-offering"}), _contradicts),
    (Fault.COUNTED_ANEW, frozenset({"spread"}), _may_relax),
    (Fault.CONTRADICTION, frozenset({"spread", "topology-pinned"}), _contradicts),
    (Fault.AFFINITY, frozenset({"affinity", "topology-pinned"}), _has_affinity),
)


# --- Differences ------------------------------------------------------------------------------------


def missed(ours: Mapping[str, Any], names: set[str], later: frozenset[str]) -> frozenset[Missed | str]:
    reasons_by_pod = {pod: one["reasons"] for one in ours["unplaced"] for pod in one["pods"]}
    return frozenset(Missed.LATER if name in later else _missed(name, reasons_by_pod[name]) for name in names)


def _missed(name: str, reasons: list[dict[str, Any]]) -> Missed | str:
    codes = {one["code"] for one in reasons}
    if ReasonCode.LIMITS in codes:
        return Missed.LIMITS
    if ReasonCode.TOPOLOGY in codes:
        return Missed.NEIGHBOURS
    if any("is not defined" in one["text"] for one in reasons):
        return Missed.INVENTED
    return f"{name}: {sorted(codes)}"


def dearer(documents: list[dict[str, Any]], karpenter_cost: Fraction) -> Dearer:
    """The reason without which the difference disappears."""
    if _cost_without(documents, _without_preferences) <= karpenter_cost:
        return Dearer.PREFERENCE
    return Dearer.WEIGHT if _cost_without(documents, _without_weights) <= karpenter_cost else Dearer.PACKING


def _cost_without(
    documents: list[dict[str, Any]], without: Callable[[dict[str, Any]], dict[str, Any]]
) -> Fraction:
    return Fraction(plan_documents([without(one) for one in documents])["cost"]["perHour"])


def _without_preferences(one: dict[str, Any]) -> dict[str, Any]:
    if one["kind"] != "Catalog":
        return one
    settings = one["spec"]["settings"] | {"preferencePolicy": "Ignore"}
    return one | {"spec": one["spec"] | {"settings": settings}}


def _without_weights(one: dict[str, Any]) -> dict[str, Any]:
    if one["kind"] != "NodePool":
        return one
    return one | {"spec": {key: value for key, value in one["spec"].items() if key != "weight"}}


# --- What must hold ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def all_compared() -> list[Compared]:
    # msgspec 0.22 crashes if two threads decode the first object of a kind at the same time.
    for kind in kinds.IN_FILES.values():
        with contextlib.suppress(msgspec.ValidationError):
            msgspec.convert({}, kind)
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(compared, SEEDS))


def named(found: Iterable[StrEnum | str]) -> bool:
    return all(isinstance(one, StrEnum) for one in found)


def test_most_plans_of_karpenter_violate_no_rule_and_every_violation_is_known(
    all_compared: list[Compared],
) -> None:
    assert [one for one in all_compared if not named(one.faults)] == []
    sound = [one for one in all_compared if not one.faults]
    fault_counts = Counter(fault for one in all_compared for fault in one.faults)
    assert len(sound) >= COMPARABLE_SHARE * len(all_compared), fault_counts


def test_holdfast_places_the_pods_that_karpenter_places_or_the_reason_is_known(
    all_compared: list[Compared],
) -> None:
    assert [one for one in all_compared if not named(one.missed)] == []
    fewer = [one for one in all_compared if one.fewer]
    assert {why for one in fewer for why in one.missed} <= {Missed.NEIGHBOURS, Missed.LATER, Missed.INVENTED}
    assert len(fewer) <= FEWER_SHARE * len(all_compared), fewer


def test_plans_cost_no_more_than_those_of_karpenter(all_compared: list[Compared]) -> None:
    both = [one for one in all_compared if one.same_pods]
    more_expensive = [one for one in both if one.dearer is Dearer.PACKING]
    assert len(more_expensive) <= PACKING_SHARE * len(both), more_expensive
    assert sum(one.our_cost for one in both) <= sum(one.karpenter_cost for one in both)


def test_no_reservation_is_oversold(all_compared: list[Compared]) -> None:
    assert [one for one in all_compared if one.oversold] == []
