"""The lifecycle state of a pod, by Karpenter's definitions (S-1 to S-6, D-6)."""

import re
from collections.abc import Iterable
from typing import Final

from holdfast import names
from holdfast.api.pods import Pod
from holdfast.state.conversion import times

UNSCHEDULABLE: Final = "Unschedulable"
DAEMON_SET: Final = "DaemonSet"
STATEFUL_SET: Final = "StatefulSet"
MIRROR: Final = "Node"  # the owner of a mirror pod, which the kubelet creates for a static pod

_OWNERS: Final = {DAEMON_SET: "apps/v1", STATEFUL_SET: "apps/v1", MIRROR: "v1"}
_STAYS_ON_ITS_NODE: Final = (DAEMON_SET, MIRROR)
_POD_SCHEDULED: Final = "PodScheduled"
_TERMINAL: Final = ("Succeeded", "Failed")
_COST: Final = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
_COSTS: Final = 2**31


def is_terminal(pod: Pod) -> bool:
    return pod.status.phase in _TERMINAL


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    return not is_terminal(pod) and not is_terminating(pod)


def owner(pod: Pod) -> str:
    """The kind of the pod's owner if it is a DaemonSet, a StatefulSet or a Node; otherwise empty."""
    for reference in pod.metadata.owner_references:  # a plain loop: called for every pod of every snapshot
        if _OWNERS.get(reference.kind) == reference.api_version:
            return reference.kind
    return ""


def stays_on_its_node(pod: Pod) -> bool:
    """Whether no node is launched for the pod, because it belongs to its node."""
    return owner(pod) in _STAYS_ON_ITS_NODE


def maker(pod: Pod) -> str:
    """The uid of the controller that recreates the pod when it is deleted; the pod's own uid if there is none."""
    for reference in pod.metadata.owner_references:  # a plain loop: called as often as `owner`
        if reference.controller:
            return reference.uid
    return pod.metadata.uid


def makers(pods: Iterable[Pod]) -> str:
    """The distinct makers of the pods, as the value of an annotation."""
    return " ".join(sorted({maker(pod) for pod in pods}))


def awaits_node(pod: Pod) -> bool:
    """Whether a pod needs a node, without regard to kube-scheduler's conditions: the pending pods of a scenario."""
    return (
        not pod.spec.node_name
        and not pod.spec.scheduling_gates
        and not pod.status.nominated_node_name
        and is_active(pod)
        and not stays_on_its_node(pod)
    )


def is_provisionable(pod: Pod) -> bool:
    """Whether kube-scheduler marked the pod as unschedulable: the pending pods of a cluster (S-1, S-2)."""
    return awaits_node(pod) and any(
        c.type == _POD_SCHEDULED and c.reason == UNSCHEDULABLE for c in pod.status.conditions
    )


def is_reschedulable(pod: Pod, owner_kind: str) -> bool:
    """Whether a new pod replaces it when its node is deleted (S-3, without budgets and do-not-disrupt)."""
    if owner_kind == STATEFUL_SET:
        return is_active(pod) or is_terminating(pod)
    return is_active(pod) and owner_kind not in _STAYS_ON_ITS_NODE


def is_ready(pod: Pod) -> bool:
    """False only if the Ready condition is False; a pod without the condition is not unhealthy (S-5)."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status != "False"
    return True


def is_not_to_be_disrupted(pod: Pod, now_s: int) -> bool:
    """Whether do-not-disrupt forbids disruption now: always, or for a duration after the pod's start (D-6)."""
    value = pod.metadata.annotations.get(names.DO_NOT_DISRUPT)
    if value is None or not is_active(pod):
        return False
    if value == "true":
        return True
    seconds = times.duration_s(value)
    if not seconds:
        return False
    started_s = times.epoch_s_or_none(pod.status.start_time)
    return started_s is None or now_s < started_s + seconds


def has_invalid_do_not_disrupt(pod: Pod) -> bool:
    """Whether the value of do-not-disrupt is invalid: neither "true" nor a duration (D-6)."""
    value = pod.metadata.annotations.get(names.DO_NOT_DISRUPT)
    return value is not None and value != "true" and not times.duration_s(value)


def deletion_cost(pod: Pod) -> int:
    """The deletion cost of a pod; a pod with a lower cost is disrupted first. Our annotation has precedence over the
    annotation of ReplicaSets; a value that is not a 32-bit integer is ignored (D-7)."""
    annotations = pod.metadata.annotations
    for key in (names.DISRUPTION_COST, names.POD_DELETION_COST):
        written = annotations.get(key, "")
        if _COST.fullmatch(written) and -_COSTS <= int(written) < _COSTS:
            return int(written)
    return 0
