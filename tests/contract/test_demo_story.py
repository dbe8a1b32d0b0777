"""The story of the demo beside a user who changes its workloads, and the ages of events that the user sees."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import pytest

import fetch_kubectl
from holdfast.demo import environment, story
from holdfast.demo.environment import Environment
from holdfast.demo.story import STEPS, Story
from holdfast.runtime.clock import RealClock, ScaledClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.cluster.kinds import Deployment

WITHIN_S = 60
ALL_S = STEPS[-1].at_s + 1  # after all steps


@dataclass(frozen=True)
class Running:
    env: Environment
    story: Story
    reports: list[str]

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        folder = str(self.env.sandbox.kubeconfig.parent)
        environ = {"KUBECONFIG": str(self.env.sandbox.kubeconfig), "HOME": folder}
        return await asyncio.create_subprocess_exec(
            fetch_kubectl.kubectl(), *arguments, env=environ, stdout=subprocess.PIPE
        )

    async def kubectl(self, *arguments: str) -> str:
        process = await self.start(*arguments)
        output, _ = await process.communicate()
        assert process.returncode == 0
        return output.decode()

    async def until(self, wanted: str, *arguments: str) -> None:
        while wanted not in await self.kubectl(*arguments):  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)

    async def replicas(self) -> dict[str, int]:
        found = (await self.env.sandbox.kube.list(Deployment)).items
        return {one.metadata.name: one.spec["replicas"] for one in found}

    def reported(self, name: str) -> list[str]:
        return [report for report in self.reports if f"Deployment {name}" in report]


@asynccontextmanager
async def started(folder: Path, speed: float) -> AsyncIterator[Running]:
    real = RealClock()
    clock = ScaledClock(real, speed)
    async with environment.start(folder, story.SETUP, clock=clock, real=real, ids=RealIds()) as env:
        reports: list[str] = []
        running = Running(env, Story(env, reports.append), reports)
        await running.story.start()
        yield running


def run(folder: Path, use: Callable[[Running], Awaitable[None]], speed: float = 1) -> None:
    async def main() -> None:
        async with asyncio.timeout(WITHIN_S), started(folder, speed) as running:
            await use(running)

    asyncio.run(main())


def test_deployment_that_a_user_scaled_is_left_alone_and_the_others_are_scaled(tmp_path: Path) -> None:
    async def use(it: Running) -> None:
        await it.story.advance(1)
        assert await it.replicas() == {"web": 3, "api": 0, "train": 0}
        await it.kubectl("scale", "deployment", "web", "--replicas=8")
        await it.story.advance(ALL_S)
        await it.story.advance(10 * ALL_S)
        assert await it.replicas() == {"web": 8, "api": 2, "train": 1}
        assert it.reported("web") == ["Deployment web was changed; the story leaves it alone"]
        assert it.reported("api") == it.reported("train") == []

    run(tmp_path, use)


def test_deployment_that_a_user_scaled_there_and_back_is_left_alone(tmp_path: Path) -> None:
    async def use(it: Running) -> None:
        for replicas in (2, 0):
            await it.kubectl("scale", "deployment", "api", f"--replicas={replicas}")
        await it.story.advance(100)
        assert await it.replicas() == {"web": 3, "api": 0, "train": 0}
        assert len(it.reported("api")) == 1

    run(tmp_path, use)


@pytest.mark.parametrize("is_created_again", [False, True])
def test_deployment_that_a_user_deleted_is_left_alone(tmp_path: Path, *, is_created_again: bool) -> None:
    async def use(it: Running) -> None:
        await it.story.advance(1)
        await it.kubectl("delete", "deployment", "web")
        if is_created_again:
            await it.kubectl("create", "deployment", "web", "--image=mine", "--replicas=3")
        await it.story.advance(ALL_S)
        assert (await it.replicas()).get("web") == (3 if is_created_again else None)
        assert it.reported("web") == ["Deployment web was deleted; the story leaves it alone"]

    run(tmp_path, use)


def test_status_of_a_deployment_is_no_change_of_a_user(tmp_path: Path) -> None:
    async def use(it: Running) -> None:
        await it.story.advance(1)
        await it.until("3/3", "get", "deployment", "web")
        await it.story.advance(STEPS[3].at_s)
        assert (await it.replicas())["web"] == 5
        assert it.reported("web") == []

    run(tmp_path, use, speed=30)


AGE = re.compile(r"(?:(\d+)m)?(?:(\d+)s)?")


def age_s(line: str) -> int:
    """The age in a line of a table with events, in which it is the first or, of `kubectl describe`, the third word."""
    words = line.split()
    found = AGE.fullmatch(words[2] if words[0] == "Normal" else words[0])
    assert found, line
    return 60 * int(found[1] or 0) + int(found[2] or 0)


def test_ages_of_events_are_simulated_time_in_every_command_of_kubectl(tmp_path: Path) -> None:
    async def use(it: Running) -> None:
        began_s = it.env.clock.now_s()
        await it.story.advance(1)
        await it.until("nodeclaim/", "get", "events")
        await asyncio.sleep(2)
        pod = (await it.kubectl("get", "pods", "--output", "name")).split()[0]
        for command in (("events",), ("get", "events"), ("get", "events", "-o", "wide"), ("describe", pod)):
            lines = [line for line in (await it.kubectl(*command)).splitlines() if "nodeclaim/" in line]
            assert len(lines) == (1 if pod in command else 3)
            assert all(55 <= age_s(line) <= it.env.clock.now_s() - began_s for line in lines), lines

    run(tmp_path, use, speed=30)


def test_watched_event_has_a_time_of_the_reader_and_other_objects_have_simulated_times(
    tmp_path: Path,
) -> None:
    async def use(it: Running) -> None:
        await asyncio.sleep(2)
        await it.story.advance(1)
        await it.until("nodeclaim/", "get", "events")
        process = await it.start(
            "get", "events", "--watch", "--output", "jsonpath={.metadata.creationTimestamp}{'\\n'}"
        )
        assert process.stdout is not None
        watched = (await process.stdout.readline()).decode().strip()
        process.kill()
        await process.communicate()
        pods = await it.kubectl("get", "pods", "--output", "jsonpath={.items[0].metadata.creationTimestamp}")
        now_s = RealClock().now_s()
        assert datetime.fromisoformat(watched).timestamp() <= now_s
        assert datetime.fromisoformat(pods).timestamp() > now_s

    run(tmp_path, use, speed=100)
