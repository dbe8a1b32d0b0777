"""Whether one more pod may be placed on a node: topology as kube-scheduler checks it before it places a pod.

The rules check a finished plan, this module checks one step. `openings`, and so the search for nodes that a plan
overlooked, uses it.
"""

from checker import topology
from checker.case import Case, Target
from checker.shapes import Neighbours, Shape, Spread


def admits(case: Case, shape: Shape, target: Target) -> bool:
    return (
        all(_spreads(case, shape, target, wanted) for wanted in shape.spreads)
        and all(_near(case, shape, target, wanted) for wanted in shape.affinity)
        and all(_apart(case, target, wanted) for wanted in shape.anti_affinity)
        and not _violates_other_anti_affinity(case, shape, target)
    )


def _spreads(case: Case, shape: Shape, target: Target, wanted: Spread) -> bool:
    """The minimum is taken over the domains that any alternative of the pod's node affinity allows, as in kube-scheduler."""
    domain = topology.settled(target, wanted.key)
    if domain is None:
        return False
    counted = topology.tally(case, wanted, shape, target)
    universe = topology.universe(case, wanted, shape, deleted=True)
    least = min((topology.least(wanted, counted.surely, universe, term) for term in shape.terms), default=0)
    own_count = 1 if case.matches(wanted.selector, shape) else 0
    return counted.all_pods[domain] + own_count - least <= wanted.max_skew


def _near(case: Case, shape: Shape, target: Target, wanted: Neighbours) -> bool:
    domain = topology.settled(target, wanted.key)
    if domain is None:
        return False
    found = topology.neighbour_domains(case, wanted, case.located())
    return found[domain] > 0 or topology.may_be_first(case, shape, target, wanted, found)


def _apart(case: Case, target: Target, wanted: Neighbours) -> bool:
    """No pod that its anti-affinity selects may be in its domain; a node without the label has no domain."""
    own = target.domains(wanted.key)
    if None in own:
        return False
    return not any(
        own & one.target.domains(wanted.key)
        for one in case.located()
        if case.is_neighbour(wanted, one.pod.shape)
    )


def _violates_other_anti_affinity(case: Case, shape: Shape, target: Target) -> bool:
    """Whether the anti-affinity of a placed pod selects this one."""
    return any(
        target.domains(wanted.key) & one.target.domains(wanted.key) - {None}
        for one in case.located()
        for wanted in one.pod.shape.anti_affinity
        if case.is_neighbour(wanted, shape)
    )
