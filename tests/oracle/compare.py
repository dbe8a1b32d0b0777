"""Compares plans with optimal plans: how often the planner leaves out pods, leaves slots unused, or costs more."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from oracle import cases, exact
from oracle.cases import Case

_TINY = 1e-6
_NANO = 10**9


@dataclass
class Found:
    """The sums over many comparisons."""

    cases: int = 0
    fewer_pods: list[int] = field(default_factory=list)  # seeds
    unused_slots: list[int] = field(
        default_factory=list
    )  # more expensive, and only more slots make a plan cheaper
    dearer: dict[int, float] = field(
        default_factory=dict
    )  # by seed: the additional cost as a share of the least cost
    least: float = 0.0
    cost: float = 0.0

    def text(self) -> str:
        placed, slots = self.cases - len(self.fewer_pods), self.cases - len(self.unused_slots)
        cheapest = self.cases - len(self.dearer)
        above = 100 * (self.cost / self.least - 1) if self.least else 0.0
        return (
            f"{self.cases} cases: {placed} with the most pods, {slots} with the best use of slots, {cheapest} at the"
            f" least cost; {above:.2f} % above the least cost over all"
        )


def compare(seeds: range, packing: Packing, make: Callable[[int], Case] = cases.case) -> Found:
    found = Found()
    for seed in seeds:
        case = make(seed)
        _judge(found, seed, case, solve(cases.request_of(case, packing)))
    return found


def _judge(found: Found, seed: int, case: Case, plan: Plan) -> None:
    found.cases += 1
    best = exact.best(case)
    placed, cost = _placed(case, plan), _cost(plan)
    assert placed <= best.placed, (
        f"seed {seed}: the planner places more than is possible: {placed}, {best.placed}"
    )
    if placed < best.placed:
        found.fewer_pods.append(seed)
        return
    found.least += best.cost
    found.cost += cost
    assert cost >= best.cost - _TINY, f"seed {seed}: the plan costs less than is possible"
    if cost > best.cost + _TINY:
        found.dearer[seed] = cost / best.cost - 1 if best.cost else 1.0
        if exact.best(_with_slots_of(case, plan)).cost > best.cost + _TINY:
            found.unused_slots.append(seed)


def _cost(plan: Plan) -> float:
    not_reserved = sum(claim.reservation_id is None for claim in plan.claims)
    return plan.price_nano_usd_per_hour / _NANO + not_reserved * exact.NODE_COST


def _with_slots_of(case: Case, plan: Plan) -> Case:
    """The case with the slots that a plan uses, and no others."""
    used = Counter(claim.reservation_id for claim in plan.claims)
    return replace(case, slots=tuple(replace(slots, count=used[slots.id]) for slots in case.slots))


def _placed(case: Case, plan: Plan) -> tuple[int, ...]:
    """The number of placed pods, from the highest priority to the lowest."""
    by_name = {group.name: group.priority for group in case.groups}
    placed = Counter(by_name[pod.partition("-")[0]] for claim in plan.claims for pod in claim.pods)
    return tuple(placed[priority] for priority in sorted(set(by_name.values()), reverse=True))
