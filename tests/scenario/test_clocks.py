"""Wrong or stepped clocks of the process, the API server or EC2 do not change the ages of NodeClaims."""

import dataclasses

import pytest

import app_world
from app_world import AppWorld
from holdfast.sim.time import VirtualClock

HOUR_S = 3600
MINUTE_S = 60
SLOW = dataclasses.replace(app_world.FAST, boot_s=4 * MINUTE_S)
NEVER = dataclasses.replace(app_world.FAST, boot_s=24 * HOUR_S)
STEPS_S = [-HOUR_S, HOUR_S, 24 * HOUR_S]


async def with_claim(world: AppWorld) -> str:
    """The name of a NodeClaim whose instance is launched and does not join for some minutes."""
    await world.node_class()
    await world.node_pool()
    await world.deploy("web", 1)
    while not world.machines:
        await world.sleep(1)
    await world.sleep(5)
    (claim,) = await world.claims()
    return claim.metadata.name


async def assert_joins(world: AppWorld, claim: str) -> None:
    await world.until_running(1)
    assert world.claims_ever() == {claim}
    assert len(world.all_machines()) == 1
    assert {one.state for one in world.all_machines()} == {"running"}


def gauge(world: AppWorld, server: str) -> float | None:
    world.app.refresh_gauges()
    return world.app.metrics.value("holdfast_clock_offset_seconds", {"server": server})


@pytest.mark.parametrize("step_s", STEPS_S)
def test_step_of_the_process_clock_deletes_no_nodeclaim(step_s: int) -> None:
    async def program(world: AppWorld) -> None:
        claim = await with_claim(world)
        world.own_clock.jumped_s += step_s
        await assert_joins(world, claim)
        assert gauge(world, "kubernetes") == 0

    app_world.run(program, timings=SLOW)


@pytest.mark.parametrize("step_s", STEPS_S)
def test_step_of_the_api_server_clock_deletes_no_nodeclaim(step_s: int) -> None:
    async def program(world: AppWorld) -> None:
        claim = await with_claim(world)
        world.clock.jumped_s += step_s
        await assert_joins(world, claim)
        assert gauge(world, "kubernetes") == step_s

    app_world.run(program, timings=SLOW)


@pytest.mark.parametrize("ahead_s", [-24 * HOUR_S, -HOUR_S, -200, 200, HOUR_S, 24 * HOUR_S])
def test_wrong_ec2_clock_deletes_no_nodeclaim(ahead_s: int) -> None:
    async def program(world: AppWorld) -> None:
        claim = await with_claim(world)
        await assert_joins(world, claim)
        await world.sleep(10 * MINUTE_S)  # garbage collection compares launch times
        await assert_joins(world, claim)
        is_possible = abs(ahead_s) <= 300
        assert gauge(world, "ec2") == (ahead_s if is_possible else 0)
        assert gauge(world, "kubernetes") == 0

    app_world.run(program, timings=SLOW, ec2_ahead_s=ahead_s)


@pytest.mark.parametrize("behind_s", [-HOUR_S, HOUR_S])
def test_wrong_process_clock_deletes_no_nodeclaim(behind_s: int) -> None:
    async def program(world: AppWorld) -> None:
        claim = await with_claim(world)
        await world.restart()
        await assert_joins(world, claim)
        assert gauge(world, "kubernetes") == behind_s

    app_world.run(program, timings=SLOW, behind_s=behind_s)


def test_registration_timeout_counts_across_restarts() -> None:
    async def program(world: AppWorld) -> None:
        start_s = world.clock.now_s()
        claim = await with_claim(world)
        while world.claims_ever() == {claim}:
            await world.restart()
            await world.sleep(2 * MINUTE_S)
        assert 15 * MINUTE_S <= world.clock.now_s() - start_s <= 20 * MINUTE_S

    app_world.run(program, timings=NEVER)


def test_registration_timeout_ignores_a_step_of_the_api_server_clock() -> None:
    async def program(world: AppWorld) -> None:
        claim = await with_claim(world)
        clock: VirtualClock = world.clock
        start_s = clock.monotonic_s()
        clock.jumped_s += HOUR_S
        while world.claims_ever() == {claim}:
            await world.sleep(10)
        assert 14 * MINUTE_S <= clock.monotonic_s() - start_s <= 16 * MINUTE_S

    app_world.run(program, timings=NEVER)
