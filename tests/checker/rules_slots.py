"""Rules: reservations are never oversold, and the plan reports slots correctly."""

from collections import Counter
from collections.abc import Iterator

from checker import labels, node_options, rules_claims
from checker.case import Case, Target, Violation, requirements
from holdfast import names
from holdfast.api import aws


def pinned(case: Case) -> Iterator[Violation]:
    """slot-pinned: a claim with a slot allows only reserved; a claim without a slot never does."""
    for target in case.claims():
        slot = target.claim.get("reservationID")
        if (target.claim["capacityType"] == names.RESERVED) != (slot is not None):
            yield Violation("slot-pinned", f"{target.name}: {target.claim['capacityType']} with slot {slot}")
            continue
        allowed = _allowed(target, names.CAPACITY_TYPE, set(names.CAPACITY_TYPES))
        if slot is not None and allowed != {names.RESERVED}:
            yield Violation("slot-pinned", f"{target.name} has a slot and allows {sorted(allowed)}")
        if slot is None and names.RESERVED in allowed:
            yield Violation("slot-pinned", f"{target.name} has no slot and allows reserved")


def ids(case: Case) -> Iterator[Violation]:
    """slot-ids: the reservations that a claim lists are those it requires, including that of its slot."""
    for target in case.claims():
        slot, listed = target.claim.get("reservationID"), set(target.claim["reservationIDs"])
        if slot is None:
            if listed:
                yield Violation("slot-ids", f"{target.name} has no slot and lists {sorted(listed)}")
            continue
        if slot not in listed:
            yield Violation("slot-ids", f"{target.name} does not list its slot {slot}")
        allowed = _allowed(target, aws.CAPACITY_RESERVATION_ID, listed | set(case.reservations))
        if allowed != listed:
            yield Violation("slot-ids", f"{target.name} lists {sorted(listed)} and allows {sorted(allowed)}")


def _allowed(target: Target, key: str, values: set[str]) -> set[str]:
    wanted = [one for one in requirements(target.claim) if one.key == key]
    return {value for value in values if all(labels.holds(one, value) for one in wanted)}


def usable(case: Case) -> Iterator[Violation]:
    """slot-usable: every listed reservation is selected, healthy and allowed, and its type fits."""
    for target in case.claims():
        assert target.pool is not None
        for name in target.claim["reservationIDs"]:
            found = case.reservations.get(name)
            if found is None or name not in target.pool.selected:
                yield Violation("slot-usable", f"{target.name}: its class does not select {name}")
            elif not found.healthy:
                yield Violation("slot-usable", f"{target.name}: nothing may be launched into {name}")
            elif not _suits(case, target, name):
                yield Violation("slot-usable", f"{target.name}: {name} does not suit it")


def _suits(case: Case, target: Target, name: str) -> bool:
    assert target.pool is not None
    for option in case.pool_options[target.pool.name]:
        if option.reservation is not None and option.reservation.id == name:
            narrowed = node_options.narrow(option, requirements(target.claim))
            if narrowed and rules_claims.holds(case, target, narrowed):
                return True
    return False


def lasting(case: Case) -> Iterator[Violation]:
    """slot-lasting: no pod is placed where its node may be in a block that is drained before the pod ends."""
    for target in case.targets:
        for pod in target.planned:
            if not all(node_options.surely(option, pod.shape.lasting) for option in target.options):
                yield Violation("slot-lasting", f"{pod.name} on {target.name} may be drained before it ends")


def oversold(case: Case) -> Iterator[Violation]:
    """slot-oversold: no reservation has more claims than free slots."""
    used = Counter(
        target.claim["reservationID"]
        for target in case.claims()
        if target.claim.get("reservationID") is not None
    )
    for name, count in sorted(used.items()):
        found = case.reservations.get(name)
        free = case.scenario.free(found) if found else 0
        if found is not None and found.healthy and count > free:
            yield Violation("slot-oversold", f"{count} claims share {free} free slots of {name}")


def left(case: Case) -> Iterator[Violation]:
    """slots-left: free slots minus those used, for each reservation that an EC2NodeClass selects; optional for unhealthy
    reservations."""
    stated, real = case.plan["slotsLeft"], case.slots_left()
    selected = frozenset().union(*(pool.selected for pool in case.scenario.pools.values()))
    for name in sorted(set(stated) - set(real)):
        yield Violation("slots-left", f"{name} is not a reservation")
    for name in sorted(selected):
        if case.reservations[name].healthy and stated.get(name, 0) != max(0, real[name]):
            yield Violation("slots-left", f"{name} has {real[name]} left, not {stated.get(name, 0)}")
