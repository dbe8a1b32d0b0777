"""Launches into slots: the launch token, and the slot that a NodeClaim moves to."""

from typing import Any

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, pool
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation


async def full(world: AppWorld, total: int = 2) -> Reservation:
    """A reservation whose slots are all used by nodes of this cluster."""
    slots = world.reserve(total=total)
    await pool(world, slots, kinds=("reserved",), budgets=[{"nodes": "1"}])
    await world.deploy("web", total, **ONE_PER_NODE)
    await world.until_running(total)
    return slots


async def unlaunched(world: AppWorld) -> list[NodeClaim]:
    return [claim for claim in await world.claims() if not claim.status.provider_id]


def reservations_of(world: AppWorld) -> dict[str, set[str]]:
    """Every reservation id that the annotation of a NodeClaim ever had, by NodeClaim."""
    found: dict[str, set[str]] = {}
    for claim in world.ever(NodeClaim):
        reservation_id = claim.metadata.annotations.get(names.RESERVATION_ID)
        if reservation_id is not None:
            found.setdefault(claim.metadata.name, set()).add(reservation_id)
    return found


async def rolled(world: AppWorld) -> bool:
    nodes = await world.nodes()
    return len(nodes) == 2 and all(map(is_new, nodes))


def test_a_waiting_claim_adopts_the_instance_of_a_lost_answer() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world)
        await drift_all(world)
        world.ec2.world.faults.add(faults.Lost(operation="CreateFleet", times=1))
        asked = world.asked("CreateFleet")
        while world.asked("CreateFleet") == asked:
            await world.sleep(0.1)
        await world.restart()  # the next count shows no free slot: its own instance is in it
        await world.until(lambda: rolled(world), within_s=300)
        assert world.in_reservation(slots) == 2
        assert len(world.all_machines()) == 4

    app_world.run(program)


def test_a_refused_launch_of_a_waiting_claim_ends_its_launch_token() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world)
        world.ec2.world.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        await drift_all(world)
        while world.ec2.world.reservations[slots.id].elsewhere == 0:
            await world.sleep(1)
        await world.sleep(2)
        (claim,) = await unlaunched(world)
        assert names.WAITS_FOR_INSTANCE in claim.metadata.annotations
        assert names.LAUNCH_TOKEN not in claim.metadata.annotations
        asked = world.asked("CreateFleet")
        await world.sleep(60)
        assert world.asked("CreateFleet") == asked  # the count has no slot for it
        control.give(world.ec2.world, slots.id, 1)
        await world.until(lambda: rolled(world), within_s=600)

    app_world.run(program)


def test_a_denied_launch_ends_its_launch_token() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await pool(world, slots, kinds=("reserved",))
        await world.sleep(5)  # the dry runs of the node class are over
        world.ec2.world.faults.add(faults.Denied(operation="CreateFleet", times=1))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        assert len(world.claims_ever()) == 1
        tokens = {one.metadata.annotations.get(names.LAUNCH_TOKEN) for one in world.ever(NodeClaim)}
        assert len(tokens - {None}) == 2

    app_world.run(program)


def test_repeatedly_failing_launches_are_retried_with_backoff() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=2)
        await pool(world, slots, kinds=("reserved",))
        await world.sleep(5)
        world.ec2.world.faults.add(faults.Denied(operation="CreateFleet"))
        asked = world.asked("CreateFleet")
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.sleep(240)
        assert 5 <= world.asked("CreateFleet") - asked <= 30
        assert len(world.claims_ever()) == 2

    app_world.run(program)


async def two_slots(world: AppWorld, **other: Any) -> tuple[Reservation, Reservation]:
    """Two reservations of one slot each for the pods of one NodePool."""
    first, second = world.reserve(total=1), world.reserve(total=1, **other)
    await pool(world, first, second, kinds=("reserved",))
    return first, second


def test_a_claim_moves_to_a_free_slot_that_it_lists() -> None:
    async def program(world: AppWorld) -> None:
        both = await two_slots(world)
        await world.deploy("web", 1, **ONE_PER_NODE)
        planned: dict[str, set[str]] = {}
        while not planned:
            await world.sleep(0.01)
            planned = reservations_of(world)
        ((taken,),) = planned.values()
        world.ec2.world.faults.add(faults.Taken(reservation_id=taken, times=1))
        await world.until_running(1)
        (other,) = (one for one in both if one.id != taken)
        assert world.in_reservation(other) == 1
        assert list(reservations_of(world).values()) == [{taken, other.id}]

    app_world.run(program)


def test_a_claim_does_not_move_to_a_slot_that_another_claim_holds() -> None:
    async def program(world: AppWorld) -> None:
        first, second = await two_slots(world)
        world.ec2.world.faults.add(faults.Taken(reservation_id=first.id, times=1))
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.sleep(90)
        assert len(await world.running()) == 1
        assert world.in_reservation(second) == 1 == len(world.all_machines())
        assert all(len(reservation_ids) == 1 for reservation_ids in reservations_of(world).values())

    app_world.run(program)
