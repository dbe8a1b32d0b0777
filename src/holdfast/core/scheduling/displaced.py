"""Pods that lose their node: which pods of nodes that are being deleted are planned for, as pending ones are.

Called by `problem` for every plan, and by disruption, which asks the same questions of its candidates. The rules are
Karpenter's (S-3, S-5, S-6): a pod that nobody may evict stays until it goes by itself, and whatever takes its place
is planned for then.
"""

from collections.abc import Iterable
from typing import Final

from holdfast import names
from holdfast.model.pods import PodView
from holdfast.model.snapshot import BudgetView, Snapshot
from holdfast.model.taints import Effect, Taint

_DISRUPTED: Final = Taint(names.DISRUPTED_TAINT, Effect.NO_SCHEDULE)


def displaced(snapshot: Snapshot) -> tuple[PodView, ...]:
    """The pods on nodes that go which need another place now, and are not among the pending ones already."""
    pending = {pod.uid for pod in snapshot.pending}
    return tuple(
        pod
        for node in snapshot.nodes
        if node.deleting
        for pod in node.pods
        if pod.uid not in pending and needs_new_node(pod, snapshot.budgets)
    )


def needs_new_node(pod: PodView, budgets: Iterable[BudgetView]) -> bool:
    """Whether it would be made anew elsewhere if its node went, and nothing keeps it where it is (S-3)."""
    return pod.reschedulable and not pod.do_not_disrupt and not is_blocked(pod, budgets)


def is_evictable(pod: PodView) -> bool:
    """Whether the pod can be evicted at all, budgets apart (S-6)."""
    tolerates = any(toleration.tolerates(_DISRUPTED) for toleration in pod.shape.tolerations)
    return not (pod.terminating or pod.mirror or pod.do_not_disrupt or tolerates)


def is_blocked(pod: PodView, budgets: Iterable[BudgetView]) -> bool:
    """Whether budgets never let the pod be evicted (S-5). Kubernetes refuses an eviction that two budgets are about."""
    if not is_evictable(pod):
        return False
    labels = dict(pod.shape.labels)
    about = [
        budget
        for budget in budgets
        if budget.namespace == pod.shape.namespace
        and budget.selector is not None
        and budget.selector.matches(labels)
    ]
    if len(about) > 1:
        return True
    return any(b.fully_blocking and (pod.ready or not b.always_allows_unhealthy) for b in about)
