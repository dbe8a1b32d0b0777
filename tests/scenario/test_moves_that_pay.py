"""Pods are moved only to save money, or to free a slot for a pending pod. The real controllers run in virtual time."""

import dataclasses

import pytest

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from disruption_environment import drift_all, is_new
from holdfast.api.pods import Pod
from holdfast.app.settings import Settings
from holdfast.core.scheduling.input.request import Packing

LARGE = instance_types("m5.large")
BOTH_SIZES = instance_types("m5.large", "m5.xlarge")
PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def packed(packing: Packing) -> Settings:
    planning = dataclasses.replace(app_environment.SETTINGS.planning, packing=packing)
    return dataclasses.replace(app_environment.SETTINGS, planning=planning)


async def names_of(env: AppEnvironment, app: str) -> set[str]:
    return {pod.metadata.name for pod in await env.running(app)}


@PACKINGS
@pytest.mark.parametrize("kind", ["spot", "on-demand"])
def test_a_pod_in_a_slot_is_not_moved_onto_an_empty_node_that_costs_money(
    packing: Packing, kind: str
) -> None:
    """The empty node exists because `consolidateAfter` has not passed; no pod ever ran on it."""

    async def program(env: AppEnvironment) -> None:
        slots = env.reserve(total=1)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        kinds = capacity_types("reserved", kind)
        disruption = {"consolidateAfter": "60s", "budgets": [{"nodes": "100%"}]}
        await env.node_pool(requirements=[LARGE, kinds], disruption=disruption)
        await env.deploy("api", 1, cpu="1500m")
        await env.until_running(1, "api")
        before = await names_of(env, "api")
        await env.sleep(90)
        await env.deploy("web", 1, cpu="1500m")

        async def launched() -> bool:
            return len(env.ec2_instances) == 2

        await env.until(launched)
        await env.scale("web", 0)
        await env.sleep(300)
        assert await names_of(env, "api") == before
        assert [instance.reservation_id for instance in env.ec2_instances] == [slots.id]

    app_environment.run(program, settings=packed(packing))


@PACKINGS
def test_half_full_slots_are_consolidated_only_when_a_pending_pod_needs_a_slot(
    packing: Packing,
) -> None:
    async def program(env: AppEnvironment) -> None:
        slots = env.reserve("m5.xlarge", total=2)
        await env.node_class(capacityReservationSelectorTerms=[{"id": slots.id}])
        await env.node_pool(
            requirements=[BOTH_SIZES, capacity_types("reserved")], disruption={"consolidateAfter": "0s"}
        )
        await env.deploy("web", 2, cpu="3000m")
        await env.until_running(2)
        await env.deploy("small", 2, cpu="600m")
        await env.until_running(2, "small")
        await env.scale("web", 0)
        before = await names_of(env, "small")
        await env.sleep(300)
        assert await names_of(env, "small") == before
        assert env.in_reservation(slots) == 2
        await env.deploy("big", 1, cpu="3500m")
        await env.until_running(1, "big", within_s=400)
        assert len(await names_of(env, "small")) == 2
        assert len(await names_of(env, "small") - before) == 1

    app_environment.run(program, settings=packed(packing))


@PACKINGS
def test_pods_of_drifted_nodes_are_not_moved_to_drifted_nodes(packing: Packing) -> None:
    """Four nodes are a quarter full: all pods would fit on one of them, which has drifted as well.

    The plan needs four evictions. kube-scheduler does not know drift and binds two of the evicted pods to drifted
    nodes. Earlier versions needed nine evictions.
    """

    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        disruption = {"consolidateAfter": "1h", "budgets": [{"nodes": "1"}]}
        await env.node_pool(
            requirements=[instance_types("m5.xlarge"), capacity_types("on-demand")], disruption=disruption
        )
        await env.deploy("filler", 4, cpu="2500m")
        await env.until_running(4, "filler")
        await env.deploy("web", 4, cpu="900m")
        await env.until_running(4)
        await env.scale("filler", 0)
        await env.sleep(30)
        before = {pod.metadata.uid for pod in await env.pods()}
        await drift_all(env)

        async def is_over() -> bool:
            nodes = await env.nodes()
            return all(map(is_new, nodes)) and len(await env.running()) == 4

        await env.until(is_over, within_s=1800)
        await env.sleep(60)
        ever = {pod.metadata.uid for pod in env.ever(Pod) if pod.metadata.labels.get("app") == "web"}
        assert 4 <= len(ever - before) <= 6
        assert len(env.all_ec2_instances()) == 5

    app_environment.run(program, settings=packed(packing))
