"""Deployments grow and shrink and nodes drift beside two reservations: the slots are used all the time.

The real controllers run in virtual time.
"""

import app_environment
from app_environment import AppEnvironment, capacity_types
from builders import requirement
from holdfast.api import aws
from holdfast.api.nodepool import NodePool
from holdfast.sim.ec2.entities import Reservation

CPU = {"web": "900m", "api": "400m", "cache": "1500m"}
DISRUPTION = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "15s",
    "budgets": [{"nodes": "2"}],
}


async def set_up(env: AppEnvironment) -> tuple[Reservation, Reservation]:
    small, large = env.reserve("m5.large", total=3), env.reserve("m5.2xlarge", total=1)
    await env.node_class(capacityReservationSelectorTerms=[{"id": small.id}, {"id": large.id}])
    await env.node_pool(
        requirements=[
            capacity_types("reserved", "on-demand"),
            requirement(aws.INSTANCE_FAMILY, "In", "m5", "c5"),
            requirement(aws.INSTANCE_SIZE, "In", "large", "xlarge", "2xlarge"),
        ],
        disruption=DISRUPTION,
    )
    for name, replicas in (("web", 12), ("api", 6), ("cache", 3)):
        await env.deploy(name, replicas, cpu=CPU[name])
    await env.sleep(180)
    return small, large


async def drift(env: AppEnvironment) -> None:
    pool = await env.kube.get(NodePool, "default")
    labels = {"template": {"metadata": {"labels": {"example.com/colour": "blue"}}}}
    await env.kube.patch(pool, {"spec": labels})


def on_demand_types(env: AppEnvironment) -> list[str]:
    return [one.instance_type for one in env.ec2_instances if not one.reservation_id]


def test_no_slot_is_free_beside_an_on_demand_node_after_drift() -> None:
    async def program(env: AppEnvironment) -> None:
        small, large = await set_up(env)
        await env.scale("web", 6)
        await env.sleep(120)
        await drift(env)
        await env.sleep(900)
        assert all(node.metadata.labels.get("example.com/colour") == "blue" for node in await env.nodes())
        assert not on_demand_types(env) or env.free(small) + env.free(large) == 0
        await env.scale("web", 14)
        await env.sleep(120)
        assert len(await env.running()) == 14
        assert env.free(small) + env.free(large) == 0

    app_environment.run(program)


def test_pods_that_fit_into_slots_are_moved_into_slots() -> None:
    async def program(env: AppEnvironment) -> None:
        await set_up(env)
        await drift(env)
        await env.sleep(300)
        await env.scale("web", 4)
        await env.scale("api", 2)
        await env.sleep(900)  # more than the cool-down of consolidation
        assert on_demand_types(env) == []
        assert sum([len(await env.running(name)) for name in CPU]) == 9

    app_environment.run(program)
