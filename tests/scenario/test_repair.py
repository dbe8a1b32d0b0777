"""Nodes that turn ill in the running program: a reserved one is rebooted first, since that keeps its slot."""

import dataclasses

import msgspec
import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, pool
from holdfast import names
from holdfast.state import times

REPAIR = dataclasses.replace(
    app_world.SETTINGS, disruption=dataclasses.replace(app_world.SETTINGS.disruption, node_repair=True)
)
TOLERATED_S = 30 * 60


async def kernel_is(world: AppWorld, status: str) -> None:
    """What an agent on the node says of it."""
    (node,) = await world.nodes()
    now = times.text(world.clock.now_s())
    said = {"type": "KernelReady", "status": status, "reason": "Seen", "lastTransitionTime": now}
    others = [one for one in msgspec.to_builtins(node.status.conditions) if one["type"] != said["type"]]
    change = {"status": {"conditions": [*others, said]}}
    await world.kube.patch(node, change, status=True, only_if_unchanged=True)


@pytest.mark.fact("W-24")
def test_a_reserved_node_that_is_ill_is_rebooted_and_keeps_its_machine_and_its_slot() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await pool(world, slots, kinds=("reserved",))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        (node,), (machine,) = await world.nodes(), world.machines
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S - 60)
        assert world.machines[0].boots == machine.boots  # that is tolerated for a while

        async def back() -> bool:
            (found,) = await world.nodes()
            return found.status.node_info.boot_id != node.status.node_info.boot_id and not any(
                taint.key == names.REBOOTING_TAINT for taint in found.spec.taints
            )

        await world.until(back, within_s=600)
        await kernel_is(world, "True")
        assert [one.id for one in world.all_machines()] == [machine.id]
        assert world.in_reservation(slots) == 1
        await world.sleep(TOLERATED_S)
        assert [one.id for one in world.machines] == [machine.id]  # once was enough

    app_world.run(program, settings=REPAIR)


def test_without_the_gate_a_node_that_is_ill_is_left_alone() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await pool(world, slots, kinds=("reserved",))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        (machine,) = world.machines
        await kernel_is(world, "False")
        await world.sleep(TOLERATED_S + 600)
        assert world.machines[0].boots == machine.boots

    app_world.run(program)
