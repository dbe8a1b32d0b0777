"""`holdfast record` on a simulated cluster in virtual time: the file has what happened, also after lost connections."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cluster_environment import Environment, run, workload
from holdfast import errors
from holdfast.app.recording.cluster_recording import ClusterRecording, RecordOptions
from holdfast.cli import aws
from holdfast.kube.client import Client, ClientSettings
from holdfast.sim.api.serving.front import Response
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.cluster.kinds import Deployment, Node, Pod
from holdfast.sim.cluster.timings import RUNS_FOR
from holdfast.sim.ids import SeededIds
from holdfast.simulate import recordings
from holdfast.simulate.recordings import Recording

CLOSE_S = 6  # a line has whole seconds, pods start after some


class Breakable(InProcess):
    """A transport without an answer while the connection is down."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env.server)
        self.up = asyncio.Event()
        self.up.set()
        self.lists = 0
        self.forbidden: tuple[str, ...] = ()

    async def request(
        self, method: str, path: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes
    ) -> Response:
        assert method == "GET"
        if any(part in path for part in self.forbidden):
            return forbidden(path)
        if not self.up.is_set():
            raise ConnectionError("down")
        answer = await super().request(method, path, query, headers, body)
        if isinstance(answer.body, bytes):
            self.lists += 1
            return answer
        return replace(answer, body=self._chunks(answer.body))

    async def _chunks(self, body: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        async for chunk in body:
            await self.up.wait()  # a watch without data, as after a lost packet
            yield chunk


def forbidden(path: str) -> Response:
    status = {
        "kind": "Status",
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": f"no {path}",
    }
    return Response(403, {}, msgspec.json.encode(status))


class Recorded:
    def __init__(self, env: Environment, path: Path) -> None:
        self.env = env
        self.transport = Breakable(env)
        self._path = path
        self._stop = asyncio.Event()
        kube = Client(
            transport=self.transport, clock=env.clock, ids=SeededIds("kube"), settings=ClientSettings()
        )
        options = RecordOptions(output=path)
        self._recording = ClusterRecording(
            options, aws.TERMS, kube=kube, clock=env.clock, ids=SeededIds("record")
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self.notes = await self._recording.read()
        self._recording.begin()
        task = asyncio.create_task(self._recording.run(self._stop, lambda _: None))
        self._began_s = self.env.clock.monotonic_s()
        yield
        self._stop.set()
        await task

    async def until(self, at_s: int) -> None:
        await self.env.sleep(self._began_s + at_s - self.env.clock.monotonic_s())

    def read(self) -> Recording:
        return recordings.read(self._path)

    @property
    def text(self) -> str:
        return self._path.read_text()


def is_close(found: list[tuple[int, int]], expected: list[tuple[int, int]]) -> bool:
    return [value for _, value in found] == [value for _, value in expected] and all(
        abs(a - b) <= CLOSE_S for (a, _), (b, _) in zip(found, expected, strict=True)
    )


async def set_up(env: Environment) -> None:
    env.launch(count=3)
    await env.deploy("acme-web", replicas=4, cpu="200m")
    await env.nodes_ready(3)
    await env.until_running(4, "acme-web")


async def start_job(env: Environment, name: str, pods: int, runs_s: int) -> None:
    document = workload(
        name, parallelism=pods, completions=pods, cpu="100m", restartPolicy="Never",
        annotations={RUNS_FOR: str(runs_s)},
    )  # fmt: skip
    await env.create("/apis/batch/v1/namespaces/default/jobs", document)


async def evict_all(env: Environment, node: str) -> None:
    for pod in await env.all(Pod):
        if pod.spec.get("nodeName") == node:
            await env.kube.evict("default", pod.metadata.name, pod.metadata.uid)


def test_recording_has_scaling_rollouts_and_jobs_but_no_evictions(tmp_path: Path) -> None:
    found: list[Recorded] = []

    async def program(env: Environment) -> None:
        await set_up(env)
        recorded = Recorded(env, tmp_path / "a.jsonl")
        found.append(recorded)
        async with recorded.running():
            await recorded.until(300)
            await env.scale("acme-web", 6)
            await recorded.until(600)
            node = (await env.all(Node))[0]
            await evict_all(env, node.metadata.name)
            await recorded.until(900)
            deployment = await env.kube.get(Deployment, "acme-web", "default")
            template: dict[str, Any] = deployment.spec["template"]
            (container,) = template["spec"]["containers"]
            bigger = container | {"resources": {"requests": {"cpu": "250m", "memory": "128Mi"}}}
            await env.kube.patch(
                deployment, {"spec": {"template": {"spec": {"containers": [bigger]}}}}, only_if_unchanged=True
            )
            await recorded.until(1500)
            await start_job(env, "acme-train", pods=2, runs_s=400)
            await recorded.until(2400)
            await env.scale("acme-web", 2)
            await recorded.until(3000)

    run(program)
    (recorded,) = found
    recording = recorded.read()
    (group,) = recording.groups
    assert is_close(list(group.changes), [(0, 4), (300, 6), (2400, 2)])
    requests = [one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for _, one in group.templates]
    assert requests == ["200m", "250m"]
    assert is_close([(at_s, 0) for at_s, _ in group.templates], [(0, 0), (900, 0)])
    assert is_close([(one.after_s, 0) for one in recording.runs], [(1500, 0)] * 2)
    assert all(one.length_s is not None and abs(one.length_s - 400) <= 2 for one in recording.runs)
    assert len({one.job for one in recording.runs}) == 1
    assert (recording.notes, recorded.notes) == ((), [])
    assert abs(recording.until_s - 3000) <= CLOSE_S
    assert "acme" not in recorded.text


def test_lost_connection_is_a_gap_without_repeated_pods(tmp_path: Path) -> None:
    found: list[Recorded] = []

    async def program(env: Environment) -> None:
        await set_up(env)
        await start_job(env, "acme-long", pods=1, runs_s=2000)
        await env.until_running(1, "acme-long")
        recorded = Recorded(env, tmp_path / "a.jsonl")
        found.append(recorded)
        async with recorded.running():
            await recorded.until(300)
            recorded.transport.up.clear()
            await recorded.until(400)
            await start_job(env, "acme-short", pods=1, runs_s=200)
            await env.scale("acme-web", 5)
            await recorded.until(1000)
            recorded.transport.up.set()
            await recorded.until(3000)

    run(program)
    recording = found[0].read()
    ((since_s, until_s),) = recording.gaps
    assert (240 <= since_s <= 301, 1000 <= until_s <= 1060) == (True, True)
    long, short = recording.runs
    assert (long.after_s, long.how) == (0, "succeeded")
    assert abs(short.after_s - 400) <= CLOSE_S
    assert short.length_s is not None
    assert abs(short.length_s - 200) <= CLOSE_S
    (group,) = recording.groups
    ((_, first), (after_s, second)) = group.changes
    assert (first, second, since_s <= after_s <= until_s + CLOSE_S) == (4, 5, True)


def test_watch_that_the_server_ends_is_no_gap(tmp_path: Path) -> None:
    """The server ends each watch after some minutes."""
    found: list[Recorded] = []

    async def program(env: Environment) -> None:
        await set_up(env)
        recorded = Recorded(env, tmp_path / "a.jsonl.gz")
        found.append(recorded)
        async with recorded.running():
            await recorded.until(4 * 3600)

    run(program)
    recording = found[0].read()
    assert (recording.gaps, recording.notes, len(recording.runs)) == ((), (), 0)
    assert [group.changes for group in recording.groups] == [((0, 4),)]
    assert abs(recording.until_s - 4 * 3600) <= CLOSE_S


def test_kinds_that_may_not_be_read_are_left_out_with_a_note(tmp_path: Path) -> None:
    found: list[Recorded] = []

    async def program(env: Environment) -> None:
        await set_up(env)
        recorded = Recorded(env, tmp_path / "a.jsonl")
        recorded.transport.forbidden = ("daemonsets", "poddisruptionbudgets")
        found.append(recorded)
        async with recorded.running():
            await recorded.until(100)
        assert [note.partition(":")[0] for note in recorded.notes] == [
            "DaemonSets are not recorded",
            "PodDisruptionBudgets are not recorded",
        ]
        refused = Recorded(env, tmp_path / "b.jsonl")
        refused.transport.forbidden = ("pods",)
        with pytest.raises(errors.Unauthorized):
            async with refused.running():
                pass

    run(program)
    assert [group.changes for group in found[0].read().groups] == [((0, 4),)]
    assert not (tmp_path / "b.jsonl").exists()


def test_suspended_process_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock jumps, as after the sleep of a laptop."""
    found: list[Recorded] = []

    async def program(env: Environment) -> None:
        await set_up(env)
        recorded = Recorded(env, tmp_path / "a.jsonl")
        found.append(recorded)
        async with recorded.running():
            await recorded.until(100)
            before = env.clock.monotonic_s
            monkeypatch.setattr(env.clock, "monotonic_s", lambda: before() + 1000)
            await env.sleep(300)

    run(program)
    recording = found[0].read()
    ((since_s, until_s),) = recording.gaps
    assert (40 <= since_s <= 101, 1100 <= until_s <= 1310) == (True, True)
    assert [group.changes for group in recording.groups] == [((0, 4),)]
