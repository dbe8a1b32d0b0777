"""Connects the JSON API and the page to a running `App`."""

import contextlib
import ipaddress
from collections.abc import AsyncIterator
from importlib import metadata
from typing import Final

from holdfast.api.reports import FailingController
from holdfast.app.program import App
from holdfast.explain import server
from holdfast.explain.server import Explain
from holdfast.explain.sources import Process, Sources
from holdfast.runtime import health
from holdfast.runtime.clock import RealClock

LOOPBACK: Final = "127.0.0.1"
_KEYS_MAX: Final = 10


def explain(app: App, *, computed: str = "") -> Explain:
    """`computed`: set if the App does not lead and only reads."""
    return Explain(
        Sources(
            cluster_state=app.cluster_state,
            caches=app.caches,
            cloud=app.cloud,
            compute=app.ports.compute,
            clock=app.ports.clock,
            decisions=app.recorder.decisions,
            planning=app.settings.planning,
            process=Process(
                version=metadata.version("holdfast"),
                cluster=app.settings.cluster_name,
                kubernetes_version=lambda: app.kubernetes_version,
                name=app.settings.replica,
                leads=(lambda: True) if computed else app.leads,
                leading_since_s=lambda: app.manager.leading_since_s,
                problem=app.manager.unready,
                failing=lambda: failing(app),
            ),
            computed=computed,
        )
    )


@contextlib.asynccontextmanager
async def serving(explain: Explain, app: App, *, host: str, port: int, page: bool) -> AsyncIterator[int]:
    """Serves the JSON API inside the block and yields the port."""
    task = app.supervisor.start("explain", explain.run)
    try:
        is_loopback = bool(host) and ipaddress.ip_address(host).is_loopback
        application = server.application(explain, page=page, clock=RealClock(), only_local_hosts=is_loopback)
        async with health.serve(application, host=host, port=port) as bound:
            yield bound
    finally:
        task.cancel()


def failing(app: App) -> tuple[FailingController, ...]:
    """Controllers with keys whose last reconcile failed, and those that make no progress."""
    found = []
    for controller in app.controllers:
        keys, problem = controller.failing, controller.stuck() if app.manager.is_controlling else ""
        if keys or problem:
            shown = tuple("/".join(filter(None, key)) for key in sorted(keys)[:_KEYS_MAX])
            found.append(
                FailingController(
                    controller=controller.name, keys=shown, key_count=len(keys), problem=problem
                )
            )
    return tuple(found)
