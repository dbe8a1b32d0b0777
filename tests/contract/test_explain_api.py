"""The JSON API of `holdfast run`, over HTTP: what it answers, refuses and never shows."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec
import pytest

import process_environment
from holdfast.api import reports
from holdfast.api.cluster import Lease
from holdfast.api.meta import Wire
from holdfast.explain import server
from holdfast.runtime import lease
from process_environment import ProcessEnvironment, Replica

SECRET: Final = "correct-horse-battery-staple"
DOCUMENTS: Final[dict[str, type[Wire]]] = {
    "/api/v1/status": reports.StatusReport,
    "/api/v1/reservations": reports.ReservationsReport,
    "/api/v1/nodes": reports.NodesReport,
    "/api/v1/pods": reports.PendingReport,
    "/api/v1/decisions": reports.DecisionsReport,
    "/api/v1/plan": reports.PlanReport,
    "/api/v1/gangs": reports.GangsReport,
    "/api/v1/search?q=e": reports.SearchReport,
    "/api/v1/explain/nodepool/default": reports.Explanation,
}
BAD: Final = (
    "/api/v1/nodes?limit=501",
    "/api/v1/nodes?limit=-1",
    "/api/v1/nodes?limit=1e3",
    "/api/v1/nodes?offset=99999999999999999999999",
    "/api/v1/decisions?after=x",
    f"/api/v1/search?q={'a' * 300}",
    f"/api/v1/slots?reservations={','.join(['cr-1'] * 51)}",
    "/api/v1/explain/secret/default/token",
    "/api/v1/explain/pod/web",
    "/api/v1/explain/node/default/web",
    "/api/v1/explain/jobset/train",
    "/api/v1/explain/podgroup/train",
    "/api/v1/explain/provisioningrequest/train",
)
MISSING: Final = (
    "/",  # the page is off by default
    "/api/v1/",
    "/api/v1/explain/pod/default/nope",
    "/api/v1/explain/reservation/cr-0",
    "/api/v1/explain/job/default/nope",
    "/api/v1/explain/jobset/default/nope",
    "/api/v1/explain/leaderworkerset/default/nope",
    "/api/v1/explain/podgroup/default/nope",
    "/api/v1/explain/provisioningrequest/default/nope",
    "/..%2f..%2fetc/passwd",
    "//evil.example/%2f..",
    "/assets/../../../etc/passwd",
)


class Asked:
    """A client of one replica."""

    def __init__(self, session: aiohttp.ClientSession, port: int) -> None:
        self._session = session
        self.url = f"http://127.0.0.1:{port}"

    async def get(self, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        return await self.send("GET", path, **headers)

    async def send(self, method: str, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
        sent = self._session.request(method, self.url + path, headers=headers, allow_redirects=False)
        async with sent as answer:
            return answer.status, await answer.text(), dict(answer.headers)

    async def document(self, path: str, kind: type[Wire]) -> Any:
        status, body, _ = await self.get(path)
        assert status == 200, (path, body)
        return msgspec.json.decode(body, type=kind)


@contextlib.asynccontextmanager
async def asking(replica: Replica) -> AsyncIterator[Asked]:
    started = await replica.wait_for_log("started")
    async with aiohttp.ClientSession() as session:
        yield Asked(session, started["api_port"])


async def until_running(env: ProcessEnvironment, pods: int) -> None:
    async def running() -> bool:
        return await env.running_pods() == pods

    await env.until(running, f"{pods} pods run")


def run(program: Callable[[ProcessEnvironment], Awaitable[None]], folder: Path) -> None:
    async def main() -> None:
        async with process_environment.serving(folder) as env:
            await env.node_class(
                capacityReservationSelectorTerms=[{"id": env.slots}], userData=f"#!/bin/sh\n# {SECRET}\n"
            )
            await env.node_pool()
            await program(env)

    asyncio.run(main())


def test_leader_answers_every_question_and_shows_no_secret(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start()
        container = {"env": [{"name": "TOKEN", "value": SECRET}]}
        await env.deploy("web", replicas=3, cpu="1500m", container=container)
        await until_running(env, 3)
        async with asking(replica) as api:
            bodies = []
            for path, kind in DOCUMENTS.items():
                await api.document(path, kind)
                bodies.append((await api.get(path))[1])
            nodes = await api.document("/api/v1/nodes", reports.NodesReport)
            assert nodes.total == 3
            assert sum(row.capacity_type == "reserved" for row in nodes.items) == 2
            pod_hits = await api.document("/api/v1/search?q=default/web", reports.SearchReport)
            paths = [f"/api/v1/explain/node/{row.name}" for row in nodes.items]
            paths += [f"/api/v1/explain/nodeclaim/{row.node_claim}" for row in nodes.items]
            paths += [f"/api/v1/explain/pod/{hit.namespace}/{hit.name}" for hit in pod_hits.items]
            paths += [f"/api/v1/explain/reservation/{env.slots}", f"/api/v1/slots?reservations={env.slots}"]
            assert len(paths) == 11
            for path in paths:
                status, body, _ = await api.get(path)
                assert status == 200, (path, body)
                bodies.append(body)
            assert not any(SECRET in body for body in bodies)
            slots = msgspec.json.decode(bodies[-1], type=reports.SlotsReport)
            assert {use.state for use in slots.items[env.slots]} == {"running"}
            status = await api.document("/api/v1/status", reports.StatusReport)
            assert (status.slots, status.slots_used, status.pods, status.pending) == (2, 2, 3, 0)
            paid = sum(row.usd_per_hour for row in nodes.items)
            assert status.costs.on_demand + status.costs.spot == pytest.approx(paid)
            assert paid > 0
            assert status.last_hour.launches == 3

    run(program, tmp_path)


def test_api_refuses_writes_bad_queries_and_foreign_hosts(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start()
        await replica.wait_for_log("acquired lease")
        async with asking(replica) as api:
            await _until_ready(env, api)
            for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"):
                for path in (*DOCUMENTS, "/api/v1/events"):
                    status, body, headers = await api.send(method, path)
                    assert status == 405, (method, path)
                    assert "error" in json.loads(body)
                    assert not any(name.lower().startswith("access-control-") for name in headers)
            for path in BAD:
                status, body, _ = await api.get(path)
                assert (status, list(json.loads(body))) == (400, ["error"]), path
            for path in MISSING:
                status, _, headers = await api.get(path)
                assert status == 404, path
                assert "Location" not in headers
            for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:80"):
                assert (await api.get("/api/v1/status", Host=host))[0] == 421, host
            status, _, headers = await api.get("/api/v1/status")
            assert status == 200
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self';")
            assert headers["Cache-Control"] == "no-store"

    run(program, tmp_path)


def test_api_listens_on_loopback_only(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start()
        port = (await replica.wait_for_log("started"))["api_port"]
        listening = _listening(replica.process.pid)
        assert [one for one in listening if one.endswith(f":{port:04X}")] == [f"0100007F:{port:04X}"]

    run(program, tmp_path)


def test_api_for_the_cluster_accepts_the_host_of_the_api_server(tmp_path: Path) -> None:
    """The service proxy of a real API server forwards the Host header that its client sent."""

    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start("--api-bind-address", "0.0.0.0")  # noqa: S104 - as in a pod
        await replica.wait_for_log("acquired lease")
        async with asking(replica) as api:
            await _until_ready(env, api)
            host = "0123456789ABCDEF.gr7.us-west-2.eks.amazonaws.com"
            assert (await api.get("/api/v1/status", Host=host))[0] == 200

    run(program, tmp_path)


def test_replica_without_the_lease_does_not_answer(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        first = await env.start()
        await first.wait_for_log("acquired lease")
        second = await env.start("--dashboard")
        await second.wait_for_log("synced caches")
        held = await env.kube.get(Lease, lease.NAME, "kube-system")
        async with asking(first) as leader, asking(second) as follower:
            await _until_ready(env, leader)
            for path in (*DOCUMENTS, "/api/v1/events"):
                status, body, headers = await follower.get(path)
                assert (status, headers["Retry-After"]) == (503, "1"), path
                assert "does not lead" in json.loads(body)["error"]
            await first.stop()
            env.replicas.remove(first)
            await second.wait_for_log("acquired lease")
            await _until_ready(env, follower)
        taken = await env.kube.get(Lease, lease.NAME, "kube-system")
        assert held.spec.holder_identity != taken.spec.holder_identity

    run(program, tmp_path)


def test_stream_sends_an_update_when_a_node_is_launched(tmp_path: Path) -> None:
    async def program(env: ProcessEnvironment) -> None:
        replica = await env.start()
        await replica.wait_for_log("acquired lease")
        async with asking(replica) as api, aiohttp.ClientSession() as session:
            await _until_ready(env, api)
            async with session.get(f"{api.url}/api/v1/events") as stream, asyncio.timeout(60):
                assert stream.headers["Content-Type"] == "text/event-stream"
                first = await _update(stream)
                await env.deploy("web", replicas=1, cpu="1500m")
                while (update := await _update(stream))["status"].get("nodes", 0) < 1:
                    assert update["version"] > first["version"]
                assert update["decisions"] > first["decisions"]

    run(program, tmp_path)


async def _update(stream: aiohttp.ClientResponse) -> dict[str, Any]:
    while True:
        line = (await stream.content.readline()).decode()
        if line.startswith("data: "):
            found: dict[str, Any] = json.loads(line[6:])
            return found


async def _until_ready(env: ProcessEnvironment, api: Asked) -> None:
    async def ready() -> bool:
        return (await api.get("/api/v1/status"))[0] == 200

    await env.until(ready, "the API answers")


def _listening(pid: int) -> list[str]:
    """Addresses and ports in hexadecimal, of listening sockets."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return [line.split()[1] for line in lines if line.split()[3] == "0A"]


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        ("127.0.0.1:8082", True),
        ("10.1.2.3:8082", True),
        ("[::1]:8082", True),
        ("[fd00::1]", True),
        ("localhost:8082", True),
        ("holdfast.localhost", True),
        ("holdfast", True),
        ("holdfast.kube-system.svc:8082", True),
        ("holdfast.kube-system.svc.cluster.local", True),
        ("evil.example", False),
        ("evil.example:8082", False),
        ("svc.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost.evil.example", False),
        ("evil.example.", False),
    ],
)
def test_host_header_of_another_site_is_foreign(host: str, *, is_local: bool) -> None:
    assert server.is_local(host) is is_local
