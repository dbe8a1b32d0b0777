"""Metrics that Karpenter has are declared with its names and labels, so that dashboards and alerts keep working."""

from typing import Any

import pytest

from holdfast.app import program
from holdfast.controllers import claim_end
from objects import nodeclaim

ABOUT_CLAIM = ("nodepool", "capacity_type", "zone")
DISRUPTED = ("reason", "nodepool", "capacity_type", "consolidation_policy", "termination_mode")
DECIDED = ("reason", "consolidation_type")


LABELS = {metric.name: tuple(sorted(metric.labels)) for metric in program._METRICS}


@pytest.mark.fact("X-5")
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        *(
            pytest.param(name, wanted, marks=pytest.mark.fact("M-1"))
            for name, wanted in (
                ("nodeclaims_created_total", ("reason", "nodepool", "min_values_relaxed")),
                ("nodeclaims_terminated_total", ABOUT_CLAIM),
                ("nodeclaims_disrupted_total", DISRUPTED),
                (
                    "nodeclaims_unhealthy_disrupted_total",
                    ("condition", "nodepool", "capacity_type", "image_id", "termination_mode"),
                ),
            )
        ),
        *(
            pytest.param(name, wanted, marks=pytest.mark.fact("M-2"))
            for name, wanted in (
                ("nodes_created_total", ("nodepool", "zone")),
                ("nodes_terminated_total", ("nodepool",)),
                ("nodes_drained_total", ("nodepool",)),
            )
        ),
        *(
            pytest.param(name, ("nodepool", other), marks=pytest.mark.fact("M-3"))
            for name, other in (
                ("nodepools_limit", "resource_type"),
                ("nodepools_usage", "resource_type"),
                ("nodepools_allowed_disruptions", "reason"),
                ("nodepools_nodes_consuming_budgets", "reason"),
            )
        ),
        *(
            pytest.param(f"scheduler_{name}", wanted, marks=pytest.mark.fact("M-4"))
            for name, wanted in (
                ("scheduling_duration_seconds", ("controller",)),
                ("ignored_pods_count", ()),
                ("unschedulable_pods_count", ("controller",)),
                ("pending_pods_by_effective_zone_count", ("controller", "zone")),
            )
        ),
        *(
            pytest.param(f"pods_{name}", wanted, marks=pytest.mark.fact("M-5"))
            for name, wanted in (
                ("scheduling_decision_duration_seconds", ()),
                ("eviction_requests_total", ("code",)),
                ("drained_total", ("reason",)),
            )
        ),
        *(
            pytest.param(f"voluntary_disruption_{name}", wanted, marks=pytest.mark.fact("M-6"))
            for name, wanted in (
                ("decisions_total", ("decision", *DECIDED)),
                ("decision_evaluation_duration_seconds", DECIDED),
                ("failed_validations_total", DECIDED),
                ("queue_failures_total", DECIDED),
                ("terminate_first_decisions_total", ("nodepool", "reason", "terminate_first_reason")),
            )
        ),
        *(
            pytest.param(name, wanted, marks=pytest.mark.fact("M-7"))
            for name, wanted in (
                ("cluster_state_synced", ()),
                ("cluster_state_node_count", ()),
                ("cluster_state_unsynced_time_seconds", ()),
                ("build_info", ("version",)),
            )
        ),
    ],
)
def test_metric_of_karpenter_has_its_name_and_labels(name: str, wanted: tuple[str, ...]) -> None:
    assert LABELS[f"karpenter_{name}"] == tuple(sorted(wanted))


@pytest.mark.fact("M-9")
@pytest.mark.parametrize(("period", "mode"), [(None, "graceful"), ("0s", "forceful"), ("5m", "eventual")])
def test_termination_mode_follows_from_the_grace_period(period: str | None, mode: str) -> None:
    spec: dict[str, Any] = {"terminationGracePeriod": period} if period else {}
    assert claim_end.termination_mode(nodeclaim("c", **spec)) == mode
