"""The stage: a simulated world with reservations of three kinds, and the real controllers in it.

Called by `holdfast demo`. The controllers are the product's, over the same doors as in production: AWS by botocore over
HTTP, Kubernetes by the client. Time is real, or real and faster.
"""

import base64
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast import sandbox
from holdfast.app import App
from holdfast.app import World as Doors
from holdfast.cloud.aws.calls import Clients, Threads
from holdfast.core.scheduling.input.request import Settings as PlanSettings
from holdfast.kube.client import ClientSettings
from holdfast.ports import Clock, Ids
from holdfast.runtime.compute import ThreadCompute
from holdfast.settings import Settings
from holdfast.sim.cloud_setup import CloudSetup, Reserved, access_key
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup as ec2_setup

REGION: Final = "us-west-2"
SERVICE_CIDR: Final = "10.96.0.0/16"
TAG: Final = {"team": "demo"}
_DAY_S: Final = 86_400

_ZONE_A, _ZONE_B = "usw2-az2", "usw2-az1"
_LAG_S: Final = 5  # the simulated EC2 counts a launch at once
_TIMINGS: Final = Timings(startup_taints=(), devices_s=5)


@dataclass(frozen=True, slots=True)
class Stage:
    world: sandbox.World
    app: App
    clock: Clock

    def check(self) -> None:
        self.world.check()
        self.app.check()


@contextlib.asynccontextmanager
async def set_up(folder: Path, *, clock: Clock, ids: Ids) -> AsyncIterator[Stage]:
    """Everything runs until the block ends; nothing is left afterwards."""
    plan = sandbox.Plan(folder=folder, setup=_setup(clock.now_s()), timings=_TIMINGS)
    async with sandbox.running(plan, clock=clock, ids=ids) as world:
        threads, compute = Threads(), ThreadCompute()
        clients = Clients(REGION, lambda: _Session(world.aws_url, access_key(world.cloud.about.account)))
        doors = Doors(
            transport=world.transport, aws=clients, executor=threads, clock=clock, ids=ids, compute=compute
        )
        app = App(await _settings(world), doors)
        app.start()
        try:
            yield Stage(world, app, clock)
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


async def _settings(world: sandbox.World) -> Settings:
    return Settings(
        cluster_name=world.cloud.about.cluster,
        cluster_endpoint=world.address.url,
        cluster_ca_bundle=base64.b64encode(world.address.authority).decode(),
        service_cidr=SERVICE_CIDR,
        kubernetes_version=await world.kube.version(),
        interruption_queue=world.cloud.queue,
        client=ClientSettings(per_second=1000, burst=2000),
        planning=PlanSettings(ledger_lag_s=_LAG_S),
    )


class _Session:
    """A session of botocore whose clients all talk to the simulated AWS."""

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
            aws_secret_access_key="any",  # noqa: S106 - nobody checks it
            **given,
        )
