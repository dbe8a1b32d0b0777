"""An outage of the API server or of EC2 logs a few lines, however many keys fail."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from structlog.testing import capture_logs

import app_world
from app_world import AppWorld, capacity_types, instance_types
from holdfast.sim.ec2 import faults

OUTAGE_S = 300
QUIET = ("debug",)


async def many_nodes(world: AppWorld) -> None:
    await world.node_class()
    await world.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
    await world.deploy("web", 20, cpu="1500m")
    await world.until_running(20)
    await world.sleep(60)


def of_endpoint(lines: Sequence[Mapping[str, Any]], endpoint: str) -> list[str]:
    return [str(line["event"]) for line in lines if line.get("endpoint") == endpoint]


def test_an_outage_of_the_api_server_is_logged_once_per_minute() -> None:
    async def program(world: AppWorld) -> None:
        await many_nodes(world)
        with capture_logs() as lines:
            world.line.go_down()
            await world.sleep(OUTAGE_S)
            world.line.come_back()
            await world.sleep(60)
        visible = [line for line in lines if line["log_level"] not in QUIET]
        messages = of_endpoint(visible, "Kubernetes API server")
        assert messages[0] == "endpoint not responding"
        assert messages[-1] == "endpoint responding again"
        assert len(messages) <= OUTAGE_S // 60 + 2
        assert len(visible) <= 25, Counter(str(line["event"]) for line in visible)
        await world.scale("web", 21)
        await world.until_running(21)

    app_world.run(program)


def test_an_outage_of_ec2_is_logged_once_per_minute() -> None:
    async def program(world: AppWorld) -> None:
        await many_nodes(world)
        with capture_logs() as lines:
            now_s = world.clock.now_s()
            world.ec2.world.faults.add(faults.Broken(from_s=now_s, until_s=now_s + OUTAGE_S))
            await world.scale("web", 40)
            await world.sleep(OUTAGE_S)
            await world.until_running(40, within_s=600)
        visible = [line for line in lines if line["log_level"] not in QUIET]
        messages = of_endpoint(visible, "AWS ec2")
        assert messages[0] == "endpoint not responding"
        assert messages[-1] == "endpoint responding again"
        assert len(messages) <= OUTAGE_S // 60 + 2
        problems = Counter(str(line["event"]) for line in visible if line["log_level"] != "info")
        assert problems.total() <= 25, problems

    app_world.run(program)
