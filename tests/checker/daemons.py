"""What DaemonSets will put on a node.

Two answers, because a planner may be careful without being wrong. `least` is what surely comes: a node
that is too small for that is a mistake. `most` is what upstream counts, which looks at the NodePool and the
type (S-57), for each capacity type by itself: a planner that leaves a pod out for lack of that room made no mistake.
"""

from checker import labels, machines, quantities
from checker.case import Case, Place
from checker.machines import Machine
from checker.quantities import Resources
from checker.shapes import Shape
from checker.world import Pool


def least(case: Case, place: Place, machine: Machine) -> list[Shape]:
    """On a new node: every DaemonSet that tolerates the taints and may match."""
    return [
        daemon.shape
        for daemon in case.world.daemons
        if _tolerates(daemon.shape, place)
        and any(machines.possibly(machine, term) for term in daemon.shape.terms)
    ]


def most(case: Case, pool: Pool, type_name: str, capacity_types: frozenset[str]) -> list[Shape]:
    """On a new node of that type: every DaemonSet that matches some offering of these capacity types, label by label."""
    key = (pool.name, type_name, capacity_types)
    if key not in case.daemons_of:
        case.daemons_of[key] = _most(case, pool, type_name, capacity_types)
    return case.daemons_of[key]


def _most(case: Case, pool: Pool, type_name: str, capacity_types: frozenset[str]) -> list[Shape]:
    found = [
        machine
        for machine in case.pool_machines[pool.name]
        if machine.instance_type == type_name
        and machine.offering is not None
        and machine.offering.capacity_type in capacity_types
    ]
    return [
        daemon.shape
        for daemon in case.world.daemons
        if not labels.untolerated(daemon.shape.tolerations, pool.taints)
        and any(_label_by_label(term, found) for term in daemon.shape.terms)
    ]


def missing(case: Case, place: Place, *, all_terms: bool) -> list[Shape]:
    """On a node that exists: those that match and do not run there yet. Upstream looks at the first
    alternative of a node affinity only (S-59)."""
    running = {pod.daemon for pod in place.bound}
    machine = place.machines[0]
    return [
        daemon.shape
        for daemon in case.world.daemons
        if daemon.name not in running
        and _tolerates(daemon.shape, place)
        and any(
            machines.surely(machine, term)
            for term in (daemon.shape.terms if all_terms else daemon.shape.terms[:1])
        )
    ]


def requests(found: list[Shape]) -> Resources:
    return quantities.total(shape.requests for shape in found)


def _tolerates(shape: Shape, place: Place) -> bool:
    return not labels.untolerated(shape.tolerations, place.taints)


def _label_by_label(term: labels.Term, found: list[Machine]) -> bool:
    return all(
        any(labels.holds(one, value) for machine in found for value in machine.values(one.key))
        for one in term
    )
