"""A sandbox in real time with its HTTP fronts, and `holdfast run` as a process.

A test is a coroutine inside `serving`. It reads the log of a replica line by line, so that it waits for log messages
instead of fixed times.
"""

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import aws_environment
import builders
import cluster_environment
from holdfast.api import aws, conditions
from holdfast.api.meta import Object
from holdfast.api.nodepool import NodePool
from holdfast.app import sandbox
from holdfast.app.sandbox import ControlPlane
from holdfast.ports import Clock
from holdfast.runtime.cache import Cache, Handler
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.runtime.reflector import Reflector
from holdfast.sim.api.serving.front import Front, Request, Response
from holdfast.sim.cloud_setup import CloudSetup, Reserved
from holdfast.sim.cluster import pods
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup as ec2_setup
from recorders import KeepingRecorder

K = TypeVar("K", bound=Object)

NAME = ec2_setup.CLUSTER
ROLE = f"KarpenterNodeRole-{NAME}"
WITHIN_S = 90.0  # generous, because the host may be busy
QUICK = Timings(boot_s=0.5, ready_s=0.2, devices_s=0.2, startup_taints=(), pod_start_s=0.2, poll_s=0.2)
UNSET_VARIABLES = (
    "CLUSTER_ENDPOINT",
    "DISABLE_LEADER_ELECTION",
    "INTERRUPTION_QUEUE",
)  # the controller discovers these settings or uses their defaults
TARGETED = Reserved(instance_type="m5.large", zone_id=aws_environment.ZONE_A, total=2, criteria="targeted")


class Counted:
    """A front that records the controller's requests to the embedded API server."""

    def __init__(self) -> None:
        self._inner: Front | None = None
        self.asked: list[Request] = []
        self.date: str | None = None  # the `Date` header of every answer, where a test sets one

    def around(self, inner: Front) -> Front:
        self._inner = inner
        return self

    async def handle(self, request: Request) -> Response:
        assert self._inner is not None
        if request.headers.get("user-agent", "").startswith("holdfast"):
            self.asked.append(request)
        answer = await self._inner.handle(request)
        if self.date is None:
            return answer
        return replace(answer, headers={**answer.headers, "date": self.date})


class ProcessEnvironment:
    def __init__(self, env: sandbox.Sandbox, front: Counted, clock: Clock) -> None:
        self.sandbox = env
        self.kube = env.kube
        self.cloud = env.cloud
        self.front = front
        self.clock = clock
        self.ids = RealIds()
        self.environ = _environ(env)
        self.replicas: list[Replica] = []

    async def node_class(self, name: str = "default", *, group: str = aws.GROUP, **spec: Any) -> None:
        terms = {
            "subnetSelectorTerms": aws_environment.TERMS,
            "securityGroupSelectorTerms": aws_environment.TERMS,
        }
        document = builders.ec2nodeclass_document(name, **({"role": ROLE} | terms | spec))
        document["apiVersion"] = f"{group}/v1"
        await self.sandbox.create({key: value for key, value in document.items() if key != "status"})

    async def node_pool(self, name: str = "default", **template: Any) -> None:
        await self.sandbox.create(builders.nodepool_document(name, **template))

    async def deploy(self, name: str, replicas: int, **spec: Any) -> None:
        kind = {"apiVersion": "apps/v1", "kind": "Deployment"}
        await self.sandbox.create(kind | cluster_environment.workload(name, replicas=replicas, **spec))

    @property
    def slots(self) -> str:
        """The id of the first reservation."""
        return next(iter(self.cloud.ec2.region.reservations)).id

    async def pool_is_ready(self) -> bool:
        pool = await self.kube.get(NodePool, "default")
        return conditions.holds(pool.status.conditions, conditions.READY)

    async def running_pods(self) -> int:
        return sum(
            pods.ready(pod) and not pods.is_terminating(pod) for pod in (await self.kube.list(Pod)).items
        )

    async def until(
        self, holds: Callable[[], Awaitable[bool]], what: str, *, within_s: float = WITHIN_S
    ) -> None:
        async with asyncio.timeout(within_s):
            while not await holds():
                for replica in self.replicas:
                    assert replica.is_running, f"a replica exited while waiting until {what}: {replica.lines}"
                await self.clock.sleep(0.1)

    def watch(self, kind: type[K], changed: Handler[K]) -> "asyncio.Task[None]":
        """Calls `changed` on every change of an object of that kind, until the task is cancelled."""
        cache = Cache(kind, clock=self.clock)
        cache.subscribe(changed)
        recorder = KeepingRecorder()
        reflector = Reflector(cache, kube=self.kube, clock=self.clock, ids=self.ids, recorder=recorder)
        return asyncio.create_task(reflector.run())

    async def start(self, *flags: str, program: Sequence[str] = ("-m", "holdfast")) -> "Replica":
        """Starts `holdfast run` as a process, and reads its standard error line by line."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, *program, "run", *flags, env=self.environ, stderr=asyncio.subprocess.PIPE, limit=2**24,
        )  # fmt: skip
        replica = Replica(process)
        self.replicas.append(replica)
        return replica


class Replica:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._said = asyncio.Event()
        self._reading = asyncio.create_task(self._read())

    @property
    def is_running(self) -> bool:
        return self.process.returncode is None

    @property
    def memory_mib(self) -> float:
        """The resident memory of the process."""
        fields = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()
        return int(fields[1]) * resource.getpagesize() / 2**20

    @property
    def cpu_s(self) -> float:
        """The CPU time that the process has used."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def wait_for_log(self, message: str) -> dict[str, Any]:
        """Waits for a log line with that message, and returns the first one."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                for line in self.lines:
                    if line.get("message") == message:
                        return line
                assert not self._reading.done(), (
                    f"the replica exited without logging {message!r}: {self.lines}"
                )
                self._said.clear()
                await self._said.wait()

    async def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return await self.ended()

    async def ended(self) -> int:
        async with asyncio.timeout(WITHIN_S):
            await self._reading
            return await self.process.wait()

    async def kill(self) -> None:
        if self.is_running:
            self.process.kill()
        await self.ended()

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            text = line.decode(errors="replace").rstrip()
            try:
                self.lines.append(json.loads(text))
            except json.JSONDecodeError:
                self.lines.append({"message": text})
            self._said.set()
        self._said.set()


@contextlib.asynccontextmanager
async def serving(
    folder: Path,
    *,
    reservations: tuple[Reserved, ...] = (TARGETED,),
    timings: Timings = QUICK,
    boot_s: int = 1,
    control_plane: ControlPlane = ControlPlane.EMBEDDED,
) -> AsyncIterator[ProcessEnvironment]:
    clock, front = RealClock(), Counted()
    setup = CloudSetup(
        reservations=reservations, timings=replace(ec2_setup.Timings(), boot_s=boot_s), throttled=False
    )
    plan = sandbox.Plan(
        folder=folder, setup=setup, timings=timings, around=front.around, control_plane=control_plane
    )
    async with sandbox.running(plan, clock=clock, ids=RealIds()) as running_sandbox:
        env = ProcessEnvironment(running_sandbox, front, clock)
        try:
            yield env
            running_sandbox.check()
        finally:
            for replica in env.replicas:
                await replica.kill()


def apart(name: str) -> dict[str, Any]:
    """A pod anti-affinity that allows one pod of the app on each node."""
    term = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def _environ(env: sandbox.Sandbox) -> dict[str, str]:
    variables = env.environment()
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        **{name: variables[name] for name in variables if name not in UNSET_VARIABLES},
        "BIND_ADDRESS": "127.0.0.1",
        "METRICS_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        "API_PORT": "0",
        "BATCH_IDLE_DURATION": "0s",
        "LOG_FORMAT": "json",
    }
