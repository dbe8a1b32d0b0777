"""Plain requests to the embedded API server through both of its fronts.

A test with the decorator `each_front` gets a `Line` and runs twice: in process, and over HTTPS with a real socket. A test
with `each_server` also runs against a real kube-apiserver if HOLDFAST_KUBECONFIG is set. The answers must be the same.
"""

import asyncio
import base64
import io
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
import pytest
from yarl import URL

from holdfast.api import crds
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving import http
from holdfast.sim.api.serving.faults import Faults
from holdfast.sim.api.serving.front import Front, Request
from holdfast.sim.api.serving.http import Address
from holdfast.sim.api.serving.routing import User
from holdfast.sim.ids import SeededIds

Json = dict[str, Any]

START_S: Final = 1_800_000_000
TOKEN: Final = "a-token"
NOT_YET: Final = b"404 page not found\n"  # a real server's answer for a kind whose CRD was just created
NOT_READY: Final = b"storage is (re)initializing"  # its answer shortly after that
EMBEDDED: Final = ("in_process", "https")
BUILT_IN: Final = re.compile(r"^(kube-.*|kubernetes)$|karpenter")  # also our CRDs, which stay installed
CLEARED_PATHS: Final = (
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/events",
    "/api/v1/configmaps",
    "/api/v1/services",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/karpenter.sh/v1/nodepools",
    "/apis/karpenter.sh/v1/nodeclaims",
    "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
)
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
    """A clock that advances only when a test sets it or a task sleeps."""

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
    """A client that is connected to a front."""

    send: Send
    server: ApiServer
    faults: Faults
    clock: StillClock
    user: str = "tester"  # the user name that the server authenticates

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
        while True:
            status, answer_headers, chunks = await self.send(request)
            answer = Answer(status, answer_headers, b"".join([chunk async for chunk in chunks]))
            if NOT_READY not in answer.body:
                return answer
            await asyncio.sleep(0.2)

    async def create(self, path: str, body: Json, *, agent: str = "tester/1") -> Json:
        """Creates an object; the test fails if the server refuses it."""
        async with asyncio.timeout(PATIENCE_S):
            while (answer := await self.ask("POST", path, body, agent=agent)).body == NOT_YET:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        assert answer.status == 201, answer.body
        value: Json = answer.value
        return value

    async def get(self, path: str) -> Json:
        answer = await self.ask("GET", path)
        assert answer.status == 200, answer.body
        value: Json = answer.value
        return value

    async def patch(self, path: str, body: Any, type_: str = MERGE) -> Json:
        answer = await self.ask("PATCH", path, body, type_=type_)
        assert answer.status == 200, answer.body
        value: Json = answer.value
        return value

    async def send_watch(self, path: str, accept: str = "application/json") -> AsyncIterator[bytes]:
        """The chunks of a watch; the caller closes them."""
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
    """The events of a watch, in order of arrival."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""

    async def next(self) -> Json:
        while b"\n" not in self._buffer:
            self._buffer += await asyncio.wait_for(anext(self._chunks), PATIENCE_S)
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: Json = json.loads(line)
        return event

    async def next_changes(self, count: int) -> list[tuple[str, str]]:
        """The type and object name of the next `count` events. Bookmarks are not counted."""
        found: list[tuple[str, str]] = []
        while len(found) < count:
            event = await self.next()
            if event["type"] != "BOOKMARK":
                found.append((event["type"], event["object"]["metadata"].get("name", "")))
        return found

    async def ends(self) -> bytes:
        """The remaining bytes, once the server has ended the watch."""
        left = self._buffer
        async for chunk in self._chunks:
            left += chunk
        return left


Test = Callable[[Line], Awaitable[None]]


def each_front(test: Test) -> Callable[[str], None]:
    """Runs an async test once in process and once over HTTPS."""
    return _each(test, EMBEDDED)


def each_server(test: Test) -> Callable[[str], None]:
    """Runs an async test on the embedded server through both fronts, and on a real server if one is configured."""
    return _each(test, (*EMBEDDED, "real") if os.environ.get("HOLDFAST_KUBECONFIG") else EMBEDDED)


def _each(test: Test, fronts: Sequence[str]) -> Callable[[str], None]:
    @pytest.mark.parametrize("front", fronts)
    def run(front: str) -> None:
        asyncio.run(_run(test, front))

    run.__name__ = getattr(test, "__name__", "test")
    run.__doc__ = test.__doc__
    return run


async def _run(test: Test, front: str) -> None:
    async with line(front) as client_line:
        await asyncio.wait_for(test(client_line), 3 * PATIENCE_S)


@asynccontextmanager
async def line(front: str = "in_process", *, window: int = 10_000) -> AsyncIterator[Line]:
    """A new server, and a client that is connected through `front`."""
    if front == "real":
        async with _real_server_line() as client_line:
            yield client_line
        return
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
        body = _single_chunk(answer.body) if isinstance(answer.body, bytes) else answer.body
        return answer.status, answer.headers, body

    return send


@asynccontextmanager
async def _https(front: Front) -> AsyncIterator[Send]:
    async with http.serving(front) as address, _socket(address) as send:
        yield send


@asynccontextmanager
async def _socket(address: Address, token: str = TOKEN) -> AsyncIterator[Send]:
    """A connection that replaces the tests' token by `token` in every request."""
    connector = aiohttp.TCPConnector(ssl=address.trust(), force_close=True)
    async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

        async def send(request: Request) -> tuple[int, Mapping[str, str], AsyncIterator[bytes]]:
            query = f"?{urlencode(request.query)}" if request.query else ""
            headers = {name: value.replace(TOKEN, token) for name, value in request.headers.items()}
            answer = await session.request(
                request.method,
                URL(f"{address.url}{request.path}{query}", encoded=True),
                data=io.BytesIO(request.body.replace(TOKEN.encode(), token.encode()))
                if request.body
                else None,
                headers=headers,
            )
            answer_headers = {name.lower(): value for name, value in answer.headers.items()}
            return answer.status, answer_headers, _chunks(answer)

        yield send
    await asyncio.sleep(0.1)  # TLS connections close in the event loop, after close() returns


def _configured_server() -> tuple[Address, str]:
    """The address of the server of HOLDFAST_KUBECONFIG, and the token for it."""
    config = json.loads(Path(os.environ["HOLDFAST_KUBECONFIG"]).read_text(encoding="utf-8"))
    cluster = config["clusters"][0]["cluster"]
    address = Address(cluster["server"], base64.b64decode(cluster["certificate-authority-data"]))
    return address, config["users"][0]["user"]["token"]


@asynccontextmanager
async def _real_server_line() -> AsyncIterator[Line]:
    """A client of a real server, after the objects of earlier tests are deleted."""
    async with _socket(*_configured_server()) as send:
        clock = StillClock()
        server = ApiServer(clock=clock, ids=SeededIds(1))  # a Line needs one; it gets no requests
        client_line = Line(send, server, Faults(server, clock), clock, "admin")
        for path in CLEARED_PATHS:
            await _empty(client_line, path)
        yield client_line


async def _test_objects(line: Line, path: str) -> list[Json]:
    """The objects under a path that tests created. Built-in objects are left out."""
    answer = await line.ask("GET", path)
    if answer.status == 404:  # a custom resource whose CRD is not installed yet
        return []
    return [one for one in answer.value["items"] if not BUILT_IN.search(one["metadata"]["name"])]


async def _empty(line: Line, path: str) -> None:
    """Deletes all objects under a path and removes their finalizers, except built-in objects."""
    async with asyncio.timeout(PATIENCE_S):
        while found := await _test_objects(line, path):
            for one in found:
                meta = one["metadata"]
                space = f"/namespaces/{meta['namespace']}" if "namespace" in meta else ""
                root, _, plural = path.rpartition("/")
                where = f"{root}{space}/{plural}/{meta['name']}"
                if meta.get("finalizers"):
                    await line.ask("PATCH", where, {"metadata": {"finalizers": None}}, type_=MERGE)
                await line.ask("DELETE", f"{where}?gracePeriodSeconds=0")
            await asyncio.sleep(0.02)


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    except aiohttp.ClientPayloadError as error:
        raise ConnectionResetError(str(error)) from error
    finally:
        answer.close()


async def _single_chunk(body: bytes) -> AsyncIterator[bytes]:
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
    path_only, _, text = path.partition("?")
    query = dict(pair.partition("=")[::2] for pair in text.split("&")) if text else {}
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    all_headers = {"user-agent": agent, "accept": accept, "authorization": f"Bearer {token}", **headers}
    if content:
        all_headers["content-type"] = type_
    return Request(method, path_only, query, all_headers, content)


async def with_crds(line: Line) -> None:
    for crd in crds.all_crds():
        answer = await line.ask("POST", DEFINITIONS, crd)
        assert answer.status in (201, 409), answer.body  # a real server may have them from an earlier test


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
    """Metadata with an owner reference to the object `by`."""
    reference = {"apiVersion": by["apiVersion"], "kind": by["kind"]}
    reference |= {key: by["metadata"][key] for key in ("name", "uid")}
    return {"ownerReferences": [{**reference, **more}]}
