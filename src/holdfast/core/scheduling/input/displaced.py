"""Decides which pods on nodes that are being deleted the planner treats as pending.

`problem` and disruption call it. As in Karpenter, a pod that cannot be evicted stays until it terminates, and its
replacement is planned when it is pending (S-3, S-5, S-6).
"""

from collections.abc import Iterable
from typing import Final

from holdfast import names
from holdfast.model.pods import PodView
from holdfast.model.snapshot import BudgetView, Snapshot
from holdfast.model.taints import Effect, Taint

_DISRUPTED: Final = Taint(names.DISRUPTED_TAINT, Effect.NO_SCHEDULE)


def displaced(snapshot: Snapshot) -> tuple[PodView, ...]:
    """The pods on nodes being deleted that need a new node, without those that are pending already."""
    pending = {pod.uid for pod in snapshot.pending}
    return tuple(
        pod
        for node in snapshot.nodes
        if node.deleting
        for pod in node.pods
        if pod.uid not in pending and needs_new_node(pod, snapshot.budgets)
    )


def to_place(snapshot: Snapshot) -> tuple[PodView, ...]:
    """The pods that a plan places: pending ones, and those on nodes being deleted that need a new node."""
    found: tuple[PodView, ...] | None = snapshot.cache.get(to_place)
    if found is None:
        found = snapshot.cache[to_place] = (*snapshot.pending, *displaced(snapshot))
    return found


def needs_new_node(pod: PodView, budgets: Iterable[BudgetView]) -> bool:
    """Whether the pod is recreated when its node is deleted, and nothing blocks its eviction (S-3)."""
    return pod.reschedulable and not pod.do_not_disrupt and not is_blocked(pod, budgets)


def is_evictable(pod: PodView) -> bool:
    """Whether the pod can be evicted, disregarding PodDisruptionBudgets (S-6)."""
    return _is_drained(pod) and not pod.do_not_disrupt


def blocks_drain(pod: PodView, budgets: Iterable[BudgetView]) -> bool:
    """Whether the drain of its node waits for the pod, and nothing evicts it."""
    return _is_drained(pod) and (pod.do_not_disrupt or is_blocked(pod, budgets))


def _is_drained(pod: PodView) -> bool:
    tolerates = any(toleration.tolerates(_DISRUPTED) for toleration in pod.shape.tolerations)
    return not (pod.terminating or pod.mirror or tolerates)


def is_blocked(pod: PodView, budgets: Iterable[BudgetView]) -> bool:
    """Whether PodDisruptionBudgets never allow the eviction of the pod. Kubernetes rejects the eviction of a pod that
    two budgets select (S-5)."""
    in_namespace = [budget for budget in budgets if budget.namespace == pod.shape.namespace]
    if not in_namespace or not is_evictable(pod):
        return False
    labels = dict(pod.shape.labels)
    about = [one for one in in_namespace if one.selector is not None and one.selector.matches(labels)]
    if len(about) > 1:
        return True
    return any(b.fully_blocking and (pod.ready or not b.always_allows_unhealthy) for b in about)
