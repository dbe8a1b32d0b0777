"""What DaemonSets will take of a node before any pod gets there (S-56 to S-60)."""

from collections.abc import Sequence

from holdfast import names
from holdfast.model import requirement, requirements, resources
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import NOTHING, Resources
from holdfast.model.snapshot import DaemonSetView, NodePoolView, NodeView
from holdfast.model.taints import TOLERATE_PREFERENCES, first_untolerated

# Every node will have these; DaemonSets may select on them.
_BORN_WITH = requirements.of(
    requirement.of(names.REGISTERED, Operator.IN, ("true",)),
    requirement.of(names.INITIALIZED, Operator.IN, ("true",)),
)


def suits_pool(daemon: DaemonSetView, pool: NodePoolView, well_known: frozenset[str]) -> bool:
    """Whether its pods can run on nodes of the pool at all."""
    tolerations = (*daemon.pod.tolerations, TOLERATE_PREFERENCES)
    if first_untolerated(pool.taints, tolerations):
        return False
    template = pool.requirements.union(_BORN_WITH)
    return any(template.compatible(wanted, well_known) for wanted in _alternatives(daemon.pod))


def of_type(
    daemons: Sequence[DaemonSetView], pool: NodePoolView, type_: InstanceType, well_known: frozenset[str]
) -> tuple[DaemonSetView, ...]:
    """Those of the pool's DaemonSets that a node of this type will have."""
    template = pool.requirements.union(_BORN_WITH)
    return tuple(
        daemon
        for daemon in daemons
        if any(
            template.compatible(wanted, well_known) and type_.requirements.intersects(wanted)
            for wanted in _alternatives(daemon.pod)
        )
    )


def requests(daemons: Sequence[DaemonSetView]) -> Resources:
    return resources.add(*(daemon.pod.requests for daemon in daemons)) if daemons else NOTHING


def still_to_come(daemons: Sequence[DaemonSetView], node: NodeView) -> Resources:
    """What DaemonSets will still take of a node that exists: expected less what already runs (S-60)."""
    labels = requirements.from_labels(dict(node.labels))
    expected = [
        daemon
        for daemon in daemons
        if not first_untolerated(node.taints, (*daemon.pod.tolerations, TOLERATE_PREFERENCES))
        and labels.compatible(_alternatives(daemon.pod)[0])
    ]
    running = resources.add(*(pod.shape.requests for pod in node.pods if pod.from_daemon_set))
    wanted = requests(expected)
    return resources.of({name: max(0, amount - running[name]) for name, amount in wanted.amounts})


def _alternatives(pod: PodShape) -> tuple[Requirements, ...]:
    return tuple(pod.node_selector.union(term) for term in (pod.required_terms or (NO_REQUIREMENTS,)))
