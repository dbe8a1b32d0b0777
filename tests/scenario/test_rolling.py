"""Drift in a full reservation: a node is deleted first, and its slot is held for its replacement."""

import asyncio
from typing import Any

import pytest

import app_world
import cluster_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, pool, said, tainted
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.core.disruption.inputs import Settings
from holdfast.sim.cluster import timings
from holdfast.sim.ec2 import control, faults
from holdfast.sim.ec2.entities import Reservation

SLOT_WAIT_S = Settings().slot_wait_s
# After the drift: TerminateInstances, the time on the waiting claim, its deletion, its finalizer.
WAIT_WRITES = (17, 23, 26, 27)


async def full(world: AppWorld, total: int = 8, budget: str = "2", **pods: Any) -> Reservation:
    """A reservation whose slots are all used by this cluster; the NodePool allows nothing else."""
    slots = world.reserve(total=total)
    await pool(world, slots, kinds=("reserved",), budgets=[{"nodes": budget}])
    await world.deploy("web", total, **ONE_PER_NODE, **pods)
    await world.until_running(total)
    assert world.in_reservation(slots) == total
    return slots


@pytest.mark.fact("aws-6.3.7", "W-4", "AW-16")
def test_full_reservation_is_rolled_despite_a_restart_a_bigger_pod_and_a_disruption_budget() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world)
        await world.create(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            {
                "metadata": {"name": "web"},
                "spec": {"maxUnavailable": 2, "selector": {"matchLabels": {"app": "web"}}},
            },
        )
        await world.deploy("bigger", 1, cpu="1800m")
        await world.sleep(30)
        await drift_all(world)
        began_s, restarted = world.clock.monotonic_s(), False
        while not all(map(is_new, nodes := await world.nodes())) or len(nodes) < 8:
            assert world.clock.monotonic_s() - began_s < 3600, "the reservation is not rolled within an hour"
            assert len(await world.running()) >= 6
            disrupted = [n for n in nodes if tainted(n) or n.metadata.deletion_timestamp is not None]
            assert len(disrupted) <= 2
            if not restarted and any(map(is_new, nodes)):
                restarted = True
                await world.restart(after_s=20)
            await world.sleep(5)
        assert restarted
        assert world.in_reservation(slots) == 8
        assert len(world.all_machines()) == 16  # no duplicate launch
        assert not any(map(tainted, await world.nodes()))

    app_world.run(program)


async def take_next_free_slot(world: AppWorld, slots: Reservation) -> None:
    """Another account takes a slot as soon as it is free."""
    while world.free(slots) == 0:
        await world.sleep(0.1)
    control.take(world.ec2.world, slots.id, 1)


async def waiting(world: AppWorld) -> list[NodeClaim]:
    """Claims that wait for a slot, oldest first."""
    found = [c for c in await world.claims() if names.WAITS_FOR_INSTANCE in c.metadata.annotations]
    return sorted(found, key=lambda c: (c.metadata.creation_timestamp, c.metadata.name))


def test_replacement_waits_for_a_slot_that_another_account_took_and_no_second_node_is_deleted() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=4, budget="1")
        await drift_all(world)
        await take_next_free_slot(world, slots)
        for _ in range(50):
            await world.sleep(10)
            assert world.in_reservation(slots) == 3
            assert len(await world.running()) == 3
        (claim,) = [c for c in await world.claims() if not c.status.provider_id]
        assert said(claim, "Launched") == ("Unknown", "WaitsForSlot")
        blocked = await world.events("DisruptionBlocked")
        assert any("no second node is deleted" in event.message for event in blocked)
        await world.sleep(150)
        assert await world.gone(NodeClaim, claim.metadata.name)
        assert [event.involved_object.name for event in await world.events("SlotTaken")] == [
            claim.metadata.name
        ]

    app_world.run(program)


def test_restarts_do_not_extend_the_wait_for_a_slot_that_was_taken() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=2, budget="1")
        await drift_all(world)
        await take_next_free_slot(world, slots)
        (claim,) = await waiting(world)
        began_s = world.clock.monotonic_s()
        while not await world.gone(NodeClaim, claim.metadata.name):
            assert world.clock.monotonic_s() - began_s < SLOT_WAIT_S + 120
            await world.sleep(60)
            await world.restart()
        assert world.clock.monotonic_s() - began_s > SLOT_WAIT_S - 30

    app_world.run(program)


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("write", WAIT_WRITES)
def test_crash_at_any_write_does_not_extend_the_wait_for_a_slot(write: int, *, after_effect: bool) -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=2, budget="1")
        await drift_all(world)
        first = world.hands
        first.die_at(len(first.writes) + write, after_effect=after_effect)
        restarter = asyncio.create_task(restart_on_crash(world))
        await take_next_free_slot(world, slots)
        (claim,) = await waiting(world)
        await until_removed(world, claim)
        assert first.dead.is_set()
        assert world.in_reservation(slots) == 1
        restarter.cancel()

    app_world.run(program)


async def restart_on_crash(world: AppWorld) -> None:
    while True:
        await world.hands.dead.wait()
        await world.restart()


async def until_removed(world: AppWorld, claim: NodeClaim) -> None:
    async def is_removed() -> bool:
        return await world.gone(NodeClaim, claim.metadata.name)

    await world.until(is_removed, within_s=SLOT_WAIT_S + 120)


def test_one_taken_slot_delays_only_one_of_three_replacements() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=4, budget="3")
        await drift_all(world)
        await take_next_free_slot(world, slots)
        *others, last = await waiting(world)
        assert len(others) == 2

        async def others_run() -> bool:
            return len(await world.running()) == 3

        await world.until(others_run, within_s=60)
        for _ in range(30):
            assert world.in_reservation(slots) == 3 == len(await world.running())
            assert [claim.metadata.name for claim in await waiting(world)] == [last.metadata.name]
            assert sum(map(is_new, await world.nodes())) == 2  # the fourth node is not deleted
            await world.sleep(10)
        (still,) = await waiting(world)
        assert said(still, "Launched") == ("Unknown", "WaitsForSlot")
        control.give(world.ec2.world, slots.id, 1)

        async def rolled() -> bool:
            nodes = await world.nodes()
            return len(nodes) == 4 and all(map(is_new, nodes))

        await world.until(rolled, within_s=300)
        assert len(world.all_machines()) == 8

    app_world.run(program)


def test_replacement_waits_for_a_slot_that_is_taken_between_the_count_and_the_launch() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=2, budget="1")
        world.ec2.world.faults.add(faults.Taken(reservation_id=slots.id, times=1))
        await drift_all(world)
        while world.ec2.world.reservations[slots.id].elsewhere == 0:
            await world.sleep(1)
        (claim,) = await waiting(world)
        for _ in range(20):
            await world.sleep(10)
            assert [one.metadata.name for one in await waiting(world)] == [claim.metadata.name]
            assert world.in_reservation(slots) == 1  # the other node is not deleted
        control.give(world.ec2.world, slots.id, 1)

        async def launched() -> bool:
            return world.in_reservation(slots) == 2

        await world.until(launched, within_s=60)

    app_world.run(program)


@pytest.mark.parametrize(("pod_spec", "bound_bigger_pods"), [({}, 1), ({"priorityClassName": "above"}, 0)])
def test_bigger_pending_pod_causes_no_launch_and_is_bound_by_priority_and_age(
    pod_spec: dict[str, Any], bound_bigger_pods: int
) -> None:
    """The replacement gets the slot. kube-scheduler binds pods to its node by priority, then by age."""

    async def program(world: AppWorld) -> None:
        above = {"metadata": {"name": "above"}, "value": 100}
        await world.create("/apis/scheduling.k8s.io/v1/priorityclasses", above)
        slots = await full(world, total=2, budget="1", **pod_spec)
        await world.deploy("bigger", 1, cpu="1800m")
        await world.sleep(30)
        await drift_all(world)

        async def rolled() -> bool:
            assert len(world.machines) <= 2 == len(await world.pods())
            nodes = await world.nodes()
            running = len(await world.running()) + len(await world.running("bigger"))
            return len(nodes) == 2 == running and all(map(is_new, nodes))

        await world.until(rolled, within_s=600)
        assert world.in_reservation(slots) == 2
        assert len(world.all_machines()) == 4  # one replacement per node, and none for the bigger pod
        assert len(await world.running("bigger")) == bound_bigger_pods
        await world.scale("bigger", 0)
        await world.until_running(2)  # both pods of the app run again

    app_world.run(program)


DRAINS_S = 30 * 60


async def slow_to_drain(world: AppWorld) -> Reservation:
    """A reserved node with spare capacity in a mixed NodePool, and a pod on it that takes half an hour to terminate."""
    slots = world.reserve("m5.xlarge", total=1)
    agent = cluster_world.workload("agent", cpu="100m")
    await world.create("/apis/apps/v1/namespaces/default/daemonsets", agent)
    await pool(world, slots, types=("m5.large", "m5.xlarge"))
    await world.deploy("web", 1, cpu="3")
    await world.until_running(1)
    lasts = {timings.STOPS_AFTER: str(DRAINS_S)}
    await world.deploy("slow", 1, cpu="200m", annotations=lasts, terminationGracePeriodSeconds=DRAINS_S)
    await world.until_running(1, "slow")
    assert world.in_reservation(slots) == 1 == len(world.machines)
    return slots


def test_unrelated_pods_do_not_wait_for_a_slow_drain() -> None:
    """The replacement has capacity for them, but starts only after the drain. The evicted pods wait for it."""

    async def program(world: AppWorld) -> None:
        slots = await slow_to_drain(world)
        await drift_all(world)

        async def drains() -> bool:
            return bool(await waiting(world)) and not await world.running()

        await world.until(drains)
        await world.deploy("small", 1, cpu="300m")
        assert await world.until_running(1, "small") < 60
        await world.restart(after_s=20)
        await world.deploy("other", 1, cpu="1800m")
        assert await world.until_running(1, "other") < 60
        await world.sleep(DRAINS_S - 600)
        assert len(await waiting(world)) == 1
        assert await world.running() == []
        await world.until_running(1, within_s=900)
        assert world.in_reservation(slots) == 1
        assert [one.instance_type for one in world.all_machines()].count("m5.xlarge") == 2

    app_world.run(program)
