"""A study of `holdfast simulate` in real time, faster: the sandbox, with the controllers in it.

The controllers use the production adapters: HTTP and TLS to the embedded API server, botocore over HTTP to the simulated
AWS, threads for calls and plans. Kubelets send heartbeats. So it differs from `holdfast simulate` in everything but the
study and the controllers, and the result is computed by the same functions.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path

from holdfast.api.conditions import READY, TRUE
from holdfast.api.nodepool import NodePool
from holdfast.api.simulation_results import SimulationResult
from holdfast.app import sandbox, sandbox_program
from holdfast.app.program import App
from holdfast.app.sandbox import Plan, Sandbox
from holdfast.kube import cluster_access
from holdfast.kube.http import HttpTransport
from holdfast.runtime.clock import RealClock, ScaledClock
from holdfast.sim.ids import SeededIds
from holdfast.simulate import run, workloads
from holdfast.simulate.study import Study
from holdfast.simulate.virtual_cluster import Counting, Counts, VirtualCluster

_READY_WITHIN_S = 120.0
_POLL_S = 0.05
_EARLY = ("EC2NodeClass", "NodePool")


class StartedClock:
    """Stands still until `start`, then runs `speed` times as fast as real time. So the start of the programs, which takes
    seconds, is not a part of the day."""

    def __init__(self, begins_s: int, speed: float) -> None:
        self._begins_s = begins_s
        self._speed = speed
        self._scaled: ScaledClock | None = None

    def start(self) -> None:
        self._scaled = ScaledClock(RealClock(), self._speed)

    def now_s(self) -> int:
        return self._begins_s + int(self.monotonic_s())

    def monotonic_s(self) -> float:
        return self._scaled.monotonic_s() if self._scaled else 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._speed)


def simulate(study: Study, folder: Path, speed: float, goes: run.Goes = lambda _: True) -> SimulationResult:
    return asyncio.run(_simulate(study, folder, speed, goes))


async def _simulate(study: Study, folder: Path, speed: float, goes: run.Goes) -> SimulationResult:
    clock = StartedClock(study.begins_s, speed)
    timings = dataclasses.replace(study.timings, heartbeats=True)
    plan = Plan(folder=folder, setup=study.setup, timings=timings)
    async with (
        sandbox.running(plan, clock=clock, ids=SeededIds(f"sandbox {study.seed}")) as started,
        _program(started, study, clock) as cluster,
    ):
        later = await _prepared(study, cluster)
        clock.start()
        return await run.run_on(cluster, later, goes)


async def _prepared(study: Study, cluster: VirtualCluster) -> Study:
    """Creates classes and NodePools and waits until they are ready: the first reading of EC2 takes seconds, which would
    be minutes of the day. Returns the study with the other objects."""
    early = [one for one in workloads.initial(study) if one["kind"] in _EARLY]
    for document in early:
        await cluster.create(document)
    async with asyncio.timeout(_READY_WITHIN_S):
        while not all(map(_is_ready, (await cluster.kube.list(NodePool)).items)):
            cluster.check()
            await asyncio.sleep(_POLL_S)
    return dataclasses.replace(study, objects=tuple(one for one in study.objects if one not in early))


def _is_ready(pool: NodePool) -> bool:
    return any(one.type == READY and one.status == TRUE for one in pool.status.conditions)


@contextlib.asynccontextmanager
async def _program(started: Sandbox, study: Study, clock: StartedClock) -> AsyncIterator[VirtualCluster]:
    """The controllers, ready."""
    counts, ids = Counts(), SeededIds(f"program {study.seed}")
    connection = cluster_access.connection(
        file=str(started.kubeconfig), context="", environ={}, clock=clock, namespace=""
    )
    transport = HttpTransport(connection)
    async with (
        contextlib.aclosing(transport),
        sandbox_program.adapters(started, clock=clock, ids=ids) as plain,
    ):
        adapters = dataclasses.replace(plain, transport=Counting(transport, counts))
        await adapters.executor.run(
            lambda: adapters.aws.get("ec2")
        )  # imports botocore, as `holdfast run` does
        settings = dataclasses.replace(
            await sandbox_program.settings(started, ""), planning=study.planning, strict=True
        )
        app = App(settings, adapters)
        app.start()
        try:
            await _until_ready(app)
            yield VirtualCluster(
                clock=clock,
                cloud=started.cloud,
                cluster=started.cluster,
                transport=started.transport,
                kube=started.kube,
                counts=counts,
                app=app,
            )
        finally:
            await app.stop()


async def _until_ready(app: App) -> None:
    async with asyncio.timeout(_READY_WITHIN_S):
        while not app.manager.is_controlling or app.manager.unready():
            app.check()
            await asyncio.sleep(_POLL_S)
