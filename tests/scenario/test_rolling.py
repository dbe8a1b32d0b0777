"""Rolling a full reservation in the running program: a node goes first, and its slot is held for its replacement."""

import pytest

import app_world
from app_world import AppWorld
from disruption_world import ONE_PER_NODE, drift_all, is_new, pool, said, tainted
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Reservation


async def full(world: AppWorld, total: int = 8, budget: str = "2") -> Reservation:
    """A reservation all of whose slots are nodes of ours, and nothing else is allowed."""
    slots = world.reserve(total=total)
    await pool(world, slots, kinds=("reserved",), budgets=[{"nodes": budget}])
    await world.deploy("web", total, **ONE_PER_NODE)
    await world.until_running(total)
    assert world.in_reservation(slots) == total
    return slots


@pytest.mark.fact("aws-6.3.7")
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


def test_a_slot_that_another_account_takes_is_waited_for_and_no_second_node_is_given_up() -> None:
    async def program(world: AppWorld) -> None:
        slots = await full(world, total=4, budget="1")
        await drift_all(world)

        async def waits() -> bool:
            return any(names.WAITS_FOR_INSTANCE in c.metadata.annotations for c in await world.claims())

        await world.until(waits)
        while world.free(slots) == 0:
            await world.sleep(0.1)
        control.take(world.ec2.world, slots.id, 1)
        for _ in range(50):
            await world.sleep(10)
            assert world.in_reservation(slots) == 3
            assert len(await world.running()) == 3
        (claim,) = [c for c in await world.claims() if not c.status.provider_id]
        assert said(claim, "Launched") == ("Unknown", "WaitsForSlot")
        blocked = await world.events("DisruptionBlocked")
        assert any("no second node is given up" in event.message for event in blocked)
        await world.sleep(150)
        assert await world.gone(NodeClaim, claim.metadata.name)
        assert [event.involved_object.name for event in await world.events("SlotTaken")] == [
            claim.metadata.name
        ]

    app_world.run(program)
