"""The program is killed at each of its writes, from a pending pod to a ready node to a deleted node, and started anew.

A write is whatever changes the API server or AWS. At each of them it dies twice: before the write arrives, which is
after the answer to the one before; and after it took effect, before its answer is known.
"""

import pytest

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast.api.nodeclaim import NodeClaim

WRITES = 56  # of the story below, when nobody dies
KINDS = (
    *("CreateInstanceProfile", "AddRoleToInstanceProfile", "CreateLaunchTemplate", "CreateFleet"),
    *("CreateTags", "TerminateInstances"),
    *("PATCH ec2nodeclasses", "PATCH nodepools", "POST nodeclaims", "PATCH nodeclaims"),
    *("PATCH nodes", "DELETE nodes", "POST pods/eviction"),
)


async def story(world: AppWorld) -> None:
    """A pod gets a node in a slot; its claim is deleted; the pod is evicted and gets another node."""
    slots = world.reserve(total=1)
    await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    wanted = [instance_types("m5.large"), capacity_types("reserved", "on-demand")]
    # What is bought meanwhile would move back into the slot: that is another story (test_disruption_crashes).
    await world.node_pool(requirements=wanted, disruption={"consolidateAfter": "Never"})
    await world.deploy("web", 1, cpu="1500m")
    await until_running(world)
    (first,) = await world.claims()
    await world.kube.delete(first)

    async def moved() -> bool:
        await look_after(world)
        return await world.gone(NodeClaim, first.metadata.name)

    await world.until(moved)
    await until_running(world)
    for _ in range(26):  # garbage is looked for meanwhile
        await world.sleep(5)
        await look_after(world)
    await judge(world, first, slots.id)


async def until_running(world: AppWorld) -> None:
    async def running() -> bool:
        await look_after(world)
        return len(await world.running()) == 1 == len(await world.pods())

    await world.until(running)


async def look_after(world: AppWorld) -> None:
    if world.hands.dead.is_set():
        await world.restart()


async def judge(world: AppWorld, first: NodeClaim, reservation: str) -> None:
    (claim,), (node,), (machine,) = await world.claims(), await world.nodes(), world.machines
    assert (claim.status.provider_id or "").endswith(machine.id)
    assert node.spec.provider_id == claim.status.provider_id
    assert claim.metadata.deletion_timestamp is None
    assert claim.metadata.name != first.metadata.name
    assert len(world.all_machines()) == 2  # nothing was ever launched twice
    there = world.ec2.world.reservations[reservation]
    assert there.available + (machine.reservation_id == reservation) == 1
    world.ec2.check_all()


def kind(write: str) -> str:
    """A write without names."""
    method, _, path = write.partition(" ")
    if not path:
        return method
    parts = path.strip("/").split("/")
    plural = next(p for p in parts if p in ("ec2nodeclasses", "nodepools", "nodeclaims", "nodes", "pods"))
    return f"{method} {plural}" + ("/eviction" if parts[-1] == "eviction" else "")


def test_every_write_of_the_way_is_one_at_which_it_is_killed() -> None:
    world = app_world.run(story)
    assert len(world.hands.writes) == WRITES
    assert {kind(write) for write in world.hands.writes} == set(KINDS)


def test_a_slot_is_not_planned_for_while_a_machine_that_is_going_is_still_in_it() -> None:
    async def program(world: AppWorld) -> None:
        await story(world)
        assert await world.events("InsufficientCapacityError") == []

    app_world.run(program)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", range(WRITES))
def test_a_program_that_dies_at_a_write_is_made_good_by_the_next(write: int, *, after_effect: bool) -> None:
    async def program(world: AppWorld) -> None:
        world.hands.die_at(write, after_effect=after_effect)
        first = world.hands
        await story(world)
        assert first.dead.is_set()

    app_world.run(program)
