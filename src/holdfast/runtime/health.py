"""What kubelet and Prometheus ask: is it alive, is it ready, what has it counted.

Callers: `production`, which names the ports. Live means that the event loop answers and no controller is stuck; ready,
that every cache has been filled.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from holdfast.runtime.metrics import CONTENT_TYPE, Metrics

_STOP_S: Final = 0.5  # for a request that is not complete: it does not hold up the exit
Check = Callable[[], str]  # empty when all is well, else what is not


def probes(*, live: Mapping[str, Check], ready: Mapping[str, Check]) -> web.Application:
    async def healthz(_: web.Request) -> web.Response:
        return _verdict(live)

    async def readyz(_: web.Request) -> web.Response:
        return _verdict(ready)

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/livez", healthz), web.get("/readyz", readyz)])
    return app


def _verdict(checks: Mapping[str, Check]) -> web.Response:
    problems = {name: problem for name, check in checks.items() if (problem := check())}
    if not problems:
        return web.Response(text="ok")
    return web.Response(status=503, text="".join(f"{name}: {why}\n" for name, why in problems.items()))


def metrics_page(metrics: Metrics, *, refresh: Callable[[], None] = lambda: None) -> web.Application:
    """`refresh` is called before each reading, for numbers that are cheap to have and change all the time."""

    async def page(_: web.Request) -> web.Response:
        refresh()
        return web.Response(body=metrics.text(), headers={"content-type": CONTENT_TYPE})

    app = web.Application()
    app.add_routes([web.get("/metrics", page)])
    return app


@asynccontextmanager
async def served(app: web.Application, *, host: str, port: int) -> AsyncIterator[int]:
    """Serves the application inside the block; gives the port, which is chosen by the system when 0 was asked.
    No host means every address there is."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_STOP_S)
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
