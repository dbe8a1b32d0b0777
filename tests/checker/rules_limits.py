"""Rules: NodePools stay within their limits, and the bill adds up."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Final

from checker import quantities
from checker.case import Case, Place, Violation
from checker.quantities import Resources
from checker.world import Pool

_ONE_NODE: Final = {"nodes": quantities.ONE}


def limits(case: Case) -> Iterator[Violation]:
    """limits: with the types that the plan counts on. limits-strict: with the largest types listed."""
    for pool in case.world.pools.values():
        places = [place for place in case.claims() if place.pool is pool]
        chosen = over(case, pool, [_chosen(case, place) for place in places])
        for name in sorted(chosen):
            yield Violation("limits", f"NodePool {pool.name} exceeds its limit of {name}")
        for name in sorted(over(case, pool, [_largest(case, place) for place in places]) - chosen):
            yield Violation("limits-strict", f"NodePool {pool.name} may exceed its limit of {name}")


def over(case: Case, pool: Pool, added: list[Resources]) -> set[str]:
    """The limits that are exceeded once the added nodes are there; those that nothing was added to are
    nobody's fault."""
    new = quantities.total([*added, *(_ONE_NODE for _ in added)])
    whole = quantities.total([used(case, pool), new])
    return {
        name for name, limit in pool.limits.items() if new.get(name, 0) > 0 and whole.get(name, 0) > limit
    }


def used(case: Case, pool: Pool) -> Resources:
    nodes = [node for node in case.world.nodes.values() if node.pool == pool.name and not node.deleting]
    return quantities.total([*(node.capacity for node in nodes), *(_ONE_NODE for _ in nodes)])


def _chosen(case: Case, place: Place) -> Resources:
    found = case.world.types.get(place.claim["instanceType"])
    return found.capacity if found else {}


def _largest(case: Case, place: Place) -> Resources:
    known = (case.world.types.get(name) for name in place.claim["instanceTypes"])
    return quantities.largest(one.capacity for one in known if one is not None)


def cost(case: Case) -> Iterator[Violation]:
    """cost-sum: the bill is the sum of its claims. cost-baseline: looking for a cheaper plan found no dearer.

    A packing that places more pods than first fit, or others of higher priority, may cost more, and so may one that buys
    less of what has no known price.
    """
    bill = case.plan["cost"]
    prices = [quantities.price(claim["pricePerHour"]) for claim in case.plan["claims"]]
    known = sum((price for price in prices if price is not None), Fraction(0))
    if quantities.price(bill["perHour"]) != known:
        yield Violation("cost-sum", f"the claims cost {quantities.decimal(known)}, not {bill['perHour']}")
    without = len(case.plan["unplaced"]) + len(case.plan["waiting"])
    priorities = {pod.shape.priority for pod in case.world.pending()}
    comparable = bill["baselineUnplaced"] <= without and not _unpriced(case)
    comparable = comparable and (len(priorities) < 2 or not without)
    if case.world.settings.get("packing", "cost") == "cost" and comparable:
        baseline, node = (
            quantities.price(bill["baselinePerHour"]),
            quantities.price(bill.get("nodeCostPerHour", "0")) or 0,
        )
        bought = sum(claim.get("reservationID") is None for claim in case.plan["claims"])
        cost = (quantities.price(bill["perHour"]) or 0) + bought * node
        if baseline is None or baseline + bill.get("baselineNodes", 0) * node < cost:
            yield Violation("cost-baseline", f"{bill['perHour']} is dearer than {bill['baselinePerHour']}")


def _unpriced(case: Case) -> bool:
    offerings = [offering for found in case.world.types.values() for offering in found.offerings]
    return any(one.price is None and one.reservation is None and one.launchable for one in offerings)
