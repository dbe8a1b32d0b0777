"""Preflight reports pairs of NodePool and EC2NodeClass that can never launch a node, and no other pairs."""

from typing import Any

import pytest

from builders import ec2nodeclass, nodepool, requirement
from holdfast import names
from holdfast.api import aws
from holdfast.api.findings import Finding
from holdfast.cloud.aws.nodeclass import preflight

RESERVED_ONLY = requirement(names.CAPACITY_TYPE, "In", "reserved")
BY_ID = [{"id": "cr-1"}, {"id": "cr-2"}]
BY_TAG = [{"id": "cr-1"}, {"tags": {"team": "*"}}]
RESERVATION = {
    "id": "cr-1",
    "availabilityZone": "us-west-2a",
    "instanceType": "p5.48xlarge",
    "instanceMatchCriteria": "targeted",
    "ownerID": "111122223333",
    "reservationType": "capacity-block",
}


def problems(
    *requirements: dict[str, Any], labels: dict[str, str] | None = None, **spec: Any
) -> list[Finding]:
    pool = nodepool(requirements=list(requirements), labels=labels or {})
    return list(preflight.problems(pool, ec2nodeclass(**spec)))


IMPOSSIBLE = {
    "reserved only, and the class selects no reservations": ([RESERVED_ONLY], {}),
    "reserved only, and the class is in direct mode": (
        [RESERVED_ONLY],
        {"capacityReservationSpec": {"capacityReservationPreference": "open"}},
    ),
    "a reservation that the class does not select": (
        [requirement(aws.CAPACITY_RESERVATION_ID, "In", "cr-9")],
        {"capacityReservationSelectorTerms": BY_ID},
    ),
    "reservation labels with on-demand only": (
        [
            requirement(names.CAPACITY_TYPE, "In", "on-demand"),
            requirement(aws.CAPACITY_RESERVATION_TYPE, "In", "capacity-block"),
        ],
        {"capacityReservationSelectorTerms": BY_TAG},
    ),
    "spot with a reservation target": (
        [requirement(names.CAPACITY_TYPE, "In", "spot")],
        {"capacityReservationSpec": {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}},
    ),
    "arm64 with Windows images": (
        [requirement(names.ARCH, "In", "arm64")],
        {"amiSelectorTerms": [{"alias": "windows2022@latest"}]},
    ),
    "linux with Windows images": (
        [requirement(names.OS, "In", "linux")],
        {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "Windows2019"},
    ),
    "windows with Bottlerocket images": (
        [requirement(names.OS, "In", "windows")],
        {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
    ),
    "an architecture that no resolved image has": (
        [requirement(names.ARCH, "In", "arm64")],
        {"status": {"amis": [{"id": "ami-1", "requirements": [requirement(names.ARCH, "In", "amd64")]}]}},
    ),
    "a zone without a subnet": (
        [requirement(names.ZONE, "In", "us-west-2c")],
        {"status": {"subnets": [{"id": "subnet-1", "zone": "us-west-2a"}]}},
    ),
    "a zone id without a subnet": (
        [requirement(aws.ZONE_ID, "In", "usw2-az3")],
        {"status": {"subnets": [{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az1"}]}},
    ),
    "default reservations where only a capacity block was found": (
        [RESERVED_ONLY, requirement(aws.CAPACITY_RESERVATION_TYPE, "In", "default")],
        {"capacityReservationSelectorTerms": BY_ID, "status": {"capacityReservations": [RESERVATION]}},
    ),
    "an instance type that no reservation holds": (
        [RESERVED_ONLY, requirement(names.INSTANCE_TYPE, "In", "m5.large")],
        {"capacityReservationSelectorTerms": BY_ID, "status": {"capacityReservations": [RESERVATION]}},
    ),
    "reserved only, and no subnet where the reservation is": (
        [RESERVED_ONLY],
        {
            "capacityReservationSelectorTerms": BY_ID,
            "status": {
                "capacityReservations": [RESERVATION],
                "subnets": [{"id": "subnet-1", "zone": "us-west-2b"}],
            },
        },
    ),
}


@pytest.mark.fact("Q-44")
@pytest.mark.parametrize(("requirements", "spec"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_impossible_pair_is_reported_once(requirements: list[dict[str, Any]], spec: dict[str, Any]) -> None:
    found = problems(*requirements, **spec)
    assert len(found) == 1
    assert "can never launch with EC2NodeClass/default" in found[0].message
    assert found[0].path[:4] == ("spec", "template", "spec", "requirements")


POSSIBLE = {
    "no requirements": ([], {}),
    "reserved only, selected by tags": ([RESERVED_ONLY], {"capacityReservationSelectorTerms": BY_TAG}),
    "any reservation by tags": (
        [requirement(aws.CAPACITY_RESERVATION_ID, "In", "cr-9")],
        {"capacityReservationSelectorTerms": BY_TAG},
    ),
    "capacity blocks, none found yet": (
        [requirement(aws.CAPACITY_RESERVATION_TYPE, "In", "capacity-block")],
        {"capacityReservationSelectorTerms": BY_ID},
    ),
    "on-demand beside reserved, and no reservation": (
        [requirement(names.CAPACITY_TYPE, "In", "on-demand", "reserved")],
        {},
    ),
    "images not resolved yet": (
        [requirement(names.OS, "In", "windows"), requirement(names.ARCH, "In", "arm64")],
        {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "Custom"},
    ),
    "the resolved reservation": (
        [RESERVED_ONLY, requirement(names.ZONE, "In", "us-west-2a")],
        {
            "capacityReservationSelectorTerms": BY_ID,
            "status": {
                "capacityReservations": [RESERVATION],
                "subnets": [{"id": "subnet-1", "zone": "us-west-2a", "zoneID": "usw2-az1"}],
            },
        },
    ),
    "another zone than the reservation's, on demand": (
        [requirement(names.ZONE, "In", "us-west-2b")],
        {
            "capacityReservationSelectorTerms": BY_ID,
            "status": {
                "capacityReservations": [RESERVATION],
                "subnets": [{"id": "subnet-1", "zone": "us-west-2b"}],
            },
        },
    ),
}


@pytest.mark.fact("Q-44")
@pytest.mark.parametrize(("requirements", "spec"), POSSIBLE.values(), ids=POSSIBLE)
def test_possible_pair_is_not_reported(requirements: list[dict[str, Any]], spec: dict[str, Any]) -> None:
    assert problems(*requirements, **spec) == []


def test_selector_terms_are_suggested_only_if_reserved_is_required() -> None:
    assert "capacityReservationSelectorTerms" in problems(RESERVED_ONLY)[0].message
    target = {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}
    spot = requirement(names.CAPACITY_TYPE, "In", "spot")
    assert "SelectorTerms" not in problems(spot, capacityReservationSpec=target)[0].message


def test_finding_points_to_the_label_of_the_template() -> None:
    found = problems(labels={names.ARCH: "arm64"}, amiSelectorTerms=[{"alias": "windows2025@latest"}])
    assert found[0].path == ("spec", "template", "metadata", "labels", names.ARCH)


@pytest.mark.fact("C-11")
def test_nodepool_with_a_foreign_nodeclass_is_reported_as_ignored() -> None:
    reference = {"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": "default"}
    found = list(preflight.reference_problems(nodepool(nodeClassRef=reference)))
    assert "leaves this NodePool alone" in found[0].message
    assert not list(preflight.reference_problems(nodepool()))


@pytest.mark.fact("aws-1.2.7", "aws-1.2.8")
def test_invalid_selector_terms_that_the_cel_rules_accept_are_reported() -> None:
    terms = [{"id": "subnet-1", "tags": {"a": "b"}}, {"tags": {}}, {"id": "subnet-2"}]
    found = list(preflight.class_problems(ec2nodeclass(subnetSelectorTerms=terms)))
    assert [finding.path for finding in found] == [
        ("spec", "subnetSelectorTerms", 0),
        ("spec", "subnetSelectorTerms", 1),
    ]
