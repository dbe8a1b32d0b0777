"""The embedded API server for tests: through both of its fronts, with plain requests.

A test that is marked `each_front` gets a `Line` and runs twice: in process, and over HTTPS with a real socket. What it
sees must be the same.
"""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import pytest

from holdfast.api import crds
from holdfast.sim.api import http
from holdfast.sim.api.faults import Faults
from holdfast.sim.api.front import Front, Request
from holdfast.sim.api.routing import User
from holdfast.sim.api.server import ApiServer
from holdfast.sim.ids import SeededIds

Json = dict[str, Any]

START_S: Final = 1_800_000_000
TOKEN: Final = "a-token"
PATIENCE_S: Final = 20.0
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
JSON_PATCH: Final = "application/json-patch+json"
APPLY: Final = "application/apply-patch+yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
TABLE: Final = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = "/api/v1/nodes"
NODEPOOLS: Final = "/apis/karpenter.sh/v1/nodepools"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS: Final = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class StillClock:
    """A clock that moves when it is told to, or when somebody sleeps."""

    def __init__(self) -> None:
        self.now = float(START_S)

    def now_s(self) -> int:
        return int(self.now)

    def monotonic_s(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.05))
        self.now += seconds


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)

    @property
    def message(self) -> str:
        return str(self.value["message"])


Send = Callable[[Request], Awaitable[tuple[int, Mapping[str, str], AsyncIterator[bytes]]]]


@dataclass
class Line:
    """A client's end of a front."""

    send: Send
    server: ApiServer
    faults: Faults
    clock: StillClock

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        type_: str = "application/json",
        accept: str = "application/json",
        agent: str = "tester/1",
        token: str = TOKEN,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        request = _request(method, path, body, type_, accept, agent, token, headers or {})
        status, answered, chunks = await self.send(request)
        return Answer(status, answered, b"".join([chunk async for chunk in chunks]))

    async def made(self, path: str, body: Json, *, agent: str = "tester/1") -> Json:
        """A new object; the test fails when it is refused."""
        answer = await self.ask("POST", path, body, agent=agent)
        assert answer.status == 201, answer.body
        value: Json = answer.value
        return value

    async def got(self, path: str) -> Json:
        answer = await self.ask("GET", path)
        assert answer.status == 200, answer.body
        value: Json = answer.value
        return value

    async def patched(self, path: str, body: Any, type_: str = MERGE) -> Json:
        answer = await self.ask("PATCH", path, body, type_=type_)
        assert answer.status == 200, answer.body
        value: Json = answer.value
        return value

    async def send_watch(self, path: str, accept: str = "application/json") -> AsyncIterator[bytes]:
        """The chunks of a watch; whoever asks closes them."""
        request = _request("GET", path, None, "", accept, "tester/1", TOKEN, {})
        status, _, chunks = await self.send(request)
        assert status == 200
        return chunks

    @asynccontextmanager
    async def watching(self, path: str, accept: str = "application/json") -> AsyncIterator["Events"]:
        chunks = await self.send_watch(path, accept)
        try:
            yield Events(chunks)
        finally:
            close = getattr(chunks, "aclose", None)
            if close:
                await close()


class Events:
    """The events of a watch, as they come."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""

    async def next(self) -> Json:
        while b"\n" not in self._buffer:
            self._buffer += await asyncio.wait_for(anext(self._chunks), PATIENCE_S)
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: Json = json.loads(line)
        return event

    async def seen(self, count: int) -> list[tuple[str, str]]:
        """The next so many changes, as type and name; a bookmark may come at any time and is none."""
        found: list[tuple[str, str]] = []
        while len(found) < count:
            event = await self.next()
            if event["type"] != "BOOKMARK":
                found.append((event["type"], event["object"]["metadata"].get("name", "")))
        return found

    async def ends(self) -> bytes:
        """Whatever is left; returns when the server has ended the watch."""
        left = self._buffer
        async for chunk in self._chunks:
            left += chunk
        return left


Test = Callable[[Line], Awaitable[None]]


def each_front(test: Test) -> Callable[[str], None]:
    """Runs an async test once in process and once over HTTPS."""

    @pytest.mark.parametrize("front", ["in_process", "https"])
    def run(front: str) -> None:
        asyncio.run(_run(test, front))

    run.__name__ = getattr(test, "__name__", "test")
    run.__doc__ = test.__doc__
    return run


async def _run(test: Test, front: str) -> None:
    async with line(front) as opened:
        await asyncio.wait_for(test(opened), 3 * PATIENCE_S)


@asynccontextmanager
async def line(front: str = "in_process", *, window: int = 10_000) -> AsyncIterator[Line]:
    """A new server and a line to it, over that front."""
    clock = StillClock()
    server = ApiServer(clock=clock, ids=SeededIds(1), tokens={TOKEN: User("tester")}, window=window)
    faults = Faults(server, clock)
    if front == "in_process":
        yield Line(_in_process(faults), server, faults, clock)
        return
    async with _https(faults) as send:
        yield Line(send, server, faults, clock)


def _in_process(front: Front) -> Send:
    async def send(request: Request) -> tuple[int, Mapping[str, str], AsyncIterator[bytes]]:
        answer = await front.handle(request)
        body = _once(answer.body) if isinstance(answer.body, bytes) else answer.body
        return answer.status, answer.headers, body

    return send


@asynccontextmanager
async def _https(front: Front) -> AsyncIterator[Send]:
    async with http.serving(front) as address:
        connector = aiohttp.TCPConnector(ssl=address.trust(), force_close=True)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

            async def send(request: Request) -> tuple[int, Mapping[str, str], AsyncIterator[bytes]]:
                query = f"?{urlencode(request.query)}" if request.query else ""
                answer = await session.request(
                    request.method,
                    f"{address.url}{request.path}{query}",
                    data=io.BytesIO(request.body) if request.body else None,
                    headers=request.headers,
                )
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return answer.status, headers, _chunks(answer)

            yield send


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except aiohttp.ClientPayloadError as error:
        raise ConnectionResetError(str(error)) from error
    finally:
        answer.close()


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _request(
    method: str,
    path: str,
    body: Any,
    type_: str,
    accept: str,
    agent: str,
    token: str,
    headers: Mapping[str, str],
) -> Request:
    place, _, text = path.partition("?")
    query = dict(pair.partition("=")[::2] for pair in text.split("&")) if text else {}
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    given = {"user-agent": agent, "accept": accept, "authorization": f"Bearer {token}", **headers}
    if content:
        given["content-type"] = type_
    return Request(method, place, query, given, content)


async def with_crds(line: Line) -> None:
    for crd in crds.all_crds():
        await line.made(DEFINITIONS, crd)


def pod(name: str = "a", **changes: Any) -> Json:
    metadata = {"name": name, "labels": {"app": "web"}} | changes.pop("metadata", {})
    spec = {"containers": [{"name": "c", "image": "web:1"}]} | changes
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str = "n1", **changes: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **changes}}


def deployment(name: str = "web", **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]}
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": whole}


def nodepool(name: str = "default", **spec: Any) -> Json:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    whole = {"template": template, **spec}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name}, "spec": whole}


def owned(by: Json, **more: Any) -> Json:
    """Metadata of something that another object owns."""
    reference = {"apiVersion": by["apiVersion"], "kind": by["kind"]}
    reference |= {key: by["metadata"][key] for key in ("name", "uid")}
    return {"ownerReferences": [{**reference, **more}]}
