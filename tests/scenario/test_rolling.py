"""Rolling a full reservation in the running program: a node goes first, and its slot is held for its replacement."""

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
    """A reservation all of whose slots are nodes of ours, and nothing else is allowed."""
    slots = world.reserve(total=total)
    await pool(world, slots, kinds=("reserved",), budgets=[{"nodes": budget}])
    await world.deploy("web", total, **ONE_PER_NODE, **pods)
    await world.until_running(total)
    assert world.in_reservation(slots) == total
    return slots


@pytest.mark.fact("aws-6.3.7", "W-4", "AW-16")
def test_a_full_reservation_is_rolled_with_a_restart_a_bigger_pod_and_a_disruption_budget() -> None:
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
            assert world.clock.monotonic_s() - began_s < 3600, "it is not rolled within an hour"
            assert len(await world.running()) >= 6
            going = [n for n in nodes if tainted(n) or n.metadata.deletion_timestamp is not None]
            assert len(going) <= 2
            if not restarted and any(map(is_new, nodes)):
                restarted = True
                await world.restart(after_s=20)
            await world.sleep(5)
        assert restarted
        assert world.in_reservation(slots) == 8
        assert len(world.all_machines()) == 16  # nothing was launched twice
        assert not any(map(tainted, await world.nodes()))

    app_world.run(program)


async def taken_when_free(world: AppWorld, slots: Reservation) -> None:
    """Another account takes a slot in the moment it is left."""
    while world.free(slots) == 0:
        await world.sleep(0.1)
    control.take(world.ec2.world, slots.id, 1)


async def waiting(world: AppWorld) -> list[NodeClaim]:
    """Claims that wait for a slot, oldest first."""
    found = [c for c in await world.claims() if names.WAITS_FOR_INSTANCE in c.metadata.annotations]
    return sorted(found, key=lambda c: (c.metadata.creation_timestamp, c.metadata.name))


def test_a_slot_that_another_account_takes_is_waited_for_and_no_second_node_is_given_up() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=4, budget="1")
        await drift_all(world)
        await taken_when_free(world, slots)
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
        await taken_when_free(world, slots)
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
def test_a_crash_at_any_write_of_a_wait_does_not_extend_it(write: int, *, after_effect: bool) -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=2, budget="1")
        await drift_all(world)
        first = world.hands
        first.die_at(len(first.writes) + write, after_effect=after_effect)
        keeper = asyncio.create_task(restart_when_dead(world))
        await taken_when_free(world, slots)
        (claim,) = await waiting(world)
        await until_gone(world, claim)
        assert first.dead.is_set()
        assert world.in_reservation(slots) == 1
        keeper.cancel()

    app_world.run(program)


async def restart_when_dead(world: AppWorld) -> None:
    while True:
        await world.hands.dead.wait()
        await world.restart()


async def until_gone(world: AppWorld, claim: NodeClaim) -> None:
    async def gone() -> bool:
        return await world.gone(NodeClaim, claim.metadata.name)

    await world.until(gone, within_s=SLOT_WAIT_S + 120)


def test_one_slot_that_is_taken_keeps_one_of_three_waiting_and_not_all() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=4, budget="3")
        await drift_all(world)
        await taken_when_free(world, slots)
        *quick, loser = await waiting(world)
        assert len(quick) == 2

        async def others_run() -> bool:
            return len(await world.running()) == 3

        await world.until(others_run, within_s=60)
        for _ in range(30):
            assert world.in_reservation(slots) == 3 == len(await world.running())
            assert [claim.metadata.name for claim in await waiting(world)] == [loser.metadata.name]
            assert sum(map(is_new, await world.nodes())) == 2  # the fourth is not given up
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


def test_a_slot_that_is_taken_between_the_count_and_the_launch_is_still_waited_for() -> None:
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
            assert world.in_reservation(slots) == 1  # the other node is not given up for it
        control.give(world.ec2.world, slots.id, 1)

        async def launched() -> bool:
            return world.in_reservation(slots) == 2

        await world.until(launched, within_s=60)

    app_world.run(program)


@pytest.mark.parametrize(("of_pods", "gets_in"), [({}, 1), ({"priorityClassName": "above"}, 0)])
def test_a_bigger_pod_that_waited_before_takes_no_slot_and_room_only_where_kube_scheduler_gives_it(
    of_pods: dict[str, Any], gets_in: int
) -> None:
    """The slot is the replacement's. Who is bound to its node is for kube-scheduler to say: by priority, then by age."""

    async def program(world: AppWorld) -> None:
        above = {"metadata": {"name": "above"}, "value": 100}
        await world.create("/apis/scheduling.k8s.io/v1/priorityclasses", above)
        slots = await full(world, total=2, budget="1", **of_pods)
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
        assert len(world.all_machines()) == 4  # one replacement a node, and nothing for the bigger one
        assert len(await world.running("bigger")) == gets_in
        await world.scale("bigger", 0)
        await world.until_running(2)  # who lost a place has one again

    app_world.run(program)


DRAINS_S = 30 * 60


async def slow_to_drain(world: AppWorld) -> Reservation:
    """A slot with room to spare, in a pool that may also buy, and on its node a pod that takes half an hour to end."""
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


def test_a_pod_that_has_nothing_to_do_with_a_node_that_drains_does_not_wait_for_it() -> None:
    """The replacement has room for it, but comes only when the drain is over. Those it comes for wait for it."""

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
