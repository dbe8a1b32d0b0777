"""Where one more pod could go: on a node, on a claim of the plan, or on a new node of some pool.

Careful on purpose: DaemonSets, limits and PreferNoSchedule are counted as upstream's most careful reading
has them, so that a place found here is one that a planner should have found. Used to look for places that a
plan overlooked, and by the naive planner.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

from checker import admission, daemons, labels, machines, quantities, rules_claims, rules_limits, rules_pods
from checker.case import Case, Place
from checker.labels import Expression, Taint, Term
from checker.machines import Machine
from checker.preferences import Rung
from checker.quantities import Resources
from checker.shapes import Shape
from checker.world import Pool
from holdfast import names


@dataclass(frozen=True, slots=True)
class Way:
    """One reading of what a pod asks: an alternative of its node affinity, and of each of its volumes."""

    term: Term
    volumes: Term  # and the preferred node term, if one is kept: both are asked of the node alone

    @property
    def wanted(self) -> Term:
        return self.term + self.volumes


def ways(case: Case, rung: Rung) -> Iterator[Way]:
    shape = rung.shape
    if shape.invalid:
        return
    found = [case.world.storage.volumes.get(f"{shape.namespace}/{claim}") for claim in shape.volumes]
    if None in found:
        return
    alternatives = [volume.terms or ((),) for volume in found if volume is not None]
    for term, *chosen in product(shape.terms, *alternatives):
        yield Way(term, tuple(one for part in chosen for one in part) + rung.extra)


def on_node(case: Case, rung: Rung, place: Place) -> bool:
    assert place.node is not None
    machine, shape = place.machines[0], rung.shape
    if place.node.deleting or keeps_away(rung, place.taints):
        return False
    coming = daemons.missing(case, place, all_terms=True)
    wanted = [pod.shape.requests for pod in place.pods] + [daemons.requests(coming), shape.requests]
    if not machines.fits(machine, *wanted) or _clashes(shape, [pod.shape for pod in place.pods]):
        return False
    return rules_pods.attaches(case, [*(pod.shape for pod in place.pods), shape], machine) and any(
        machines.surely(machine, way.wanted) and admission.admits(case, shape, place)
        for way in ways(case, rung)
    )


def keeps_away(rung: Rung, taints: Iterable[Taint]) -> bool:
    return bool(labels.untolerated(rung.shape.tolerations, taints, preferences=rung.avoids_taints))


def on_claim(case: Case, rung: Rung, place: Place) -> Iterator[Place]:
    """The claim, narrowed to what holds the pod as well; it keeps its slot."""
    pool, slot, shape = place.pool, place.claim.get("reservationID"), rung.shape
    assert pool is not None
    if keeps_away(rung, place.taints):
        return
    others = [pod.shape for pod in place.planned]
    if _clashes(shape, others):
        return
    for way in ways(case, rung):
        suited = list(fitting(case, pool, place.machines, way, [*others, shape]))
        for pins, kept in _settled(case, shape, suited):
            wanted = place.wanted + way.wanted + pins
            narrowed = replace(place, machines=kept, chosen=cheapest(kept, slot), wanted=wanted)
            enough = _enough(case, pool, kept, wanted)
            if narrowed.chosen and enough and admission.admits(case, shape, narrowed):
                yield narrowed


def fresh(case: Case, rung: Rung, pool: Pool, room: Resources | None, *, reserved: bool) -> Iterator[Place]:
    """New nodes of a pool, in a free slot or bought. `room` is what its limits still allow."""
    shape = rung.shape
    if keeps_away(rung, pool.taints):
        return
    left = case.slots_left()
    usable = [
        machine
        for machine in machines.launchable(case.pool_machines[pool.name])
        if (left[machine.reservation.id] > 0 if machine.reservation else True)
        and (machine.reservation is not None) == reserved
        and (room is None or _within(machine.capacity, room))
    ]
    for way in ways(case, rung):
        for pins, kept in _settled(case, shape, list(fitting(case, pool, usable, way, [shape]))):
            name, wanted = f"new claim {len(case.places)}", way.wanted + pins
            place = Place(name, pool.taints, kept, cheapest(kept), pool=pool, wanted=wanted)
            if _enough(case, pool, kept, wanted) and admission.admits(case, shape, place):
                yield place


def room(case: Case, pool: Pool, *, pessimistic: bool) -> Resources | None:
    """What the limits leave; None without limits. A planner may have counted each claim as the largest type
    that the pool allows, however small the types are that the claim lists in the end."""
    if not pool.limits:
        return None
    added = []
    for place in case.claims():
        if place.pool is pool:
            listed = case.pool_machines[pool.name] if pessimistic else place.machines
            added.append(quantities.largest(machine.capacity for machine in listed))
    spent = quantities.total([rules_limits.used(case, pool), *added, {"nodes": len(added) * quantities.ONE}])
    return {name: limit - spent.get(name, 0) for name, limit in pool.limits.items()}


def cheapest(found: list[Machine], slot: str | None = None) -> Machine | None:
    """With a slot, a machine in that slot."""
    wanted = [m for m in found if slot is None or (m.reservation and m.reservation.id == slot)]
    return min(wanted, key=_order, default=None)


def _order(machine: Machine) -> tuple[bool, Fraction, str, str]:
    offering = machine.offering
    assert offering is not None
    unknown = offering.price is None and offering.reservation is None
    slot = offering.reservation.id if offering.reservation else offering.capacity_type
    return unknown, offering.price or Fraction(0), machine.instance_type, f"{offering.zone} {slot}"


def _within(capacity: Resources, left: Resources) -> bool:
    return all(capacity.get(name, 0) <= amount for name, amount in left.items()) and left.get("nodes", 1) > 0


def fitting(case: Case, pool: Pool, found: list[Machine], way: Way, shapes: list[Shape]) -> Iterator[Machine]:
    wanted = quantities.total(shape.requests for shape in shapes)
    suits: dict[tuple[str, str], bool] = {}
    for machine in found:
        assert machine.offering is not None, "it can be launched"
        key = name, own = machine.instance_type, machine.offering.capacity_type
        if key not in suits:
            coming = daemons.most(case, pool, name, frozenset({own}))
            # A planner that decides by type which ports are taken, for all that is bought, made no mistake.
            alike = frozenset({own}) if own == names.RESERVED else frozenset({names.ON_DEMAND, names.SPOT})
            clash = any(_clashes(shape, daemons.most(case, pool, name, alike)) for shape in shapes)
            fits = not clash and machines.fits(machine, wanted, daemons.requests(coming))
            suits[key] = fits and rules_pods.attaches(case, shapes, machine)
        if suits[key] and (narrowed := machines.narrow(machine, way.wanted)):
            yield narrowed


def _settled(case: Case, shape: Shape, found: list[Machine]) -> Iterator[tuple[Term, list[Machine]]]:
    """The machines of each combination of domains that matters to the pod."""
    known = sorted(keys(case, shape))
    values = [sorted({v for m in found for v in m.values(key) if v is not None}) for key in known]
    for chosen in product(*values):
        pins = tuple(Expression(key, "In", (value,)) for key, value in zip(known, chosen, strict=True))
        kept = [narrowed for machine in found if (narrowed := machines.narrow(machine, pins))]
        if kept:
            yield pins, kept


def keys(case: Case, shape: Shape) -> set[str]:
    """The labels, besides the hostname, whose value decides whether the pod may be on a node."""
    if shape not in case.keys_of:
        own = shape.keys() | {wanted.key for wanted in shape.anti_affinity}
        for other in case.world.shapes():
            own |= {wanted.key for wanted in other.anti_affinity if case.is_neighbour(wanted, shape)}
        case.keys_of[shape] = own - {names.HOSTNAME}
    return case.keys_of[shape]


def _enough(case: Case, pool: Pool, kept: list[Machine], wanted: Term) -> bool:
    """minValues hold, by the most careful count: of what the machines that are left really have."""
    types = sorted({machine.instance_type for machine in kept})
    for one in pool.requirements:
        values = {value for machine in kept for value in machine.values(one.key)}
        counted = min(len(values), rules_claims.distinct(case, one.key, types, wanted))
        if one.min_values is not None and counted < one.min_values:
            return False
    return True


def _clashes(shape: Shape, others: list[Shape]) -> bool:
    return any(
        rules_pods.clash(one, other) for one in shape.ports for found in others for other in found.ports
    )
