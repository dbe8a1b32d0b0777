"""kube-scheduler binds a pod to a node that was planned for another pod: unlaunched NodeClaims are checked again.

The real controllers run in virtual time.
"""

import dataclasses

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.app.settings import Settings
from holdfast.core.scheduling.input.request import Packing
from holdfast.sim.ec2 import faults

LARGE = instance_types("m5.large")
PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def packed(packing: Packing) -> Settings:
    planning = dataclasses.replace(app_environment.SETTINGS.planning, packing=packing)
    return dataclasses.replace(app_environment.SETTINGS, planning=planning)


async def one_full_node(env: AppEnvironment) -> None:
    """An on-demand node that `filler` fills, and a reservation whose slot another cluster uses."""
    slots = env.reserve(total=1, elsewhere=1)
    await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
    await env.node_pool(
        requirements=[LARGE, capacity_types("reserved", "on-demand")],
        disruption={"consolidateAfter": "Never"},
    )
    await env.deploy("filler", 1, cpu="1500m")
    await env.until_running(1, "filler")


@PACKINGS
def test_nodeclaim_is_not_launched_once_its_pods_run_on_another_node(packing: Packing) -> None:
    async def program(env: AppEnvironment) -> None:
        await one_full_node(env)
        until_s = env.clock.now_s() + 60
        env.ec2.region.faults.add(faults.Denied(operation="CreateFleet", until_s=until_s))
        await env.deploy("web", 1, cpu="1500m")

        async def written() -> bool:
            return len(await env.claims()) == 2

        await env.until(written)
        await env.scale("filler", 0)
        await env.until_running(1, within_s=30)
        await env.sleep(200)
        assert len(env.all_ec2_instances()) == 1
        assert len(await env.claims()) == 1
        assert len(await env.running()) == 1

    app_environment.run(program, settings=packed(packing))


@PACKINGS
def test_a_claim_that_another_pod_needs_is_launched_for_that_pod(packing: Packing) -> None:
    async def program(env: AppEnvironment) -> None:
        await one_full_node(env)
        until_s = env.clock.now_s() + 60
        env.ec2.region.faults.add(faults.Denied(operation="CreateFleet", until_s=until_s))
        await env.deploy("web", 1, cpu="1500m")

        async def written() -> bool:
            return len(await env.claims()) == 2

        await env.until(written)
        await env.scale("filler", 0)
        await env.until_running(1, within_s=30)
        await env.deploy("other", 1, cpu="1500m")
        await env.until_running(1, "other", within_s=200)
        assert len(env.all_ec2_instances()) == 2

    app_environment.run(program, settings=packed(packing))


@PACKINGS
def test_no_claim_is_written_for_a_pod_that_was_bound_while_the_plan_was_made(packing: Packing) -> None:
    async def program(env: AppEnvironment) -> None:
        await one_full_node(env)
        before = env.claims_ever()
        await env.sleep(10)
        await env.deploy("web", 1, cpu="1500m")
        await env.sleep(2.5)  # the batch is closed, and the plan is being made
        await env.scale("filler", 0)
        await env.until_running(1, within_s=30)
        await env.sleep(60)
        assert env.claims_ever() == before
        assert len(env.all_ec2_instances()) == 1

    app_environment.run(program, settings=packed(packing), plans_take_s=8)
