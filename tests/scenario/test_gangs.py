"""Gangs of Kubernetes 1.36: PodGroups, the simulated kube-scheduler and the real controllers in virtual time."""

from typing import Any

import pytest

import app_environment
import cluster_environment
import pod_groups
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod as ApiPod
from holdfast.sim.cluster import gang_scheduling, pods
from holdfast.sim.cluster.kinds import PodGroup

LARGE = instance_types("m5.large")
AGENT = {"key": "example.com/agent", "effect": "NoSchedule"}
ONE_PER_NODE: dict[str, Any] = {"cpu": "1500m"}  # of an m5.large


async def pools(env: AppEnvironment, *requirements: dict[str, Any], **spec: Any) -> None:
    await env.node_class(**spec)
    await env.node_pool(requirements=[LARGE, *requirements])


async def reserved_pool(env: AppEnvironment, total: int) -> None:
    """A NodePool with only these slots."""
    slots = env.reserve(total=total)
    await pools(env, capacity_types("reserved"), capacityReservationSelectorTerms=[{"id": slots.id}])


async def runs(env: AppEnvironment, count: int) -> bool:
    return len(await env.running("train")) == count


async def has_claims(env: AppEnvironment, count: int) -> bool:
    return len(await env.claims()) == count


async def scheduled(env: AppEnvironment) -> tuple[str, str, str]:
    (found,) = await env.all(PodGroup)
    condition = pods.condition(found.status, "PodGroupScheduled")
    return condition["status"], condition["reason"], condition["message"]


async def group(env: AppEnvironment, least: int, name: str = "train", **spec: Any) -> None:
    await env.create(pod_groups.PATH, pod_groups.document(name, least, **spec))


async def train(env: AppEnvironment, replicas: int, of: str = "train", **spec: Any) -> None:
    await env.deploy(of, replicas, **ONE_PER_NODE, **pod_groups.member(of), **spec)


async def unschedulable(env: AppEnvironment, app: str = "train") -> list[str]:
    """The messages of the pods that kube-scheduler marked as unschedulable."""
    reasons = [cluster_environment.reason(pod) for pod in await env.pods(app)]
    return [message for reason, message in reasons if reason == "Unschedulable"]


@pytest.mark.fact("PG-7")
def test_all_nodes_of_a_gang_come_from_one_plan() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env)
        await group(env, 3)
        await train(env, 3)
        await env.until_running(3, "train")
        assert len(await env.claims()) == 3
        created = {claim.metadata.creation_timestamp for claim in await env.claims()}
        assert len(created) == 1

    app_environment.run(program, gangs=True)


@pytest.mark.fact("PG-7")
def test_pods_of_a_gang_beyond_the_least_number_are_optional() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, total=3)
        await group(env, 2)
        await train(env, 4)
        await env.until(lambda: runs(env, 3))
        await env.sleep(30)
        assert len(await env.claims()) == 3
        assert len(await unschedulable(env)) == 1
        assert await scheduled(env) == ("True", "Scheduled", "")

    app_environment.run(program, gangs=True)


@pytest.mark.fact("PG-5")
def test_no_node_is_launched_for_a_gang_with_too_few_pods() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env)
        await group(env, 3)
        await train(env, 2)
        await env.sleep(60)
        assert not env.claims_ever()
        assert not await unschedulable(env)
        await env.scale("train", 3)
        await env.until_running(3, "train")
        assert len(env.claims_ever()) == 3

    app_environment.run(program, gangs=True)


@pytest.mark.fact("PG-5")
def test_no_node_is_launched_for_pods_whose_podgroup_is_created_later() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env)
        await train(env, 3)
        await env.sleep(60)
        assert not env.claims_ever()
        await group(env, 3)
        await env.until_running(3, "train")
        assert len(env.claims_ever()) == 3

    app_environment.run(program, gangs=True)


@pytest.mark.fact("PG-6")
def test_no_node_is_launched_for_a_gang_without_capacity_for_all_pods() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, total=2)
        await group(env, 3)
        await train(env, 3)
        await env.sleep(60)
        assert not env.claims_ever()
        assert await unschedulable(env) == ["no nodes available to schedule pods"] * 3
        assert await scheduled(env) == ("False", "Unschedulable", "pod group is unschedulable")
        events = await env.events("FailedScheduling")
        (message,) = {event.message for event in events if "PodGroup" in event.message}
        text = "PodGroup default/train: only 2 of the 3 pods that it needs would have a node (2 in"
        assert message.startswith(text)

    app_environment.run(program, gangs=True)


@pytest.mark.fact("PG-6")
def test_pods_of_a_gang_that_would_fit_wait_for_the_others() -> None:
    """Two slots have nodes with capacity, and a third pod has no node."""

    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, total=2)
        await env.deploy("web", 2, cpu="1500m")
        await env.until_running(2)
        await env.scale("web", 0)
        await group(env, 3)
        await train(env, 3)
        await env.sleep(3)
        messages = await unschedulable(env)
        assert len(messages) == 3
        assert messages.count(gang_scheduling.WAITING) == 2

    app_environment.run(program, gangs=True)


@pytest.mark.fact("PG-8")
def test_a_pod_that_replaces_one_of_a_running_gang_gets_one_node() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env)
        await group(env, 2)
        await train(env, 3)
        await env.until_running(3, "train")
        first, *_ = await env.pods("train")
        await env.kube.delete(await env.kube.get(ApiPod, first.metadata.name, "default"))
        await env.sleep(5)
        await env.until_running(3, "train")
        assert len(env.claims_ever()) <= 4

    app_environment.run(program, gangs=True)


@pytest.mark.fact("PG-9")
def test_pods_of_a_gang_that_are_recreated_are_placed_together_again() -> None:
    """The PodGroup still says that it is scheduled."""

    async def program(env: AppEnvironment) -> None:
        await reserved_pool(env, total=3)
        await group(env, 3)
        await train(env, 3)
        await env.until_running(3, "train")
        await env.scale("train", 0)
        await env.until(lambda: has_claims(env, 0))
        await env.deploy("web", 1, cpu="1500m")
        await env.until_running(1)
        launched = env.claims_ever()
        await env.scale("train", 3)
        await env.sleep(60)
        assert env.claims_ever() == launched
        assert len(await unschedulable(env)) == 3
        assert await scheduled(env) == ("True", "Scheduled", "")

    app_environment.run(program, gangs=True)


def test_two_gangs_of_one_name_in_two_namespaces_do_not_count_together() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env)
        await group(env, 3)
        await env.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        path = pod_groups.PATH.replace("default", "shop")
        await env.create(path, pod_groups.document("train", 1))
        await train(env, 2)
        document = cluster_environment.workload(
            "elsewhere", replicas=1, **ONE_PER_NODE, **pod_groups.member()
        )
        await env.create("/apis/apps/v1/namespaces/shop/deployments", document)
        await env.until(lambda: has_registered(env, 1))
        await env.sleep(60)
        assert len(env.claims_ever()) == 1

    app_environment.run(program, gangs=True)


@pytest.mark.fact("PG-10")
def test_no_node_of_a_gang_is_deleted_while_another_one_starts() -> None:
    """Two nodes are ready long before the third; kube-scheduler binds no pod until then."""

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[LARGE], startupTaints=[AGENT])
        await group(env, 3)
        await train(env, 3)
        await env.until(lambda: has_registered(env, 3))
        first, second, last = await env.nodes()
        for node in (first, second):
            await untaint(env, node)
        await env.sleep(180)
        assert len(await env.claims()) == len(env.claims_ever()) == 3
        await untaint(env, last)
        await env.until_running(3, "train")
        assert len(env.claims_ever()) == 3

    app_environment.run(program, gangs=True)


async def has_registered(env: AppEnvironment, count: int) -> bool:
    return sum(bool(claim.status.node_name) for claim in await env.claims()) == count


async def untaint(env: AppEnvironment, node: Node) -> None:
    """Removes the startup taint, as an agent does when it is ready."""
    current = await env.kube.get(Node, node.metadata.name)
    taints = [
        {"key": one.key, "effect": one.effect} for one in current.spec.taints if one.key != AGENT["key"]
    ]
    await env.kube.patch(current, {"spec": {"taints": taints}}, only_if_unchanged=True)


def test_without_podgroups_in_the_api_server_pods_are_scheduled_one_by_one() -> None:
    async def program(env: AppEnvironment) -> None:
        await pools(env)
        await train(env, 2)
        await env.until_running(2, "train")
        assert len(env.claims_ever()) == 2

    app_environment.run(program)
