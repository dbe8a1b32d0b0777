"""Drift in a full reservation: a node is deleted first, and its slot is held for its replacement."""

import asyncio
from typing import Any

import pytest

import app_environment
import cluster_environment
from app_environment import AppEnvironment
from disruption_environment import ONE_PER_NODE, condition_of, drift_all, is_new, pool, tainted
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.disruption.inputs import Settings
from holdfast.sim.cluster import timings
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation

SLOT_WAIT_S = Settings().slot_wait_s
# After the drift: TerminateInstances, the time on the waiting claim, its deletion, its finalizer.
WAIT_WRITES = (17, 23, 26, 27)


async def full(env: AppEnvironment, total: int = 8, budget: str = "2", **pods: Any) -> Reservation:
    """A reservation whose slots are all used by this cluster; the NodePool allows nothing else."""
    slots = env.reserve(total=total)
    await pool(env, slots, kinds=("reserved",), budgets=[{"nodes": budget}])
    await env.deploy("web", total, **ONE_PER_NODE, **pods)
    await env.until_running(total)
    assert env.in_reservation(slots) == total
    return slots


@pytest.mark.fact("aws-6.3.7", "W-4", "AW-16")
def test_full_reservation_is_rolled_despite_a_restart_a_bigger_pod_and_a_disruption_budget() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await full(env)
        await env.create(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {
                "metadata": {"name": "web"},
                "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}},
            },
        )
        await env.deploy("bigger", 1, cpu="1800m")
        await env.sleep(30)
        await drift_all(env)
        began_s, restarted = env.clock.monotonic_s(), False
        while not all(map(is_new, nodes := await env.nodes())) or len(nodes) < 8:
            assert env.clock.monotonic_s() - began_s < 3600, "the reservation is not rolled within an hour"
            assert len(await env.running()) >= 6
            disrupted = [n for n in nodes if tainted(n) or n.metadata.deletion_timestamp is not None]
            assert len(disrupted) <= 2
            if not restarted and any(map(is_new, nodes)):
                restarted = True
                await env.restart(after_s=20)
            await env.sleep(5)
        assert restarted
        assert env.in_reservation(slots) == 8
        assert len(env.all_ec2_instances()) == 16  # no duplicate launch
        assert not any(map(tainted, await env.nodes()))

    app_environment.run(program)


async def take_next_free_slot(env: AppEnvironment, slots: Reservation) -> None:
    """Another account takes a slot as soon as it is free."""
    while env.free(slots) == 0:
        await env.sleep(0.1)
    control.take(env.ec2.region, slots.id, 1)


async def waiting(env: AppEnvironment) -> list[NodeClaim]:
    """Claims that wait for a slot, oldest first."""
    found = [c for c in await env.claims() if names.WAITS_FOR_INSTANCE in c.metadata.annotations]
    return sorted(found, key=lambda c: (c.metadata.creation_timestamp, c.metadata.name))


def test_replacement_waits_for_a_slot_that_another_account_took_and_no_second_node_is_deleted() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await full(env, total=4, budget="1")
        await drift_all(env)
        await take_next_free_slot(env, slots)
        for _ in range(50):
            await env.sleep(10)
            assert env.in_reservation(slots) == 3
            assert len(await env.running()) == 3
        (claim,) = [c for c in await env.claims() if not c.status.provider_id]
        assert condition_of(claim, "Launched") == ("Unknown", "WaitsForSlot")
        blocked = await env.events("DisruptionBlocked")
        assert any("no second node is deleted" in event.message for event in blocked)
        await env.sleep(150)
        assert await env.is_deleted(NodeClaim, claim.metadata.name)
        assert [event.involved_object.name for event in await env.events("SlotTaken")] == [
            claim.metadata.name
        ]

    app_environment.run(program)


def test_restarts_do_not_extend_the_wait_for_a_slot_that_was_taken() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await full(env, total=2, budget="1")
        await drift_all(env)
        await take_next_free_slot(env, slots)
        (claim,) = await waiting(env)
        began_s = env.clock.monotonic_s()
        while not await env.is_deleted(NodeClaim, claim.metadata.name):
            assert env.clock.monotonic_s() - began_s < SLOT_WAIT_S + 120
            await env.sleep(60)
            await env.restart()
        assert env.clock.monotonic_s() - began_s > SLOT_WAIT_S - 30

    app_environment.run(program)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", WAIT_WRITES)
def test_crash_at_any_write_does_not_extend_the_wait_for_a_slot(write: int, *, after_effect: bool) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await full(env, total=2, budget="1")
        await drift_all(env)
        first = env.crashing
        first.crash_after_write(len(first.writes) + write, after_effect=after_effect)
        restarter = asyncio.create_task(restart_on_crash(env))
        await take_next_free_slot(env, slots)
        (claim,) = await waiting(env)
        await until_removed(env, claim)
        assert first.crashed.is_set()
        assert env.in_reservation(slots) == 1
        restarter.cancel()

    app_environment.run(program)


async def restart_on_crash(env: AppEnvironment) -> None:
    while True:
        await env.crashing.crashed.wait()
        await env.restart()


async def until_removed(env: AppEnvironment, claim: NodeClaim) -> None:
    async def is_removed() -> bool:
        return await env.is_deleted(NodeClaim, claim.metadata.name)

    await env.until(is_removed, within_s=SLOT_WAIT_S + 120)


def test_one_taken_slot_delays_only_one_of_three_replacements() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await full(env, total=4, budget="3")
        await drift_all(env)
        await take_next_free_slot(env, slots)
        *others, last = await waiting(env)
        assert len(others) == 2

        async def others_run() -> bool:
            return len(await env.running()) == 3

        await env.until(others_run, within_s=60)
        for _ in range(30):
            assert env.in_reservation(slots) == 3 == len(await env.running())
            assert [claim.metadata.name for claim in await waiting(env)] == [last.metadata.name]
            assert sum(map(is_new, await env.nodes())) == 2  # the fourth node is not deleted
            await env.sleep(10)
        (still,) = await waiting(env)
        assert condition_of(still, "Launched") == ("Unknown", "WaitsForSlot")
        control.give(env.ec2.region, slots.id, 1)

        async def rolled() -> bool:
            nodes = await env.nodes()
            return len(nodes) == 4 and all(map(is_new, nodes))

        await env.until(rolled, within_s=300)
        assert len(env.all_ec2_instances()) == 8

    app_environment.run(program)


def test_replacement_waits_for_a_slot_that_is_taken_between_the_count_and_the_launch() -> None:
    async def program(env: AppEnvironment) -> None:
        slots = await full(env, total=2, budget="1")
        env.ec2.region.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        await drift_all(env)
        while env.ec2.region.reservations[slots.id].elsewhere == 0:
            await env.sleep(1)
        (claim,) = await waiting(env)
        for _ in range(20):
            await env.sleep(10)
            assert [one.metadata.name for one in await waiting(env)] == [claim.metadata.name]
            assert env.in_reservation(slots) == 1  # the other node is not deleted
        control.give(env.ec2.region, slots.id, 1)

        async def launched() -> bool:
            return env.in_reservation(slots) == 2

        await env.until(launched, within_s=60)

    app_environment.run(program)


@pytest.mark.parametrize(("pod_spec", "bound_bigger_pods"), [({}, 1), ({"priorityClassName": "above"}, 0)])
def test_bigger_pending_pod_causes_no_launch_and_is_bound_by_priority_and_age(
    pod_spec: dict[str, Any], bound_bigger_pods: int
) -> None:
    """The replacement gets the slot. kube-scheduler binds pods to its node by priority, then by age."""

    async def program(env: AppEnvironment) -> None:
        above = {"metadata": {"name": "above"}, "value": 100}
        await env.create("/apis/scheduling.k8s.io/v1/priorityclasses", above)
        slots = await full(env, total=2, budget="1", **pod_spec)
        await env.deploy("bigger", 1, cpu="1800m")
        await env.sleep(30)
        await drift_all(env)

        async def rolled() -> bool:
            assert len(env.ec2_instances) <= 2 == len(await env.pods())
            nodes = await env.nodes()
            running = len(await env.running()) + len(await env.running("bigger"))
            return len(nodes) == 2 == running and all(map(is_new, nodes))

        await env.until(rolled, within_s=600)
        assert env.in_reservation(slots) == 2
        assert len(env.all_ec2_instances()) == 4  # one replacement per node, and none for the bigger pod
        assert len(await env.running("bigger")) == bound_bigger_pods
        await env.scale("bigger", 0)
        await env.until_running(2)  # both pods of the app run again

    app_environment.run(program)


DRAINS_S = 30 * 60


async def slow_to_drain(env: AppEnvironment) -> Reservation:
    """A reserved node with spare capacity in a mixed NodePool, and a pod on it that takes half an hour to terminate."""
    slots = env.reserve("m5.xlarge", total=1)
    agent = cluster_environment.workload("agent", cpu="100m")
    await env.create("/apis/apps/v1/namespaces/default/daemonsets", agent)
    await pool(env, slots, types=("m5.large", "m5.xlarge"))
    await env.deploy("web", 1, cpu="3")
    await env.until_running(1)
    lasts = {timings.STOPS_AFTER: str(DRAINS_S)}
    await env.deploy("slow", 1, cpu="200m", annotations=lasts, terminationGracePeriodSeconds=DRAINS_S)
    await env.until_running(1, "slow")
    assert env.in_reservation(slots) == 1 == len(env.ec2_instances)
    return slots


def test_unrelated_pods_do_not_wait_for_a_slow_drain() -> None:
    """The replacement has capacity for them, but starts only after the drain. The evicted pods wait for it."""

    async def program(env: AppEnvironment) -> None:
        slots = await slow_to_drain(env)
        await drift_all(env)

        async def drains() -> bool:
            return bool(await waiting(env)) and not await env.running()

        await env.until(drains)
        await env.deploy("small", 1, cpu="300m")
        assert await env.until_running(1, "small") < 60
        await env.restart(after_s=20)
        await env.deploy("other", 1, cpu="1800m")
        assert await env.until_running(1, "other") < 60
        await env.sleep(DRAINS_S - 600)
        assert len(await waiting(env)) == 1
        assert await env.running() == []
        await env.until_running(1, within_s=900)
        assert env.in_reservation(slots) == 1
        assert [one.instance_type for one in env.all_ec2_instances()].count("m5.xlarge") == 2

    app_environment.run(program)
