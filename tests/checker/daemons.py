"""The DaemonSet pods that will run on a node.

There are two answers, because a planner may be careful without being wrong. `least` is what certainly runs there: a node
that is too small for that is a violation. `most` is what Karpenter counts, from the NodePool and the instance type (S-57),
for each capacity type: a planner may leave a pod out for lack of that capacity.
"""

from checker import labels, node_options, quantities
from checker.case import Case, Target
from checker.node_options import NodeOption
from checker.quantities import Resources
from checker.scenario import Pool
from checker.shapes import Shape


def least(case: Case, target: Target, option: NodeOption) -> list[Shape]:
    """On a new node: every DaemonSet that tolerates the taints and may match."""
    return [
        daemon.shape
        for daemon in case.scenario.daemons
        if _tolerates(daemon.shape, target)
        and any(node_options.possibly(option, term) for term in daemon.shape.terms)
    ]


def most(case: Case, pool: Pool, type_name: str, capacity_types: frozenset[str]) -> list[Shape]:
    """On a new node of that type: every DaemonSet that matches some offering of these capacity types, label by label."""
    key = (pool.name, type_name, capacity_types)
    if key not in case.daemons_of:
        case.daemons_of[key] = _most(case, pool, type_name, capacity_types)
    return case.daemons_of[key]


def _most(case: Case, pool: Pool, type_name: str, capacity_types: frozenset[str]) -> list[Shape]:
    found = [
        option
        for option in case.pool_options[pool.name]
        if option.instance_type == type_name
        and option.offering is not None
        and option.offering.capacity_type in capacity_types
    ]
    return [
        daemon.shape
        for daemon in case.scenario.daemons
        if not labels.untolerated(daemon.shape.tolerations, pool.taints)
        and any(_label_by_label(term, found) for term in daemon.shape.terms)
    ]


def missing(case: Case, target: Target, *, all_terms: bool) -> list[Shape]:
    """On an existing node: those that match and do not run there yet. Karpenter checks the first
    alternative of a node affinity only (S-59)."""
    running = {pod.daemon for pod in target.bound}
    option = target.options[0]
    return [
        daemon.shape
        for daemon in case.scenario.daemons
        if daemon.name not in running
        and _tolerates(daemon.shape, target)
        and any(
            node_options.surely(option, term)
            for term in (daemon.shape.terms if all_terms else daemon.shape.terms[:1])
        )
    ]


def requests(found: list[Shape]) -> Resources:
    return quantities.total(shape.requests for shape in found)


def _tolerates(shape: Shape, target: Target) -> bool:
    return not labels.untolerated(shape.tolerations, target.taints)


def _label_by_label(term: labels.Term, found: list[NodeOption]) -> bool:
    return all(
        any(labels.holds(one, value) for option in found for value in option.values(one.key)) for one in term
    )
