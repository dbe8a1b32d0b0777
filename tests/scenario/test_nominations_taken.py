"""kube-scheduler binds a pod to a node that was planned for another pod: unlaunched NodeClaims are checked again.

The real controllers run in virtual time.
"""

import dataclasses

import pytest

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast.app.settings import Settings
from holdfast.core.scheduling.input.request import Packing
from holdfast.sim.ec2 import faults

LARGE = instance_types("m5.large")
PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def packed(packing: Packing) -> Settings:
    planning = dataclasses.replace(app_world.SETTINGS.planning, packing=packing)
    return dataclasses.replace(app_world.SETTINGS, planning=planning)


async def one_full_node(world: AppWorld) -> None:
    """An on-demand node that `filler` fills, and a reservation whose slot another cluster uses."""
    slots = world.reserve(total=1, elsewhere=1)
    await world.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    await world.node_pool(
        requirements=[LARGE, capacity_types("reserved", "on-demand")],
        disruption={"consolidateAfter": "Never"},
    )
    await world.deploy("filler", 1, cpu="1500m")
    await world.until_running(1, "filler")


@PACKINGS
def test_nodeclaim_is_not_launched_once_its_pods_run_on_another_node(packing: Packing) -> None:
    async def program(world: AppWorld) -> None:
        await one_full_node(world)
        until_s = world.clock.now_s() + 60
        world.ec2.world.faults.add(faults.Denied(operation="CreateFleet", until_s=until_s))
        await world.deploy("web", 1, cpu="1500m")

        async def written() -> bool:
            return len(await world.claims()) == 2

        await world.until(written)
        await world.scale("filler", 0)
        await world.until_running(1, within_s=30)
        await world.sleep(200)
        assert len(world.all_machines()) == 1
        assert len(await world.claims()) == 1
        assert len(await world.running()) == 1

    app_world.run(program, settings=packed(packing))


@PACKINGS
def test_a_claim_that_another_pod_needs_is_launched_for_that_pod(packing: Packing) -> None:
    async def program(world: AppWorld) -> None:
        await one_full_node(world)
        until_s = world.clock.now_s() + 60
        world.ec2.world.faults.add(faults.Denied(operation="CreateFleet", until_s=until_s))
        await world.deploy("web", 1, cpu="1500m")

        async def written() -> bool:
            return len(await world.claims()) == 2

        await world.until(written)
        await world.scale("filler", 0)
        await world.until_running(1, within_s=30)
        await world.deploy("other", 1, cpu="1500m")
        await world.until_running(1, "other", within_s=200)
        assert len(world.all_machines()) == 2

    app_world.run(program, settings=packed(packing))


@PACKINGS
def test_no_claim_is_written_for_a_pod_that_was_bound_while_the_plan_was_made(packing: Packing) -> None:
    async def program(world: AppWorld) -> None:
        await one_full_node(world)
        before = world.claims_ever()
        await world.sleep(10)
        await world.deploy("web", 1, cpu="1500m")
        await world.sleep(2.5)  # the batch is closed, and the plan is being made
        await world.scale("filler", 0)
        await world.until_running(1, within_s=30)
        await world.sleep(60)
        assert world.claims_ever() == before
        assert len(world.all_machines()) == 1

    app_world.run(program, settings=packed(packing), plans_take_s=8)
