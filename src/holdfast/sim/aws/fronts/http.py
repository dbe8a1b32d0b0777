"""The HTTP front: one loopback address for EC2 and the other services, for any SDK and the AWS CLI.

Clients use it as `--endpoint-url` or `AWS_ENDPOINT_URL`. It listens only on loopback, because it verifies no
signatures.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from holdfast.sim.aws import dispatch, waiting
from holdfast.sim.aws.endpoint import Endpoint
from holdfast.sim.aws.errors import LostResponse, Unreached
from holdfast.sim.aws.wire import Request, Response

BODY_MAX_BYTES: Final = 2**20
_STOP_S: Final = 1.0  # a client's long poll does not delay the shutdown


@contextlib.asynccontextmanager
async def serving(endpoint: Endpoint, port: int = 0) -> AsyncIterator[str]:
    """Serves until the block ends, and yields the address. Port 0 means any free port."""
    runner = web.AppRunner(
        application(endpoint),
        access_log=None,
        handler_cancellation=True,  # a long poll of a disconnected client receives no message
        shutdown_timeout=_STOP_S,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def application(endpoint: Endpoint) -> web.Application:
    async def handle(request: web.Request) -> web.StreamResponse:
        received = Request(
            request.method,
            request.raw_path.partition("?")[0],
            request.rel_url.raw_query_string,
            {name.lower(): value for name, value in request.headers.items()},
            await request.read(),
        )
        try:
            response = await waiting.patiently(endpoint, lambda: dispatch.answer(endpoint, received))
        except (LostResponse, Unreached):
            return _hang_up(request)
        if response.cut:
            return await _half(request, response)
        return web.Response(status=response.status, body=response.body, headers=dict(response.headers))

    app = web.Application(client_max_size=BODY_MAX_BYTES)
    app.router.add_route("*", "/{path:.*}", handle)
    return app


def _hang_up(request: web.Request) -> web.Response:
    if request.transport:
        request.transport.abort()
    return web.Response(status=500)  # the connection is closed: no client reads it


async def _half(request: web.Request, response: Response) -> web.StreamResponse:
    """Sends the Content-Length of the whole response and half of it, then closes the connection."""
    stream = web.StreamResponse(status=response.status, headers=dict(response.headers))
    stream.content_length = len(response.body)
    await stream.prepare(request)
    await stream.write(response.arriving)
    if request.transport:
        request.transport.close()
    return stream
