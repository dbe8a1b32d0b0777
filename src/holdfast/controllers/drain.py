"""Decides which pods of a draining node to evict or delete now, and evicts them.

Used before an instance is terminated or rebooted. `drain` is pure. Pods are evicted tier by tier: ordinary pods first,
critical DaemonSet pods last (NC-30); within a tier the largest first. The drain waits for a pod with do-not-disrupt
(NC-29). A pod whose grace period would end after the node's deadline is deleted in time, despite PodDisruptionBudgets
and do-not-disrupt (NC-32).
"""

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.model.pods import eviction_order
from holdfast.model.taints import Effect, Taint
from holdfast.ports import Kube, Recorder
from holdfast.runtime.metrics import Metric
from holdfast.state.conversion import pod_shapes, pod_states, times

EVICTIONS: Final = "karpenter_pods_eviction_requests_total"
DRAINED: Final = "karpenter_pods_drained_total"
METRICS: Final = (
    Metric(EVICTIONS, "counter", "Evictions asked for, by the answer.", ("code",)),
    Metric(DRAINED, "counter", "Pods that were evicted, by why their node is drained.", ("reason",)),
)
_FORCEFUL: Final = "Forceful Termination"  # Karpenter's reason without a disruption decision
_DISRUPTED: Final = Taint(names.DISRUPTED_TAINT, Effect.NO_SCHEDULE)
_STUCK_S: Final = 60
_CRITICAL: Final = ("system-cluster-critical", "system-node-critical")


@dataclass(frozen=True, slots=True)
class Drain:
    """The pods of a node to evict or delete now."""

    evict: tuple[Pod, ...]  # by the eviction API, which checks PodDisruptionBudgets
    delete: tuple[tuple[Pod, int], ...]  # pods and their grace periods in seconds
    waiting: int  # all pods that the drain waits for, including the pods above

    @property
    def done(self) -> bool:
        return not self.waiting


def drain(pods: Iterable[Pod], *, now_s: int, until_s: int | None) -> Drain:
    """`until_s`: when the node's termination grace period ends; None: it has none."""
    drainable = [pod for pod in pods if is_drainable(pod, now_s)]
    delete = tuple(
        (pod, max(1, (until_s or now_s) - now_s)) for pod in drainable if _is_forced(pod, now_s, until_s)
    )
    forced = {pod.metadata.uid for pod, _ in delete}
    tiers: dict[int, list[Pod]] = {}
    for pod in drainable:
        if pod.metadata.uid not in forced:
            tiers.setdefault(_tier(pod), []).append(pod)
    first = tiers[min(tiers)] if tiers else []
    evict = [
        pod
        for pod in first
        if not pod_states.is_terminating(pod) and not pod_states.is_not_to_be_disrupted(pod, now_s)
    ]
    return Drain(
        tuple(sorted(evict, key=_largest_first)),
        tuple(sorted(delete, key=lambda d: _name(d[0]))),
        len(drainable),
    )


class Evictions:
    def __init__(self, *, kube: Kube, recorder: Recorder) -> None:
        self._kube = kube
        self._recorder = recorder

    async def listed(self, node: Node) -> tuple[Pod, ...]:
        """The pods of a node, listed from the API server. Before an instance is terminated or rebooted, the cache is
        not sufficient: after a stalled watch it lacks a pod that was bound to the node."""
        return (await self._kube.list(Pod, field_selector=f"spec.nodeName={node.metadata.name}")).items

    async def drain(
        self,
        node: Node,
        pods: Iterable[Pod],
        *,
        now_s: int,
        until_s: int | None,
        reason: str,
    ) -> Drain:
        """Evicts and deletes pods, and returns the decision. `reason`: why the node is drained."""
        decided = drain(pods, now_s=now_s, until_s=until_s)
        for pod, grace_s in decided.delete:
            with contextlib.suppress(errors.NotFound):
                await self._kube.delete(pod, grace_period_s=grace_s)
            message = (
                f"Deleting the pod to accommodate the terminationTime {times.text(until_s or 0)} of the node. The pod was "
                f"granted {grace_s} seconds of grace-period. This bypasses the PDB of the pod and the do-not-disrupt annotation."
            )
            self._recorder.event(pod, "Disrupted", message)
        for pod in decided.evict:
            await self._evict(node, pod, reason)
        return decided

    async def _evict(self, node: Node, pod: Pod, reason: str) -> None:
        """Evicts a pod, if its PodDisruptionBudgets allow it now."""
        try:
            await self._kube.evict(pod.metadata.namespace, pod.metadata.name, pod.metadata.uid)
        except errors.NotFound:
            code = "404"
        except (errors.Throttled, errors.Rejected) as error:
            code = "429"
            message = (
                f"Failed to drain node, evicting pod {pod.metadata.namespace}/{pod.metadata.name}: {error}"
            )
            self._recorder.event(node, "FailedDraining", message, warning=True)
        except errors.Conflict:
            code = "409"
        else:
            code = "200"
            self._recorder.event(pod, "Evicted", f"Evicted pod: {reason}")
            self._recorder.count(DRAINED, {"reason": reason})
        self._recorder.count(EVICTIONS, {"code": code})


def reason_of(claim: NodeClaim | None) -> str:
    """Why the node of a claim is drained, from its condition DisruptionReason."""
    found = conditions.find(claim.status.conditions, claim_conditions.DISRUPTION_REASON) if claim else None
    return found.reason if found is not None and found.reason else _FORCEFUL


def is_drainable(pod: Pod, now_s: int) -> bool:
    """Whether the drain waits for this pod (NC-29)."""
    if pod_states.is_terminal(pod) or pod_states.owner(pod) == pod_states.MIRROR:
        return False
    return not _tolerates_disruption(pod) and not _is_stuck(pod, now_s)


def _is_stuck(pod: Pod, now_s: int) -> bool:
    ends = pod.metadata.deletion_timestamp
    return ends is not None and now_s > times.epoch_s(ends) + _STUCK_S


def _tolerates_disruption(pod: Pod) -> bool:
    try:
        tolerations = pod_shapes.tolerations(pod.spec.tolerations)
    except errors.InvalidInput:
        return False
    return any(toleration.tolerates(_DISRUPTED) for toleration in tolerations)


def _is_forced(pod: Pod, now_s: int, until_s: int | None) -> bool:
    grace_s = pod.spec.termination_grace_period_seconds
    if until_s is None or grace_s is None:
        return False
    ends = pod.metadata.deletion_timestamp
    if ends is not None:
        return times.epoch_s(ends) > until_s
    return now_s > until_s - grace_s


def _tier(pod: Pod) -> int:
    critical = pod.spec.priority_class_name in _CRITICAL
    return 2 * critical + (pod_states.owner(pod) == pod_states.DAEMON_SET)


def _largest_first(pod: Pod) -> tuple[int, int, str, str]:
    try:
        wanted = pod_shapes.requests(pod)
    except errors.InvalidInput:
        return 0, 0, *_name(pod)
    return *eviction_order(wanted), *_name(pod)


def _name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
