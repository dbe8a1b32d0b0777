"""One round of fuzzing: a scenario from a seed, its plan, and the violations of the plan.

Called by `scripts/fuzz.py` and by the test that runs some seeds in CI.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from checker import case, check, generate, preferences, scenario
from checker.case import Violation
from checker.dice import Dice
from checker.scenario import Documents

Planner: TypeAlias = Callable[[Documents], dict[str, Any]]


class Outcome(NamedTuple):
    seed: int
    documents: Documents
    plan: dict[str, Any]
    violations: list[Violation]
    remarks: list[Violation]

    @property
    def pods(self) -> int:
        return self.placed + sum(len(one["pods"]) for one in self.plan["unplaced"] + self.plan["waiting"])

    @property
    def placed(self) -> int:
        return sum(len(one["pods"]) for one in self.plan["claims"] + self.plan["nodes"])


def run(seed: int, planner: Planner, other: Planner | None = None) -> Outcome:
    """Plans twice, the second time with the documents in another order, and by the other planner if there is one. A plan that is not first fit is compared with first
    fit where pods have preferences."""
    documents = generate.scenario(seed)
    plan = planner(documents)
    again = (other or planner)(shuffled(documents, seed))
    verdict = check.judge(documents, plan)
    found = verdict.violations + check.difference(plan, again)
    if not plan["cost"]["packing"].startswith(("first-fit", "naive")) and _has_preferences(documents, plan):
        found += check.fewer_preferences(documents, plan, planner(with_packing(documents, "karpenter")))
    return Outcome(seed, documents, plan, found, verdict.remarks)


def _has_preferences(documents: Documents, plan: dict[str, Any]) -> bool:
    built_case = case.build(scenario.read(documents), plan)
    return any(len(preferences.rungs(built_case, pod.shape)) > 1 for pod in built_case.scenario.pending())


def with_packing(documents: Documents, packing: str) -> Documents:
    catalog, *rest = documents
    settings = {**catalog["spec"]["settings"], "packing": packing}
    return [{**catalog, "spec": {**catalog["spec"], "settings": settings}}, *rest]


def shuffled(documents: Documents, seed: int) -> Documents:
    """The same scenario with documents, instance types and reservations in another order."""
    dice = Dice(seed)
    found = []
    for one in dice.shuffled(documents):
        if one["kind"] == "Catalog":
            spec = dict(one["spec"])
            spec["instanceTypes"] = dice.shuffled(spec["instanceTypes"])
            spec["reservations"] = dice.shuffled(spec["reservations"])
            found.append({**one, "spec": spec})
        else:
            found.append(one)
    return found
