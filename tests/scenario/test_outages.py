"""An outage of the API server or of EC2 logs a few lines, however many keys fail."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from structlog.testing import capture_logs

import app_environment
from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast.sim.ec2 import faults

OUTAGE_S = 300
QUIET = ("debug",)


async def many_nodes(env: AppEnvironment) -> None:
    await env.node_class()
    await env.node_pool(requirements=[instance_types("m5.large"), capacity_types("on-demand")])
    await env.deploy("web", 20, cpu="1500m")
    await env.until_running(20)
    await env.sleep(60)


def of_endpoint(lines: Sequence[Mapping[str, Any]], endpoint: str) -> list[str]:
    return [str(line["event"]) for line in lines if line.get("endpoint") == endpoint]


def test_an_outage_of_the_api_server_is_logged_once_per_minute() -> None:
    async def program(env: AppEnvironment) -> None:
        await many_nodes(env)
        with capture_logs() as lines:
            env.line.go_down()
            await env.sleep(OUTAGE_S)
            env.line.come_back()
            await env.sleep(60)
        visible = [line for line in lines if line["log_level"] not in QUIET]
        messages = of_endpoint(visible, "Kubernetes API server")
        assert messages[0] == "endpoint not responding"
        assert messages[-1] == "endpoint responding again"
        assert len(messages) <= OUTAGE_S // 60 + 2
        assert len(visible) <= 25, Counter(str(line["event"]) for line in visible)
        await env.scale("web", 21)
        await env.until_running(21)

    app_environment.run(program)


def test_an_outage_of_ec2_is_logged_once_per_minute() -> None:
    async def program(env: AppEnvironment) -> None:
        await many_nodes(env)
        with capture_logs() as lines:
            now_s = env.clock.now_s()
            env.ec2.region.faults.add(faults.Broken(from_s=now_s, until_s=now_s + OUTAGE_S))
            await env.scale("web", 40)
            await env.sleep(OUTAGE_S)
            await env.until_running(40, within_s=600)
        visible = [line for line in lines if line["log_level"] not in QUIET]
        messages = of_endpoint(visible, "AWS ec2")
        assert messages[0] == "endpoint not responding"
        assert messages[-1] == "endpoint responding again"
        assert len(messages) <= OUTAGE_S // 60 + 2
        problems = Counter(str(line["event"]) for line in visible if line["log_level"] != "info")
        assert problems.total() <= 25, problems

    app_environment.run(program)
