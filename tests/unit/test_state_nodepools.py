"""Problems of a NodePool that the API server accepts."""

from typing import Any

import pytest

from builders import nodepool, nodepool_document, requirement
from holdfast import names
from holdfast.api import kinds
from holdfast.api.findings import text_of
from holdfast.api.nodepool import NodePool
from holdfast.cloud.aws.nodeclass.preflight import WELL_KNOWN_LABELS
from holdfast.model.requirement import Operator
from holdfast.model.resources import NOTHING
from holdfast.state.conversion import nodepools


def problems(name: str = "default", **template: Any) -> dict[str, str]:
    found = nodepools.problems(nodepool(name, **template), WELL_KNOWN_LABELS)
    return {text_of(finding.path): finding.message for finding in found}


@pytest.mark.fact("C-4")
def test_a_valid_nodepool_has_no_problems() -> None:
    assert not problems(
        labels={"team": "a"},
        taints=[{"key": "gpu", "effect": "NoSchedule"}],
        startupTaints=[{"key": "gpu", "effect": "NoExecute"}],
        requirements=[
            requirement("karpenter.sh/capacity-type", "In", "reserved", "on-demand"),
            requirement("karpenter.k8s.aws/instance-cpu", "Gt", "3"),
            requirement("karpenter.k8s.aws/instance-cpu", "Lt", "97"),
            requirement("team", "Exists"),
        ],
    )


@pytest.mark.fact("C-4")
def test_a_taint_in_both_lists_is_a_problem() -> None:
    found = problems(
        taints=[{"key": "gpu", "effect": "NoSchedule"}],
        startupTaints=[{"key": "gpu", "effect": "NoSchedule", "value": "other"}],
    )
    assert list(found) == [".spec.template.spec.startupTaints[0]"]


@pytest.mark.fact("C-4")
def test_an_unknown_capacity_type_is_a_problem() -> None:
    wanted = requirement("karpenter.sh/capacity-type", "In", "on_demand")
    found = problems(requirements=[wanted])
    assert "on_demand is unknown" in found[".spec.template.spec.requirements[0].values"]


@pytest.mark.fact("C-4")
def test_an_invalid_label_value_is_a_problem() -> None:
    found = problems(requirements=[requirement("team", "In", "a b", "x" * 64, "fine")])
    assert list(found) == [
        ".spec.template.spec.requirements[0].values[0]",
        ".spec.template.spec.requirements[0].values[1]",
    ]


@pytest.mark.fact("C-4")
def test_labels_are_checked_for_syntax_and_for_restricted_names() -> None:
    found = problems(labels={"a b": "c", "sub.karpenter.sh/x": "y"})
    assert sorted(found) == [
        ".spec.template.metadata.labels['a b']",
        ".spec.template.metadata.labels['sub.karpenter.sh/x']",
    ]


def test_conflicting_requirements_are_a_problem_of_the_later_one() -> None:
    found = problems(
        labels={names.ZONE: "a"},
        requirements=[requirement(names.ZONE, "In", "a", "b"), requirement(names.ZONE, "NotIn", "a")],
    )
    assert list(found) == [".spec.template.spec.requirements[1]"]
    bounds = [requirement("cpus", "Gt", "8"), requirement("cpus", "Lt", "4")]
    assert list(problems(requirements=bounds)) == [".spec.template.spec.requirements[1]"]


def test_a_deprecated_label_can_conflict_with_its_current_name() -> None:
    beta = requirement("failure-domain.beta.kubernetes.io/zone", "In", "b")
    found = problems(requirements=[requirement(names.ZONE, "In", "a"), beta])
    assert list(found) == [".spec.template.spec.requirements[1]"]


def test_a_bound_above_the_largest_integer_is_a_problem() -> None:
    found = problems(requirements=[requirement("cpus", "Gt", "9" * 30)])
    assert list(found) == [".spec.template.spec.requirements[0].values"]


def test_a_name_that_is_not_a_valid_label_value_is_a_problem() -> None:
    assert list(problems("x" * 64)) == [".metadata.name"]


def test_template_requirements_include_the_labels_and_the_name_of_the_nodepool() -> None:
    pool = nodepool(
        "gpu", labels={"team": "a"}, requirements=[requirement("team", "In", "a", "b", minValues=1)]
    )
    wanted = nodepools.template_requirements(pool)
    assert wanted.get("team").values == {"a"}
    assert wanted.get(names.NODEPOOL).has("gpu")
    assert wanted.get("other").operator is Operator.EXISTS


def annotated(text: str) -> NodePool:
    document = nodepool_document()
    document["metadata"]["annotations"] = {names.RESERVATION_WAIT: text}
    pool = kinds.from_plain(document, NodePool)
    assert isinstance(pool, NodePool)
    return pool


def test_an_annotation_of_the_nodepool_sets_how_long_pods_wait_for_a_slot() -> None:
    view = nodepools.view(annotated("1m30s"), (), NOTHING)
    assert view.reservation_wait_s == 90
    assert nodepools.view(nodepool(), (), NOTHING).reservation_wait_s is None


def test_an_invalid_reservation_wait_is_a_problem_and_has_no_effect() -> None:
    pool = annotated("soon")
    (found,) = nodepools.problems(pool, WELL_KNOWN_LABELS)
    assert found.path == ("metadata", "annotations", names.RESERVATION_WAIT)
    assert nodepools.view(pool, (), NOTHING).reservation_wait_s is None


@pytest.mark.fact("P-14")
@pytest.mark.parametrize(
    "template",
    [
        {"labels": {"team": "ml"}},
        {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        {"startupTaints": [{"key": "a", "effect": "NoSchedule"}]},
        {"nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "another"}},
        {"terminationGracePeriod": "1h"},
        {"expireAfter": "Never"},
    ],
)
def test_a_field_of_the_template_changes_the_template_hash(template: dict[str, Any]) -> None:
    assert nodepools.template_hash(nodepool(**template)) != nodepools.template_hash(nodepool())


@pytest.mark.fact("P-14")
def test_requirements_disruption_limits_and_list_order_do_not_change_the_template_hash() -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("a", "b")]
    first, second = nodepool(taints=taints), nodepool(taints=taints[::-1])
    plain = nodepools.template_hash(first)
    assert nodepools.template_hash(second) == plain
    assert (
        nodepools.template_hash(nodepool(taints=taints, requirements=[requirement("a", "Exists")])) == plain
    )
    assert nodepools.template_hash(nodepool(taints=taints, startupTaints=[], expireAfter="720h")) == plain
    document = nodepool_document(taints=taints)
    document["spec"] |= {"weight": 3, "limits": {"cpu": "5"}, "disruption": {"consolidateAfter": "5m"}}
    other = kinds.from_plain(document, NodePool)
    assert isinstance(other, NodePool)
    assert nodepools.template_hash(other) == plain
