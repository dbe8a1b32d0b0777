"""The process crashes at each of its writes, from a pending pod to a ready node to a deleted node, and is restarted.

A write is a call that changes the API server or AWS. The process crashes twice at each write: before the write has an
effect, and after the effect but before the answer.
"""

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.api.nodeclaim import NodeClaim

WRITES = 57  # of `launch_and_delete` without a crash
KINDS = (
    *("CreateInstanceProfile", "AddRoleToInstanceProfile", "CreateLaunchTemplate", "CreateFleet"),
    *("CreateTags", "TerminateInstances"),
    *("PATCH ec2nodeclasses", "PATCH nodepools", "POST nodeclaims", "PATCH nodeclaims"),
    *("PATCH nodes", "DELETE nodes", "POST pods/eviction"),
)


async def launch_and_delete(env: AppEnvironment) -> None:
    """A pod gets a node in a slot; the NodeClaim is deleted; the pod is evicted and gets another node."""
    slots = env.reserve(total=1)
    await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
    # Otherwise consolidation moves an on-demand node into the slot (see test_disruption_crashes).
    await env.node_pool(requirements=wanted, disruption={"consolidateAfter": "Never"})
    await env.deploy("web", 1, cpu="1500m")
    await until_running(env)
    (first,) = await env.claims()
    await env.kube.delete(first)

    async def moved() -> bool:
        await restart_if_crashed(env)
        return await env.is_deleted(NodeClaim, first.metadata.name)

    await env.until(moved)
    await until_running(env)
    for _ in range(26):  # garbage collection runs meanwhile
        await env.sleep(5)
        await restart_if_crashed(env)
    await assert_one_node(env, first, slots.id)


async def until_running(env: AppEnvironment) -> None:
    async def running() -> bool:
        await restart_if_crashed(env)
        return len(await env.running()) == 1 == len(await env.pods())

    await env.until(running)


async def restart_if_crashed(env: AppEnvironment) -> None:
    if env.crashing.crashed.is_set():
        await env.restart()


async def assert_one_node(env: AppEnvironment, first: NodeClaim, reservation: str) -> None:
    (claim,), (node,), (instance,) = await env.claims(), await env.nodes(), env.ec2_instances
    assert (claim.status.provider_id or "").endswith(instance.id)
    assert node.spec.provider_id == claim.status.provider_id
    assert claim.metadata.deletion_timestamp is None
    assert claim.metadata.name != first.metadata.name
    assert len(env.all_ec2_instances()) == 2  # no duplicate launch
    reserved = env.ec2.region.reservations[reservation]
    assert reserved.available + (instance.reservation_id == reservation) == 1
    env.ec2.check_all()


def kind(write: str) -> str:
    """The kind of a write, without object names."""
    method, _, path = write.partition(" ")
    if not path:
        return method
    parts = path.strip("/").split("/")
    plural = next(p for p in parts if p in ("ec2nodeclasses", "nodepools", "nodeclaims", "nodes", "pods"))
    return f"{method} {plural}" + ("/eviction" if parts[-1] == "eviction" else "")


def test_launch_and_deletion_make_as_many_writes_as_the_crash_test_covers() -> None:
    env = app_environment.run(launch_and_delete)
    assert len(env.crashing.writes) == WRITES
    assert {kind(write) for write in env.crashing.writes} == set(KINDS)


def test_slot_is_not_planned_while_a_terminating_instance_uses_it() -> None:
    async def program(env: AppEnvironment) -> None:
        await launch_and_delete(env)
        assert await env.events("InsufficientCapacityError") == []

    app_environment.run(program)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(WRITES))
def test_restart_recovers_from_a_crash_at_any_write(write: int, *, after_effect: bool) -> None:
    async def program(env: AppEnvironment) -> None:
        env.crashing.crash_after_write(write, after_effect=after_effect)
        first = env.crashing
        await launch_and_delete(env)
        assert first.crashed.is_set()

    app_environment.run(program)
