"""The machines that a claim could become: every type it lists in every offering it allows.

A machine knows, for each label, the values it may turn out to have: mostly one. A label that neither the
type nor the offering decides is decided by the NodePool; where that only says `Exists`, every value that
the scenario mentions is possible, and one that it does not mention.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from checker import labels, quantities
from checker.catalog import InstanceType, Offering, Reservation
from checker.labels import ABSENT, Expression, Term, Value
from checker.quantities import Resources
from checker.world import Node, Pool, World
from holdfast import names


@dataclass(frozen=True, slots=True)
class Machine:
    labels: Mapping[str, frozenset[Value]]
    allocatable: Resources
    capacity: Resources
    instance_type: str
    offering: Offering | None  # None: it exists already
    volume_limits: Mapping[str, int] = field(default_factory=dict)

    def values(self, key: str) -> frozenset[Value]:
        return self.labels.get(key, ABSENT)

    @property
    def reservation(self) -> Reservation | None:
        return self.offering.reservation if self.offering else None


def of_node(node: Node) -> Machine:
    found = {key: frozenset[Value]({value}) for key, value in node.labels.items()}
    found.setdefault(names.HOSTNAME, frozenset({node.name}))
    found[labels.NODE_NAME] = frozenset({node.name})
    type_name = node.labels.get(names.INSTANCE_TYPE, "")
    return Machine(found, node.allocatable, node.capacity, type_name, None, node.volume_limits)


def of_pool(world: World, pool: Pool) -> list[Machine]:
    """Every machine that the pool allows and its class may use, whether it can be launched now or not; none where the pool
    opens no nodes."""
    if not pool.opens:
        return []
    decided: dict[str, frozenset[Value]] = {key: frozenset({value}) for key, value in pool.labels.items()}
    found = []
    for one in world.types.values():
        for offering in one.offerings:
            if offering.reservation is None or offering.reservation.id in pool.selected:
                machine = narrow(_machine(world, pool, one, offering, decided), pool.requirements)
                found += [machine] if machine else []
    return found


def _machine(
    world: World, pool: Pool, one: InstanceType, offering: Offering, decided: Mapping[str, frozenset[Value]]
) -> Machine:
    known = {**one.labels, **offering.labels()}
    for key, value in decided.items():
        known[key] = known.get(key, value) & value
    for requirement in pool.requirements:
        if requirement.key not in known and requirement.key not in labels.WELL_KNOWN:
            known[requirement.key] = frozenset(world.mentioned[requirement.key]) | ABSENT
    return Machine(known, one.allocatable, one.capacity, one.name, offering, one.volume_limits)


def narrow(machine: Machine, wanted: Iterable[Expression]) -> Machine | None:
    """The machine with only those label values for which all expressions hold; None when none is left."""
    narrowed: dict[str, frozenset[Value]] = {}
    for one in wanted:
        values = narrowed.get(one.key, machine.values(one.key))
        kept = frozenset(value for value in values if labels.holds(one, value))
        if not kept:
            return None
        if kept != values:
            narrowed[one.key] = kept
    return replace(machine, labels={**machine.labels, **narrowed}) if narrowed else machine


def surely(machine: Machine, term: Term) -> bool:
    """Whether the machine satisfies the term however it turns out."""
    return all(labels.holds(one, value) for one in term for value in machine.values(one.key))


def possibly(machine: Machine, term: Term) -> bool:
    return narrow(machine, term) is not None


def launchable(found: Iterable[Machine]) -> Iterator[Machine]:
    return (machine for machine in found if machine.offering is not None and machine.offering.launchable)


def fits(machine: Machine, *wanted: Resources) -> bool:
    return quantities.fits(quantities.total(wanted), machine.allocatable)
