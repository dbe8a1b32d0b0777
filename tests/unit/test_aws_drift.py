"""The hash of an EC2NodeClass, and the drift reasons of an instance."""

import dataclasses
from typing import Any

import pytest

from aws_launches import SELECTS_ALL, STATUS, claim, resolved, selecting, types
from builders import ec2nodeclass, requirement
from holdfast import errors
from holdfast.cloud.aws.instances import drift
from holdfast.cloud.aws.instances.ec2_instances import EC2Instance
from holdfast.cloud.aws.nodeclass import class_hash
from holdfast.model.instances import Instance, InstanceState


def hash_of(**spec: Any) -> str:
    return class_hash.of(ec2nodeclass(**spec))


@pytest.mark.fact("aws-1.6.1")
@pytest.mark.parametrize(
    "spec",
    [
        {"userData": "echo"},
        {"tags": {"team": "ml"}},
        {"kubelet": {"maxPods": 5}},
        {"detailedMonitoring": True},
        {"metadataOptions": {"httpTokens": "optional"}},
        {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "5Gi"}}]},
        {"amiFamily": "Custom"},
        {"role": "another"},
        {"instanceStorePolicy": "RAID0"},
        {"associatePublicIPAddress": True},
        {"capacityReservationSpec": {"capacityReservationPreference": "open"}},
    ],
)
def test_instance_settings_change_the_ec2nodeclass_hash(spec: dict[str, Any]) -> None:
    assert hash_of(**spec) != hash_of()


@pytest.mark.fact("aws-1.6.3")
@pytest.mark.parametrize(
    "spec",
    [
        {"capacityReservationSelectorTerms": SELECTS_ALL},
        {"subnetSelectorTerms": [{"id": "subnet-1"}]},
        {"securityGroupSelectorTerms": [{"id": "sg-1"}]},
        {"amiSelectorTerms": [{"alias": "al2023@v20261101"}]},
        {"ipPrefixCount": 3},
        {"amiFamily": "AL2023"},
        {"tags": {}},
        {"detailedMonitoring": False},
    ],
)
def test_selector_terms_and_default_values_do_not_change_the_ec2nodeclass_hash(spec: dict[str, Any]) -> None:
    assert hash_of(**spec) == hash_of()


def test_order_of_lists_does_not_change_the_ec2nodeclass_hash() -> None:
    volumes = [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "5Gi"}},
        {"deviceName": "/dev/xvdb", "ebs": {"volumeSize": "6Gi"}},
    ]
    assert hash_of(blockDeviceMappings=volumes) == hash_of(blockDeviceMappings=volumes[::-1])


def ec2_instance(**fields: Any) -> EC2Instance:
    plain: dict[str, Any] = {
        "image_id": "ami-x86",
        "subnet_id": "subnet-b",
        "security_groups": {"sg-1", "sg-2"},
        "capacity_type": "on-demand",
        "reservation_id": None,
        "placement_group": None,
    }
    plain |= fields
    instance = Instance(
        provider_id="aws:///us-west-2b/i-1",
        instance_type="m5.large",
        zone="us-west-2b",
        capacity_type=plain["capacity_type"],
        state=InstanceState.RUNNING,
        launched_s=0,
        image_id=plain["image_id"],
        reservation_id=plain["reservation_id"],
    )
    return EC2Instance(
        "i-1",
        instance,
        plain["subnet_id"],
        frozenset(plain["security_groups"]),
        {},
        placement_group=plain["placement_group"],
    )


def reason(found: EC2Instance, **spec: Any) -> str | None:
    node_class = resolved(spec.pop("status", None), **spec)
    known = {each.name: each for each in types(node_class)}
    return drift.reason(claim(), node_class, found, instance_type=known["m5.large"])


@pytest.mark.fact("aws-6.3.1")
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"image_id": "ami-old"}, "AMIDrift"),
        ({"image_id": "ami-arm"}, "AMIDrift"),
        ({"security_groups": {"sg-1"}}, "SecurityGroupDrift"),
        ({"security_groups": {"sg-1", "sg-2", "sg-3"}}, "SecurityGroupDrift"),
        ({"subnet_id": "subnet-z"}, "SubnetDrift"),
        ({"image_id": "ami-old", "subnet_id": "subnet-z"}, "AMIDrift"),
        ({"security_groups": set(), "subnet_id": "subnet-z"}, "SecurityGroupDrift"),
        ({"capacity_type": "reserved", "reservation_id": "cr-1"}, "CapacityReservationDrift"),
        ({"capacity_type": "on-demand", "reservation_id": "cr-1"}, None),
        ({"placement_group": ("pg-1", "wide")}, "PlacementGroupDrift"),
        ({"placement_group": ("pg-1", "wide"), "subnet_id": "subnet-z"}, "SubnetDrift"),
        (
            {"capacity_type": "reserved", "reservation_id": "cr-1", "placement_group": ("pg-1", "wide")},
            "CapacityReservationDrift",
        ),
    ],
)
def test_drift_reason_is_the_first_difference(fields: dict[str, Any], expected: str | None) -> None:
    assert reason(ec2_instance(**fields)) == expected


@pytest.mark.fact("aws-6.3.1")
@pytest.mark.parametrize("selector", [{"id": "pg-1"}, {"name": "wide"}])
@pytest.mark.parametrize(
    ("found", "drifts"),
    [
        (("pg-1", "wide"), False),
        (("", "wide"), False),
        (("pg-1", ""), False),
        (("pg-2", "narrow"), True),
        (None, True),
    ],
)
def test_instance_outside_the_placement_group_of_its_class_drifts(
    selector: dict[str, str], found: tuple[str, str] | None, *, drifts: bool
) -> None:
    expected = "PlacementGroupDrift" if drifts else None
    assert reason(ec2_instance(placement_group=found), placementGroupSelector=selector) == expected


@pytest.mark.fact("aws-6.3.5", "aws-1.6.3a")
@pytest.mark.parametrize(
    ("version", "value", "expected"),
    [
        (class_hash.VERSION, "another", "NodeClassDrift"),
        ("v6", "another", None),
        (class_hash.VERSION, None, None),
        (None, "another", None),
    ],
)
def test_only_hashes_of_the_current_version_are_compared(
    version: str | None, value: str | None, expected: str | None
) -> None:
    annotations = {
        "karpenter.k8s.aws/ec2nodeclass-hash": value,
        "karpenter.k8s.aws/ec2nodeclass-hash-version": version,
    }
    annotated_claim = claim(meta={"annotations": {key: word for key, word in annotations.items() if word}})
    assert drift.reason(annotated_claim, resolved(), ec2_instance(), instance_type=None) == expected


def test_drift_compares_the_hash_annotations_of_the_launch() -> None:
    annotated_claim = claim(meta={"annotations": class_hash.annotations(resolved())})
    assert drift.reason(annotated_claim, resolved(), ec2_instance(), instance_type=None) is None
    changed = drift.reason(annotated_claim, resolved(userData="x"), ec2_instance(), instance_type=None)
    assert changed == "NodeClassDrift"


@pytest.mark.fact("aws-6.3.4")
@pytest.mark.parametrize("missing", ["amis", "subnets", "securityGroups"])
def test_unresolved_ec2nodeclass_causes_no_drift(missing: str) -> None:
    node_class = resolved({missing: []})
    with pytest.raises(errors.NotReady):
        drift.reason(claim(), node_class, ec2_instance(), instance_type=None)


@pytest.mark.fact("aws-6.3.2")
def test_selected_reservation_causes_no_drift() -> None:
    listed = {
        "id": "cr-1",
        "availabilityZone": "us-west-2b",
        "instanceType": "m5.large",
        "instanceMatchCriteria": "open",
        "ownerID": "111122223333",
    }
    node_class = selecting(status={"capacityReservations": [listed]})
    found = ec2_instance(capacity_type="reserved", reservation_id="cr-1")
    assert drift.reason(claim(), node_class, found, instance_type=None) is None


def test_with_unknown_instance_type_any_image_of_the_ec2nodeclass_is_accepted() -> None:
    arm = [{"id": "ami-1", "requirements": [requirement("kubernetes.io/arch", "In", "arm64")]}]
    node_class = resolved(STATUS | {"amis": arm})
    assert drift.reason(claim(), node_class, ec2_instance(image_id="ami-1"), instance_type=None) is None


def test_reasons_of_instances_that_are_not_listed_are_forgotten() -> None:
    node_class = resolved()
    known = {each.name: each for each in types(node_class)}["m5.large"]
    reasons = drift.Reasons()
    for number in range(5):
        one = dataclasses.replace(ec2_instance(), id=f"i-{number}")
        reasons.reason(claim(), node_class, one, instance_type=known)
    reasons.forget_all_but({"i-3": None, "i-9": None}.keys())
    assert len(reasons) == 1
