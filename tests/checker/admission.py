"""Whether one more pod may join what is there: topology as kube-scheduler asks it, before the pod is placed.

The rules look at the end, this looks at one step. `openings`, and so the search for places that a plan
overlooked, builds on it.
"""

from checker import topology
from checker.case import Case, Place
from checker.shapes import Neighbours, Shape, Spread


def admits(case: Case, shape: Shape, place: Place) -> bool:
    return (
        all(_spreads(case, shape, place, wanted) for wanted in shape.spreads)
        and all(_near(case, shape, place, wanted) for wanted in shape.affinity)
        and all(_apart(case, place, wanted) for wanted in shape.anti_affinity)
        and not _unwelcome(case, shape, place)
    )


def _spreads(case: Case, shape: Shape, place: Place, wanted: Spread) -> bool:
    """The emptiest domain counts that any alternative of the pod's node affinity allows, as for kube-scheduler."""
    domain = topology.settled(place, wanted.key)
    if domain is None:
        return False
    counted = topology.tally(case, wanted, shape, place)
    universe = topology.universe(case, wanted, shape, deleted=True)
    least = min((topology.least(wanted, counted.surely, universe, term) for term in shape.terms), default=0)
    itself = 1 if case.matches(wanted.selector, shape) else 0
    return counted.everyone[domain] + itself - least <= wanted.max_skew


def _near(case: Case, shape: Shape, place: Place, wanted: Neighbours) -> bool:
    domain = topology.settled(place, wanted.key)
    if domain is None:
        return False
    found = topology.neighbour_domains(case, wanted, case.located())
    return found[domain] > 0 or topology.begins(case, shape, place, wanted, found)


def _apart(case: Case, place: Place, wanted: Neighbours) -> bool:
    """None of the pods it cannot stand may turn up in its domain; a node without the label is none."""
    own = place.domains(wanted.key)
    if None in own:
        return False
    return not any(
        own & one.place.domains(wanted.key)
        for one in case.located()
        if case.is_neighbour(wanted, one.pod.shape)
    )


def _unwelcome(case: Case, shape: Shape, place: Place) -> bool:
    """Some pod that is there already cannot stand this one."""
    return any(
        place.domains(wanted.key) & one.place.domains(wanted.key) - {None}
        for one in case.located()
        for wanted in one.pod.shape.anti_affinity
        if case.is_neighbour(wanted, shape)
    )
