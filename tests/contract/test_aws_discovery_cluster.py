"""What the settings, our own connection and EKS say of the cluster; EKS is asked over the full wire."""

import base64
from typing import Any

import pytest

import aws_world
from aws_world import World, ca_bundle, condition, run
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.cloud.aws.nodeclass import identity, resolve
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.nodeclass.identity import Given, Identity
from holdfast.sim.aws import eks
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import Fault, NoFaults

FAMILIES = ("al2023@latest", "bottlerocket@latest", "windows2022@latest")


def world(**fields: Any) -> World:
    """EKS knows the cluster `demo`."""
    made = World()
    known = aws_world.eks_cluster("demo", endpoint="https://demo.example", **fields)
    made.endpoint.services = {**made.endpoint.services, "eks": eks.Eks([known])}
    return made


def of(made: World, name: str = "demo", **given: Any) -> Identity:
    return Identity(made.calls, Given(name=name, **given), made.clock)


def read(made: World, name: str = "demo", **given: Any) -> Cluster:
    return run(of(made, name, **given).read())


def verdict(made: World, found: Identity, alias: str = "al2023@latest", **spec: Any) -> tuple[str, str]:
    """Status and reason of the condition that a class of that image has."""
    setup = Setup(cluster="demo", tags={}, kubernetes=lambda: "1.36", identity=found)
    made.discovery = Discovery(made.calls, setup, caches=made.caches, clock=made.clock, recorder=made.records)
    terms = {"amiSelectorTerms": [{"alias": alias}]} | spec
    return condition(made.resolve(made.node_class(**terms)), resolve.VALIDATION)[:2]


@pytest.mark.fact("aws-9.2.2", "aws-1.5.1")
def test_what_the_settings_leave_out_is_learned_from_eks() -> None:
    found = read(world())
    assert (found.endpoint, found.ca_bundle) == ("https://demo.example", aws_world.CA_BUNDLE)
    assert (found.service_cidr, found.ipv6) == ("10.100.0.0/16", False)


@pytest.mark.fact("aws-9.2.2")
def test_a_setting_wins() -> None:
    mine = {"endpoint": "https://mine.example", "ca_bundle": ca_bundle("mine"), "dns_ip": "10.100.0.10"}
    found = read(world(), **mine)
    assert (found.endpoint, found.ca_bundle, found.dns_ip) == tuple(mine.values())
    assert found.service_cidr == "10.100.0.0/16"
    assert not found.is_another


def test_the_ca_bundle_is_the_one_of_our_own_connection() -> None:
    pem = base64.b64decode(aws_world.CA_BUNDLE).decode()
    rotated = identity.encoded(pem + base64.b64decode(ca_bundle("next")).decode())
    found = read(world(), connection_ca_bundle=rotated)
    assert (found.ca_bundle, found.is_another) == (rotated, False)


def test_a_cluster_of_eks_with_another_ca_is_another_cluster() -> None:
    made = world()
    found = of(made, connection_ca_bundle=ca_bundle("ours"))
    assert verdict(made, found) == ("False", "ClusterMismatch")
    assert run(found.read()).endpoint


def test_eks_is_not_asked_for_what_is_set() -> None:
    made = world()
    found = read(
        made,
        "mine",
        endpoint="https://mine.example",
        connection_ca_bundle=ca_bundle("mine"),
        service_cidr="fd00::/108",
    )
    assert found.problem("AL2023") is None
    assert found.ipv6
    assert made.asked("DescribeCluster") == 0


@pytest.mark.fact("aws-9.2.2", "aws-1.5.1")
@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, dict.fromkeys(FAMILIES, "ClusterEndpointResolutionFailed")),
        ({"endpoint": "https://mine.example"}, dict.fromkeys(FAMILIES, "ClusterCABundleResolutionFailed")),
        (
            {"endpoint": "https://mine.example", "connection_ca_bundle": ca_bundle("mine")},
            {"al2023@latest": "ClusterCIDRResolutionFailed"},
        ),
    ],
    ids=["nothing", "endpoint", "endpoint and CA bundle"],
)
def test_each_family_needs_what_its_image_needs(given: dict[str, str], refused: dict[str, str]) -> None:
    for alias in FAMILIES:
        made = world()
        made.endpoint.faults = Denied()
        expected = ("False", refused[alias]) if alias in refused else ("True", "ValidationSucceeded")
        assert verdict(made, of(made, **given), alias) == expected


def test_custom_user_data_needs_nothing() -> None:
    made = world()
    image = made.ec2.world.setup.images[0].id
    spec: dict[str, Any] = {"amiFamily": "Custom", "amiSelectorTerms": [{"id": image}]}
    assert verdict(made, of(made, "typo"), **spec)[0] == "True"


@pytest.mark.fact("aws-9.2.2")
def test_a_name_that_eks_does_not_know_is_refused_for_every_family() -> None:
    for alias in FAMILIES:
        made = world()
        found = of(made, "typo", endpoint="https://mine.example")
        assert verdict(made, found, alias) == ("False", "ClusterNotFound")


def test_eks_is_asked_again_at_most_once_a_minute() -> None:
    made = world()
    found = of(made, "typo")
    for _ in range(600):
        run(found.read())
        made.clock.advance(1)
    assert 10 <= made.asked("DescribeCluster") <= 10 + 5  # sooner after the first failures


@pytest.mark.parametrize(
    "bundle", ["", "%%%", "Y2E=", base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()]
)
def test_what_is_no_ca_bundle_is_not_taken_for_one(bundle: str) -> None:
    assert not identity.certificates(bundle)
    assert read(world(certificate_authority=bundle)).ca_bundle == ""


class Denied(NoFaults):
    def fault(self, service: str, *_: object) -> Fault | ApiError | None:
        return ApiError("AccessDeniedException", "no", 403) if service == "eks" else None
