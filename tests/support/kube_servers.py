"""The API servers on which the tests of the Kube port run. Each test is a coroutine that runs on every server.

Set HOLDFAST_KUBECONFIG to a kubeconfig to add a real kube-apiserver. It needs no other part of a cluster, but must
admit pods without a service account: `--disable-admission-plugins=ServiceAccount`.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import msgspec

from holdfast.api import crds
from holdfast.api.pods import Pod
from holdfast.app import sandbox
from holdfast.kube import credentials, kubeconfig
from holdfast.kube.client import Client, ClientSettings
from holdfast.kube.connection import Connection, Server
from holdfast.kube.credentials import Credential
from holdfast.kube.http import HttpTransport
from holdfast.kube.transport import Transport
from holdfast.ports import Clock, Ids
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim import time
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving import http
from holdfast.sim.api.serving.routing import User
from holdfast.sim.api.serving.transport import InProcess
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock

START = datetime(2026, 11, 15, 10, tzinfo=UTC)
TOKEN = "a-token"
WINDOW = 50  # how many changes the embedded server keeps for watches
SETTINGS = ClientSettings(page_size=3, watch_s=20, per_second=2000, burst=2000)


@dataclass(frozen=True)
class Session:
    """The connection to one server, with a clock and ids for the client."""

    transport: Transport
    clock: Clock
    ids: Ids
    suffix: str = field(default="")

    @property
    def kube(self) -> Client:
        return self.client(SETTINGS)

    def client(self, settings: ClientSettings) -> Client:
        return Client(transport=self.transport, clock=self.clock, ids=self.ids, settings=settings)

    def name(self, word: str) -> str:
        """A unique name, because a real server keeps the objects of earlier tests."""
        return f"{word}-{self.suffix}"

    async def pod(self, name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Pod:
        """Creates a pod with a container image, a field that our wire types lack."""
        namespace = spec.pop("namespace", "default")
        document = {
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {"containers": [{"name": "main", "image": "pause"}]} | spec,
        }
        path, headers = f"/api/v1/namespaces/{namespace}/pods", {"content-type": "application/json"}
        answer = await self.transport.request("POST", path, {}, headers, msgspec.json.encode(document))
        assert answer.status == 201, answer.body
        return await self.kube.get(Pod, name, namespace)


Program = Callable[[Session], Awaitable[None]]


class KubeServer(Protocol):
    def run(self, program: Program) -> None: ...


class RealServer:
    def run(self, program: Program) -> None:
        async def main() -> None:
            clock, ids = RealClock(), RealIds()
            path = Path(os.environ["HOLDFAST_KUBECONFIG"])
            connection = kubeconfig.load([path], environ=os.environ, clock=clock)
            transport = HttpTransport(connection)
            try:
                await install_crds(transport, clock)
                await program(Session(transport, clock, ids, ids.token()[:12]))
            finally:
                await transport.aclose()

        asyncio.run(main())


class InProcessServer:
    """The embedded server without a socket, under virtual time."""

    def run(self, program: Program) -> None:
        async def main() -> None:
            clock, ids = VirtualClock(START), SeededIds(1)
            transport = InProcess(ApiServer(clock=clock, ids=SeededIds(2), window=WINDOW))
            await install_crds(transport, clock)
            await program(Session(transport, clock, ids, "0"))

        time.run(main())


class HttpServer:
    """The embedded server on loopback, over TLS, with a token."""

    def run(self, program: Program) -> None:
        async def main() -> None:
            clock, ids = RealClock(), RealIds()
            server = ApiServer(clock=clock, ids=ids, tokens={TOKEN: User("admin")}, window=WINDOW)
            async with http.serving(server) as address:
                credential = credentials.Fixed(Credential(TOKEN))
                transport = HttpTransport(
                    Connection(Server(address.url, address.authority.decode()), credential)
                )
                try:
                    await install_crds(transport, clock)
                    await program(Session(transport, clock, ids, "0"))
                finally:
                    await transport.aclose()

        asyncio.run(main())


SERVERS: Mapping[str, type[KubeServer]] = {
    "in process": InProcessServer,
    "http": HttpServer,
    **({"real": RealServer} if os.environ.get("HOLDFAST_KUBECONFIG") else {}),
}


async def install_crds(transport: Transport, clock: Clock) -> None:
    await sandbox.install(crds.all_crds(), transport, clock)
