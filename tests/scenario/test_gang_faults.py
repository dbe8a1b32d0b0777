"""Gangs under random faults of EC2 and the API server, crashes, and deletions by users: at the end the gang runs whole.

A failing seed replays: the choices and the faults come from it.
"""

from collections.abc import Callable

import pytest

import app_environment
import gang_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from aws_environment import ZONE_B
from checker.dice import Dice
from gang_environment import GPU, LARGE, MINUTE_S, is_forming, reserved, train
from holdfast.sim.api.serving import faults as api
from holdfast.sim.api.serving.front import Request
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation

SEEDS = 60
FAULTS_S = 5 * MINUTE_S
OPERATIONS = ("CreateFleet", "RunInstances", "TerminateInstances", "CreateLaunchTemplate", "CreateTags")
KINDS = ("odcr", "block", "two", "mixed", "on-demand")


async def pool(env: AppEnvironment, kind: str, dice: Dice) -> list[Reservation]:
    spare = dice.number(0, 2)
    match kind:
        case "block":
            slots = [gang_environment.block(env, total=3 + spare)]
        case "two":
            slots = [env.reserve(total=2), env.reserve(total=1 + spare, zone_id=ZONE_B)]
        case "mixed":
            slots = [env.reserve(total=1)]
        case "on-demand":
            slots = []
        case _:
            slots = [env.reserve(total=3 + spare)]
    if kind in ("mixed", "on-demand"):
        await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in slots])
        kinds = capacity_types("reserved", "on-demand") if slots else capacity_types("on-demand")
        await env.node_pool(requirements=[instance_types(LARGE), kinds])
    else:
        await reserved(env, *slots)
    return slots


def add_ec2_faults(env: AppEnvironment, slots: list[Reservation], dice: Dice) -> None:
    until_s = env.ec2_clock.now_s() + FAULTS_S
    of_calls = [
        kind(operation=operation, until_s=until_s, times=dice.number(1, 5))
        for operation in OPERATIONS
        for kind in (faults.Lost, faults.Throttled, faults.Denied, faults.Broken)
    ]
    others = [
        faults.NoCapacity(market="on-demand", until_s=until_s, times=dice.number(1, 3)),
        faults.NoCapacity(market="reserved", until_s=until_s, times=1, code="InvalidParameterValue"),
        faults.NeverBoots(until_s=until_s, times=1),
        faults.Dies(after_s=dice.number(1, 60), until_s=until_s, times=1),
        faults.Stale(operation="DescribeInstances", lag_s=dice.number(5, 60), until_s=until_s, times=5),
        faults.Stale(operation="DescribeCapacityReservations", lag_s=30, until_s=until_s, times=3),
        *(faults.Taken(reservation_id=one.id, until_s=until_s, times=1) for one in slots),
    ]
    for fault in (*dice.some(of_calls, 0)[:4], *dice.some(others, 0)):
        env.ec2.region.faults.add(fault)


def add_api_faults(env: AppEnvironment, dice: Dice) -> None:
    found: list[api.Fault] = [
        api.Refuse("Conflict"),
        api.Refuse("InternalError", after_effect=True),
        api.Refuse("TooManyRequests", retry_after_s=dice.number(1, 5)),
        api.Lose(after_effect=True),
        api.Lose(after_effect=False),
        api.Refuse("Forbidden"),
    ]
    for fault in dice.some(found, 0):
        env.line.add(fault, is_chosen(dice, dice.pick([0.02, 0.1])), times=10)


def is_chosen(dice: Dice, chance: float) -> Callable[[Request], bool]:
    return lambda request: request.method != "GET" and dice.chance(chance)


async def disturb(env: AppEnvironment, dice: Dice) -> None:
    """Crashes the process and deletes NodeClaims during the faults."""
    end_s = env.clock.monotonic_s() + FAULTS_S
    env.crashing.crash_after_write(
        len(env.crashing.writes) + dice.number(0, 60), after_effect=dice.chance(0.5)
    )
    while env.clock.monotonic_s() < end_s:
        await env.sleep(dice.pick([1, 3, 10]))
        if env.crashing.crashed.is_set():
            await env.restart(after_s=dice.number(0, 20))
            if dice.chance(0.5):
                env.crashing.crash_after_write(dice.number(0, 40), after_effect=True)
        claims = await env.claims()
        if claims and dice.chance(0.03):
            await env.kube.delete(dice.pick(claims))


def run(seed: int) -> None:
    dice = Dice(seed)

    async def program(env: AppEnvironment) -> None:
        kind = dice.pick(KINDS)
        slots = await pool(env, kind, dice)
        await env.sleep(5)
        free = {one.id: env.free(one) for one in slots}
        add_ec2_faults(env, slots, dice)
        add_api_faults(env, dice)
        await train(env, instance_type=GPU if kind == "block" else LARGE)
        await disturb(env, dice)
        env.recover()
        env.line.clear()
        if env.crashing.crashed.is_set():
            await env.restart()
        for one in slots:  # what other accounts took
            taken = free[one.id] - env.free(one) - env.in_reservation(one)
            if taken > 0:
                control.give(env.ec2.region, one.id, taken)

        async def is_whole() -> bool:
            count = len(await env.running("train"))
            return count == len(env.ec2_instances) == len(await env.claims()) == 3

        await env.until(is_whole, within_s=60 * MINUTE_S)
        await env.sleep(3 * MINUTE_S)
        assert len(await env.running("train")) == 3
        assert not any(map(is_forming, await env.nodes()))
        gang_environment.assert_launched_whole(env, is_replaced=True)

    app_environment.run(program, gangs=True, seed=seed)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_gang_runs_whole_after_random_faults(seed: int) -> None:
    run(seed)
