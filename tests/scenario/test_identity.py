"""A wrong or unreadable cluster identity causes no drift and no useless launches. In virtual time."""

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

import app_environment
import aws_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api import claim_conditions, conditions
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.app.settings import Settings
from holdfast.cloud.aws.nodeclass import class_hash
from holdfast.sim.aws import eks
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.faults import Fault, NoFaults
from holdfast.sim.aws.service import Caller

# As in a usual deployment: the CA bundle comes from the service account, everything else from EKS.
READ_FROM_EKS = dataclasses.replace(
    app_environment.SETTINGS,
    cluster_endpoint="",
    cluster_ca_bundle="",
    service_cidr=None,
    api_server_ca_bundle=aws_environment.CA_BUNDLE,
)
CLUSTER = aws_environment.eks_cluster(app_environment.NAME)
HASH = "karpenter.k8s.aws/ec2nodeclass-hash"
VERSION = "karpenter.k8s.aws/ec2nodeclass-hash-version"


class Refused(NoFaults):
    """EKS answers every call with a fault."""

    def __init__(self, fault: Fault | ApiError) -> None:
        self._fault = fault

    def fault(self, service: str, _: str, __: Mapping[str, Any], /) -> Fault | ApiError | None:
        return self._fault if service == "eks" else None


class Garbage(eks.Eks):
    """EKS answers with an invalid document."""

    def call(self, _: str, __: Mapping[str, Any], ___: Caller) -> dict[str, Any]:
        return {}


REWRAPPED = base64.b64encode(base64.b64decode(aws_environment.CA_BUNDLE).replace(b"\n", b"\r\n")).decode()
DENIED = Refused(ApiError("AccessDeniedException", "not authorized to perform: eks:DescribeCluster", 403))
THROTTLED = Refused(Fault.THROTTLED)
KNOWN = eks.Eks([CLUSTER])
PROBLEMS = {
    "denied": (DENIED, KNOWN, "False", "ClusterEndpointResolutionFailed"),
    "throttled": (THROTTLED, KNOWN, "Unknown", "ClusterEndpointResolutionFailed"),
    "name that EKS does not know": (NoFaults(), eks.Eks([]), "False", "ClusterNotFound"),
    "garbage": (NoFaults(), Garbage([]), "Unknown", "ClusterEndpointResolutionFailed"),  # counts as no answer
    "no endpoint": (
        NoFaults(),
        eks.Eks([dataclasses.replace(CLUSTER, endpoint="")]),
        "False",
        "ClusterEndpointResolutionFailed",
    ),
    "endpoint is not a URL": (
        NoFaults(),
        eks.Eks([dataclasses.replace(CLUSTER, endpoint="example")]),
        "False",
        "ClusterEndpointResolutionFailed",
    ),
    "no service CIDR": (
        NoFaults(),
        eks.Eks([dataclasses.replace(CLUSTER, service_ipv4_cidr="none")]),
        "False",
        "ClusterCIDRResolutionFailed",
    ),
    "another cluster": (
        NoFaults(),
        eks.Eks([dataclasses.replace(CLUSTER, certificate_authority=aws_environment.ca_bundle("another"))]),
        "False",
        "ClusterMismatch",
    ),
}


def set_eks(env: AppEnvironment, faults: Any, service: eks.Eks) -> None:
    """Replace the faults and the answers of EKS."""
    env.endpoint.faults = faults
    env.endpoint.services = {**env.endpoint.services, "eks": service}


async def ready(env: AppEnvironment) -> str:
    node_class = await env.kube.get(EC2NodeClass, "default")
    found = conditions.find(node_class.status.conditions, conditions.READY)
    return found.status if found else ""


async def validation(env: AppEnvironment) -> tuple[str, str, str]:
    node_class = await env.kube.get(EC2NodeClass, "default")
    found = conditions.find(node_class.status.conditions, "ValidationSucceeded")
    assert found is not None
    return found.status, found.reason or "", found.message or ""


async def pool(env: AppEnvironment) -> None:
    requirements = [instance_types("m5.large"), capacity_types("on-demand")]
    await env.node_pool(requirements=requirements, disruption={"consolidateAfter": "Never"})


async def no_claim_drifted(env: AppEnvironment) -> bool:
    return all(
        not conditions.holds(claim.status.conditions, claim_conditions.DRIFTED)
        for claim in await env.claims()
    )


def test_endpoint_and_service_cidr_are_read_from_eks_once() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await pool(env)
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        await env.sleep(3600)
        assert env.asked("DescribeCluster") == 1

    app_environment.run(program, settings=READ_FROM_EKS)


@pytest.mark.fact("aws-9.2.2", "aws-1.5.1")
@pytest.mark.parametrize("problem", PROBLEMS)
def test_unknown_identity_launches_nothing_and_recovers_without_a_restart(problem: str) -> None:
    async def program(env: AppEnvironment) -> None:
        faults, service, status, reason = PROBLEMS[problem]
        set_eks(env, faults, service)
        await env.node_class()
        await pool(env)
        await env.deploy("web", 2, cpu="1500m")
        await env.sleep(900)
        assert env.all_ec2_instances() == []
        assert await ready(env) == status
        found = await validation(env)
        assert found[:2] == (status, reason)
        assert app_environment.NAME in found[2]
        assert env.asked("DescribeCluster") <= 4 * 25  # each read is tried four times
        set_eks(env, NoFaults(), KNOWN)
        await env.until_running(2, within_s=200)

    app_environment.run(program, settings=READ_FROM_EKS)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_unknown_identity_after_a_restart_does_not_disrupt_running_nodes(problem: str) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await pool(env)
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        before = {one.id for one in env.ec2_instances}
        hashes = {c.metadata.name: c.metadata.annotations[HASH] for c in await env.claims()}
        faults, service, status, reason = PROBLEMS[problem]
        set_eks(env, faults, service)
        await env.restart()
        await env.deploy("more", 1, cpu="1500m")
        for _ in range(30):
            await env.sleep(30)
            assert await no_claim_drifted(env)
        assert {one.id for one in env.all_ec2_instances()} == before
        assert (await validation(env))[:2] == (status, reason)
        assert {c.metadata.name: c.metadata.annotations[HASH] for c in await env.claims()} == hashes
        set_eks(env, NoFaults(), KNOWN)
        await env.until_running(1, "more", within_s=200)
        assert before < {one.id for one in env.ec2_instances}

    app_environment.run(program, settings=READ_FROM_EKS)


@pytest.mark.fact("aws-1.6.1")
@pytest.mark.parametrize(
    "settings",
    [
        dataclasses.replace(READ_FROM_EKS, api_server_ca_bundle=""),  # the CA bundle comes from EKS
        dataclasses.replace(READ_FROM_EKS, api_server_ca_bundle=REWRAPPED),
        dataclasses.replace(READ_FROM_EKS, cluster_ca_bundle=aws_environment.CA_BUNDLE),
        dataclasses.replace(app_environment.SETTINGS, cluster_endpoint=aws_environment.CLUSTER_ENDPOINT),
    ],
    ids=["EKS", "other line ends", "setting", "all set"],
)
def test_source_of_the_identity_does_not_change_the_hash(settings: Settings) -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await pool(env)
        await env.deploy("web", 1)
        await env.until_running(1)
        (claim,) = await env.claims()
        env.settings = settings
        await env.restart()
        await env.sleep(700)
        (after,) = await env.claims()
        assert after.metadata.annotations[HASH] == claim.metadata.annotations[HASH]
        assert await no_claim_drifted(env)
        assert await ready(env) == "True"

    app_environment.run(program, settings=READ_FROM_EKS)


def test_eks_is_not_called_if_all_settings_are_set() -> None:
    async def program(env: AppEnvironment) -> None:
        set_eks(env, DENIED, eks.Eks([]))
        await env.node_class()
        await pool(env)
        await env.deploy("web", 1)
        await env.until_running(1)
        assert env.asked("DescribeCluster") == 0

    app_environment.run(program)


@pytest.mark.fact("aws-1.6.2")
def test_nodeclaims_with_a_hash_of_an_older_version_get_a_new_hash_and_do_not_drift() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await pool(env)
        await env.deploy("web", 1)
        await env.until_running(1)
        (claim,) = await env.claims()
        older = {"metadata": {"annotations": {HASH: "with the CA bundle", VERSION: "holdfast-v1"}}}
        env.crash()
        await env.kube.patch(claim, older)
        await env.kube.patch(await env.kube.get(EC2NodeClass, "default"), older)
        await env.restart()
        await env.sleep(700)
        (after,) = await env.claims()
        assert after.metadata.annotations[VERSION] == class_hash.VERSION
        assert after.metadata.annotations[HASH] == claim.metadata.annotations[HASH]
        assert await no_claim_drifted(env)
        assert len(env.all_ec2_instances()) == 1

    app_environment.run(program)
