"""Runs the controller through launch, drain, reboot, interruption and termination, and compares the requests with the
rights in the chart and in `deploy/iam-policy.json`: every request is allowed, and every right is needed."""

import asyncio
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import app_environment
import aws_environment
import charts
import iam_rights
import process_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, kernel_is, pool
from holdfast.api.ec2nodeclass import EC2NodeClass, HoldfastNodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.app import rights as app_rights
from holdfast.sim.api.serving.front import Request
from holdfast.sim.aws.iam import Iam
from holdfast.sim.aws.policy import Access, Decision
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.setup import PlacementGroup
from holdfast.sim.guard import Guard
from process_environment import ProcessEnvironment

NAMESPACE = "kube-system"  # of the Lease, because the process in this test does not run in a pod
VERBS = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
OPEN = ("/version", "/apis")  # allowed for every authenticated user


@dataclass(frozen=True, order=True)
class Right:
    group: str
    resource: str
    verb: str
    name: str = ""  # empty: any name
    namespace: str = ""  # empty: all namespaces


NOT_USED_IN_THIS_RUN = (
    {
        Right("", "events", "patch"): "an equal event after two minutes",
        Right("", "pods", "get"): "a conflict over a uid: is it still that pod?",
        Right("", "pods", "delete"): "the grace period of a node is over",
        Right(
            "karpenter.sh", "nodeclaims", "delete"
        ): "a launch failed, a node never came, or a claim expired",
    }
    | {
        Right(group, resource, verb): "only if the API server serves this kind"
        for group, resource, verbs in (
            ("scheduling.k8s.io", "podgroups", ("list", "watch")),
            ("kueue.x-k8s.io", "workloads", ("list", "watch")),
            ("autoscaling.x-k8s.io", "provisioningrequests", ("get", "list", "watch")),
            ("autoscaling.x-k8s.io", "provisioningrequests/status", ("patch",)),
            ("", "podtemplates", ("list", "watch")),
        )
        for verb in verbs
    }
    | {
        Right(group, resource, verb): "only with a scheduler-config: who made a pod, and what selects it"
        for group, resources in {
            "": ("services", "replicationcontrollers"),
            "apps": ("deployments", "replicasets", "statefulsets"),
        }.items()
        for resource in resources
        for verb in ("list", "watch")
    }
)
# After a conflict the controller reads the object again; whether a run has a conflict depends on timing.
AFTER_A_CONFLICT = {
    Right("karpenter.sh", "nodeclaims", "get"),
    Right("karpenter.sh", "nodepools", "get"),
    Right("karpenter.k8s.aws", "ec2nodeclasses", "get"),
}
WITH_NODE_REPAIR = dataclasses.replace(
    app_environment.SETTINGS,
    interruption_queue=app_environment.QUEUE,
    disruption=dataclasses.replace(app_environment.SETTINGS.disruption, node_repair=True),
)
TIGHT = PlacementGroup(id="pg-0a1b2c3d4e5f60718", account=aws_environment.ACCOUNT, name="tight")


def rights(*arguments: str) -> set[Right]:
    """What the chart, with these arguments of helm, allows the ServiceAccount of the controller."""
    objects = charts.render("defaults", *arguments, namespace=NAMESPACE)
    account = charts.only(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"]
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    found = set()
    for binding in objects:
        if subject in binding.get("subjects", ()):
            role = charts.only(objects, binding["roleRef"]["kind"], binding["roleRef"]["name"])
            for rule in role["rules"]:
                found |= set(_rights(rule, role["metadata"].get("namespace", "")))
    return found


def _rights(rule: dict[str, Any], namespace: str) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Right(group, resource, verb, name, namespace)


def needed_right(request: Request) -> Right:
    """The right that a request needs."""
    parts = request.path.strip("/").split("/")
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = "/".join([rest[0], *rest[2:]])
    name = rest[1] if len(rest) > 1 else ""
    verb = VERBS.get(request.method) or ("watch" if "watch" in request.query else "get" if name else "list")
    return Right(group, resource, verb, name, namespace)


def allows(right: Right, wanted: Right) -> bool:
    return (
        (right.group, right.resource, right.verb) == (wanted.group, wanted.resource, wanted.verb)
        and right.name in ("", wanted.name)
        and right.namespace in ("", wanted.namespace)
    )


async def run_through_lifecycle(env: ProcessEnvironment) -> None:
    """Nodes are launched and drained, pods are evicted, the NodePool and the EC2NodeClass are deleted."""
    replica = await env.start()
    await env.node_class(capacityReservationSelectorTerms=[{"tags": {"team": "x"}}])
    await env.node_pool()
    await env.deploy("web", replicas=2, cpu="1500m")

    async def runs() -> bool:
        return await env.running_pods() == 2

    await env.until(runs, "the pods run")
    for claim in (await env.kube.list(NodeClaim)).items:
        await env.kube.delete(claim)

    async def moved() -> bool:
        claims = (await env.kube.list(NodeClaim)).items
        return bool(claims) and all(c.metadata.deletion_timestamp is None for c in claims) and await runs()

    await env.until(moved, "the pods run elsewhere")
    await env.kube.delete(await env.kube.get(NodePool, "default"))
    for claim in (await env.kube.list(NodeClaim)).items:
        await env.kube.delete(claim)
    await env.kube.delete(await env.kube.get(EC2NodeClass, "default"))

    async def ended() -> bool:
        return not (await env.kube.list(EC2NodeClass)).items

    await env.until(ended, "the class is gone")
    assert await replica.stop() == 0


async def repair_and_interrupt(env: AppEnvironment) -> None:
    """A node is rebooted; a Spot instance in a placement group is interrupted."""
    region = env.ec2.region
    region.setup = dataclasses.replace(region.setup, placement_groups=(TIGHT,))
    await pool(env, env.reserve(total=1), kinds=("reserved",))
    await env.deploy("web", 1, **ONE_PER_NODE)
    await env.until_running(1)
    await kernel_is(env, "False")

    async def rebooted() -> bool:
        return env.ec2_instances[0].boots > 1

    await env.until(rebooted, within_s=3600)
    await kernel_is(env, "True")
    await env.until_running(1)
    await env.node_class("tight", placementGroupSelector={"name": TIGHT.name})
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "tight"}
    spot = [app_environment.instance_types("m5.large"), app_environment.capacity_types("spot")]
    await env.node_pool("tight", nodeClassRef=reference, requirements=spot)
    await env.deploy("batch", 1, **ONE_PER_NODE)
    await env.until_running(1, "batch")
    (interrupted,) = [one for one in env.ec2_instances if one.lifecycle == "spot"]
    control.interrupt_spot(region, interrupted.id)

    async def is_terminated() -> bool:
        return all(one.id != interrupted.id for one in env.ec2_instances)

    await env.until(is_terminated)
    await env.until_running(1, "batch")


@pytest.fixture(scope="module")
def controller_run(tmp_path_factory: pytest.TempPathFactory) -> ProcessEnvironment:
    """The simulated cluster and AWS after a run of the controller."""

    async def main() -> ProcessEnvironment:
        async with process_environment.serving(tmp_path_factory.mktemp("world")) as env:
            cloud = env.cloud
            cloud.endpoint.guard = Guard(iam_rights.published(), ec2=cloud.ec2, iam=cloud.iam)
            await run_through_lifecycle(env)
            return env

    return asyncio.run(main())


@pytest.mark.fact("aws-10.3.2", "aws-10.3.3", "aws-10.3.4")
def test_rbac_rules_allow_exactly_the_requests_of_the_controller(controller_run: ProcessEnvironment) -> None:
    wanted = {needed_right(request) for request in controller_run.front.asked if request.path not in OPEN}
    given = rights()
    assert [one for one in sorted(wanted) if not any(allows(right, one) for right in given)] == []
    unused = {right for right in given if not any(allows(right, one) for one in wanted)}
    assert unused - AFTER_A_CONFLICT == set(NOT_USED_IN_THIS_RUN)


def test_table_of_rights_is_what_is_installed() -> None:
    """`holdfast doctor` checks the rights of the table."""
    table = {dataclasses.astuple(right) for right in app_rights.needed()}
    assert table == {dataclasses.astuple(right) for right in rights()}
    beside = {dataclasses.astuple(right) for right in app_rights.needed(node_class=HoldfastNodeClass)}
    installed = rights("--set", "settings.besideKarpenter=true")
    assert beside == {dataclasses.astuple(right) for right in installed}
    assert "karpenter.k8s.aws" not in {right.group for right in installed}


@pytest.fixture(scope="module")
def decided(controller_run: ProcessEnvironment) -> list[tuple[Access, Decision]]:
    """Decisions of the policy in that run, and in one with a reboot and an interruption."""
    guards = [controller_run.cloud.endpoint.guard]

    async def guarded(env: AppEnvironment) -> None:
        roles = env.endpoint.services["iam"]
        assert isinstance(roles, Iam)
        published = iam_rights.published(NODE_ROLE=aws_environment.ROLE, QUEUE=app_environment.QUEUE)
        env.endpoint.guard = Guard(published, ec2=env.ec2, iam=roles)
        guards.append(env.endpoint.guard)
        await repair_and_interrupt(env)

    app_environment.run(guarded, settings=WITH_NODE_REPAIR)
    return [one for guard in guards if isinstance(guard, Guard) for one in guard.decided]


@pytest.mark.fact("aws-10.4.3", "aws-10.4.1", "aws-10.4.2")
def test_policy_allows_every_call_of_the_controller(decided: list[tuple[Access, Decision]]) -> None:
    assert [access for access, decision in decided if decision is not Decision.ALLOWED] == []


@pytest.mark.fact("aws-10.4.3", "aws-10.4.1", "aws-10.4.2")
def test_every_action_of_every_statement_is_needed(decided: list[tuple[Access, Decision]]) -> None:
    granted = {
        (statement["Sid"], action)
        for statement in iam_rights.document()["Statement"]
        for action in iam_rights.actions(statement)
    }
    roles = {"NODE_ROLE": "KarpenterNodeRole-*", "QUEUE": "*"}  # of both runs
    needed = iam_rights.needed_actions(iam_rights.published(**roles), (access for access, _ in decided))
    assert granted - needed == set()
