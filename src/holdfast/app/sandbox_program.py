"""Holdfast's program on a sandbox: its adapters and settings for the demo, and a page that only reads for any autoscaler."""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from holdfast import errors
from holdfast.app import explaining, live
from holdfast.app.live import LiveCluster
from holdfast.app.program import Adapters, App
from holdfast.app.sandbox import Sandbox
from holdfast.app.settings import Settings
from holdfast.cloud.aws.client.calls import Clients, Threads
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.kube.client import ClientSettings
from holdfast.ports import Clock, Ids
from holdfast.runtime.compute import ThreadCompute
from holdfast.sim.cloud_setup import access_key

SERVICE_CIDR: Final = "10.96.0.0/16"
_LAG_S: Final = 5  # the simulated EC2 counts a launch immediately
_PLAN_S: Final = 3.0
_COMPUTED: Final = (
    "The sandbox has no leader of Holdfast. This page reads the cluster and EC2, and shows what Holdfast would do; another "
    "autoscaler may do something else."
)


@contextlib.asynccontextmanager
async def adapters(sandbox: Sandbox, *, clock: Clock, ids: Ids) -> AsyncIterator[Adapters]:
    """The production adapters, connected to the sandbox."""
    threads, compute, about = Threads(), ThreadCompute(), sandbox.cloud.about
    clients = Clients(about.region, lambda: _Session(sandbox.aws_url, access_key(about.account)))
    try:
        yield Adapters(
            transport=sandbox.transport, aws=clients, executor=threads, clock=clock, ids=ids, compute=compute
        )
    finally:
        compute.close()
        threads.close()
        clients.close()


async def settings(sandbox: Sandbox, replica: str) -> Settings:
    return Settings(
        cluster_name=sandbox.cloud.about.cluster,
        cluster_endpoint=sandbox.address.url,
        cluster_ca_bundle=base64.b64encode(sandbox.address.authority).decode(),
        service_cidr=SERVICE_CIDR,
        kubernetes_version=await sandbox.kube.version(),
        interruption_queue=sandbox.cloud.queue,
        client=ClientSettings(per_second=1000, burst=2000),
        planning=PlanSettings(ledger_lag_s=_LAG_S),
        replica=replica,
    )


@contextlib.asynccontextmanager
async def page(sandbox: Sandbox, *, clock: Clock, ids: Ids) -> AsyncIterator[str]:
    """Serves the page of a program that only reads, inside the block, and yields its URL."""
    async with adapters(sandbox, clock=clock, ids=ids) as connected:
        app = live.read_only_app(await settings(sandbox, ""), connected)
        await live.read(app)
        following = [asyncio.create_task(app.follow()), asyncio.create_task(_plan_again(app, clock))]
        explain = explaining.explain(app, computed=_COMPUTED)
        try:
            async with explaining.serving(explain, app, host=explaining.LOOPBACK, port=0, page=True) as port:
                yield f"http://{explaining.LOOPBACK}:{port}"
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)


async def _plan_again(app: App, clock: Clock) -> None:
    """Plans for the reasons of pending pods, and reads the counts of reservations with it."""
    while True:
        with contextlib.suppress(errors.HoldfastError):
            await LiveCluster(app, ()).plan()
        await clock.sleep(_PLAN_S)


class _Session:
    """A botocore session whose clients call the simulated AWS."""

    def __init__(self, url: str, key: str) -> None:
        import botocore.session  # noqa: PLC0415 - slow to import

        self._session: Any = botocore.session.Session()
        self._url = url
        self._key = key

    def create_client(self, service: str, **given: Any) -> Any:
        return self._session.create_client(
            service,
            endpoint_url=self._url,
            aws_access_key_id=self._key,
            aws_secret_access_key="any",  # noqa: S106 - the simulation does not check it
            **given,
        )
