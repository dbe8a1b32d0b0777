"""The lifecycle state of a pod, read from its wire form.

The rule: Karpenter's own
definitions (S-1 to S-6, D-6), one function each, so that no two callers mean different things by one word.
"""

import re
from collections.abc import Iterable
from typing import Final

from holdfast import names
from holdfast.api.pods import Pod
from holdfast.state.conversion import times

UNSCHEDULABLE: Final = "Unschedulable"
DAEMON_SET: Final = "DaemonSet"
STATEFUL_SET: Final = "StatefulSet"
MIRROR: Final = "Node"  # the kubelet made it from a file on its node

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
    """The kind of what made it, as far as it matters here: one of the constants above, or nothing."""
    for reference in pod.metadata.owner_references:  # plain: this is asked of every pod, every time
        if _OWNERS.get(reference.kind) == reference.api_version:
            return reference.kind
    return ""


def maker(pod: Pod) -> str:
    """The uid of what makes it anew when it goes; its own where nothing does."""
    for reference in pod.metadata.owner_references:  # as plain as the above, and as often asked
        if reference.controller:
            return reference.uid
    return pod.metadata.uid


def makers(pods: Iterable[Pod]) -> str:
    """Each once, as an annotation has them."""
    return " ".join(sorted({maker(pod) for pod in pods}))


def awaits_node(pod: Pod) -> bool:
    """Whether it would need a node, going by the pod alone: what a scenario counts as pending."""
    return (
        not pod.spec.node_name
        and not pod.spec.scheduling_gates
        and not pod.status.nominated_node_name
        and is_active(pod)
        and owner(pod) not in _STAYS_ON_ITS_NODE
    )


def is_provisionable(pod: Pod) -> bool:
    """Whether kube-scheduler looked at it and found no place: what a cluster counts as pending (S-1, S-2)."""
    return awaits_node(pod) and any(
        c.type == _POD_SCHEDULED and c.reason == UNSCHEDULABLE for c in pod.status.conditions
    )


def is_reschedulable(pod: Pod, owner_kind: str) -> bool:
    """Whether another pod takes its place when its node goes (S-3, budgets and do-not-disrupt apart)."""
    if owner_kind == STATEFUL_SET:
        return is_active(pod) or is_terminating(pod)
    return is_active(pod) and owner_kind not in _STAYS_ON_ITS_NODE


def is_ready(pod: Pod) -> bool:
    """False only when the Ready condition says so; a pod that never reported is not unhealthy (S-5)."""
    for condition in pod.status.conditions:
        if condition.type == "Ready":
            return condition.status != "False"
    return True


def is_not_to_be_disrupted(pod: Pod, now_s: int) -> bool:
    """Whether an annotation forbids to disrupt it now: for ever, or for so long after its start (D-6)."""
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
    """Whether the annotation has a value that means nothing: neither "true" nor a duration (D-6)."""
    value = pod.metadata.annotations.get(names.DO_NOT_DISRUPT)
    return value is not None and value != "true" and not times.duration_s(value)


def deletion_cost(pod: Pod) -> int:
    """How much more than others it is to be left alone. Our own word for it goes before that of ReplicaSets; what is no
    number of 32 bits is not looked at (D-7)."""
    annotations = pod.metadata.annotations
    for key in (names.DISRUPTION_COST, names.POD_DELETION_COST):
        written = annotations.get(key, "")
        if _COST.fullmatch(written) and -_COSTS <= int(written) < _COSTS:
            return int(written)
    return 0
