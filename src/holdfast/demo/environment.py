"""Starts a sandbox with three kinds of reservations, and the real controllers in it.

The controllers use the production adapters: botocore over HTTP for AWS, the Kubernetes client for the API server. The
clock is real or runs faster.
"""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.app import explaining, sandbox_program
from holdfast.app.program import App
from holdfast.app.sandbox import Plan, Sandbox, running
from holdfast.demo.event_times import EventTimes
from holdfast.ports import Clock, Ids
from holdfast.sim.cloud_setup import CloudSetup, Reserved
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup as ec2_setup

REGION: Final = "us-west-2"
TAG: Final = {"team": "demo"}
_DAY_S: Final = 86_400

_ZONE_A, _ZONE_B = "usw2-az2", "usw2-az1"
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
    async with (
        running(plan, clock=clock, ids=ids) as sandbox,
        sandbox_program.adapters(sandbox, clock=clock, ids=ids) as adapters,
    ):
        app = App(await sandbox_program.settings(sandbox, "demo"), adapters)
        app.start()
        try:
            explain = explaining.explain(app)
            async with explaining.serving(explain, app, host=explaining.LOOPBACK, port=0, page=True) as port:
                yield Environment(sandbox, app, clock, f"http://{explaining.LOOPBACK}:{port}")
        finally:
            await app.stop()


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
