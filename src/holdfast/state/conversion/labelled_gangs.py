"""Converts the pods of a JobSet, and those of a group of a LeaderWorkerSet, into gangs.

The labels and annotations of the pods suffice, so neither kind is watched. No label has the number of pods that start
together, and later pods may exist only when earlier ones are ready (GR-2, GR-3). So a gang needs a node for each member
that exists. While its controller creates pods, a gang also needs those that its labels announce, for some seconds: a plan
for a part of the members could give all slots to parts of gangs.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from holdfast.api.pods import Pod
from holdfast.model.gangs import JOB_SET, LEADER_WORKER_SET, Gang
from holdfast.state.conversion import gangs, pod_states, provisioning_requests, times
from holdfast.state.conversion.pod_shapes import DEFAULT_NAMESPACE

_JOB_SET: Final = "jobset.sigs.k8s.io/"
_UID: Final = f"{_JOB_SET}jobset-uid"
_JOB: Final = f"{_JOB_SET}job-key"
_JOBS: Final = f"{_JOB_SET}global-replicas"
_GROUPS: Final = "leaderworkerset.sigs.k8s.io/"
_GROUP: Final = f"{_GROUPS}group-key"
SIZE: Final = f"{_GROUPS}size"  # an annotation

_LABEL: Final = re.compile(r"[0-9A-Za-z]([0-9A-Za-z_.-]{0,61}[0-9A-Za-z])?")
_NAMES: Final = {JOB_SET: f"{_JOB_SET}jobset-name", LEADER_WORKER_SET: f"{_GROUPS}name"}
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,4}")
GROWS_S: Final = 10  # how long a gang waits after the creation of a pod for the pods that its labels announce


class LabelledGangs:
    def __init__(self, sources: AbstractSet[str]) -> None:
        """`sources`: of `model.gangs.LABELLED`; the pods of the others are planned one by one."""
        self._has_job_sets = JOB_SET in sources
        self._has_groups = LEADER_WORKER_SET in sources

    def key_of(self, pod: Pod) -> str:
        """The key of the gang that the labels of a pod name; empty: none. A PodGroup or a ProvisioningRequest that the pod
        names has precedence. A pod with a value that cannot be used is in no gang."""
        labels = pod.metadata.labels
        if _UID not in labels and _GROUP not in labels:  # first: it is true of most pods
            return ""
        if gangs.group_of(pod) or provisioning_requests.consumed_by(pod):
            return ""
        namespace = pod.metadata.namespace or DEFAULT_NAMESPACE
        if self._has_job_sets and _LABEL.fullmatch(labels.get(_UID, "")):
            return f"{JOB_SET}/{namespace}/{labels[_UID]}"
        if self._has_groups and _LABEL.fullmatch(labels.get(_GROUP, "")) and _number(_size(pod)):
            return f"{LEADER_WORKER_SET}/{namespace}/{labels[_GROUP]}"
        return ""

    def keys_of(self, pod: Pod) -> tuple[str, ...]:
        """For an index."""
        key = self.key_of(pod)
        return (key,) if key else ()

    def by_key(self, pods: Iterable[Pod]) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in pods:
            key = self.key_of(pod)
            if key:
                found.setdefault(key, []).append(pod)
        return found


def set_name(source: str, pod: Pod) -> str:
    """The name of the JobSet or LeaderWorkerSet that created a pod; empty: none."""
    return pod.metadata.labels.get(_NAMES[source], "")


def names_of(pod: Pod) -> tuple[str, ...]:
    """For an index: source/namespace/name of the JobSet, or of the LeaderWorkerSet and of its group."""
    labels, found = pod.metadata.labels, dict[str, None]()
    for source, key in ((JOB_SET, _UID), (LEADER_WORKER_SET, _GROUP)):
        if key in labels or _NAMES[source] in labels:
            own = (set_name(source, pod), _name(source, (pod,)))
            found |= dict.fromkeys(f"{source}/{pod.metadata.namespace}/{name}" for name in own if name)
    return tuple(found)


def all_of(
    pods: Mapping[str, Sequence[Pod]], uid_of: Callable[[Pod], str], *, now_s: int
) -> tuple[Gang, ...]:
    """The gangs of these pods, by key."""
    found = (gang(key, of_gang, uid_of, now_s=now_s) for key, of_gang in pods.items())
    return tuple(one for one in found if one is not None)


def gang(key: str, pods: Sequence[Pod], uid_of: Callable[[Pod], str], *, now_s: int) -> Gang | None:
    """The gang of these pods; None: none of them is a member."""
    members = [pod for pod in pods if _is_member(pod)]
    if not members:
        return None
    created = [times.epoch_s_or_none(pod.metadata.creation_timestamp) or 0 for pod in members]
    source, namespace, _ = key.split("/")
    missing = _missing_jobs(pods) if source == JOB_SET else _missing_pods(pods)
    is_growing = bool(missing) and 0 <= now_s - max(created) < GROWS_S
    return Gang(
        key=key,
        name=f"{namespace}/{_name(source, members)}",
        source=source,
        least=len(members) + (missing if is_growing else 0),
        bound=frozenset(uid_of(pod) for pod in members if pod.spec.node_name),
        unbound=frozenset(uid_of(pod) for pod in members if not pod.spec.node_name),
        priority=max(pod.spec.priority or 0 for pod in members),
        since_s=min(created),
        grows_until_s=max(created) + GROWS_S if is_growing else None,
    )


def _is_member(pod: Pod) -> bool:
    """Whether the pod has a node or waits for one. A pod with scheduling gates is suspended."""
    if pod_states.stays_on_its_node(pod) or not pod_states.is_active(pod):
        return False
    return bool(pod.spec.node_name) or not pod.spec.scheduling_gates


def _missing_jobs(pods: Iterable[Pod]) -> int:
    """How many Jobs of the JobSet have no pod: each of them has at least one."""
    labels = [pod.metadata.labels for pod in pods if not pod_states.is_terminating(pod)]
    jobs = max((_number(one.get(_JOBS, "")) for one in labels), default=0)
    known = {one[_JOB] for one in labels if one.get(_JOB)}
    return max(0, jobs - len(known)) if known else 0


def _missing_pods(pods: Iterable[Pod]) -> int:
    """How many pods of the group do not exist."""
    known = [pod for pod in pods if not pod_states.is_terminating(pod)]
    return max(0, max((_number(_size(pod)) for pod in known), default=0) - len(known))


def _name(source: str, members: Sequence[Pod]) -> str:
    """The name of the JobSet, or of the LeaderWorkerSet with the index of the group; the key of the labels without one."""
    labels = members[0].metadata.labels
    if source == JOB_SET:
        return set_name(source, members[0]) or labels.get(_UID, "")
    index = labels.get(f"{_GROUPS}group-index", "")
    own = set_name(source, members[0])
    return f"{own}-{index}" if own and index else labels.get(_GROUP, "")


def _size(pod: Pod) -> str:
    return pod.metadata.annotations.get(SIZE, "")


def _number(written: str) -> int:
    """0: it cannot be used."""
    return int(written) if _NUMBER.fullmatch(written) else 0
