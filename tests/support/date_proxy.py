"""A reverse proxy that replaces the `Date` header of every answer, for tests of the controller's clocks."""

import contextlib
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import web

_HOP_BY_HOP = ("content-length", "transfer-encoding", "connection", "date")


@contextlib.asynccontextmanager
async def serving(target: str, date: str) -> AsyncIterator[str]:
    """Yields the address of the proxy. Every answer gets the header `Date: {date}`."""

    async def handle(request: web.Request) -> web.Response:
        # The Host header is part of the signature scope that the target reads, so it is forwarded unchanged.
        async with session.request(
            request.method, target + request.raw_path, headers=request.headers, data=await request.read()
        ) as answer:
            forwarded_headers = {k: v for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP}
            return web.Response(
                status=answer.status, body=await answer.read(), headers={**forwarded_headers, "Date": date}
            )

    app = web.Application(client_max_size=2**20)
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()
