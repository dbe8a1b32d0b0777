"""Starts a sandbox with three kinds of reservations, and the real controllers in it.

The controllers use the production adapters: botocore over HTTP for AWS, the Kubernetes client for the API server. The
clock is real or runs faster.
"""

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast.app import explaining
from holdfast.app.program import Adapters, App
from holdfast.app.sandbox import Plan, Sandbox, running
from holdfast.app.settings import Settings
from holdfast.cloud.aws.client.calls import Clients, Threads
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.demo.event_times import EventTimes
from holdfast.kube.client import ClientSettings
from holdfast.ports import Clock, Ids
from holdfast.runtime.compute import ThreadCompute
from holdfast.sim.cloud_setup import CloudSetup, Reserved, access_key
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup as ec2_setup

REGION: Final = "us-west-2"
SERVICE_CIDR: Final = "10.96.0.0/16"
TAG: Final = {"team": "demo"}
_DAY_S: Final = 86_400

_ZONE_A, _ZONE_B = "usw2-az2", "usw2-az1"
_LAG_S: Final = 5  # the simulated EC2 counts a launch immediately
_TIMINGS: Final = Timings(startup_taints=(), devices_s=5)


@dataclass(frozen=True, slots=True)
class Environment:
    sandbox: Sandbox
    app: App
    clock: Clock
    url: str  # of the page and the JSON API

    def check(self) -> None:
        self.sandbox.check()
        self.app.check()


@contextlib.asynccontextmanager
async def start(folder: Path, *, clock: Clock, real: Clock, ids: Ids) -> AsyncIterator[Environment]:
    """Runs the sandbox and the controllers until the block ends, and removes all of it. `real`: the clock of the user."""
    plan = Plan(
        folder=folder,
        setup=_setup(clock.now_s()),
        timings=_TIMINGS,
        around=lambda front: EventTimes(front, clock, real),
    )
    async with running(plan, clock=clock, ids=ids) as sandbox:
        threads, compute = Threads(), ThreadCompute()
        clients = Clients(REGION, lambda: _Session(sandbox.aws_url, access_key(sandbox.cloud.about.account)))
        adapters = Adapters(
            transport=sandbox.transport, aws=clients, executor=threads, clock=clock, ids=ids, compute=compute
        )
        app = App(await _settings(sandbox), adapters)
        app.start()
        try:
            explain = explaining.explain(app)
            async with explaining.serving(explain, app, host=explaining.LOOPBACK, port=0, page=True) as port:
                yield Environment(sandbox, app, clock, f"http://{explaining.LOOPBACK}:{port}")
        finally:
            await app.stop()
            compute.close()
            threads.close()
            clients.close()


def _setup(now_s: int) -> CloudSetup:
    return CloudSetup(
        region=REGION,
        reservations=(
            Reserved(instance_type="m5.xlarge", zone_id=_ZONE_A, total=3, criteria="targeted", tags=TAG),
            Reserved(instance_type="c5.2xlarge", zone_id=_ZONE_B, total=2, criteria="open", tags=TAG),
            Reserved(
                instance_type="p4d.24xlarge",
                zone_id=_ZONE_B,
                total=1,
                kind="capacity-block",
                criteria="targeted",
                end_s=now_s + _DAY_S,
                tags=TAG,
            ),
        ),
        timings=ec2_setup.Timings(boot_s=10, shutdown_s=15, release_lag_s=15),
    )


async def _settings(sandbox: Sandbox) -> Settings:
    return Settings(
        cluster_name=sandbox.cloud.about.cluster,
        cluster_endpoint=sandbox.address.url,
        cluster_ca_bundle=base64.b64encode(sandbox.address.authority).decode(),
        service_cidr=SERVICE_CIDR,
        kubernetes_version=await sandbox.kube.version(),
        interruption_queue=sandbox.cloud.queue,
        client=ClientSettings(per_second=1000, burst=2000),
        planning=PlanSettings(ledger_lag_s=_LAG_S),
        replica="demo",
    )


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
