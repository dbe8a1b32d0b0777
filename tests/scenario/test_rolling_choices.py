"""Drift in a full reservation where a node can be replaced in several ways, or in none. In virtual time."""

import dataclasses

import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, pool, said, tainted
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.app.settings import Settings
from holdfast.core.disruption.inputs import MixedPools
from holdfast.sim.ec2 import control


def rolls(choice: MixedPools) -> Settings:
    disruption = dataclasses.replace(app_world.SETTINGS.disruption, roll_mixed_pools=choice)
    return dataclasses.replace(app_world.SETTINGS, disruption=disruption)


@pytest.mark.parametrize(
    ("choice", "kinds"),
    [
        (MixedPools.WAIT, ["reserved", "reserved"]),
        (MixedPools.FALLBACK, ["on-demand", "reserved", "reserved"]),
    ],
)
def test_roll_mixed_pools_setting_chooses_between_waiting_and_on_demand_fallback(
    choice: MixedPools, kinds: list[str]
) -> None:
    """By default the pod waits for its slot; with fallback it moves to an on-demand node and back."""

    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=1)
        await pool(world, slots, kinds=("reserved", "on-demand"))
        await world.deploy("web", 1, **ONE_PER_NODE)
        await world.until_running(1)
        await drift_all(world)

        async def rolled() -> bool:
            nodes = await world.nodes()
            return len(nodes) == 1 == world.in_reservation(slots) and all(map(is_new, nodes))

        await world.until(rolled, within_s=1800)
        await world.until_running(1)
        await world.sleep(300)  # no further move
        assert await rolled()
        ever = {c.metadata.name: c.metadata.labels.get(names.CAPACITY_TYPE) for c in world.ever(NodeClaim)}
        assert sorted(map(str, ever.values())) == kinds
        assert len(world.all_machines()) == len(kinds)

    app_world.run(program, settings=rolls(choice))


def test_node_whose_drain_a_disruption_budget_blocks_is_not_disrupted_and_gets_an_event() -> None:
    async def program(world: AppWorld) -> None:
        slots = world.reserve("m5.xlarge", total=1)
        await pool(world, slots, types=("m5.xlarge",), kinds=("reserved",))
        await world.deploy("web", 2, **ONE_PER_NODE)
        await world.until_running(2)
        budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await world.create(path, {"metadata": {"name": "web"}, "spec": budget})
        (claim,), pods = await world.claims(), {pod.metadata.uid for pod in await world.running()}
        await drift_all(world)
        for _ in range(30):
            await world.sleep(60)
            assert [one.metadata.name for one in await world.claims()] == [claim.metadata.name]
            assert not any(map(tainted, await world.nodes()))
        assert {pod.metadata.uid for pod in await world.running()} == pods
        messages = [event.message for event in await world.events("DisruptionBlocked")]
        assert any("PodDisruptionBudget=default/web" in text for text in messages), messages

    app_world.run(program)


def test_rolling_continues_after_another_account_takes_and_returns_a_slot() -> None:
    """The process restarts while one slot is taken. The rest is replaced when the slot is free again."""

    async def program(world: AppWorld) -> None:
        slots = world.reserve(total=8)
        await pool(world, slots, kinds=("reserved",), budgets=[{"nodes": "2"}])
        await world.deploy("web", 8, **ONE_PER_NODE)
        await world.until_running(8)
        await drift_all(world)
        while world.free(slots) == 0:
            await world.sleep(0.1)
        control.take(world.ec2.world, slots.id, 1)
        await world.sleep(60)
        await world.restart(after_s=10)
        for _ in range(30):
            await world.sleep(10)
            assert len(await world.running()) >= 6  # one without a slot, one being replaced
        assert world.in_reservation(slots) == 7 == len(await world.running())
        assert sum(map(is_new, await world.nodes())) == 1  # no more nodes are deleted while a slot is missing
        (waiting_claim,) = [one for one in await world.claims() if not one.status.provider_id]
        assert said(waiting_claim, "Launched") == ("Unknown", "WaitsForSlot")
        control.give(world.ec2.world, slots.id, 1)

        async def rolled() -> bool:
            # The budget counts nodes: pods may still be starting on the two nodes that were replaced before.
            assert len(await world.running()) >= 4
            nodes = await world.nodes()
            return len(nodes) == 8 and all(map(is_new, nodes))

        await world.until(rolled, within_s=1800)
        await world.until_running(8)
        assert world.in_reservation(slots) == 8
        assert len(world.all_machines()) == 16  # no duplicate launch

    app_world.run(program)
