"""Which optional kinds are read: it depends on the API server and on the rights of the process."""

import asyncio
from dataclasses import dataclass
from typing import Any

import cluster_environment
import pod_groups
from cluster_environment import Environment
from holdfast.api.scheduling import PodGroup
from holdfast.api.workloads import JobTimes
from holdfast.app import optional_kinds, program
from holdfast.app.settings import Settings
from holdfast.kube.client import Client, ClientSettings
from holdfast.sim import optional_crds
from holdfast.sim.ids import SeededIds


@dataclass
class Forbidden:
    status: int = 403
    headers: Any = None
    body: bytes = (
        b'{"kind": "Status", "code": 403, "reason": "Forbidden", "message": "podgroups is forbidden"}'
    )

    def __post_init__(self) -> None:
        self.headers = {"content-type": "application/json"}


class WithoutRights:
    """The connection of a process that may not list PodGroups."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def request(self, method: str, path: str, *rest: Any) -> Any:
        return Forbidden() if path.endswith("/podgroups") else await self._inner.request(method, path, *rest)


def test_podgroups_are_read_if_the_api_server_serves_them() -> None:
    async def steps(env: Environment) -> None:
        assert await optional_kinds.readable(env.kube) == (JobTimes,)
        await env.create(pod_groups.CRDS, optional_crds.POD_GROUPS)
        await env.sleep(1)
        assert await optional_kinds.readable(env.kube) == (PodGroup, JobTimes)

    cluster_environment.run(steps)


def test_podgroups_are_not_read_without_the_right_to_list_them() -> None:
    async def steps(env: Environment) -> None:
        await env.create(pod_groups.CRDS, optional_crds.POD_GROUPS)
        await env.sleep(1)
        kube = Client(
            transport=WithoutRights(env.transport),
            clock=env.clock,
            ids=SeededIds("client"),
            settings=ClientSettings(),
        )
        assert await optional_kinds.readable(kube) == (JobTimes,)

    cluster_environment.run(steps)


def test_the_process_ends_some_minutes_after_the_api_server_begins_to_serve_podgroups() -> None:
    async def steps(env: Environment) -> None:
        changed = asyncio.create_task(optional_kinds.until_changed(env.kube, env.clock, read=()))
        await env.sleep(200)
        await env.create(pod_groups.CRDS, optional_crds.POD_GROUPS)
        await env.sleep(500)
        assert not changed.done()
        await env.sleep(200)
        assert changed.done()
        await changed

    cluster_environment.run(steps)


def test_the_process_does_not_end_while_the_answers_of_the_api_servers_differ() -> None:
    async def steps(env: Environment) -> None:
        changed = asyncio.create_task(optional_kinds.until_changed(env.kube, env.clock, read=()))
        await env.sleep(100)
        for _ in range(5):  # API servers of an upgrade answer in turn
            await env.create(pod_groups.CRDS, optional_crds.POD_GROUPS)
            await env.sleep(300)
            await _remove(env)
            await env.sleep(100)
        assert not changed.done()
        changed.cancel()

    cluster_environment.run(steps)


def test_the_process_ends_when_podgroups_that_it_reads_are_not_served_any_more() -> None:
    async def steps(env: Environment) -> None:
        await env.create(pod_groups.CRDS, optional_crds.POD_GROUPS)
        await env.sleep(1)
        changed = asyncio.create_task(optional_kinds.until_changed(env.kube, env.clock, read=(PodGroup,)))
        await env.sleep(200)
        assert not changed.done()
        await _remove(env)
        await env.sleep(70)
        assert changed.done()
        await changed

    cluster_environment.run(steps)


def test_podgroups_are_watched_only_if_they_are_read() -> None:
    plain = Settings(cluster_name="demo")
    assert PodGroup not in program.watched_kinds(plain)
    assert PodGroup in program.watched_kinds(Settings(cluster_name="demo", optional_kinds=(PodGroup,)))


async def _remove(env: Environment) -> None:
    path = f"{pod_groups.CRDS}/{optional_crds.POD_GROUPS['metadata']['name']}"
    answer = await env.transport.request("DELETE", path, {}, {}, b"")
    assert answer.status == 200, answer.body
