"""Converts PodDisruptionBudgets to values.

A budget is fully blocking if it never allows a disruption, whatever pods run. The disruptions that it allows now are in
its status (S-5). A budget that cannot be parsed selects every pod of its namespace and allows no disruption: an unknown
rule must not allow evictions.
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
    """The budget; InvalidInput if it cannot be parsed."""
    spec = budget.spec
    return BudgetView(
        namespace=budget.metadata.namespace or pod_shapes.DEFAULT_NAMESPACE,
        name=budget.metadata.name,
        selector=selectors.selector(spec.selector),
        fully_blocking=spec.max_unavailable in _NONE_UNAVAILABLE or spec.min_available == _ALL_AVAILABLE,
        disruptions_allowed=budget.status.disruptions_allowed,
        always_allows_unhealthy=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )
