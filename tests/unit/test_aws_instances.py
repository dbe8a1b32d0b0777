"""How responses of DescribeInstances are read."""

from datetime import UTC, datetime
from typing import Any

import botocore.session
import pytest

from aws_launches import CLUSTER, assert_valid
from holdfast import errors
from holdfast.cloud.aws.client import answers
from holdfast.cloud.aws.instances import ec2_instances
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance
from holdfast.cloud.aws.nodeclass.ownership import ALONE, BESIDE_KARPENTER
from holdfast.model.instances import InstanceState

ONLY = {"CapacityReservationPreference": "capacity-reservations-only"}
OPEN = {"CapacityReservationPreference": "open"}


def instance_response(**fields: Any) -> dict[str, Any]:
    tags = {"karpenter.sh/nodepool": "default", "karpenter.k8s.aws/ec2nodeclass": "default"}
    tags |= fields.pop("tags", {})
    return {
        "InstanceId": "i-1",
        "InstanceType": "m5.large",
        "State": {"Name": "running"},
        "Placement": {"AvailabilityZone": "us-west-2a", "AvailabilityZoneId": "usw2-az2"},
        "LaunchTime": datetime(2026, 11, 15, 10, tzinfo=UTC),
        "ImageId": "ami-1",
        "Architecture": "x86_64",
        "SubnetId": "subnet-a",
        "SecurityGroups": [{"GroupId": "sg-1"}],
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        **fields,
    }


def read(selected: frozenset[str] = frozenset(), **fields: Any) -> EC2Instance:
    return ec2_instances.read(instance_response(**fields), lambda _: selected)


@pytest.mark.parametrize(
    ("fields", "selected", "kind"),
    [
        ({"SpotInstanceRequestId": "sir-1", "CapacityReservationId": "cr-1"}, {"cr-1"}, "spot"),
        ({"CapacityReservationId": "cr-1", "CapacityReservationSpecification": ONLY}, {"cr-1"}, "reserved"),
        ({"CapacityReservationId": "cr-1", "CapacityReservationSpecification": ONLY}, set(), "reserved"),
        ({"CapacityReservationId": "cr-1", "CapacityReservationSpecification": OPEN}, {"cr-1"}, "reserved"),
        ({"CapacityReservationId": "cr-1", "CapacityReservationSpecification": OPEN}, {"cr-2"}, "on-demand"),
        ({"CapacityReservationId": "cr-1"}, set(), "on-demand"),
        ({"CapacityReservationSpecification": ONLY}, {"cr-1"}, "on-demand"),
        ({}, {"cr-1"}, "on-demand"),
    ],
)
def test_capacity_type_follows_from_spot_request_and_reservation(
    fields: dict[str, Any], selected: set[str], kind: str
) -> None:
    ec2_instance = read(frozenset(selected), **fields)
    labels = dict(ec2_instance.instance.labels)
    assert ec2_instance.instance.capacity_type == labels["karpenter.sh/capacity-type"] == kind
    assert ("karpenter.k8s.aws/capacity-reservation-id" in labels) is (kind == "reserved")


@pytest.mark.parametrize(
    ("lifecycle", "kind", "interruptible"),
    [
        (None, "default", "false"),
        ("capacity-block", "capacity-block", "false"),
        ("interruptible-capacity-reservation", "default", "true"),
    ],
)
def test_the_kind_of_reservation_follows_from_the_lifecycle(
    lifecycle: str | None, kind: str, interruptible: str
) -> None:
    found = read(
        InstanceLifecycle=lifecycle, CapacityReservationId="cr-1", CapacityReservationSpecification=ONLY
    )
    labels = dict(found.instance.labels)
    assert labels["karpenter.k8s.aws/capacity-reservation-type"] == kind
    assert labels["karpenter.k8s.aws/capacity-reservation-interruptible"] == interruptible


@pytest.mark.fact("aws-5.10.5")
@pytest.mark.parametrize(
    ("ec2_state", "state"),
    [
        ("pending", InstanceState.STARTING),
        ("running", InstanceState.RUNNING),
        ("stopped", InstanceState.ENDING),
        ("shutting-down", InstanceState.ENDING),
        ("terminated", InstanceState.GONE),
    ],
)
def test_ec2_instance_states_map_to_four_states(ec2_state: str, state: InstanceState) -> None:
    assert read(State={"Name": ec2_state}).instance.state is state


@pytest.mark.fact("aws-5.10.4")
@pytest.mark.parametrize(
    ("kinds", "lacks"),
    [
        (["interface"], ("vpc.amazonaws.com/efa",)),
        ([], ("vpc.amazonaws.com/efa",)),
        (["efa", "efa"], ()),
        (["interface", "efa-only"], ()),
    ],
)
def test_instance_without_efa_interface_lacks_efas(kinds: list[str], lacks: tuple[str, ...]) -> None:
    interfaces = [{"InterfaceType": kind} for kind in kinds]
    assert read(NetworkInterfaces=interfaces).instance.lacks == lacks


def test_launch_token_and_nodeclaim_are_read_from_tags() -> None:
    tags = {"holdfast.dev/launch-token": "token-1", "karpenter.sh/nodeclaim": "claim-1"}
    ec2_instance = read(tags=tags)
    assert (ec2_instance.instance.launch_token, ec2_instance.instance.claim) == ("token-1", "claim-1")
    assert ec2_instance.instance.launched_s == 1794736800
    assert (ec2_instance.subnet_id, ec2_instance.security_groups) == ("subnet-a", frozenset({"sg-1"}))
    assert dict(ec2_instance.instance.labels)["kubernetes.io/arch"] == "amd64"


def test_a_provider_id_names_zone_and_instance() -> None:
    assert ec2_instances.provider_id("us-west-2a", "i-1") == "aws:///us-west-2a/i-1"
    assert ec2_instances.instance_id("aws:///us-west-2a/i-1") == "i-1"


@pytest.mark.parametrize(
    "wrong", ["", "i-1", "aws:///i-1", "gce:///us-west-2a/i-1", "aws:///us-west-2a/vol-1"]
)
def test_invalid_provider_id_is_rejected(wrong: str) -> None:
    with pytest.raises(errors.InvalidInput):
        ec2_instances.instance_id(wrong)


def test_requests_are_ones_that_ec2_accepts() -> None:
    for request in (
        ec2_instances.all_of(CLUSTER),
        ec2_instances.launched_with(["b", "a"], CLUSTER),
        ec2_instances.by_id(["i-2", "i-1"]),
    ):
        assert_valid("DescribeInstances", request)
    assert ec2_instances.by_id(["i-2", "i-1"])["Filters"] == [
        {"Name": "instance-id", "Values": ["i-1", "i-2"]}
    ]


def test_instance_of_karpenter_is_not_ours_although_its_class_sets_our_tag() -> None:
    """The tags of an EC2NodeClass may have any name. An instance that is not ours is not garbage-collected."""
    ours, theirs = {"holdfast.dev/ec2nodeclass": "a"}, {"karpenter.k8s.aws/ec2nodeclass": "a"}
    assert [BESIDE_KARPENTER.is_ours(tags) for tags in (ours, theirs, ours | theirs)] == [True, False, False]
    assert [ALONE.is_ours(tags) for tags in (ours, theirs, ours | theirs)] == [False, True, True]


class Hashable(dict[str, Any]):
    def __hash__(self) -> int:  # type: ignore[override]
        return 1


def test_a_structure_that_can_change_is_checked_each_time() -> None:
    shape = botocore.session.get_session().get_service_model("ec2").shape_for("Instance")
    checked = answers.Checked()
    changing = instance_response()
    answers.check(changing, shape, checked)
    changing["InstanceId"] = 7
    with pytest.raises(TypeError, match="InstanceId is 7"):
        answers.check(changing, shape, checked)


def test_a_structure_that_cannot_change_is_refused_as_any_other() -> None:
    shapes = botocore.session.get_session().get_service_model("ec2")
    checked = answers.Checked()
    right, wrong = Hashable(instance_response()), Hashable(instance_response(InstanceId=7))
    for _ in range(2):
        answers.check(right, shapes.shape_for("Instance"), checked)
        with pytest.raises(TypeError, match="InstanceId is 7"):
            answers.check(wrong, shapes.shape_for("Instance"), checked)
    with pytest.raises(TypeError, match="State is"):
        answers.check(right, shapes.shape_for("Volume"), checked)
