"""Launches with default settings: few nodes, none of them burstable, spread over the zones."""

from collections import Counter

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from builders import requirement
from holdfast.api import aws
from holdfast.sim.ec2 import control


def test_three_hundred_pods_of_one_cpu_get_few_nodes_and_none_is_burstable() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(
            requirements=[
                capacity_types("on-demand"),
                requirement(aws.INSTANCE_CATEGORY, "In", "c", "m", "r", "t"),
            ]
        )
        await env.deploy("web", 300, cpu="1")
        await env.until_running(300)
        types = [one.instance_type for one in env.all_ec2_instances()]
        assert len(types) < 60
        assert not [name for name in types if name.startswith("t")]

    app_environment.run(program)


def test_nodes_are_spread_over_the_zones_with_a_subnet() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[capacity_types("on-demand"), instance_types("m5.large")])
        await env.deploy("web", 6, cpu="1500m")
        await env.until_running(6)
        assert sorted(Counter(one.zone_id for one in env.all_ec2_instances()).values()) == [2, 2, 2]
        await env.scale("web", 9)
        await env.until_running(9)
        assert sorted(Counter(one.zone_id for one in env.all_ec2_instances()).values()) == [3, 3, 3]

    app_environment.run(program)


def test_pods_do_not_wait_for_a_zone_without_capacity() -> None:
    async def program(env: AppEnvironment) -> None:
        await env.node_class()
        await env.node_pool(requirements=[capacity_types("on-demand"), instance_types("m5.large")])
        full = min(subnet.zone_id for subnet in env.ec2.region.subnets.values())
        control.limit_pool(env.ec2.region, "m5.large", full, "on-demand", 0)
        await env.deploy("web", 6, cpu="1500m")
        await env.until_running(6)
        assert full not in {one.zone_id for one in env.all_ec2_instances()}

    app_environment.run(program)
