"""A Node is deleted while its instance runs: its NodeClaim is deleted after a bound, and its pods get new nodes."""

from typing import Any

import msgspec
import pytest

import app_world
import aws_world
from app_world import AppWorld, capacity_types, instance_types
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


async def started(world: AppWorld) -> tuple[NodeClaim, Node]:
    """One pod on one node, in the only slot of a reservation."""
    slots = world.reserve(total=1)
    await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
    await world.node_pool(requirements=wanted, disruption=NEVER)
    await world.deploy("web", 1, cpu="1500m")
    await world.until_running(1)
    await world.sleep(60)
    (claim,), (node,) = await world.claims(), await world.nodes()
    return claim, node


async def remove_by_force(world: AppWorld, node: Node) -> None:
    now = await world.kube.get(Node, node.metadata.name)
    await world.kube.delete(
        await world.kube.patch(now, {"metadata": {"finalizers": []}}, only_if_unchanged=True)
    )


async def restart_if_crashed(world: AppWorld) -> None:
    if world.hands.dead.is_set():
        await world.restart()


async def until_replaced(world: AppWorld, claim: NodeClaim, within_s: float) -> None:
    async def replaced() -> bool:
        await restart_if_crashed(world)
        return await world.gone(NodeClaim, claim.metadata.name) and len(await world.running()) == 1

    await world.until(replaced, within_s=within_s)


async def assert_replaced(world: AppWorld, claim: NodeClaim) -> None:
    (remaining,), (instance,) = await world.claims(), world.machines
    assert remaining.metadata.name != claim.metadata.name
    assert (remaining.status.provider_id or "").endswith(instance.id)
    assert len(world.all_machines()) == 2
    world.ec2.check_all()


def test_nodeclaim_of_a_missing_node_is_deleted_after_the_bound() -> None:
    async def program(world: AppWorld) -> None:
        claim, node = await started(world)
        await remove_by_force(world, node)
        await world.sleep(BOUND_S - 1)
        assert not await world.gone(NodeClaim, claim.metadata.name)
        assert [event.involved_object.name for event in await world.events("NodeNotFound")] == [
            claim.metadata.name
        ]
        await until_replaced(world, claim, LATE_S)
        await world.sleep(150)
        await assert_replaced(world, claim)

    app_world.run(program)


def test_pods_do_not_wait_for_a_missing_node() -> None:
    async def program(world: AppWorld) -> None:
        _, node = await started(world)
        await remove_by_force(world, node)
        await world.sleep(ORPHAN_S + 5)
        assert await world.until_running(1) < 60
        (pod,) = await world.running()
        assert pods.node_of(pod) != node.metadata.name

    app_world.run(program)


def test_pending_pods_are_not_planned_on_a_missing_node() -> None:
    async def program(world: AppWorld) -> None:
        _, node = await started(world)
        await world.scale("web", 0)
        await world.sleep(30)
        await remove_by_force(world, node)
        await world.scale("web", 1)
        assert await world.until_running(1) < 60

    app_world.run(program)


def test_restarts_do_not_extend_the_bound() -> None:
    async def program(world: AppWorld) -> None:
        claim, node = await started(world)
        await remove_by_force(world, node)
        for _ in range(int(BOUND_S // 60)):
            await world.sleep(60)
            await world.restart()
        await until_replaced(world, claim, LATE_S)
        await world.sleep(150)
        await assert_replaced(world, claim)

    app_world.run(program)


def test_nodeclaim_of_a_restored_node_is_not_deleted() -> None:
    """As after a restore from a backup: the Node is created again with its labels and its finalizer."""

    async def program(world: AppWorld) -> None:
        claim, node = await started(world)
        await remove_by_force(world, node)
        await world.sleep(20)
        (current,) = await world.claims()
        assert conditions.holds(current.status.conditions, claim_conditions.NODE_NOT_FOUND)
        await world.create("/api/v1/nodes", as_before(node))
        await world.sleep(2 * BOUND_S)
        remaining = await world.kube.get(NodeClaim, claim.metadata.name)
        assert remaining.metadata.deletion_timestamp is None
        assert conditions.find(remaining.status.conditions, claim_conditions.NODE_NOT_FOUND) is None

    app_world.run(program)


def test_nodeclaim_of_a_node_that_registers_again_is_replaced() -> None:
    """A kubelet that starts again creates its Node with the taint that only registration removes."""

    async def program(world: AppWorld) -> None:
        claim, node = await started(world)
        (instance,) = world.machines
        await remove_by_force(world, node)
        world.ec2.call("RebootInstances", {"InstanceIds": [instance.id]}, Caller(aws_world.ACCOUNT, "", ""))
        await world.sleep(ORPHAN_S + 5)
        assert await world.until_running(1) < 60
        await until_replaced(world, claim, BOUND_S + LATE_S)
        await world.sleep(150)
        await assert_replaced(world, claim)

    app_world.run(program)


@pytest.mark.parametrize("answers", [True, False])
def test_node_that_is_missing_only_in_the_cache_deletes_no_nodeclaim(*, answers: bool) -> None:
    """Only an answer that the Node does not exist deletes its NodeClaim, never the cache or an error."""

    async def program(world: AppWorld) -> None:
        claim, node = await started(world)
        if not answers:
            world.line.add(Refuse(), lambda request: request.path.endswith(node.metadata.name), times=10_000)
        version = str(int(node.metadata.resource_version) + 10_000)
        stale = msgspec.structs.replace(
            node, metadata=msgspec.structs.replace(node.metadata, resource_version=version)
        )
        world.app.caches.of(Node).apply(Change("DELETED", stale))
        await world.sleep(2 * BOUND_S)
        (remaining,) = await world.claims()
        assert remaining.metadata.name == claim.metadata.name
        assert conditions.find(remaining.status.conditions, claim_conditions.NODE_NOT_FOUND) is None
        assert len(world.all_machines()) == 1

    app_world.run(program)


@pytest.mark.parametrize("after_effect", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_crash_at_any_write_does_not_change_the_outcome(write: int, *, after_effect: bool) -> None:
    async def program(world: AppWorld) -> None:
        claim, node = await started(world)
        await remove_by_force(world, node)
        first = world.hands
        first.die_at(len(first.writes) + write, after_effect=after_effect)
        await until_replaced(world, claim, BOUND_S + 60 + LATE_S)
        for _ in range(15):
            await world.sleep(10)
            await restart_if_crashed(world)
        assert first.dead.is_set()
        await assert_replaced(world, claim)

    app_world.run(program)


def as_before(node: Node) -> dict[str, Any]:
    """The document of a deleted Node, without the fields that the API server sets."""
    meta = node.metadata
    fields = {"name": meta.name, "labels": meta.labels, "finalizers": list(meta.finalizers)}
    return {"metadata": fields, "spec": {"providerID": node.spec.provider_id}}
