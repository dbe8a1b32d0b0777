"""The requests of DaemonSet pods on a node (S-56 to S-60)."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from holdfast import names
from holdfast.core.scheduling.input.columns import Columns, Mask
from holdfast.model import requirement, requirements, resources
from holdfast.model.host_ports import HostPort
from holdfast.model.pods import PodShape
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import NOTHING, Resources
from holdfast.model.snapshot import DaemonSetView, NodePoolView, NodeView
from holdfast.model.taints import TOLERATE_PREFERENCES, first_untolerated

ByType = list[list[DaemonSetView]]

# Every node will have these; DaemonSets may select on them.
_LABELS_OF_EVERY_NODE = requirements.of(
    requirement.of(names.REGISTERED, Operator.IN, ("true",)),
    requirement.of(names.INITIALIZED, Operator.IN, ("true",)),
)


def by_type(
    daemons: Sequence[DaemonSetView],
    pool: NodePoolView,
    columns: Columns,
    well_known: frozenset[str],
    capacity_type: str,
) -> ByType:
    """For each instance type of a NodePool, the DaemonSets that run on a node of this capacity type. Types with the same
    DaemonSets share one list, because there are few different ones."""
    of_capacity_type = requirements.of(requirement.of(names.CAPACITY_TYPE, Operator.IN, (capacity_type,)))
    template = pool.requirements.union(_LABELS_OF_EVERY_NODE).union(of_capacity_type)
    suiting = [
        (daemon, [wanted for wanted in _alternatives(daemon.pod) if template.compatible(wanted, well_known)])
        for daemon in daemons
        if not first_untolerated(pool.taints, (*daemon.pod.tolerations, TOLERATE_PREFERENCES))
    ]
    if not suiting:
        return [[]] * len(pool.instance_types)
    runs = np.array([_runs_on(columns, found) for _, found in suiting], dtype=bool)
    lists: dict[bytes, list[DaemonSetView]] = {}
    of_types = []
    for t, key in enumerate(map(bytes, np.packbits(runs, axis=0).T)):
        if key not in lists:
            lists[key] = [
                daemon for (daemon, _), here in zip(suiting, runs[:, t].tolist(), strict=True) if here
            ]
        of_types.append(lists[key])
    return of_types


def _runs_on(columns: Columns, alternatives: Sequence[Requirements]) -> Mask:
    """[type] whether its own labels allow one of the alternatives."""
    found = np.zeros(len(columns.types), dtype=bool)
    for wanted in alternatives:
        allowed = np.ones(len(columns.types), dtype=bool)
        for one in wanted.by_key.values():
            codes = columns.codes(one.key)
            allowed &= codes.types.compatible_with(one)[codes.of_type]
        found |= allowed
    return found


def overhead(runs: Mapping[str, ByType]) -> dict[str, tuple[Resources, ...]]:
    """What DaemonSets request, by capacity type and instance type. Types with the same DaemonSets share one object."""
    known = {id(some): requests(some) for of_types in runs.values() for some in _different(of_types)}
    return {kind: tuple(known[id(some)] for some in of_types) for kind, of_types in runs.items()}


def _different(of_types: ByType) -> Iterable[list[DaemonSetView]]:
    return {id(some): some for some in of_types}.values()


def ports(runs: Mapping[str, ByType]) -> dict[str, tuple[tuple[HostPort, ...], ...]]:
    """By capacity type and instance type, the host ports that DaemonSets use on its nodes. Empty if they use none."""
    if not any(d.pod.host_ports for of_types in runs.values() for some in _different(of_types) for d in some):
        return {}
    return {
        kind: tuple(
            tuple(dict.fromkeys(port for d in some for port in d.pod.host_ports)) for some in of_types
        )
        for kind, of_types in runs.items()
    }


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
