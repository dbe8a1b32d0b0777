"""Endpoint, CA bundle and service CIDR from the settings, the controller's connection and EKS, over the full wire."""

import base64
from typing import Any

import pytest

import aws_environment
from aws_environment import Environment, ca_bundle, condition, run
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.cloud.aws.nodeclass import identity, resolve
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.cloud.aws.nodeclass.identity import Given, Identity
from holdfast.sim.aws import eks
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import Fault, NoFaults

FAMILIES = ("al2023@latest", "bottlerocket@latest", "windows2022@latest")


def env(**fields: Any) -> Environment:
    """An AWS whose EKS has the cluster `demo`."""
    made = Environment()
    known = aws_environment.eks_cluster("demo", endpoint="https://demo.example", **fields)
    made.endpoint.services = {**made.endpoint.services, "eks": eks.Eks([known])}
    return made


def identity_of(made: Environment, name: str = "demo", **given: Any) -> Identity:
    return Identity(made.calls, Given(name=name, **given), made.clock)


def read_cluster(made: Environment, name: str = "demo", **given: Any) -> Cluster:
    return run(identity_of(made, name, **given).read())


def verdict(made: Environment, found: Identity, alias: str = "al2023@latest", **spec: Any) -> tuple[str, str]:
    """Status and reason of ValidationSucceeded for a class with that image."""
    setup = Setup(cluster=Cluster(name="demo", endpoint=""), kubernetes=lambda: "1.36", identity=found)
    made.discovery = Discovery(made.calls, setup, caches=made.caches, clock=made.clock, recorder=made.records)
    terms = {"amiSelectorTerms": [{"alias": alias}]} | spec
    return condition(made.resolve(made.node_class(**terms)), resolve.VALIDATION)[:2]


@pytest.mark.fact("aws-9.2.2", "aws-1.5.1")
def test_missing_settings_are_read_from_eks() -> None:
    found = read_cluster(env())
    assert (found.endpoint, found.ca_bundle) == ("https://demo.example", aws_environment.CA_BUNDLE)
    assert (found.service_cidr, found.ipv6) == ("10.100.0.0/16", False)


@pytest.mark.fact("aws-9.2.2")
def test_setting_has_precedence_over_eks() -> None:
    settings = {"endpoint": "https://mine.example", "ca_bundle": ca_bundle("mine"), "dns_ip": "10.100.0.10"}
    found = read_cluster(env(), **settings)
    assert (found.endpoint, found.ca_bundle, found.dns_ip) == tuple(settings.values())
    assert found.service_cidr == "10.100.0.0/16"
    assert not found.is_another


def test_ca_bundle_of_the_controllers_own_connection_is_used() -> None:
    pem = base64.b64decode(aws_environment.CA_BUNDLE).decode()
    rotated = identity.encoded(pem + base64.b64decode(ca_bundle("next")).decode())
    found = read_cluster(env(), connection_ca_bundle=rotated)
    assert (found.ca_bundle, found.is_another) == (rotated, False)


def test_eks_cluster_with_another_ca_is_a_mismatch() -> None:
    made = env()
    found = identity_of(made, connection_ca_bundle=ca_bundle("ours"))
    assert verdict(made, found) == ("False", "ClusterMismatch")
    assert run(found.read()).endpoint


def test_eks_is_not_called_when_everything_is_set() -> None:
    made = env()
    found = read_cluster(
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
def test_missing_cluster_data_fails_the_image_families_that_need_it(
    given: dict[str, str], refused: dict[str, str]
) -> None:
    for alias in FAMILIES:
        made = env()
        made.endpoint.faults = Denied()
        expected = ("False", refused[alias]) if alias in refused else ("True", "ValidationSucceeded")
        assert verdict(made, identity_of(made, **given), alias) == expected


def test_custom_image_family_needs_no_cluster_data() -> None:
    made = env()
    image = made.ec2.region.setup.images[0].id
    spec: dict[str, Any] = {"amiFamily": "Custom", "amiSelectorTerms": [{"id": image}]}
    assert verdict(made, identity_of(made, "typo"), **spec)[0] == "True"


@pytest.mark.fact("aws-9.2.2")
def test_unknown_cluster_name_fails_every_image_family() -> None:
    for alias in FAMILIES:
        made = env()
        found = identity_of(made, "typo", endpoint="https://mine.example")
        assert verdict(made, found, alias) == ("False", "ClusterNotFound")


def test_eks_is_called_at_most_once_a_minute() -> None:
    made = env()
    found = identity_of(made, "typo")
    for _ in range(600):
        run(found.read())
        made.clock.advance(1)
    assert 10 <= made.asked("DescribeCluster") <= 10 + 5  # the first retries come sooner


@pytest.mark.parametrize(
    "bundle", ["", "%%%", "Y2E=", base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()]
)
def test_invalid_ca_bundle_is_ignored(bundle: str) -> None:
    assert not identity.certificates(bundle)
    assert read_cluster(env(certificate_authority=bundle)).ca_bundle == ""


class Denied(NoFaults):
    def fault(self, service: str, *_: object) -> Fault | ApiError | None:
        return ApiError("AccessDeniedException", "no", 403) if service == "eks" else None
