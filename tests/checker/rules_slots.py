"""Rules: slots that were paid for are never sold twice, and are said truly."""

from collections import Counter
from collections.abc import Iterator

from checker import labels, machines, rules_claims
from checker.case import Case, Place, Violation, requirements
from holdfast import names
from holdfast.api import aws


def pinned(case: Case) -> Iterator[Violation]:
    """slot-pinned: a claim with a slot is reserved and nothing else; one without never is."""
    for place in case.claims():
        slot = place.claim.get("reservationID")
        if (place.claim["capacityType"] == names.RESERVED) != (slot is not None):
            yield Violation("slot-pinned", f"{place.name}: {place.claim['capacityType']} with slot {slot}")
            continue
        allowed = _allowed(place, names.CAPACITY_TYPE, set(names.CAPACITY_TYPES))
        if slot is not None and allowed != {names.RESERVED}:
            yield Violation("slot-pinned", f"{place.name} has a slot and allows {sorted(allowed)}")
        if slot is None and names.RESERVED in allowed:
            yield Violation("slot-pinned", f"{place.name} has no slot and allows reserved")


def ids(case: Case) -> Iterator[Violation]:
    """slot-ids: the reservations that a claim lists are those it requires, the slot's among them."""
    for place in case.claims():
        slot, listed = place.claim.get("reservationID"), set(place.claim["reservationIDs"])
        if slot is None:
            if listed:
                yield Violation("slot-ids", f"{place.name} has no slot and lists {sorted(listed)}")
            continue
        if slot not in listed:
            yield Violation("slot-ids", f"{place.name} does not list its slot {slot}")
        allowed = _allowed(place, aws.CAPACITY_RESERVATION_ID, listed | set(case.reservations))
        if allowed != listed:
            yield Violation("slot-ids", f"{place.name} lists {sorted(listed)} and allows {sorted(allowed)}")


def _allowed(place: Place, key: str, values: set[str]) -> set[str]:
    wanted = [one for one in requirements(place.claim) if one.key == key]
    return {value for value in values if all(labels.holds(one, value) for one in wanted)}


def usable(case: Case) -> Iterator[Violation]:
    """slot-usable: every reservation listed is selected, healthy, allowed, and big enough."""
    for place in case.claims():
        assert place.pool is not None
        for name in place.claim["reservationIDs"]:
            found = case.reservations.get(name)
            if found is None or name not in place.pool.selected:
                yield Violation("slot-usable", f"{place.name}: its class does not select {name}")
            elif not found.healthy:
                yield Violation("slot-usable", f"{place.name}: nothing may be launched into {name}")
            elif not _suits(case, place, name):
                yield Violation("slot-usable", f"{place.name}: {name} does not suit it")


def _suits(case: Case, place: Place, name: str) -> bool:
    assert place.pool is not None
    for machine in case.pool_machines[place.pool.name]:
        if machine.reservation is not None and machine.reservation.id == name:
            narrowed = machines.narrow(machine, requirements(place.claim))
            if narrowed and rules_claims.holds(case, place, narrowed):
                return True
    return False


def oversold(case: Case) -> Iterator[Violation]:
    """slot-oversold: no reservation has more claims than free slots."""
    used = Counter(
        place.claim["reservationID"]
        for place in case.claims()
        if place.claim.get("reservationID") is not None
    )
    for name, count in sorted(used.items()):
        found = case.reservations.get(name)
        free = case.world.free(found) if found else 0
        if found is not None and found.healthy and count > free:
            yield Violation("slot-oversold", f"{count} claims share {free} free slots of {name}")


def left(case: Case) -> Iterator[Violation]:
    """slots-left: free slots less those taken, for each reservation that a class selects; where nothing may
    be launched it need not be said."""
    stated, real = case.plan["slotsLeft"], case.slots_left()
    selected = frozenset().union(*(pool.selected for pool in case.world.pools.values()))
    for name in sorted(set(stated) - set(real)):
        yield Violation("slots-left", f"{name} is not a reservation")
    for name in sorted(selected):
        if case.reservations[name].healthy and stated.get(name, 0) != max(0, real[name]):
            yield Violation("slots-left", f"{name} has {real[name]} left, not {stated.get(name, 0)}")
