"""HTTP servers for the kubelet's probes and for Prometheus.

/healthz succeeds while the event loop responds and no controller is stuck; /readyz, once every cache is synced.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from holdfast.runtime.metrics import CONTENT_TYPE, Metrics

_STOP_S: Final = 0.5  # an incomplete request must not delay the exit
Check = Callable[[], str]  # the problem; empty: healthy


def probes(*, liveness: Mapping[str, Check], readiness: Mapping[str, Check]) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        return _response(liveness)

    async def readyz(_: web.Request) -> web.Response:
        return _response(readiness)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/livez", healthz), web.get("/readyz", readyz)])
    return app


def _response(checks: Mapping[str, Check]) -> web.Response:
    problems = {name: problem for name, check in checks.items() if (problem := check())}
    if not problems:
        return web.Response(text="ok")
    return web.Response(status=503, text="".join(f"{name}: {why}\n" for name, why in problems.items()))


async def _nothing() -> None: ...


def metrics_page(metrics: Metrics, *, refresh: Callable[[], Awaitable[None]] = _nothing) -> web.Application:
    """Serves /metrics. `refresh` is called before each scrape, to set gauges that are computed on demand. Other tasks run
    between two pieces of the page: 100,000 lines at once would stop the event loop for a quarter of a second."""

    async def page(_: web.Request) -> web.Response:
        await refresh()
        pieces = []
        for piece in metrics.chunks():
            pieces.append(piece)
            await asyncio.sleep(0)
        return web.Response(body=b"".join(pieces), headers={"content-type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/metrics", page)])
    return app


@asynccontextmanager
async def serve(app: web.Application, *, host: str, port: int) -> AsyncIterator[int]:
    """Serves the application inside the block and yields the port. Port 0 means any free port; no host, all addresses."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
