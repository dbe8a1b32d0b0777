"""Launches with default settings: few nodes, none of them burstable, spread over the zones."""

from collections import Counter

import app_world
from app_world import AppWorld, capacity_types, instance_types
from builders import requirement
from holdfast.api import aws
from holdfast.sim.ec2 import control


def test_three_hundred_pods_of_one_cpu_get_few_nodes_and_none_is_burstable() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(
            requirements=[
                capacity_types("on-demand"),
                requirement(aws.INSTANCE_CATEGORY, "In", "c", "m", "r", "t"),
            ]
        )
        await world.deploy("web", 300, cpu="1")
        await world.until_running(300)
        types = [one.instance_type for one in world.all_machines()]
        assert len(types) < 60
        assert not [name for name in types if name.startswith("t")]

    app_world.run(program)


def test_nodes_are_spread_over_the_zones_with_a_subnet() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[capacity_types("on-demand"), instance_types("m5.large")])
        await world.deploy("web", 6, cpu="1500m")
        await world.until_running(6)
        assert sorted(Counter(one.zone_id for one in world.all_machines()).values()) == [2, 2, 2]
        await world.scale("web", 9)
        await world.until_running(9)
        assert sorted(Counter(one.zone_id for one in world.all_machines()).values()) == [3, 3, 3]

    app_world.run(program)


def test_pods_do_not_wait_for_a_zone_without_capacity() -> None:
    async def program(world: AppWorld) -> None:
        await world.node_class()
        await world.node_pool(requirements=[capacity_types("on-demand"), instance_types("m5.large")])
        full = min(subnet.zone_id for subnet in world.ec2.world.subnets.values())
        control.limit_pool(world.ec2.world, "m5.large", full, "on-demand", 0)
        await world.deploy("web", 6, cpu="1500m")
        await world.until_running(6)
        assert full not in {one.zone_id for one in world.all_machines()}

    app_world.run(program)
