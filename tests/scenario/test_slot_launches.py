"""Launches into slots: the launch token, and the slot that a NodeClaim moves to."""

from typing import Any

import app_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, drift_all, is_new, pool
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation


async def full(env: AppEnvironment, total: int = 2) -> Reservation:
    """A reservation whose slots are all used by nodes of this cluster."""
    slots = env.reserve(total=total)
    await pool(env, slots, kinds=("reserved",), budgets=[{"nodes": "1"}])
    await env.deploy("web", total, **ONE_PER_NODE)
    await env.until_running(total)
    return slots


async def unlaunched(env: AppEnvironment) -> list[NodeClaim]:
    return [claim for claim in await env.claims() if not claim.status.provider_id]


def reservations_of(env: AppEnvironment) -> dict[str, set[str]]:
    """Every reservation id that the annotation of a NodeClaim ever had, by NodeClaim."""
    found: dict[str, set[str]] = {}
    for claim in env.ever(NodeClaim):
        reservation_id = claim.metadata.annotations.get(names.RESERVATION_ID)
        if reservation_id is not None:
            found.setdefault(claim.metadata.name, set()).add(reservation_id)
    return found


async def rolled(env: AppEnvironment) -> bool:
    nodes = await env.nodes()
    return len(nodes) == 2 and all(map(is_new, nodes))


def test_a_waiting_claim_adopts_the_instance_of_a_lost_answer() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await full(env)
        await drift_all(env)
        env.ec2.region.faults.add(faults.Lost(operation="CreateFleet", times=1))
        asked = env.asked("CreateFleet")
        while env.asked("CreateFleet") == asked:
            await env.sleep(0.1)
        await env.restart()  # the next count shows no free slot: its own instance is in it
        await env.until(lambda: rolled(env), within_s=300)
        assert env.in_reservation(slots) == 2
        assert len(env.all_ec2_instances()) == 4

    app_environment.run(program)


def test_a_refused_launch_of_a_waiting_claim_ends_its_launch_token() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await full(env)
        env.ec2.region.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        await drift_all(env)
        while env.ec2.region.reservations[slots.id].elsewhere == 0:
            await env.sleep(1)
        await env.sleep(2)
        (claim,) = await unlaunched(env)
        assert names.WAITS_FOR_INSTANCE in claim.metadata.annotations
        assert names.LAUNCH_TOKEN not in claim.metadata.annotations
        asked = env.asked("CreateFleet")
        await env.sleep(60)
        assert env.asked("CreateFleet") == asked  # the count has no slot for it
        control.give(env.ec2.region, slots.id, 1)
        await env.until(lambda: rolled(env), within_s=600)

    app_environment.run(program)


def test_a_denied_launch_ends_its_launch_token() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await pool(env, slots, kinds=("reserved",))
        await env.sleep(5)  # the dry runs of the node class are over
        env.ec2.region.faults.add(faults.Denied(operation="CreateFleet", times=1))
        await env.deploy("web", 1, **ONE_PER_NODE)
        await env.until_running(1)
        assert len(env.claims_ever()) == 1
        tokens = {one.metadata.annotations.get(names.LAUNCH_TOKEN) for one in env.ever(NodeClaim)}
        assert len(tokens - {None}) == 2

    app_environment.run(program)


def test_repeatedly_failing_launches_are_retried_with_backoff() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=2)
        await pool(env, slots, kinds=("reserved",))
        await env.sleep(5)
        env.ec2.region.faults.add(faults.Denied(operation="CreateFleet"))
        asked = env.asked("CreateFleet")
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.sleep(240)
        assert 5 <= env.asked("CreateFleet") - asked <= 30
        assert len(env.claims_ever()) == 2

    app_environment.run(program)


async def two_slots(env: AppEnvironment, **other: Any) -> tuple[Reservation, Reservation]:
    """Two reservations of one slot each for the pods of one NodePool."""
    first, second = env.reserve(total=1), env.reserve(total=1, **other)
    await pool(env, first, second, kinds=("reserved",))
    return first, second


def test_a_claim_moves_to_a_free_slot_that_it_lists() -> None:
    async def program(env: AppEnvironment) -> None:
        both = await two_slots(env)
        await env.deploy("web", 1, **ONE_PER_NODE)
        planned: dict[str, set[str]] = {}
        while not planned:
            await env.sleep(0.01)
            planned = reservations_of(env)
        ((taken,),) = planned.values()
        env.ec2.region.faults.add(faults.Taken(reservation_id=taken, times=1))
        await env.until_running(1)
        (other,) = (one for one in both if one.id != taken)
        assert env.in_reservation(other) == 1
        assert list(reservations_of(env).values()) == [{taken, other.id}]

    app_environment.run(program)


def test_a_claim_does_not_move_to_a_slot_that_another_claim_holds() -> None:
    async def program(env: AppEnvironment) -> None:
        first, second = await two_slots(env)
        env.ec2.region.faults.add(faults.Taken(reservation_id=first.id, times=1))
        await env.deploy("web", 2, **ONE_PER_NODE)
        await env.sleep(90)
        assert len(await env.running()) == 1
        assert env.in_reservation(second) == 1 == len(env.all_ec2_instances())
        assert all(len(reservation_ids) == 1 for reservation_ids in reservations_of(env).values())

    app_environment.run(program)
