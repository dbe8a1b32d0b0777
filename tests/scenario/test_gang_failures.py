"""Gangs whose launch is disturbed: by refusals, deletions and errors. Then the whole gang runs, or nothing is left."""

from typing import Any

import msgspec
import pytest

import app_environment
import gang_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from aws_environment import ZONE_B
from gang_environment import CLAIMS, GPU, LARGE, MINUTE_S, is_forming, reserved, train
from holdfast import names
from holdfast.api import claim_conditions, conditions
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.api.serving.faults import Refuse
from holdfast.sim.api.serving.front import Request
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import faults

CREATE_FLEET = 9  # this write of the life of a gang is the call
REFUSED = 11  # this write is the second call
NEVER_READY = Timings(boot_s=5, ready_s=86_400, devices_s=1, startup_taints=())
SLOW = Timings(boot_s=60, ready_s=2, devices_s=1, startup_taints=())


def creates_claim(request: Request) -> bool:
    return request.method == "POST" and request.path == CLAIMS


def deletes_claim(request: Request) -> bool:
    return request.method == "DELETE" and request.path.startswith(CLAIMS)


async def has_claims(env: AppEnvironment, count: int, type_: str = "") -> bool:
    """`type_`: a condition that must be True."""
    claims = await env.claims()
    return (
        sum(not type_ or conditions.holds(one.status.conditions, type_) for one in claims) == count
        and len(claims) == count
    )


async def until_whole(env: AppEnvironment, within_s: float = 600) -> None:
    """Until the gang runs, and no instance is left over."""
    await env.until_running(3, "train", within_s=within_s)
    await env.sleep(4 * MINUTE_S)  # garbage collection runs meanwhile
    assert len(env.ec2_instances) == len(await env.claims()) == 3
    gang_environment.assert_launched_whole(env)


async def until_nothing(env: AppEnvironment) -> None:
    async def is_nothing() -> bool:
        return not env.ec2_instances and not await env.claims()

    await env.until(is_nothing, within_s=6 * MINUTE_S)


# --- NodeClaims that are not created ------------------------------------------------------------------


def test_gang_is_launched_as_soon_as_its_last_nodeclaim_is_created() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await env.sleep(5)
        env.line.add(Refuse("TooManyRequests", retry_after_s=4), creates_claim)
        await train(env)
        await env.until_running(3, "train", within_s=40)
        gang_environment.assert_launched_whole(env)

    app_environment.run(program, gangs=True)


@pytest.mark.parametrize("are_deleted", [True, False])
def test_no_part_of_a_gang_is_launched_if_one_of_its_nodeclaims_is_refused(are_deleted: bool) -> None:  # noqa: FBT001
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=6))
        await env.sleep(5)
        env.line.add(Refuse("Forbidden"), creates_claim)
        if not are_deleted:
            env.line.add(Refuse("Forbidden"), deletes_claim, times=2)
        await train(env)
        await until_whole(env)
        assert len(env.all_ec2_instances()) == 3

    app_environment.run(program, gangs=True)


# --- NodeClaims that are deleted ----------------------------------------------------------------------


async def delete_one(env: AppEnvironment, number: int) -> None:
    claims = sorted(await env.claims(), key=lambda one: one.metadata.name)
    await env.kube.delete(claims[number])


@pytest.mark.parametrize("number", [0, 2])
def test_gang_is_launched_again_whole_if_a_user_deletes_a_nodeclaim_during_the_launch(number: int) -> None:
    """The first NodeClaim makes the call for all."""

    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=6))
        await env.sleep(5)
        env.crashing.slow["CreateFleet"] = 10
        await train(env)
        await env.until(lambda: has_claims(env, 3))
        await env.sleep(3)
        await delete_one(env, number)
        await until_whole(env)

    app_environment.run(program, gangs=True)


def test_starting_nodes_of_a_gang_end_if_a_user_deletes_a_nodeclaim() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=6))
        await train(env)
        await env.until(lambda: has_claims(env, 3, claim_conditions.LAUNCHED))
        first = {one.metadata.name for one in await env.claims()}
        await delete_one(env, 1)
        await until_whole(env)
        assert first.isdisjoint(one.metadata.name for one in await env.claims())
        assert len(await env.events("GangLaunchIncomplete")) == 2

    app_environment.run(program, gangs=True, timings=SLOW)


def test_only_the_missing_node_of_a_gang_is_replaced_once_another_is_registered() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=4)
        await reserved(env, slots)
        env.ec2.region.faults.add(faults.NeverBoots(times=1))
        await train(env)
        await env.until(lambda: _has_nodes(env, 2))
        await env.sleep(20)
        first = {one.metadata.name for one in await env.claims()}
        (silent,) = [one for one in await env.claims() if not one.status.node_name]
        await env.kube.delete(silent)
        await env.until_running(3, "train", within_s=600)
        left = [one for one in await env.claims() if one.metadata.deletion_timestamp is None]
        assert len(left) == 3
        assert len(first & {one.metadata.name for one in left}) == 2

    app_environment.run(program, gangs=True)


async def _has_nodes(env: AppEnvironment, count: int) -> bool:
    return len(await env.nodes()) == count


@pytest.mark.parametrize("part", ["pods", "class"])
def test_nothing_is_left_of_a_gang_that_ends_during_its_launch(part: str) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await reserved(env, slots)
        await env.sleep(5)
        env.crashing.slow["CreateFleet"] = 10
        await train(env)
        await env.until(lambda: has_claims(env, 3))
        await env.sleep(3)
        if part == "pods":
            await env.scale("train", 0)
        else:
            await env.kube.delete(await env.kube.get(EC2NodeClass, "default"))
        await env.sleep(20)
        await until_nothing(env)
        await env.sleep(MINUTE_S)
        assert env.free(slots) == 3

    app_environment.run(program, gangs=True)


# --- Errors of EC2 ------------------------------------------------------------------------------------


def test_every_nodeclaim_of_a_gang_reports_why_its_launch_failed() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await env.sleep(5)
        env.ec2.region.faults.add(faults.Denied(operation="CreateFleet"))
        await train(env)
        await env.sleep(20)
        claims = await env.claims()
        assert len(claims) == 3
        for claim in claims:
            launched = conditions.find(claim.status.conditions, claim_conditions.LAUNCHED)
            assert launched is not None
            assert (launched.status, launched.reason) == ("Unknown", "LaunchFailed")

    app_environment.run(program, gangs=True)


def test_full_reservation_is_reported_on_the_nodeclaims_of_a_gang() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=3)
        await reserved(env, slots)
        env.ec2.region.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        await train(env)
        await env.sleep(30)
        reasons = {
            one.metadata.name: condition.reason
            for one in env.ever(NodeClaim)
            if (condition := conditions.find(one.status.conditions, "CapacityReservationAvailable"))
        }
        assert list(reasons.values()) == ["LimitExceeded"] * 3
        events = [one.message for one in await env.events("InsufficientCapacityError")]
        assert any("ReservationCapacityExceeded" in (one or "") for one in events)

    app_environment.run(program, gangs=True)


def test_instances_of_a_gang_are_kept_while_another_call_is_rejected() -> None:
    """A new plan would have the same error, and would launch them again and again."""

    async def program(env: AppEnvironment) -> None:
        two, one = env.reserve(total=2), env.reserve(total=1, zone_id=ZONE_B)
        rejected = faults.NoCapacity(zone_id=ZONE_B, market="reserved", code="InvalidParameterValue", times=3)
        env.ec2.region.faults.add(rejected)
        await reserved(env, two, one)
        await train(env)
        await until_whole(env)
        assert len(env.all_ec2_instances()) == 3

    app_environment.run(program, gangs=True)


def test_instances_of_a_gang_are_terminated_if_another_call_is_rejected_for_long() -> None:
    async def program(env: AppEnvironment) -> None:
        two, one = env.reserve(total=2), env.reserve(total=1, zone_id=ZONE_B)
        rejected = faults.NoCapacity(zone_id=ZONE_B, market="reserved", code="InvalidParameterValue")
        env.ec2.region.faults.add(rejected)
        await reserved(env, two, one)
        await train(env)
        await env.sleep(4 * MINUTE_S)
        assert len(env.ec2_instances) == 2
        await env.scale("train", 0)
        await until_nothing(env)
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program, gangs=True)


@pytest.mark.parametrize("fault", [faults.Throttled, faults.Lost, faults.Broken, faults.Denied])
def test_gang_in_a_capacity_block_is_launched_once_despite_errors(fault: Any) -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, gang_environment.block(env, total=6))
        await env.sleep(5)
        env.ec2.region.faults.add(fault(operation="RunInstances", times=5))
        await train(env, instance_type=GPU)
        await until_whole(env)
        assert len(env.all_ec2_instances()) == 3

    app_environment.run(program, gangs=True)


# --- Crashes in states that only a fault leads to -----------------------------------------------------


async def crash_after_refusal(env: AppEnvironment, crash_at: int) -> None:
    """A gang with one node in a slot and two on demand, which EC2 refuses at first. The process crashes after this write
    of the rollback."""
    slots = env.reserve(total=1)
    await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    await env.node_pool(
        requirements=[instance_types(LARGE), capacity_types("reserved", "on-demand")],
        disruption={"consolidateAfter": "Never"},  # no node is moved into the slot that becomes free
    )
    await env.sleep(5)
    first = len(env.crashing.writes)
    env.ec2.region.faults.add(faults.NoCapacity(market="on-demand", until_s=env.ec2_clock.now_s() + 10))
    env.crashing.crash_after_write(first + REFUSED + crash_at, after_effect=True)
    await train(env)
    await env.crashing.crashed.wait()
    assert env.writes()[first:].count("CreateFleet") == 2


@pytest.mark.parametrize("crash_at", range(8))
def test_gang_runs_whole_after_a_crash_while_it_was_rolled_back(crash_at: int) -> None:
    async def program(env: AppEnvironment) -> None:
        await crash_after_refusal(env, crash_at)
        launches = await launches_of(env)
        await env.restart(after_s=20)
        await until_whole(env)
        is_continued = await launches_of(env) == launches
        assert len(env.all_ec2_instances()) == (3 if is_continued else 4)

    app_environment.run(program, gangs=True)


def test_instance_of_a_nodeclaim_that_is_not_launched_is_used_after_a_crash() -> None:
    """A rollback writes the instance before it deletes the NodeClaim. Here the gang has capacity again meanwhile."""

    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=6))
        await env.sleep(5)
        env.crashing.crash_after_write(len(env.crashing.writes) + CREATE_FLEET, after_effect=True)
        await train(env)
        await env.crashing.crashed.wait()
        assert env.writes()[-1] == "CreateFleet"
        last = max(await env.claims(), key=lambda one: one.metadata.name)
        change = {"status": {"providerID": f"aws:///us-west-2a/{env.ec2_instances[0].id}"}}
        await env.kube.patch(last, change, status=True)
        await env.restart(after_s=5)
        await until_whole(env)
        assert len(env.all_ec2_instances()) == 3

    app_environment.run(program, gangs=True)


async def launches_of(env: AppEnvironment) -> set[str]:
    return {one.metadata.annotations[names.GANG_LAUNCH] for one in await env.claims()}


def test_all_nodes_of_a_gang_open_if_one_of_them_is_open() -> None:
    async def program(env: AppEnvironment) -> None:
        await reserved(env, env.reserve(total=3))
        await train(env)
        await env.until(lambda: _has_nodes(env, 3))
        await env.sleep(30)
        assert all(map(is_forming, await env.nodes()))
        first, *_ = await env.nodes()
        taints = [msgspec.to_builtins(one) for one in first.spec.taints if one.key != names.FORMING_TAINT]
        await env.kube.patch(first, {"spec": {"taints": taints}}, only_if_unchanged=True)
        await env.sleep(20)
        assert not any(map(is_forming, await env.nodes()))

    app_environment.run(program, gangs=True, timings=NEVER_READY)
