"""The process crashes at each of its writes, from a pending pod to a ready node to a deleted node, and is restarted.

A write is a call that changes the API server or AWS. The process crashes twice at each write: before the write has an
effect, and after the effect but before the answer.
"""

import pytest

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast.api.nodeclaim import NodeClaim

WRITES = 56  # of `launch_and_delete` without a crash
KINDS = (
    *("CreateInstanceProfile", "AddRoleToInstanceProfile", "CreateLaunchTemplate", "CreateFleet"),
    *("CreateTags", "TerminateInstances"),
    *("PATCH ec2nodeclasses", "PATCH nodepools", "POST nodeclaims", "PATCH nodeclaims"),
    *("PATCH nodes", "DELETE nodes", "POST pods/eviction"),
)


async def launch_and_delete(world: AppWorld) -> None:
    """A pod gets a node in a slot; the NodeClaim is deleted; the pod is evicted and gets another node."""
    slots = world.reserve(total=1)
    await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
    # Otherwise consolidation moves an on-demand node into the slot (see test_disruption_crashes).
    await world.node_pool(requirements=wanted, disruption={"consolidateAfter": "Never"})
    await world.deploy("web", 1, cpu="1500m")
    await until_running(world)
    (first,) = await world.claims()
    await world.kube.delete(first)

    async def moved() -> bool:
        await restart_if_crashed(world)
        return await world.gone(NodeClaim, first.metadata.name)

    await world.until(moved)
    await until_running(world)
    for _ in range(26):  # garbage collection runs meanwhile
        await world.sleep(5)
        await restart_if_crashed(world)
    await assert_one_node(world, first, slots.id)


async def until_running(world: AppWorld) -> None:
    async def running() -> bool:
        await restart_if_crashed(world)
        return len(await world.running()) == 1 == len(await world.pods())

    await world.until(running)


async def restart_if_crashed(world: AppWorld) -> None:
    if world.hands.dead.is_set():
        await world.restart()


async def assert_one_node(world: AppWorld, first: NodeClaim, reservation: str) -> None:
    (claim,), (node,), (instance,) = await world.claims(), await world.nodes(), world.machines
    assert (claim.status.provider_id or "").endswith(instance.id)
    assert node.spec.provider_id == claim.status.provider_id
    assert claim.metadata.deletion_timestamp is None
    assert claim.metadata.name != first.metadata.name
    assert len(world.all_machines()) == 2  # no duplicate launch
    reserved = world.ec2.world.reservations[reservation]
    assert reserved.available + (instance.reservation_id == reservation) == 1
    world.ec2.check_all()


def kind(write: str) -> str:
    """The kind of a write, without object names."""
    method, _, path = write.partition(" ")
    if not path:
        return method
    parts = path.strip("/").split("/")
    plural = next(p for p in parts if p in ("ec2nodeclasses", "nodepools", "nodeclaims", "nodes", "pods"))
    return f"{method} {plural}" + ("/eviction" if parts[-1] == "eviction" else "")


def test_launch_and_deletion_make_as_many_writes_as_the_crash_test_covers() -> None:
    world = app_world.run(launch_and_delete)
    assert len(world.hands.writes) == WRITES
    assert {kind(write) for write in world.hands.writes} == set(KINDS)


def test_slot_is_not_planned_while_a_terminating_instance_uses_it() -> None:
    async def program(world: AppWorld) -> None:
        await launch_and_delete(world)
        assert await world.events("InsufficientCapacityError") == []

    app_world.run(program)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(WRITES))
def test_restart_recovers_from_a_crash_at_any_write(write: int, *, after_effect: bool) -> None:
    async def program(world: AppWorld) -> None:
        world.hands.die_at(write, after_effect=after_effect)
        first = world.hands
        await launch_and_delete(world)
        assert first.dead.is_set()

    app_world.run(program)
