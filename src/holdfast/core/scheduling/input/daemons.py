"""The requests of DaemonSet pods on a node (S-56 to S-60)."""

from collections.abc import Mapping, Sequence

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


def capacity_left(daemons: Sequence[DaemonSetView], nodes: Sequence[NodeView]) -> list[Mapping[str, int]]:
    """By node, what the pods to place can request, by resource: its free capacity minus the requests of DaemonSet pods that
    it will still get. Nothing if any resource would be negative (S-54)."""
    if not daemons:
        return [node.capacity_left for node in nodes]
    missing, found = _MissingRequests(daemons), list[Mapping[str, int]]()
    for node in nodes:
        coming = missing.of(node)
        left = {name: amount - coming[name] for name, amount in node.capacity_left.items()}
        found.append(left if min(left.values(), default=0) >= 0 else {})
    return found


class _MissingRequests:
    """The requests of DaemonSet pods that existing nodes will still get: expected pods minus running ones (S-60). Nodes
    that are alike in what DaemonSets select and in the running ones share one computation."""

    def __init__(self, daemons: Sequence[DaemonSetView]) -> None:
        self._daemons = [(daemon, _alternatives(daemon.pod)[0]) for daemon in daemons]
        self._keys = sorted({key for _, wanted in self._daemons for key in wanted.by_key})
        self._found: dict[tuple[object, ...], Resources] = {}

    def of(self, node: NodeView) -> Resources:
        key = node.taints, node.used_by_daemons, *map(node.label_map.get, self._keys)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._missing(node)
        return found

    def _missing(self, node: NodeView) -> Resources:
        expected = [
            daemon
            for daemon, wanted in self._daemons
            if not first_untolerated(node.taints, (*daemon.pod.tolerations, TOLERATE_PREFERENCES))
            and node.label_requirements.compatible(wanted)
        ]
        running = node.used_by_daemons
        return resources.of(
            {name: max(0, amount - running[name]) for name, amount in requests(expected).amounts}
        )


def _alternatives(pod: PodShape) -> tuple[Requirements, ...]:
    return tuple(pod.node_selector.union(term) for term in (pod.required_terms or (NO_REQUIREMENTS,)))
