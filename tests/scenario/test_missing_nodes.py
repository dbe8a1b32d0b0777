"""A Node is deleted while its instance runs: its NodeClaim is deleted after a bound, and its pods get new nodes."""

from typing import Any

import msgspec
import pytest

import app_environment
import aws_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.controllers.nodeclaim.liveness import BOUND_S
from holdfast.ports import Change
from holdfast.sim.api.serving.faults import Refuse
from holdfast.sim.aws.service import Caller
from holdfast.sim.cluster import pods

ORPHAN_S = 40  # until the pod garbage collector deletes the pods of a missing Node
LATE_S = 90  # EC2 takes up to a minute to terminate an instance
NEVER = {"consolidateAfter": "Never"}
WRITES = (*range(4), *range(18, 22))  # of the NodeClaim; those between launch the new node


async def started(env: AppEnvironment) -> tuple[NodeClaim, Node]:
    """One pod on one node, in the only slot of a reservation."""
    slots = env.reserve(total=1)
    await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
    await env.node_pool(requirements=wanted, disruption=NEVER)
    await env.deploy("web", 1, cpu="1500m")
    await env.until_running(1)
    await env.sleep(60)
    (claim,), (node,) = await env.claims(), await env.nodes()
    return claim, node


async def remove_by_force(env: AppEnvironment, node: Node) -> None:
    now = await env.kube.get(Node, node.metadata.name)
    await env.kube.delete(await env.kube.patch(now, {"metadata": {"finalizers": []}}, only_if_unchanged=True))


async def restart_if_crashed(env: AppEnvironment) -> None:
    if env.crashing.crashed.is_set():
        await env.restart()


async def until_replaced(env: AppEnvironment, claim: NodeClaim, within_s: float) -> None:
    async def replaced() -> bool:
        await restart_if_crashed(env)
        return await env.is_deleted(NodeClaim, claim.metadata.name) and len(await env.running()) == 1

    await env.until(replaced, within_s=within_s)


async def assert_replaced(env: AppEnvironment, claim: NodeClaim) -> None:
    (remaining,), (instance,) = await env.claims(), env.ec2_instances
    assert remaining.metadata.name != claim.metadata.name
    assert (remaining.status.provider_id or "").endswith(instance.id)
    assert len(env.all_ec2_instances()) == 2
    env.ec2.check_all()


@pytest.mark.parametrize("idle_s", [0, 1000])  # 1000: several reconciles in which nothing changed
def test_nodeclaim_of_a_missing_node_is_deleted_after_the_bound(idle_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        claim, node = await started(env)
        await env.sleep(idle_s)
        await remove_by_force(env, node)
        await env.sleep(BOUND_S - 1)
        assert not await env.is_deleted(NodeClaim, claim.metadata.name)
        assert [event.involved_object.name for event in await env.events("NodeNotFound")] == [
            claim.metadata.name
        ]
        await until_replaced(env, claim, LATE_S)
        await env.sleep(150)
        await assert_replaced(env, claim)

    app_environment.run(program)


def test_pods_do_not_wait_for_a_missing_node() -> None:
    async def program(env: AppEnvironment) -> None:
        _, node = await started(env)
        await remove_by_force(env, node)
        await env.sleep(ORPHAN_S + 5)
        assert await env.until_running(1) < 60
        (pod,) = await env.running()
        assert pods.node_of(pod) != node.metadata.name

    app_environment.run(program)


def test_pending_pods_are_not_planned_on_a_missing_node() -> None:
    async def program(env: AppEnvironment) -> None:
        _, node = await started(env)
        await env.scale("web", 0)
        await env.sleep(30)
        await remove_by_force(env, node)
        await env.scale("web", 1)
        assert await env.until_running(1) < 60

    app_environment.run(program)


def test_restarts_do_not_extend_the_bound() -> None:
    async def program(env: AppEnvironment) -> None:
        claim, node = await started(env)
        await remove_by_force(env, node)
        for _ in range(int(BOUND_S // 60)):
            await env.sleep(60)
            await env.restart()
        await until_replaced(env, claim, LATE_S)
        await env.sleep(150)
        await assert_replaced(env, claim)

    app_environment.run(program)


def test_nodeclaim_of_a_restored_node_is_not_deleted() -> None:
    """As after a restore from a backup: the Node is created again with its labels and its finalizer."""

    async def program(env: AppEnvironment) -> None:
        claim, node = await started(env)
        await remove_by_force(env, node)
        await env.sleep(20)
        (current,) = await env.claims()
        assert conditions.holds(current.status.conditions, claim_conditions.NODE_NOT_FOUND)
        await env.create("/api/v1/nodes", as_before(node))
        await env.sleep(2 * BOUND_S)
        remaining = await env.kube.get(NodeClaim, claim.metadata.name)
        assert remaining.metadata.deletion_timestamp is None
        assert conditions.find(remaining.status.conditions, claim_conditions.NODE_NOT_FOUND) is None

    app_environment.run(program)


def test_nodeclaim_of_a_node_that_registers_again_is_replaced() -> None:
    """A kubelet that starts again creates its Node with the taint that only registration removes."""

    async def program(env: AppEnvironment) -> None:
        claim, node = await started(env)
        (instance,) = env.ec2_instances
        await remove_by_force(env, node)
        env.ec2.call(
            "RebootInstances", {"InstanceIds": [instance.id]}, Caller(aws_environment.ACCOUNT, "", "")
        )
        await env.sleep(ORPHAN_S + 5)
        assert await env.until_running(1) < 60
        await until_replaced(env, claim, BOUND_S + LATE_S)
        await env.sleep(150)
        await assert_replaced(env, claim)

    app_environment.run(program)


@pytest.mark.parametrize("answers", [True, False])
def test_node_that_is_missing_only_in_the_cache_deletes_no_nodeclaim(*, answers: bool) -> None:
    """Only an answer that the Node does not exist deletes its NodeClaim, never the cache or an error."""

    async def program(env: AppEnvironment) -> None:
        claim, node = await started(env)
        if not answers:
            env.line.add(Refuse(), lambda request: request.path.endswith(node.metadata.name), times=10_000)
        version = str(int(node.metadata.resource_version) + 10_000)
        stale = msgspec.structs.replace(
            node, metadata=msgspec.structs.replace(node.metadata, resource_version=version)
        )
        env.app.caches.of(Node).apply(Change("DELETED", stale))
        await env.sleep(2 * BOUND_S)
        (remaining,) = await env.claims()
        assert remaining.metadata.name == claim.metadata.name
        assert conditions.find(remaining.status.conditions, claim_conditions.NODE_NOT_FOUND) is None
        assert len(env.all_ec2_instances()) == 1

    app_environment.run(program)


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_crash_at_any_write_does_not_change_the_outcome(write: int, *, after_effect: bool) -> None:
    async def program(env: AppEnvironment) -> None:
        claim, node = await started(env)
        await remove_by_force(env, node)
        first = env.crashing
        first.crash_after_write(len(first.writes) + write, after_effect=after_effect)
        await until_replaced(env, claim, BOUND_S + 60 + LATE_S)
        for _ in range(15):
            await env.sleep(10)
            await restart_if_crashed(env)
        assert first.crashed.is_set()
        await assert_replaced(env, claim)

    app_environment.run(program)


def as_before(node: Node) -> dict[str, Any]:
    """The document of a deleted Node, without the fields that the API server sets."""
    meta = node.metadata
    fields = {"name": meta.name, "labels": meta.labels, "finalizers": list(meta.finalizers)}
    return {"metadata": fields, "spec": {"providerID": node.spec.provider_id}}
