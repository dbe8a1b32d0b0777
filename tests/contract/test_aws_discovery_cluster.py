"""What EKS says of the cluster, asked over the full wire."""

from typing import Any

import pytest

from aws_world import World, condition, run
from holdfast import errors
from holdfast.cloud.aws import cluster_reading, resolve
from holdfast.cloud.aws.cluster_reading import Told
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.sim.aws import eks
from holdfast.sim.aws.endpoint import Endpoint


def world(**fields: Any) -> World:
    """A world where EKS knows the cluster `demo`."""
    made = World()
    known = eks.Cluster(
        name="demo",
        region="us-west-2",
        version="1.36",
        endpoint="https://demo.example",
        certificate_authority="Q0E=",
        created_s=0,
        **fields,
    )
    add(made.endpoint, eks.Eks([known]))
    return made


def add(endpoint: Endpoint, service: eks.Eks) -> None:
    endpoint.services = {**endpoint.services, "eks": service}


@pytest.mark.fact("aws-9.2.2", "aws-1.5.1")
def test_what_the_settings_leave_out_eks_tells() -> None:
    found = run(cluster_reading.read(world().calls, Told("demo")))
    assert (found.endpoint, found.ca_bundle, found.service_cidr) == (
        "https://demo.example",
        "Q0E=",
        "10.100.0.0/16",
    )


@pytest.mark.fact("aws-9.2.2")
def test_what_the_settings_say_wins() -> None:
    told = Told("demo", endpoint="https://mine.example", ca_bundle="TUlORQ==", dns_ip="10.100.0.10")
    found = run(cluster_reading.read(world().calls, told))
    assert (found.endpoint, found.ca_bundle, found.dns_ip) == (
        "https://mine.example",
        "TUlORQ==",
        "10.100.0.10",
    )
    assert found.service_cidr == "10.100.0.0/16"


@pytest.mark.fact("aws-9.2.2")
def test_a_cluster_that_eks_does_not_know_has_to_be_in_the_settings() -> None:
    with pytest.raises(errors.InvalidInput, match="CLUSTER_ENDPOINT"):
        run(cluster_reading.read(world().calls, Told("mine")))
    found = run(cluster_reading.read(world().calls, Told("mine", endpoint="https://mine.example")))
    assert (found.endpoint, found.service_cidr) == ("https://mine.example", None)


@pytest.mark.fact("aws-1.5.1")
def test_without_service_addresses_al2023_is_not_valid_and_others_are() -> None:
    made = World()
    told = Setup(cluster="mine", tags={}, kubernetes=lambda: "1.36", service_cidr_known=False)
    made.discovery = Discovery(made.calls, told, clock=made.clock, recorder=made.records)
    al2023 = made.resolve(made.node_class())
    assert condition(al2023, resolve.VALIDATION)[:2] == ("False", "ClusterCIDRResolutionFailed")
    rocket = made.resolve(made.node_class(amiSelectorTerms=[{"alias": "bottlerocket@latest"}]))
    assert condition(rocket, resolve.VALIDATION)[0] == "True"
