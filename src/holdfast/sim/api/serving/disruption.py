"""Checks PodDisruptionBudgets on an eviction.

Called by `subresources`. The disruption controller, real or simulated, writes the counts in the status of a budget. An
eviction decrements them in the same call.
"""

from typing import Any, Final

from holdfast.sim.api.schema.managed import Writer
from holdfast.sim.api.schema.status import Refused
from holdfast.sim.api.storage import selectors
from holdfast.sim.api.storage.registry import Registry, Write
from holdfast.sim.api.storage.store import Stored

Json = dict[str, Any]

_BUDGETS: Final = "policy/poddisruptionbudgets"
_PATIENCE_S: Final = 10
_TOO_MANY_PODS: Final = 2000


def allow(pod: Stored, registry: Registry) -> Stored | None:
    """The budget that the eviction uses, or None if it needs none; raises Refused."""
    value = pod.value()
    if value["metadata"].get("deletionTimestamp") or value.get("status", {}).get("phase") != "Running":
        return None
    budgets = [
        budget
        for budget in registry.store.bucket(_BUDGETS).sorted(pod.namespace)
        if selectors.label_test(budget.value()["spec"].get("selector"))(pod.labels)
    ]
    if not budgets:
        return None
    if len(budgets) > 1:
        raise Refused(
            "InternalError",
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
        )
    budget = budgets[0].value()
    if _is_unhealthy_and_free(value, budget):
        return None
    _check(budget)
    return budgets[0]


def record(budget: Stored | None, pod: Stored, registry: Registry) -> None:
    """Decrements the allowed disruptions of the budget, and adds the DisruptionTarget condition to the pod."""
    now = registry.time()
    if budget:

        def allow_one_less(old: Json) -> Json:
            state = old["status"]
            disrupted = {**(state.get("disruptedPods") or {}), pod.name: now}
            left = state["disruptionsAllowed"] - 1
            return {**old, "status": {**state, "disruptionsAllowed": left, "disruptedPods": disrupted}}

        registry.update(_status_of(registry, "policy", "poddisruptionbudgets"), budget.key, allow_one_less)

    def target(old: Json) -> Json:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": None,
            "lastTransitionTime": now,
        }
        state = old.get("status") or {}
        remaining = [c for c in state.get("conditions") or () if c.get("type") != "DisruptionTarget"]
        return {**old, "status": {**state, "conditions": [*remaining, condition]}}

    registry.update(_status_of(registry, "", "pods"), pod.key, target)


def _status_of(registry: Registry, group: str, plural: str) -> Write:
    resource = registry.resources.get(group, "v1", plural)
    assert resource is not None
    return Write(resource, Writer("kube-apiserver", "Evict", resource.api_version, "status"))


def _is_unhealthy_and_free(pod: Json, budget: Json) -> bool:
    """Whether the pod is running but not ready, and the budget allows its eviction by the
    unhealthyPodEvictionPolicy."""
    conditions = pod.get("status", {}).get("conditions") or ()
    if any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions):
        return False
    state = budget.get("status") or {}
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    healthy, desired = state.get("currentHealthy", 0), state.get("desiredHealthy", 0)
    return bool(desired > 0 and healthy >= desired)


def _check(budget: Json) -> None:
    state, name = budget.get("status") or {}, budget["metadata"]["name"]
    if state.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _refused(f"The disruption budget {name} is still being processed by the server.", wait=True)
    if len(state.get("disruptedPods") or ()) > _TOO_MANY_PODS:
        raise _refused(f"The disruption budget {name} has too many evictions not confirmed", wait=True)
    if state.get("disruptionsAllowed", 0) <= 0:
        raise _refused(
            f"The disruption budget {name} needs {state.get('desiredHealthy', 0)} healthy pods and has"
            f" {state.get('currentHealthy', 0)} currently",
        )


def _refused(why: str, *, wait: bool = False) -> Refused:
    return Refused(
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        details={"causes": [{"reason": "DisruptionBudget", "message": why}]},
        retry_after_s=_PATIENCE_S if wait else 0,
    )
