"""PodDisruptionBudgets as values.

Called when a snapshot is taken. The rules: a budget is fully blocking when it can never allow a disruption,
whatever runs; what it allows at the moment is its status (S-5). A budget that cannot be read is about every pod of
its namespace and allows nothing: what cannot be read forbids rather than allows.
"""

from typing import Final

from holdfast import errors
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.model.selectors import LabelSelector
from holdfast.model.snapshot import BudgetView
from holdfast.state.conversion import pod_shapes, selectors

_NONE_UNAVAILABLE: Final = (0, "0", "0%")
_ALL_AVAILABLE: Final = "100%"


def view(budget: PodDisruptionBudget) -> BudgetView:
    try:
        return check(budget)
    except errors.InvalidInput:
        namespace = budget.metadata.namespace or pod_shapes.DEFAULT_NAMESPACE
        return BudgetView(namespace, budget.metadata.name, LabelSelector(), False, 0)


def check(budget: PodDisruptionBudget) -> BudgetView:
    """The budget; InvalidInput where it cannot be read."""
    spec = budget.spec
    return BudgetView(
        namespace=budget.metadata.namespace or pod_shapes.DEFAULT_NAMESPACE,
        name=budget.metadata.name,
        selector=selectors.selector(spec.selector),
        fully_blocking=spec.max_unavailable in _NONE_UNAVAILABLE or spec.min_available == _ALL_AVAILABLE,
        disruptions_allowed=budget.status.disruptions_allowed,
        always_allows_unhealthy=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )
