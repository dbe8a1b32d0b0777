"""A server of the JSON API with given documents, in a thread: at its own address, and behind a service proxy over TLS.

Called by the tests of the command line. Responses that misbehave are put into `next_responses`; each is used once, before
the documents.
"""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec
from aiohttp import web

from holdfast.api.reports import ErrorReport
from holdfast.sim.api.serving import certificates, http

TOKEN = "secret-token"
PROXY = "/api/v1/namespaces/kube-system/services/holdfast:http-api/proxy"

Response = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class LeaderServer:
    documents: Mapping[str, msgspec.Struct]  # by path below /api/v1/
    url: str = ""
    kubeconfig: str = ""
    next_responses: deque[Response] = field(default_factory=deque)
    requests: list[str] = field(default_factory=list)  # path with query

    async def respond(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        if self.next_responses:
            return await self.next_responses.popleft()(request)
        path = request.path
        if path.startswith(PROXY):
            if request.headers.get("authorization") != f"Bearer {TOKEN}":
                return status(403, "Forbidden", 'services "holdfast:http-api" is forbidden')
            path = path.removeprefix(PROXY)
        elif path.startswith("/api/v1/namespaces/"):
            return status(404, "NotFound", 'services "other" not found')
        document = self.documents.get(path.removeprefix("/api/v1/"))
        if document is None:
            return error(404, f"{path} does not exist")
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")


def error(code: int, text: str) -> web.Response:
    """As Holdfast responds."""
    return web.Response(status=code, body=msgspec.json.encode(ErrorReport(error=text)))


def status(code: int, reason: str, message: str) -> web.Response:
    """As the API server responds."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason}
    return web.json_response(body | {"message": message}, status=code)


@contextlib.contextmanager
def serving(documents: Mapping[str, msgspec.Struct]) -> Iterator[LeaderServer]:
    server = LeaderServer(documents)
    loop, stop, is_ready = asyncio.new_event_loop(), asyncio.Event(), threading.Event()

    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", server.respond)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        tls = certificates.make("127.0.0.1")
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=http._server_context(tls)).start()
        plain, secure = (address[1] for address in runner.addresses)
        server.url = f"http://127.0.0.1:{plain}"
        server.kubeconfig = http.Address(f"https://127.0.0.1:{secure}", tls.authority).kubeconfig(TOKEN)
        is_ready.set()
        await stop.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()), daemon=True)
    thread.start()
    assert is_ready.wait(10)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)
        loop.close()
