"""Wrong or stepped clocks of the process, the API server or EC2 do not change the ages of NodeClaims."""

import dataclasses

import pytest

import app_environment
from app_environment import AppEnvironment
from holdfast.sim.time import VirtualClock

HOUR_S = 3600
MINUTE_S = 60
SLOW = dataclasses.replace(app_environment.FAST, boot_s=4 * MINUTE_S)
NEVER = dataclasses.replace(app_environment.FAST, boot_s=24 * HOUR_S)
STEPS_S = [-HOUR_S, HOUR_S, 24 * HOUR_S]


async def with_claim(env: AppEnvironment) -> str:
    """The name of a NodeClaim whose instance is launched and does not join for some minutes."""
    await env.node_class()
    await env.node_pool()
    await env.deploy("web", 1)
    while not env.ec2_instances:
        await env.sleep(1)
    await env.sleep(5)
    (claim,) = await env.claims()
    return claim.metadata.name


async def assert_joins(env: AppEnvironment, claim: str) -> None:
    await env.until_running(1)
    assert env.claims_ever() == {claim}
    assert len(env.all_ec2_instances()) == 1
    assert {one.state for one in env.all_ec2_instances()} == {"running"}


def gauge(env: AppEnvironment, server: str) -> float | None:
    env.app.refresh_gauges()
    return env.app.metrics.value("holdfast_clock_offset_seconds", {"server": server})


@pytest.mark.parametrize("step_s", STEPS_S)
def test_step_of_the_process_clock_deletes_no_nodeclaim(step_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await with_claim(env)
        env.own_clock.jumped_s += step_s
        await assert_joins(env, claim)
        assert gauge(env, "kubernetes") == 0

    app_environment.run(program, timings=SLOW)


@pytest.mark.parametrize("step_s", STEPS_S)
def test_step_of_the_api_server_clock_deletes_no_nodeclaim(step_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await with_claim(env)
        env.clock.jumped_s += step_s
        await assert_joins(env, claim)
        assert gauge(env, "kubernetes") == step_s

    app_environment.run(program, timings=SLOW)


@pytest.mark.parametrize("ahead_s", [-24 * HOUR_S, -HOUR_S, -200, 200, HOUR_S, 24 * HOUR_S])
def test_wrong_ec2_clock_deletes_no_nodeclaim(ahead_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await with_claim(env)
        await assert_joins(env, claim)
        await env.sleep(10 * MINUTE_S)  # garbage collection compares launch times
        await assert_joins(env, claim)
        is_possible = abs(ahead_s) <= 300
        assert gauge(env, "ec2") == (ahead_s if is_possible else 0)
        assert gauge(env, "kubernetes") == 0

    app_environment.run(program, timings=SLOW, ec2_ahead_s=ahead_s)


@pytest.mark.parametrize("behind_s", [-HOUR_S, HOUR_S])
def test_wrong_process_clock_deletes_no_nodeclaim(behind_s: int) -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await with_claim(env)
        await env.restart()
        await assert_joins(env, claim)
        assert gauge(env, "kubernetes") == behind_s

    app_environment.run(program, timings=SLOW, behind_s=behind_s)


def test_registration_timeout_counts_across_restarts() -> None:
    async def program(env: AppEnvironment) -> None:
        start_s = env.clock.now_s()
        claim = await with_claim(env)
        while env.claims_ever() == {claim}:
            await env.restart()
            await env.sleep(2 * MINUTE_S)
        assert 15 * MINUTE_S <= env.clock.now_s() - start_s <= 20 * MINUTE_S

    app_environment.run(program, timings=NEVER)


def test_registration_timeout_ignores_a_step_of_the_api_server_clock() -> None:
    async def program(env: AppEnvironment) -> None:
        claim = await with_claim(env)
        clock: VirtualClock = env.clock
        start_s = clock.monotonic_s()
        clock.jumped_s += HOUR_S
        while env.claims_ever() == {claim}:
            await env.sleep(10)
        assert 14 * MINUTE_S <= clock.monotonic_s() - start_s <= 16 * MINUTE_S

    app_environment.run(program, timings=NEVER)
