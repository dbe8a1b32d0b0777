"""Serves the API server on loopback over TLS, for kubectl and every other client.

It passes requests to a front and is independent of Kubernetes. There is no plain HTTP, because clients send their token
only over TLS.
"""

import base64
import contextlib
import json
import ssl
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from holdfast.sim.api.serving import certificates
from holdfast.sim.api.serving.bodies import MAX_BYTES
from holdfast.sim.api.serving.certificates import Certificates
from holdfast.sim.api.serving.front import Front, Request, Response

HOST: Final = "127.0.0.1"

_MAX_LINE: Final = 64 * 1024
_STOP_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the server and its CA."""

    url: str
    authority: bytes

    def kubeconfig(self, token: str) -> str:
        """A kubeconfig for a client with that token. It is JSON, which is valid YAML."""
        cluster = {
            "server": self.url,
            "certificate-authority-data": base64.b64encode(self.authority).decode(),
        }
        name = "holdfast"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        return json.dumps(config, indent=2) + "\n"

    def trust(self) -> ssl.SSLContext:
        """A TLS context that trusts only this server."""
        return ssl.create_default_context(cadata=self.authority.decode())


@contextlib.asynccontextmanager
async def serving(front: Front, *, host: str = HOST, port: int = 0) -> AsyncIterator[Address]:
    """Serves a front until the block ends. Port 0 means any free port."""
    tls = certificates.make(host)
    application = web.Application(client_max_size=MAX_BYTES + 1)
    application.router.add_route("*", "/{path:.*}", _handler(front))
    runner = web.AppRunner(
        application,
        access_log=None,
        handler_cancellation=True,
        shutdown_timeout=_STOP_S,
        max_line_size=_MAX_LINE,
        max_field_size=_MAX_LINE,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=_server_context(tls))
        await site.start()
        bound = runner.addresses[0][1]
        yield Address(f"https://{host}:{bound}", tls.authority)
    finally:
        await runner.cleanup()


def _server_context(tls: Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:  # ssl reads certificates only from files
        certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        certificate.write_bytes(tls.certificate)
        key.write_bytes(tls.key)
        context.load_cert_chain(certificate, key)
    return context


def _handler(front: Front) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            body = await request.read()
        except web.HTTPRequestEntityTooLarge:
            body = b" " * (MAX_BYTES + 1)  # too long: the server rejects it with its own message
        received = Request(
            method=request.method,
            path=request.rel_url.raw_path,
            query={name: request.query[name] for name in request.query},
            headers={name.lower(): value for name, value in request.headers.items()},
            body=body,
        )
        try:
            answer = await front.handle(received)
            return await _send(request, answer)
        except ConnectionResetError:
            _abort(request)
            raise

    return handle


async def _send(request: web.Request, answer: Response) -> web.StreamResponse:
    if isinstance(answer.body, bytes):
        return web.Response(status=answer.status, headers=dict(answer.headers), body=answer.body)
    response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
    response.enable_chunked_encoding()
    async with contextlib.aclosing(answer.body) as chunks:
        await response.prepare(request)
        await _write(response, chunks)
    await response.write_eof()
    return response


async def _write(response: web.StreamResponse, chunks: AsyncGenerator[bytes, None]) -> None:
    async for chunk in chunks:
        await response.write(chunk)


def _abort(request: web.Request) -> None:
    """Breaks the connection for an injected fault."""
    if request.transport is not None:
        request.transport.abort()
