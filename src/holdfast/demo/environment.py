"""Starts a sandbox with the reservations of a story, and the real controllers in it.

The controllers use the production adapters: botocore over HTTP for AWS, the Kubernetes client for the API server. The
clock is real or runs faster.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from holdfast.app import explaining, optional_kinds, sandbox_program
from holdfast.app.program import App
from holdfast.app.sandbox import Plan, Sandbox, running
from holdfast.demo.event_times import EventTimes
from holdfast.ports import Clock, Ids
from holdfast.sim.cloud_setup import CloudSetup, Reserved
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup as ec2_setup

REGION: Final = "us-west-2"
ZONE_A, ZONE_B = "usw2-az2", "usw2-az1"
DAY_S: Final = 86_400
CLUSTER_TIMINGS: Final = Timings(startup_taints=(), devices_s=5)


@dataclass(frozen=True, slots=True)
class Setup:
    """What a story needs before it starts."""

    reservations: Callable[[int], tuple[Reserved, ...]]  # at a time, in seconds
    crds: tuple[Mapping[str, Any], ...] = ()  # besides those of Holdfast

    def cloud(self, now_s: int) -> CloudSetup:
        return CloudSetup(
            region=REGION,
            reservations=self.reservations(now_s),
            timings=ec2_setup.Timings(boot_s=10, shutdown_s=15, release_lag_s=15),
        )


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
async def start(
    folder: Path, setup: Setup, *, clock: Clock, real: Clock, ids: Ids
) -> AsyncIterator[Environment]:
    """Runs the sandbox and the controllers until the block ends, and removes all of it. `real`: the clock of the user."""
    plan = Plan(
        folder=folder,
        setup=setup.cloud(clock.now_s()),
        timings=CLUSTER_TIMINGS,
        more_crds=setup.crds,
        around=lambda front: EventTimes(front, clock, real),
    )
    async with (
        running(plan, clock=clock, ids=ids) as sandbox,
        sandbox_program.adapters(sandbox, clock=clock, ids=ids) as adapters,
    ):
        settings = await sandbox_program.settings(sandbox, "demo")
        kinds = await optional_kinds.readable(sandbox.kube)
        app = App(replace(settings, optional_kinds=kinds), adapters)
        app.start()
        try:
            explain = explaining.explain(app)
            async with explaining.serving(explain, app, host=explaining.LOOPBACK, port=0, page=True) as port:
                yield Environment(sandbox, app, clock, f"http://{explaining.LOOPBACK}:{port}")
        finally:
            await app.stop()
