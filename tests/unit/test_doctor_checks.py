"""Checks of `holdfast doctor` on values: what a sandbox cannot show, and the tables that the checks use."""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

import builders
import iam_rights
from holdfast import errors
from holdfast.api import crds
from holdfast.api.discovery import Schema
from holdfast.app.doctor import cluster_checks, diagnosis, schema_checks
from holdfast.app.doctor.cluster_reading import ClusterReading, DeploymentView
from holdfast.app.rights import Right
from holdfast.cloud.aws.doctor import account_checks, reservation_checks
from holdfast.cloud.aws.doctor.account_reading import AccountReading, ClassReading
from holdfast.cloud.aws.doctor.actions import ACTIONS
from holdfast.cloud.aws.doctor.queue_reading import QueueReading, Rule
from holdfast.cloud.aws.instances import interruption
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.kube import decoding
from holdfast.model.check_results import Level
from holdfast.runtime import clock

NOW_S = 1_800_000_000
# Actions of the policy that no call of `actions` tries, with the check that covers them or why there is none.
ELSEWHERE = {
    "eks:DescribeCluster": "eks-cluster, if the settings leave something out",
    "ssm:GetParameter": "ec2nodeclass: the images of an alias",
    "sqs:GetQueueUrl": "interruption-queue",
    "sqs:ReceiveMessage": "interruption-queue",
    "iam:GetInstanceProfile": "ec2nodeclass",
    "ec2:CreateLaunchTemplate": "ec2nodeclass: a dry run",
    "ec2:RunInstances": "ec2nodeclass: a dry run",
    "ec2:CreateFleet": "ec2nodeclass: a dry run, once Holdfast created the launch template",
    "ec2:CreateTags": "ec2nodeclass: part of the dry runs; on existing instances it needs one of Holdfast's",
    "iam:PassRole": "ec2nodeclass: part of the dry run, if the instance profile exists",
    "sqs:DeleteMessage": "deletes a message",
    "ec2:DeleteLaunchTemplate": "needs a launch template of Holdfast",
    "ec2:RebootInstances": "needs an instance of Holdfast",
    "ec2:TerminateInstances": "needs an instance of Holdfast",
    "iam:CreateInstanceProfile": "IAM has no dry runs",
    "iam:TagInstanceProfile": "IAM has no dry runs",
    "iam:AddRoleToInstanceProfile": "IAM has no dry runs",
    "iam:DeleteInstanceProfile": "IAM has no dry runs",
    "iam:RemoveRoleFromInstanceProfile": "IAM has no dry runs",
}


def test_every_action_of_the_policy_is_tried_or_listed_with_a_reason() -> None:
    granted = {
        action for statement in iam_rights.document()["Statement"] for action in iam_rights.actions(statement)
    }
    tried = {action.name for action in ACTIONS}
    assert tried & ELSEWHERE.keys() == set()
    assert tried | ELSEWHERE.keys() == granted


def test_expected_events_are_events_that_holdfast_reads() -> None:
    assert set(account_checks.EXPECTED_EVENTS) <= interruption._READERS.keys()


# --- Schemas ------------------------------------------------------------------------------------------


def schema(of: Mapping[str, Any]) -> Schema:
    return msgspec.convert(of["spec"]["versions"][0]["schema"]["openAPIV3Schema"], Schema)


@pytest.mark.parametrize("crd", crds.all_crds(), ids=lambda crd: str(crd["spec"]["names"]["kind"]))
def test_shipped_schema_lacks_nothing_and_every_removed_field_is_named(crd: dict[str, Any]) -> None:
    shipped = schema(crd)
    assert schema_checks.missing(shipped, shipped) == ()
    removed = 0
    for path, properties in properties_below(
        copy.deepcopy(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    ):
        for name in list(properties):
            if path or name in ("spec", "status"):
                kept = properties.pop(name)
                older = msgspec.convert(root(path, properties, crd), Schema)
                assert schema_checks.missing(shipped, older) == (f"{path}.{name}",)
                properties[name] = kept
                removed += 1
    assert removed > 20


def properties_below(node: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    found = [(path, node["properties"])] if "properties" in node else []
    for name, child in node.get("properties", {}).items():
        found += properties_below(child, f"{path}.{name}")
    for key, step in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(node.get(key), dict):
            found += properties_below(node[key], f"{path}{step}")
    return found


def root(path: str, properties: dict[str, Any], crd: dict[str, Any]) -> dict[str, Any]:
    """The schema of a CRD with the properties at one path replaced."""
    whole = copy.deepcopy(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    for found, there in properties_below(whole):
        if found == path:
            there.clear()
            there.update(properties)
            return dict(whole)
    raise AssertionError(path)


def test_missing_value_of_an_enumeration_is_named() -> None:
    ours, theirs = Schema(enum=("a", "b")), Schema(enum=("a",))
    assert schema_checks.missing(ours, theirs, ".spec.policy") == (".spec.policy=b",)
    assert schema_checks.missing(ours, Schema(), ".spec.policy") == ()


def test_open_object_lacks_nothing() -> None:
    assert schema_checks.missing(Schema(properties={"a": Schema()}), Schema(preserves_unknown=True)) == ()


# --- The cluster --------------------------------------------------------------------------------------


def reading(**fields: Any) -> ClusterReading:
    return ClusterReading(**({"server": "https://x", "version": "1.34"} | fields))


@pytest.mark.parametrize("version", ["1.30", "1.36"])
def test_supported_versions_include_both_ends(version: str) -> None:
    (found,) = cluster_checks.api_server(reading(version=version))
    assert found.level is Level.OK


@pytest.mark.parametrize(
    ("image", "level", "words"),
    [
        ("holdfast:0.1.0", Level.OK, "runs 0.1.0"),
        ("holdfast:v0.1.0", Level.OK, "runs v0.1.0"),
        ("registry:5000/team/holdfast:0.1.0@sha256:01", Level.OK, "runs 0.1.0"),
        ("registry:5000/holdfast", Level.OK, "names no version"),
        ("holdfast@sha256:01", Level.OK, "names no version"),
        ("holdfast:latest", Level.OK, "names no version"),
        ("holdfast:0.2.0", Level.WARNING, "runs 0.2.0, this command is 0.1.0"),
    ],
)
def test_version_skew_is_read_from_the_tag(image: str, level: Level, words: str) -> None:
    view = DeploymentView(
        "kube-system", "holdfast", 2, 2, image, "system:serviceaccount:kube-system:holdfast"
    )
    (found,) = cluster_checks.holdfast(reading(holdfast=(view,)), "0.1.0")
    assert found.level is level
    assert words in found.found


def test_development_version_is_that_of_the_image_tag_without_plus() -> None:
    view = DeploymentView("kube-system", "holdfast", 1, 1, "holdfast:0.1.1.dev5-g01", "")
    (same,) = cluster_checks.holdfast(reading(holdfast=(view,)), "0.1.1.dev5+g01")
    (other,) = cluster_checks.holdfast(reading(holdfast=(view,)), "0.1.1.dev6+g02")
    assert (same.level, other.level) == (Level.OK, Level.WARNING)


def test_reviews_that_are_refused_are_an_info() -> None:
    refused = errors.Unauthorized("subjectaccessreviews is forbidden")
    right = Right("", "pods", "list")
    (found,) = cluster_checks.rights(reading(subject="me", rights={right: refused}))
    assert found.level is Level.INFO


def test_denied_verbs_of_one_resource_are_one_line() -> None:
    denied = {Right("", "pods", verb): False for verb in ("list", "watch")}
    allowed = {Right("", "nodes", "list"): True}
    (found,) = cluster_checks.rights(reading(subject="me", rights=denied | allowed))
    assert found.found == "may not list, watch pods"
    (found,) = cluster_checks.rights(reading(subject="me", rights=denied))
    assert found.found == "has none of the 2 rights"


@pytest.mark.parametrize(
    ("ahead_s", "level"), [(clock.WARN_FROM_S, Level.OK), (-clock.WARN_FROM_S - 1, Level.WARNING)]
)
def test_clock_difference_is_a_warning_from_the_limit_of_the_log(ahead_s: int, level: Level) -> None:
    (found,) = cluster_checks.clock_difference("EC2", ahead_s)
    assert found.level is level


def test_object_that_cannot_be_decoded_is_an_error() -> None:
    page = b"""{"metadata": {"resourceVersion": "7"}, "items": [{"metadata":
        {"name": "bad", "uid": "u", "resourceVersion": "7"}, "spec": {"weight": "heavy"}}]}"""
    (broken,) = decoding.page(type(builders.nodepool()), page).items or ()
    (found,) = diagnosis._unreadable([broken])  # type: ignore[list-item]
    assert (found.level, found.object) == (Level.ERROR, "NodePool/bad")


# --- The account --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ({}, True),
        ({"source": ["aws.ec2"]}, True),
        ({"source": ["aws.health"]}, False),
        ({"source": ["aws.ec2"], "detail-type": ["EC2 Instance State-change Notification"]}, False),
        ({"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]}, True),
        ({"source": [{"prefix": "aws."}]}, True),
    ],
)
def test_rule_matches_by_source_and_detail_type(pattern: dict[str, Any], *, matches: bool) -> None:
    rule = Rule("one", is_enabled=True, pattern=pattern)
    assert rule.matches("aws.ec2", "EC2 Spot Instance Interruption Warning") is matches


def test_unreadable_rules_are_an_info() -> None:
    denied = errors.Unauthorized("AccessDeniedException")
    queue = QueueReading("holdfast", "arn:aws:sqs:r:1:holdfast", None, denied)
    (found,) = account_checks.interruption_queue(account(queue=queue), uses_spot=True)
    assert found.level is Level.INFO


def account(**fields: Any) -> AccountReading:
    return AccountReading(**({"region": "us-west-2", "access": None, "now_s": NOW_S} | fields))


def reservation(name: str, **fields: Any) -> CapacityReservation:
    defaults: dict[str, Any] = {"instance_type": "m5.large", "zone": "us-west-2a", "total": 2, "available": 1}
    return CapacityReservation(id=name, **(defaults | fields))


def test_reservation_without_a_future_needs_no_selector() -> None:
    gone = (reservation("cr-1", state="cancelled"), reservation("cr-2", end_s=NOW_S - 1))
    (found,) = reservation_checks.unselected(account(reservations=gone))
    assert (found.level, found.found) == (Level.OK, "the account has none")


def test_target_of_direct_mode_is_selected() -> None:
    target = {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}
    direct = ClassReading(node_class=builders.ec2nodeclass(capacityReservationSpec=target), types=())
    known = (reservation("cr-1"), reservation("cr-2", start_s=NOW_S + 60, state="scheduled"))
    (found,) = reservation_checks.unselected(account(reservations=known, classes={"default": direct}))
    assert (found.level, found.object) == (Level.WARNING, "CapacityReservation/cr-2")
    assert "1 of 2 slots free" in found.found


def test_lines_about_reservations_have_a_bound() -> None:
    many = tuple(reservation(f"cr-{n:03}") for n in range(60))
    *shown, more = reservation_checks.unselected(account(reservations=many))
    assert len(shown) == 50
    assert more.found == "and 10 more that no EC2NodeClass selects"
