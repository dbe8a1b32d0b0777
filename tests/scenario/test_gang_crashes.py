"""The process crashes after every write of a gang's life, and a new one continues: the whole gang is launched once.

The gang is in an ODCR (CreateFleet), in a capacity block (RunInstances), in two reservations (two calls), or asked for by
a ProvisioningRequest.
"""

import pytest

import app_environment
import gang_environment
import provisioning_requests
from app_environment import AppEnvironment
from aws_environment import ZONE_B
from gang_environment import GPU, LARGE, MINUTE_S, is_forming, reserved, train
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.sim.ec2 import control, faults

WRITES = {"odcr": 43, "block": 45, "two": 45, "request": 43}  # of the life of a gang, at least
ROLLBACK = 27  # writes of the life of a gang that is rolled back once, until nothing of it is left
CASES = [(kind, crash_at) for kind, writes in WRITES.items() for crash_at in range(writes)]


async def pool(env: AppEnvironment, kind: str) -> None:
    """Slots for twice the gang, where a second launch of it would succeed."""
    match kind:
        case "block":
            await reserved(env, gang_environment.block(env, total=6))
        case "two":
            await reserved(env, env.reserve(total=2), env.reserve(total=1, zone_id=ZONE_B))
        case _:
            await reserved(env, env.reserve(total=6))


async def start(env: AppEnvironment, kind: str) -> None:
    if kind == "request":
        await env.create(provisioning_requests.TEMPLATES, provisioning_requests.template())
        await env.create(provisioning_requests.PATH, provisioning_requests.document(count=3))
    else:
        await train(env, instance_type=GPU if kind == "block" else LARGE)


async def is_there(env: AppEnvironment, kind: str) -> bool:
    """Whether all pods run, or the request is provisioned."""
    if kind != "request":
        return len(await env.running("train")) == 3
    (request,) = await env.all(ProvisioningRequest)
    return provisioning_requests.conditions(request).get("Provisioned", ("", ""))[0] == "True"


def life(kind: str, crash_at: int | None) -> list[str]:
    """Runs a gang, and crashes once, after the effect of a write and before its answer. Returns all writes."""
    written: list[str] = []

    async def program(env: AppEnvironment) -> None:
        await pool(env, kind)
        await env.sleep(5)
        first = len(env.crashing.writes)
        if crash_at is not None:
            env.crashing.crash_after_write(first + crash_at, after_effect=True)
        await start(env, kind)
        if crash_at is not None:
            await env.crashing.crashed.wait()
            await env.restart(after_s=5)
        await env.until(lambda: is_there(env, kind), within_s=300)
        await env.sleep(10)
        written.extend(env.writes()[first:])
        await env.sleep(3 * MINUTE_S)  # garbage collection runs meanwhile
        assert len(env.ec2_instances) == len(await env.claims()) == 3
        assert len(env.all_ec2_instances()) == 3
        assert not any(map(is_forming, await env.nodes()))
        gang_environment.assert_launched_whole(env)

    app_environment.run(program, gangs=True, requests=kind == "request")
    return written


@pytest.mark.parametrize("kind", WRITES)
def test_life_of_a_gang_has_at_least_these_writes(kind: str) -> None:
    assert len(life(kind, None)) >= WRITES[kind]


@pytest.mark.parametrize(("kind", "crash_at"), CASES)
def test_gang_is_launched_once_and_whole_after_a_crash_at_any_write(kind: str, crash_at: int) -> None:
    life(kind, crash_at)


@pytest.mark.parametrize("crash_at", range(ROLLBACK))
def test_crash_while_a_gang_is_rolled_back_leaves_nothing_of_it(crash_at: int) -> None:
    async def program(env: AppEnvironment) -> None:
        two, one = env.reserve(total=2), env.reserve(total=1, zone_id=ZONE_B)
        await reserved(env, two, one)
        await env.sleep(5)
        env.ec2.region.faults.add(faults.Taken(reservation_id=one.id, times=1))
        env.crashing.crash_after_write(len(env.crashing.writes) + crash_at, after_effect=True)
        await train(env)
        await env.crashing.crashed.wait()
        await env.restart(after_s=5)
        await env.sleep(5 * MINUTE_S)
        assert env.ec2_instances == []
        assert await env.claims() == []
        assert env.free(two) == 2
        control.give(env.ec2.region, one.id, 1)
        await env.until_running(3, "train")
        assert len(env.ec2_instances) == 3
        gang_environment.assert_launched_whole(env)

    app_environment.run(program, gangs=True)
