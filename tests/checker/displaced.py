"""Which pods of a node that is being deleted are planned like pending ones (S-3, S-5, S-6).

Not those of DaemonSets, not mirror pods, not those with do-not-disrupt, and not those whose eviction a
PodDisruptionBudget never allows.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any, Final

from checker import catalog, labels, quantities
from holdfast import names

_NOT_EVICTED: Final = ("DaemonSet", "Node")
_DISRUPTED: Final = {"key": names.DISRUPTED_TAINT, "effect": "NoSchedule"}


def is_displaced(pod: Mapping[str, Any], budgets: Iterable[Mapping[str, Any]], now: dt.datetime) -> bool:
    kinds = {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()}
    terminating = bool(pod["metadata"].get("deletionTimestamp"))
    if kinds.intersection(_NOT_EVICTED) or (terminating and "StatefulSet" not in kinds):
        return False
    if _is_not_to_be_disrupted(pod, now):
        return False
    return terminating or not _is_blocked(pod, budgets)


def _is_not_to_be_disrupted(pod: Mapping[str, Any], now: dt.datetime) -> bool:
    """Forever, or for a duration after its start (D-6)."""
    value = (pod["metadata"].get("annotations") or {}).get(names.DO_NOT_DISRUPT)
    if not value or pod["metadata"].get("deletionTimestamp"):
        return False
    duration = dt.timedelta(seconds=float(quantities.seconds(value)))
    started = (pod.get("status") or {}).get("startTime")
    return bool(value == "true" or (duration and (not started or now < catalog.moment(started) + duration)))


def _is_blocked(pod: Mapping[str, Any], budgets: Iterable[Mapping[str, Any]]) -> bool:
    """Kubernetes refuses the eviction of a pod that two PodDisruptionBudgets select."""
    if labels.tolerates(pod["spec"].get("tolerations") or (), _DISRUPTED):
        return False
    selecting = [one for one in budgets if _selects_pod(one, pod)]
    return len(selecting) > 1 or any(_allows_none(one["spec"], pod) for one in selecting)


def _selects_pod(budget: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    namespaces = {one["metadata"].get("namespace") or "default" for one in (budget, pod)}
    selector = labels.selector(budget["spec"].get("selector"))
    return len(namespaces) == 1 and labels.selects(selector, pod["metadata"].get("labels") or {})


def _allows_none(spec: Mapping[str, Any], pod: Mapping[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    unhealthy = any(one["type"] == "Ready" and one["status"] == "False" for one in conditions)
    if unhealthy and spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return False
    return spec.get("maxUnavailable") in (0, "0", "0%") or spec.get("minAvailable") == "100%"
