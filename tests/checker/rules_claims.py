"""Rules: a claim can be launched as planned, keeps to its NodePool, and holds what is on it."""

from collections.abc import Iterator

from checker import daemons, labels, machines, quantities
from checker.case import Case, Place, Violation, requirements
from checker.labels import Term
from checker.machines import Machine
from checker.world import SOMETHING_ELSE
from holdfast import names


def pools(case: Case) -> Iterator[Violation]:
    """claim-pool: the NodePool exists, and nodes are launched for it."""
    for claim in case.plan["claims"]:
        pool = case.world.pools.get(claim["nodePool"])
        if pool is None or not pool.opens:
            yield Violation("claim-pool", f"no NodePool {claim['nodePool']} opens nodes")


def within_pool(case: Case) -> Iterator[Violation]:
    """claim-within-pool: the claim allows nothing that its NodePool does not."""
    for place in case.claims():
        assert place.pool is not None
        wanted, theirs = requirements(place.claim), place.pool.requirements
        for key in sorted({one.key for one in theirs}):
            allowed = set(_allowed(wanted, key, _values(case, key, wanted)))
            if not allowed <= set(_allowed(theirs, key, allowed)):
                yield Violation("claim-within-pool", f"{place.name} allows other values of {key}")
        for key, value in place.pool.labels.items():
            if not all(labels.holds(one, value) for one in wanted if one.key == key):
                yield Violation("claim-within-pool", f"{place.name} excludes its own label {key}")


def _values(case: Case, key: str, wanted: Term) -> set[str]:
    """Every value of a label that somebody names or has, and one that nobody does."""
    found = {SOMETHING_ELSE, *case.world.mentioned.get(key, ())}
    for one in case.world.types.values():
        found |= {value for value in one.labels.get(key, ()) if value is not None}
        for offering in one.offerings:
            found |= {value for value in offering.labels().get(key, ()) if value is not None}
    return found.union(*(one.values for one in wanted if one.key == key))


def _allowed(wanted: Term, key: str, values: set[str]) -> list[str]:
    own = [one for one in wanted if one.key == key]
    return [value for value in values if all(labels.holds(one, value) for one in own)]


def listed(case: Case) -> Iterator[Violation]:
    """claim-chosen: the type that the plan counts on is one of those listed."""
    for place in case.claims():
        if place.claim["instanceType"] not in place.claim["instanceTypes"]:
            yield Violation("claim-chosen", f"{place.name} does not list {place.claim['instanceType']}")


def types(case: Case) -> Iterator[Violation]:
    """claim-type: every type that is listed can be launched under the claim's requirements."""
    for place in case.claims():
        possible = {machine.instance_type for machine in place.machines}
        for name in place.claim["instanceTypes"]:
            if name not in possible:
                yield Violation("claim-type", f"{place.name} lists {name}, which it can never become")


def sizes(case: Case) -> Iterator[Violation]:
    """claim-fits: every type that is listed holds the pods and the DaemonSets, and so does the chosen one."""
    for place in case.claims():
        fitting = {machine.instance_type for machine in place.machines if holds(case, place, machine)}
        small = {machine.instance_type for machine in place.machines} - fitting
        if place.chosen is not None and not holds(case, place, place.chosen):
            small.add(place.chosen.instance_type)
        for name in sorted(small):
            yield Violation("claim-fits", f"{place.name} is too small as {name}")


def holds(case: Case, place: Place, machine: Machine) -> bool:
    wanted = quantities.total(pod.shape.requests for pod in place.planned)
    return machines.fits(machine, wanted, daemons.requests(daemons.least(case, place, machine)))


def offerings(case: Case) -> Iterator[Violation]:
    """claim-offering: the type is to be had in that zone and capacity type."""
    for place in case.claims():
        claim = place.claim
        possible = {machine.instance_type for machine in place.machines}
        if place.chosen is None and claim["instanceType"] in possible:
            what = f"{claim['instanceType']} in {claim['zone']} as {claim['capacityType']}"
            yield Violation("claim-offering", f"{place.name}: {what} cannot be launched")


def prices(case: Case) -> Iterator[Violation]:
    """claim-price: what the offering costs; nothing in a slot; null where nobody knows."""
    for place in case.claims():
        stated = quantities.price(place.claim["pricePerHour"])
        offering = place.chosen.offering if place.chosen else None
        if offering is None:
            continue
        real = quantities.price("0") if offering.capacity_type == names.RESERVED else offering.price
        if stated != real:
            yield Violation("claim-price", f"{place.name} costs {real}, not {stated}")


def min_values(case: Case) -> Iterator[Violation]:
    """min-values: the types that are listed have as many values as the NodePool asks for.

    A claim with a slot has the one type of its slot: there flexibility is judged before it is pinned, which the
    plan does not show.
    """
    if case.world.settings.get("minValuesPolicy", "Strict") != "Strict":
        return
    for place in case.claims():
        assert place.pool is not None
        if place.claim["reservationID"] is not None:
            continue
        listed_types = place.claim["instanceTypes"]
        for one in place.pool.requirements:
            found = distinct(case, one.key, listed_types, requirements(place.claim))
            if one.min_values is not None and found < one.min_values:
                yield Violation("min-values", f"{place.name} has {found} values of {one.key}")


def distinct(case: Case, key: str, type_names: list[str], wanted: Term) -> int:
    """How many values of a label the types have that are still allowed; offerings count whatever their
    availability (S-66)."""
    values: set[labels.Value] = set()
    for name in type_names:
        one = case.world.types.get(name)
        if one is not None:
            values |= one.labels.get(key, frozenset())
            values = values.union(*(offering.labels().get(key, frozenset()) for offering in one.offerings))
    return len(_allowed(wanted, key, {value for value in values if value is not None}))
