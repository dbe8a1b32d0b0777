"""Nodes that turn ill in the running program: a reserved one is rebooted first, since that keeps its slot."""

import dataclasses
from typing import Any

import pytest

import app_world
import cluster_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, kernel_is, pool, said
from holdfast import names
from holdfast.api.nodes import Node
from holdfast.sim.cluster import timings
from holdfast.sim.ec2.entities import Instance, Reservation

REPAIR = dataclasses.replace(
    app_world.SETTINGS, disruption=dataclasses.replace(app_world.SETTINGS.disruption, node_repair=True)
)
TOLERATED_S = 30 * 60


async def one_slot(
    world: AppWorld, *, kinds: tuple[str, ...] = ("reserved",), pods: Any = None, **template: Any
) -> Reservation:
    """A reservation of one, a node in it, and nothing else is allowed unless `kinds` says so."""
    slots = world.reserve(total=1)
    await pool(world, slots, kinds=kinds, **template)
    await world.deploy("web", 1, **ONE_PER_NODE | (pods or {}))
    await world.until_running(1)
    return slots


async def rebooting(world: AppWorld) -> bool:
    return any(
        taint.key == names.REBOOTING_TAINT for node in await world.nodes() for taint in node.spec.taints
    )


async def until_rebooted(world: AppWorld, before: Node) -> None:
    async def back() -> bool:
        (found,) = await world.nodes()
        return found.status.node_info.boot_id != before.status.node_info.boot_id and not await rebooting(
            world
        )

    await world.until(back, within_s=600)


@pytest.mark.fact("NC-39a", "W-24", "NC-17", "E-3")
def test_a_reserved_node_that_is_ill_is_emptied_and_rebooted_and_keeps_its_machine_and_its_slot() -> None:
    async def program(world: AppWorld) -> None:
        slots = await one_slot(world)
        (node,), (machine,), (pod,) = await world.nodes(), world.machines, await world.running()
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S - 60)
        assert world.machines[0].boots == machine.boots  # that is tolerated for a while
        await world.until(lambda: rebooting(world), within_s=120)
        assert world.machines[0].boots == machine.boots  # not before its pods are gone
        (claim,) = await world.claims()
        assert said(claim, "Rebooting") == ("True", "RebootRequested")
        assert said(claim, "Initialized") == ("True", "Initialized")
        assert (await world.nodes())[0].metadata.labels[names.INITIALIZED] == "true"
        await until_rebooted(world, node)
        (evicted,) = await world.events("Evicted")
        assert evicted.involved_object.name == pod.metadata.name
        await kernel_is(world, "True")
        await world.until_running(1)
        (claim,) = await world.claims()
        assert said(claim, "Rebooting") == ("False", "RebootSucceeded")
        assert [one.id for one in world.all_machines()] == [machine.id]
        assert world.in_reservation(slots) == 1
        await world.sleep(TOLERATED_S)
        assert [one.id for one in world.machines] == [machine.id]  # once was enough

    app_world.run(program, settings=REPAIR)


def test_a_pod_that_only_a_list_shows_is_evicted_before_its_node_is_rebooted() -> None:
    async def program(world: AppWorld) -> None:
        await one_slot(world)
        (node,) = await world.nodes()
        await kernel_is(world, "False")
        await world.until(lambda: rebooting(world), within_s=TOLERATED_S + 120)
        world.line.silence("pods")
        bound = cluster_world.pod_spec(cpu="10m") | {"nodeName": node.metadata.name}
        document = {"metadata": {"name": "late", "namespace": "default"}, "spec": bound}
        await world.create("/api/v1/namespaces/default/pods", document)
        await until_rebooted(world, node)
        evicted = {event.involved_object.name for event in await world.events("Evicted")}
        assert "late" in evicted

    app_world.run(program, settings=REPAIR)


@pytest.mark.fact("NC-39a")
def test_a_pod_that_its_budget_keeps_rides_along_when_the_time_to_empty_the_node_is_up() -> None:
    async def program(world: AppWorld) -> None:
        await one_slot(world, terminationGracePeriod="2m")
        await world.forbid_evictions()
        (node,), (machine,), (pod,) = await world.nodes(), world.machines, await world.running()
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S - 60)
        await world.until(lambda: rebooting(world), within_s=120)
        await world.sleep(110)
        assert world.machines[0].boots == machine.boots
        await until_rebooted(world, node)
        await world.until_running(1)
        assert [one.metadata.uid for one in await world.running()] == [pod.metadata.uid]
        assert await world.events("Evicted") == []

    app_world.run(program, settings=REPAIR)


def without_agent(world: AppWorld) -> None:
    """Nothing on the machine answers any more, and a reboot does not help."""
    (machine,) = world.machines
    world.ec2.world.put_instance(machine, silent=True)


async def is_replaced_in_its_slot(world: AppWorld, slots: Reservation, before: Instance) -> None:
    """Never two machines at a time, none outside the slot, which is held from the moment the old one goes."""

    async def is_new() -> bool:
        found = world.machines
        assert len(found) <= 1
        assert all(one.reservation_id == slots.id for one in found)
        held = [c for c in await world.claims() if names.WAITS_FOR_INSTANCE in c.metadata.annotations]
        assert found or held, "nobody holds the slot"
        return bool(found) and found[0].id != before.id

    await world.until(is_new, within_s=2 * TOLERATED_S)
    await world.until_running(1)
    assert len(world.all_machines()) == 2


def test_a_reserved_node_that_is_still_ill_after_a_reboot_is_replaced_with_its_slot_held() -> None:
    async def program(world: AppWorld) -> None:
        slots = await one_slot(world)
        (node,), (machine,) = await world.nodes(), world.machines
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S)
        await until_rebooted(world, node)
        await world.sleep(200)
        assert [one.id for one in world.machines] == [
            machine.id
        ]  # whoever says so is given time to look again
        await is_replaced_in_its_slot(world, slots, machine)
        assert await world.events("RebootFailed") == []

    app_world.run(program, settings=REPAIR)


@pytest.mark.fact("NC-39a", "E-3")
def test_a_reserved_node_that_does_not_come_back_is_replaced_with_its_slot_held() -> None:
    async def program(world: AppWorld) -> None:
        slots = await one_slot(world)
        (machine,) = world.machines
        without_agent(world)
        await world.sleep(TOLERATED_S)
        await world.until(lambda: rebooting(world), within_s=300)
        await is_replaced_in_its_slot(world, slots, machine)
        assert len(await world.events("RebootFailed")) == 1

    app_world.run(program, settings=REPAIR)


def test_without_the_gate_a_node_that_is_ill_is_left_alone() -> None:
    async def program(world: AppWorld) -> None:
        await one_slot(world)
        (machine,) = world.machines
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S + 600)
        assert world.machines[0].boots == machine.boots

    app_world.run(program)


MIXED = ("reserved", "on-demand")


@pytest.mark.parametrize("stops_s", [1, 30])
def test_where_a_node_could_be_bought_pods_wait_for_theirs_to_be_rebooted_all_the_same(stops_s: int) -> None:
    async def program(world: AppWorld) -> None:
        slow = {"annotations": {timings.STOPS_AFTER: str(stops_s)}, "terminationGracePeriodSeconds": 60}
        await one_slot(world, kinds=MIXED, pods=slow)
        (node,), (machine,) = await world.nodes(), world.machines
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S - 60)
        await world.until(lambda: rebooting(world), within_s=120)
        await world.sleep(10)
        await until_rebooted(world, node)
        await kernel_is(world, "True")
        await world.until_running(1)
        assert [one.id for one in world.all_machines()] == [machine.id]

    app_world.run(program, settings=REPAIR)


def test_others_do_not_wait_for_a_reboot_and_nobody_waits_for_it_for_longer_than_ten_minutes() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve("m5.xlarge", total=1)
        await pool(world, slots, types=("m5.large", "m5.xlarge"))
        await world.deploy("web", 1, cpu="3")
        await world.until_running(1)
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S - 60)
        await world.until(lambda: rebooting(world), within_s=120)
        without_agent(world)  # so it will not be back
        await world.deploy("other", 1, cpu="300m")
        assert await world.until_running(1, "other") < 60
        await world.restart(after_s=20)
        await world.sleep(480)
        assert await world.running() == []
        await world.until_running(1, within_s=150)
        assert await rebooting(world)

    app_world.run(program, settings=REPAIR)


def test_a_reboot_that_was_begun_is_seen_through_when_the_gate_is_shut_meanwhile() -> None:
    async def program(world: AppWorld) -> None:
        slots = await one_slot(world)
        (machine,) = world.machines
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S - 60)
        await world.until(lambda: rebooting(world), within_s=120)
        without_agent(world)
        world.settings = app_world.SETTINGS
        await world.restart(after_s=20)
        await is_replaced_in_its_slot(world, slots, machine)
        assert len(await world.events("RebootFailed")) == 1

    app_world.run(program, settings=REPAIR)


# --- Killed in the middle of it ---------------------------------------------------------------------------

WRITES = 15  # from the fault that was tolerated for long enough to the pod that runs again
MARKED = 7  # the machine is, and it is not yet rebooted: rather than perhaps twice it is not, and is replaced


def repaired(dies_at: int | None) -> int:
    """How many writes it took; the program dies once, when one of them took effect and before it is told so."""
    took: list[int] = []

    async def program(world: AppWorld) -> None:
        slots = await one_slot(world)
        (node,), (machine,) = await world.nodes(), world.machines
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S - 60)
        hands, first = world.hands, len(world.hands.writes)
        if dies_at is not None:
            hands.die_at(first + dies_at, after_effect=True)
        healthy = False

        async def is_over() -> bool:
            nonlocal healthy
            if world.hands.dead.is_set():
                await world.restart()
            if dies_at == MARKED:
                return world.machines != [machine] and len(await world.running()) == 1
            (now,) = await world.nodes()
            if not healthy and now.status.node_info.boot_id != node.status.node_info.boot_id:
                healthy = True
                await kernel_is(world, "True")
            (claim,) = await world.claims()
            over = said(claim, "Rebooting") == ("False", "RebootSucceeded")
            return over and len(await world.running()) == 1

        await world.until(is_over, within_s=2400)
        await world.sleep(60)
        took.append(len(hands.writes) - first)
        assert hands.dead.is_set() == (dies_at is not None)
        await world.sleep(TOLERATED_S)
        assert not await rebooting(world)
        (after,) = world.machines
        assert (after.id == machine.id, after.boots) == ((False, 1) if dies_at == MARKED else (True, 2))
        assert world.in_reservation(slots) == 1 == len(await world.running())

    app_world.run(program, settings=REPAIR)
    return took[0]


def test_every_write_of_a_repair_is_one_of_those_after_which_the_program_dies() -> None:
    assert repaired(None) == WRITES


@pytest.mark.parametrize("write", range(WRITES))
def test_a_program_that_dies_while_it_reboots_a_node_is_made_good_by_the_next(write: int) -> None:
    repaired(write)
