"""The requests of DaemonSet pods on a node (S-56 to S-60)."""

from collections.abc import Sequence

from holdfast import names
from holdfast.model import requirement, requirements, resources
from holdfast.model.pods import PodShape
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import NOTHING, Resources
from holdfast.model.snapshot import DaemonSetView, NodePoolView, NodeView
from holdfast.model.taints import TOLERATE_PREFERENCES, first_untolerated

# Every node will have these; DaemonSets may select on them.
_LABELS_OF_EVERY_NODE = requirements.of(
    requirement.of(names.REGISTERED, Operator.IN, ("true",)),
    requirement.of(names.INITIALIZED, Operator.IN, ("true",)),
)


def by_type(
    daemons: Sequence[DaemonSetView], pool: NodePoolView, well_known: frozenset[str], capacity_type: str
) -> list[list[DaemonSetView]]:
    """For each instance type of a NodePool, the DaemonSets that run on a node of this capacity type."""
    of_capacity_type = requirements.of(requirement.of(names.CAPACITY_TYPE, Operator.IN, (capacity_type,)))
    template = pool.requirements.union(_LABELS_OF_EVERY_NODE).union(of_capacity_type)
    suiting = [
        (daemon, [wanted for wanted in _alternatives(daemon.pod) if template.compatible(wanted, well_known)])
        for daemon in daemons
        if not first_untolerated(pool.taints, (*daemon.pod.tolerations, TOLERATE_PREFERENCES))
    ]
    if not suiting:
        return [[]] * len(pool.instance_types)
    return [
        [daemon for daemon, found in suiting if any(t.requirements.intersects(wanted) for wanted in found)]
        for t in pool.instance_types
    ]


def select_capacity_type(daemons: Sequence[DaemonSetView]) -> bool:
    """Whether any DaemonSet selects nodes by capacity type."""
    return any(names.CAPACITY_TYPE in wanted for daemon in daemons for wanted in _alternatives(daemon.pod))


def requests(daemons: Sequence[DaemonSetView]) -> Resources:
    return resources.add(*(daemon.pod.requests for daemon in daemons)) if daemons else NOTHING


def missing_requests(daemons: Sequence[DaemonSetView], node: NodeView) -> Resources:
    """The requests of DaemonSet pods that an existing node will still get: expected pods minus running ones (S-60)."""
    if not daemons:
        return NOTHING
    expected = [
        daemon
        for daemon in daemons
        if not first_untolerated(node.taints, (*daemon.pod.tolerations, TOLERATE_PREFERENCES))
        and node.label_requirements.compatible(_alternatives(daemon.pod)[0])
    ]
    running, wanted = node.used_by_daemons, requests(expected)
    return resources.of({name: max(0, amount - running[name]) for name, amount in wanted.amounts})


def _alternatives(pod: PodShape) -> tuple[Requirements, ...]:
    return tuple(pod.node_selector.union(term) for term in (pod.required_terms or (NO_REQUIREMENTS,)))
