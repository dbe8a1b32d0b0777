"""Rules: NodePools stay within their limits, and the cost is the sum of the claims."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from checker import quantities
from checker.case import Case, Target, Violation
from checker.quantities import Resources
from checker.scenario import Pool

_ONE_NODE: Final = {"nodes": quantities.ONE}


def limits(case: Case) -> Iterator[Violation]:
    """limits: with the instance types that the plan expects. limits-strict: with the largest types listed."""
    for pool in case.scenario.pools.values():
        targets = [target for target in case.claims() if target.pool is pool]
        chosen = over(case, pool, [_chosen(case, target) for target in targets])
        for name in sorted(chosen):
            yield Violation("limits", f"NodePool {pool.name} exceeds its limit of {name}")
        for name in sorted(over(case, pool, [_largest(case, target) for target in targets]) - chosen):
            yield Violation("limits-strict", f"NodePool {pool.name} may exceed its limit of {name}")


def over(case: Case, pool: Pool, added: list[Resources]) -> set[str]:
    """The limits that the added nodes exceed; a limit that was exceeded before and to which nothing is added does not
    count."""
    new = quantities.total([*added, *(_ONE_NODE for _ in added)])
    whole = quantities.total([used(case, pool), new])
    return {
        name for name, limit in pool.limits.items() if new.get(name, 0) > 0 and whole.get(name, 0) > limit
    }


def used(case: Case, pool: Pool) -> Resources:
    nodes = [node for node in case.scenario.nodes.values() if node.pool == pool.name and not node.deleting]
    return quantities.total([*(node.capacity for node in nodes), *(_ONE_NODE for _ in nodes)])


def _chosen(case: Case, target: Target) -> Resources:
    found = case.scenario.types.get(target.claim["instanceType"])
    return found.capacity if found else {}


def _largest(case: Case, target: Target) -> Resources:
    known = (case.scenario.types.get(name) for name in target.claim["instanceTypes"])
    return quantities.largest(one.capacity for one in known if one is not None)


def cost(case: Case) -> Iterator[Violation]:
    """cost-sum: the cost is the sum of the claims. cost-baseline: the plan does not cost more than first fit.

    A packing that places more pods than first fit, or pods of higher priority, may cost more, and so may one that launches
    fewer nodes without a known price.
    """
    bill = case.plan["cost"]
    prices = [quantities.price(claim["pricePerHour"]) for claim in case.plan["claims"]]
    known = sum((price for price in prices if price is not None), Fraction(0))
    if quantities.price(bill["perHour"]) != known:
        yield Violation("cost-sum", f"the claims cost {quantities.decimal(known)}, not {bill['perHour']}")
    without = len(case.plan["unplaced"]) + len(case.plan["waiting"])
    priorities = {pod.shape.priority for pod in case.scenario.pending()}
    comparable = bill["baselineUnplaced"] <= without and not _unpriced(case)
    comparable = comparable and (len(priorities) < 2 or not without)
    if case.scenario.settings.get("packing", "cost") == "cost" and comparable:
        baseline, node = (
            quantities.price(bill["baselinePerHour"]),
            quantities.price(bill.get("nodeCostPerHour", "0")) or 0,
        )
        not_reserved = sum(claim.get("reservationID") is None for claim in case.plan["claims"])
        cost = (quantities.price(bill["perHour"]) or 0) + not_reserved * node
        if baseline is None or baseline + bill.get("baselineNodes", 0) * node < cost:
            yield Violation("cost-baseline", f"{bill['perHour']} is dearer than {bill['baselinePerHour']}")


def _unpriced(case: Case) -> bool:
    offerings = [offering for found in case.scenario.types.values() for offering in found.offerings]
    return any(one.price is None and one.reservation is None and one.launchable for one in offerings)
