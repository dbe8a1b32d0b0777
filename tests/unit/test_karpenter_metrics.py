"""Metrics that Karpenter has are declared with its names, types and labels, so that dashboards and alerts keep working.

`data/karpenter_metrics.json` was read from the sources of Karpenter and of the libraries that declare its metrics.
"""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.app import declared_metrics
from holdfast.controllers import claim_end
from holdfast.runtime import metrics
from objects import nodeclaim

KARPENTER: Final[dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parent / "data/karpenter_metrics.json").read_text()
)["metrics"]
DECLARED: Final = {one.name: one for one in (*metrics.ENGINE, *declared_metrics.METRICS)}
# Metrics of features that Holdfast does not have.
MISSING: Final = {
    "controller_runtime_reconcile_timeouts_total",  # reconciles have no timeout
    "karpenter_pod_deletion_cost_nodes_with_pending_annotation_writes",
    "karpenter_pod_deletion_cost_pod_annotation_writes_total",
}
# Labels that Karpenter's metric does not have.
ADDED: Final = {
    "karpenter_voluntary_disruption_failed_validations_total": {"reason"},
    **{
        f"karpenter_nodes_{name}": {"ec2nodeclass"}  # a label of nodes in Karpenter, not a well-known one
        for name in (
            "allocatable",
            "current_lifetime_seconds",
            "system_overhead",
            "total_daemon_limits",
            "total_daemon_requests",
            "total_pod_limits",
            "total_pod_requests",
        )
    },
}


def of(*prefixes: str) -> list[str]:
    return [name for name in KARPENTER if name.startswith(prefixes)]


NODECLAIMS: Final = of("karpenter_nodeclaims_")
NODES: Final = of("karpenter_nodes_", "karpenter_cluster_utilization_percent")
NODEPOOLS: Final = of("karpenter_nodepools_")
SCHEDULER: Final = of("karpenter_scheduler_")
PODS: Final = of("karpenter_pods_", "karpenter_pod_")
DISRUPTION: Final = of("karpenter_voluntary_disruption_", "karpenter_consolidation_")
STATE: Final = of(
    "karpenter_cluster_state_",
    "karpenter_cloudprovider_",
    "karpenter_build_info",
    "operator_",
    "workqueue_",
    "controller_runtime_",
)


@pytest.mark.fact("X-5")
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.fact("M-1")) for name in NODECLAIMS),
        *(pytest.param(name, marks=pytest.mark.fact("M-2")) for name in NODES),
        *(pytest.param(name, marks=pytest.mark.fact("M-3")) for name in NODEPOOLS),
        *(pytest.param(name, marks=pytest.mark.fact("M-4")) for name in SCHEDULER),
        *(pytest.param(name, marks=pytest.mark.fact("M-5")) for name in PODS),
        *(pytest.param(name, marks=pytest.mark.fact("M-6")) for name in DISRUPTION),
        *(pytest.param(name, marks=pytest.mark.fact("M-7")) for name in STATE),
    ],
)
def test_metric_of_karpenter_has_its_name_type_and_labels(name: str) -> None:
    if name in MISSING:
        assert name not in DECLARED
        return
    ours, theirs = DECLARED[name], KARPENTER[name]
    assert ours.kind == theirs["type"]
    assert set(ours.labels) == set(theirs["labels"]) | ADDED.get(name, set())


def test_every_metric_of_karpenter_belongs_to_a_fact() -> None:
    every = (NODECLAIMS, NODES, NODEPOOLS, SCHEDULER, PODS, DISRUPTION, STATE)
    assert sorted(name for names in every for name in names) == sorted(KARPENTER)
    assert len(KARPENTER) > 100


@pytest.mark.fact("M-9")
@pytest.mark.parametrize(("period", "mode"), [(None, "graceful"), ("0s", "forceful"), ("5m", "eventual")])
def test_termination_mode_follows_from_the_grace_period(period: str | None, mode: str) -> None:
    spec: dict[str, Any] = {"terminationGracePeriod": period} if period else {}
    assert claim_end.termination_mode(nodeclaim("c", **spec)) == mode
