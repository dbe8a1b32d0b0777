"""Converts PodGroups and the pods that name them into gangs.

Pods are counted, not read from the status of a PodGroup: its condition PodGroupScheduled is never reset (PG-9). A PodGroup
with the policy `basic` is no gang: its pods are scheduled one by one.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from holdfast.api.pods import Pod
from holdfast.api.scheduling import PodGroup
from holdfast.model.gangs import POD_GROUP, Gang
from holdfast.state.conversion import pod_states, times
from holdfast.state.conversion.pod_shapes import DEFAULT_NAMESPACE

UidOf = Callable[[Pod], str]


def group_of(pod: Pod) -> tuple[str, ...]:
    """The PodGroup that a pod names, with its namespace; for an index."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return ()
    return (f"{pod.metadata.namespace or DEFAULT_NAMESPACE}/{group.pod_group_name}",)


def by_group(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    """Pods by the PodGroup that they name."""
    found: dict[str, list[Pod]] = {}
    for pod in pods:
        for name in group_of(pod):
            found.setdefault(name, []).append(pod)
    return found


def gangs(groups: Iterable[PodGroup], pods: Mapping[str, Sequence[Pod]], uid_of: UidOf) -> tuple[Gang, ...]:
    """The gangs that have pods, sorted by key. Pods that name a PodGroup which does not exist are a gang of unknown
    size: kube-scheduler does not schedule them (PG-5)."""
    known = {f"{one.metadata.namespace or DEFAULT_NAMESPACE}/{one.metadata.name}": one for one in groups}
    return tuple(_gangs(known, {name: pods[name] for name in sorted(pods)}, uid_of))


def _gangs(known: Mapping[str, PodGroup], pods: Mapping[str, Sequence[Pod]], uid_of: UidOf) -> Iterator[Gang]:
    for name, of_group in pods.items():
        members = [pod for pod in of_group if pod_states.is_active(pod)]
        group = known.get(name)
        if members and (group is None or is_gang(group)):
            yield gang(name, group, members, uid_of)


def is_gang(group: PodGroup) -> bool:
    return group.spec.scheduling_policy.gang is not None


def gang(name: str, group: PodGroup | None, members: Sequence[Pod], uid_of: UidOf) -> Gang:
    """The gang of a PodGroup with these active pods. `name`: with its namespace. `group` None: it does not exist."""
    bound = frozenset(uid_of(pod) for pod in members if pod.spec.node_name)
    unbound = frozenset(uid_of(pod) for pod in members if not pod.spec.node_name)
    priority = max((pod.spec.priority or 0 for pod in members), default=0)
    if group is None:
        return Gang(key_of(name), name, POD_GROUP, None, bound, unbound, priority)
    spec = group.spec
    assert spec.scheduling_policy.gang is not None, "checked by the caller"
    return Gang(
        key=key_of(name),
        name=name,
        source=POD_GROUP,
        least=spec.scheduling_policy.gang.min_count,
        bound=bound,
        unbound=unbound,
        priority=priority if spec.priority is None else spec.priority,
        since_s=times.epoch_s_or_none(group.metadata.creation_timestamp) or 0,
        together=next((one.key for one in spec.scheduling_constraints.topology), None),
    )


def key_of(name: str) -> str:
    """The key of the gang of a PodGroup."""
    return f"{POD_GROUP}/{name}"
