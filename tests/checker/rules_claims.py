"""Rules: a claim can be launched as planned, stays within its NodePool, and fits its pods."""

from collections.abc import Iterator

from checker import daemons, labels, node_options, quantities
from checker.case import Case, Target, Violation, requirements
from checker.labels import Term
from checker.node_options import NodeOption
from checker.scenario import SOMETHING_ELSE
from holdfast import names


def pools(case: Case) -> Iterator[Violation]:
    """claim-pool: the NodePool exists, and nodes are launched for it."""
    for claim in case.plan["claims"]:
        pool = case.scenario.pools.get(claim["nodePool"])
        if pool is None or not pool.opens:
            yield Violation("claim-pool", f"no NodePool {claim['nodePool']} opens nodes")


def within_pool(case: Case) -> Iterator[Violation]:
    """claim-within-pool: the claim allows nothing that its NodePool does not."""
    for target in case.claims():
        assert target.pool is not None
        wanted, theirs = requirements(target.claim), target.pool.requirements
        for key in sorted({one.key for one in theirs}):
            allowed = set(_allowed(wanted, key, _values(case, key, wanted)))
            if not allowed <= set(_allowed(theirs, key, allowed)):
                yield Violation("claim-within-pool", f"{target.name} allows other values of {key}")
        for key, value in target.pool.labels.items():
            if not all(labels.holds(one, value) for one in wanted if one.key == key):
                yield Violation("claim-within-pool", f"{target.name} excludes its own label {key}")


def _values(case: Case, key: str, wanted: Term) -> set[str]:
    """Every value of a label that the scenario has or mentions, and one that it does not."""
    found = {SOMETHING_ELSE, *case.scenario.mentioned.get(key, ())}
    for one in case.scenario.types.values():
        found |= {value for value in one.labels.get(key, ()) if value is not None}
        for offering in one.offerings:
            found |= {value for value in offering.labels().get(key, ()) if value is not None}
    return found.union(*(one.values for one in wanted if one.key == key))


def _allowed(wanted: Term, key: str, values: set[str]) -> list[str]:
    own = [one for one in wanted if one.key == key]
    return [value for value in values if all(labels.holds(one, value) for one in own)]


def listed(case: Case) -> Iterator[Violation]:
    """claim-chosen: the instance type that the plan expects is one of those listed."""
    for target in case.claims():
        if target.claim["instanceType"] not in target.claim["instanceTypes"]:
            yield Violation("claim-chosen", f"{target.name} does not list {target.claim['instanceType']}")


def types(case: Case) -> Iterator[Violation]:
    """claim-type: every type that is listed can be launched under the claim's requirements."""
    for target in case.claims():
        possible = {option.instance_type for option in target.options}
        for name in target.claim["instanceTypes"]:
            if name not in possible:
                yield Violation("claim-type", f"{target.name} lists {name}, which it can never become")


def sizes(case: Case) -> Iterator[Violation]:
    """claim-fits: every type that is listed holds the pods and the DaemonSets, and so does the chosen one."""
    for target in case.claims():
        fitting = {option.instance_type for option in target.options if holds(case, target, option)}
        small = {option.instance_type for option in target.options} - fitting
        if target.chosen is not None and not holds(case, target, target.chosen):
            small.add(target.chosen.instance_type)
        for name in sorted(small):
            yield Violation("claim-fits", f"{target.name} is too small as {name}")


def holds(case: Case, target: Target, option: NodeOption) -> bool:
    wanted = quantities.total(pod.shape.requests for pod in target.planned)
    return node_options.fits(option, wanted, daemons.requests(daemons.least(case, target, option)))


def offerings(case: Case) -> Iterator[Violation]:
    """claim-offering: the instance type can be launched in that zone and capacity type."""
    for target in case.claims():
        claim = target.claim
        possible = {option.instance_type for option in target.options}
        if target.chosen is None and claim["instanceType"] in possible:
            what = f"{claim['instanceType']} in {claim['zone']} as {claim['capacityType']}"
            yield Violation("claim-offering", f"{target.name}: {what} cannot be launched")


def prices(case: Case) -> Iterator[Violation]:
    """claim-price: the price of the offering; 0 in a slot; null if unknown."""
    for target in case.claims():
        stated = quantities.price(target.claim["pricePerHour"])
        offering = target.chosen.offering if target.chosen else None
        if offering is None:
            continue
        real = quantities.price("0") if offering.capacity_type == names.RESERVED else offering.price
        if stated != real:
            yield Violation("claim-price", f"{target.name} costs {real}, not {stated}")


def min_values(case: Case) -> Iterator[Violation]:
    """min-values: the types that are listed have as many values as the NodePool asks for.

    A claim with a slot has only the type of its slot: its flexibility is checked before that, which the plan does not show.
    """
    if case.scenario.settings.get("minValuesPolicy", "Strict") != "Strict":
        return
    for target in case.claims():
        assert target.pool is not None
        if target.claim["reservationID"] is not None:
            continue
        listed_types = target.claim["instanceTypes"]
        for one in target.pool.requirements:
            found = distinct(case, one.key, listed_types, requirements(target.claim))
            if one.min_values is not None and found < one.min_values:
                yield Violation("min-values", f"{target.name} has {found} values of {one.key}")


def distinct(case: Case, key: str, type_names: list[str], wanted: Term) -> int:
    """How many allowed values of a label the types have; offerings count even if they are not available (S-66)."""
    values: set[labels.Value] = set()
    for name in type_names:
        one = case.scenario.types.get(name)
        if one is not None:
            values |= one.labels.get(key, frozenset())
            values = values.union(*(offering.labels().get(key, frozenset()) for offering in one.offerings))
    return len(_allowed(wanted, key, {value for value in values if value is not None}))
