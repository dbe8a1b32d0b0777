"""What DescribeInstances says of a machine, as a value."""

from datetime import UTC, datetime
from typing import Any

import pytest

from aws_launches import CLUSTER, assert_valid
from holdfast import errors
from holdfast.cloud.aws.instances import ec2_instances
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance
from holdfast.model.instances import InstanceState

ONLY = {"CapacityReservationPreference": "capacity-reservations-only"}
OPEN = {"CapacityReservationPreference": "open"}


def described(**fields: Any) -> dict[str, Any]:
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
    return ec2_instances.read(described(**fields), lambda _: selected)


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
def test_what_an_instance_is_follows_from_what_ec2_says_of_it(
    fields: dict[str, Any], selected: set[str], kind: str
) -> None:
    machine = read(frozenset(selected), **fields)
    labels = dict(machine.instance.labels)
    assert machine.instance.capacity_type == labels["karpenter.sh/capacity-type"] == kind
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
    ("word", "state"),
    [
        ("pending", InstanceState.STARTING),
        ("running", InstanceState.RUNNING),
        ("stopped", InstanceState.ENDING),
        ("shutting-down", InstanceState.ENDING),
        ("terminated", InstanceState.GONE),
    ],
)
def test_ec2s_states_are_four_to_us(word: str, state: InstanceState) -> None:
    assert read(State={"Name": word}).instance.state is state


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
def test_an_instance_has_efas_when_its_interfaces_are_such(kinds: list[str], lacks: tuple[str, ...]) -> None:
    interfaces = [{"InterfaceType": kind} for kind in kinds]
    assert read(NetworkInterfaces=interfaces).instance.lacks == lacks


def test_an_instance_remembers_who_launched_it() -> None:
    tags = {"holdfast.dev/launch-token": "token-1", "karpenter.sh/nodeclaim": "claim-1"}
    machine = read(tags=tags)
    assert (machine.instance.launch_token, machine.instance.claim) == ("token-1", "claim-1")
    assert machine.instance.launched_s == 1794736800
    assert (machine.subnet_id, machine.security_groups) == ("subnet-a", frozenset({"sg-1"}))
    assert dict(machine.instance.labels)["kubernetes.io/arch"] == "amd64"


def test_a_provider_id_names_zone_and_instance() -> None:
    assert ec2_instances.provider_id("us-west-2a", "i-1") == "aws:///us-west-2a/i-1"
    assert ec2_instances.instance_id("aws:///us-west-2a/i-1") == "i-1"


@pytest.mark.parametrize(
    "wrong", ["", "i-1", "aws:///i-1", "gce:///us-west-2a/i-1", "aws:///us-west-2a/vol-1"]
)
def test_what_is_no_provider_id_of_ours_is_said_to_be_none(wrong: str) -> None:
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
