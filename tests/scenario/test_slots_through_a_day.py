"""Deployments grow and shrink and nodes drift beside two reservations: the slots are used all the time.

The real controllers run in virtual time.
"""

import app_world
from app_world import AppWorld, capacity_types
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


async def set_up(world: AppWorld) -> tuple[Reservation, Reservation]:
    small, large = world.reserve("m5.large", total=3), world.reserve("m5.2xlarge", total=1)
    await world.node_class(capacityReservationSelectorTerms=[{"id": small.id}, {"id": large.id}])
    await world.node_pool(
        requirements=[
            capacity_types("reserved", "on-demand"),
            requirement(aws.INSTANCE_FAMILY, "In", "m5", "c5"),
            requirement(aws.INSTANCE_SIZE, "In", "large", "xlarge", "2xlarge"),
        ],
        disruption=DISRUPTION,
    )
    for name, replicas in (("web", 12), ("api", 6), ("cache", 3)):
        await world.deploy(name, replicas, cpu=CPU[name])
    await world.sleep(180)
    return small, large


async def drift(world: AppWorld) -> None:
    pool = await world.kube.get(NodePool, "default")
    labels = {"template": {"metadata": {"labels": {"example.com/colour": "blue"}}}}
    await world.kube.patch(pool, {"spec": labels})


def on_demand_types(world: AppWorld) -> list[str]:
    return [one.instance_type for one in world.machines if not one.reservation_id]


def test_no_slot_is_free_beside_an_on_demand_node_after_drift() -> None:
    async def program(world: AppWorld) -> None:
        small, large = await set_up(world)
        await world.scale("web", 6)
        await world.sleep(120)
        await drift(world)
        await world.sleep(900)
        assert all(node.metadata.labels.get("example.com/colour") == "blue" for node in await world.nodes())
        assert not on_demand_types(world) or world.free(small) + world.free(large) == 0
        await world.scale("web", 14)
        await world.sleep(120)
        assert len(await world.running()) == 14
        assert world.free(small) + world.free(large) == 0

    app_world.run(program)


def test_pods_that_fit_into_slots_are_moved_into_slots() -> None:
    async def program(world: AppWorld) -> None:
        await set_up(world)
        await drift(world)
        await world.sleep(300)
        await world.scale("web", 4)
        await world.scale("api", 2)
        await world.sleep(900)  # more than the cool-down of consolidation
        assert on_demand_types(world) == []
        assert sum([len(await world.running(name)) for name in CPU]) == 9

    app_world.run(program)
