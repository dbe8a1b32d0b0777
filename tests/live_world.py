"""A simulated world in real time, behind its HTTP fronts, and the real program as a process of its own.

A test is a coroutine inside `serving`. What a replica logs is read as it is written, so that a test waits for what it
waits for and not for seconds.
"""

import asyncio
import base64
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

import aws_world
import builders
import kube_worlds
from holdfast.kube.client import Client, ClientSettings
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.api import http as api_http
from holdfast.sim.api.front import Front, Request, Response
from holdfast.sim.api.routing import User
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.transport import InProcess
from holdfast.sim.aws.fronts import http as aws_http
from holdfast.sim.cloud import Cloud
from holdfast.sim.cloud_setup import CloudSetup, Reserved, access_key
from holdfast.sim.cluster import Cluster, pods
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup as ec2_setup

TOKEN = "a-token"
NAME = ec2_setup.CLUSTER
ROLE = f"KarpenterNodeRole-{NAME}"
WITHIN_S = 90.0  # of a machine that is busy with much else
QUICK = Timings(boot_s=0.5, ready_s=0.2, devices_s=0.2, startup_taints=(), pod_start_s=0.2, poll_s=0.2)
CLIENT = ClientSettings(per_second=1e5, burst=100_000)
TARGETED = Reserved(instance_type="m5.large", zone_id=aws_world.ZONE_A, total=2, criteria="targeted")


class Counted:
    """A front that remembers who asked for what: the method, the path, and whether it was a watch."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self.asked: list[Request] = []

    async def handle(self, request: Request) -> Response:
        if request.headers.get("user-agent", "").startswith("holdfast"):
            self.asked.append(request)
        return await self._front.handle(request)


class LiveWorld:
    def __init__(self, kube: Client, server: ApiServer, front: Counted, cloud: Cloud, folder: Path) -> None:
        self.clock = RealClock()
        self.kube = kube
        self.server = server
        self.front = front
        self.cloud = cloud
        self.folder = folder
        self.environ: dict[str, str] = {}
        self.replicas: list[Replica] = []

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    async def create(self, path: str, document: Mapping[str, Any]) -> None:
        answer = await InProcess(self.server, token=TOKEN).request(
            "POST", path, {}, {"content-type": "application/json"}, msgspec.json.encode(document)
        )
        assert answer.status == 201, answer.body

    async def node_class(self, name: str = "default", **spec: Any) -> None:
        terms = {"subnetSelectorTerms": aws_world.TERMS, "securityGroupSelectorTerms": aws_world.TERMS}
        document = builders.ec2nodeclass_document(name, **({"role": ROLE} | terms | spec))
        await self.create("/apis/karpenter.k8s.aws/v1/ec2nodeclasses", document)

    async def node_pool(self, name: str = "default", **template: Any) -> None:
        await self.create("/apis/karpenter.sh/v1/nodepools", builders.nodepool_document(name, **template))

    async def running_pods(self) -> int:
        return sum(pods.ready(pod) for pod in (await self.kube.list(Pod)).items)

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not await holds():
                for replica in self.replicas:
                    assert replica.is_running, f"a replica ended while waiting until {what}: {replica.lines}"
                await self.clock.sleep(0.1)

    async def start(self, *flags: str, program: Sequence[str] = ("-m", "holdfast")) -> "Replica":
        """The real program; what it writes to standard error is read as it comes."""
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

    async def says(self, event: str) -> dict[str, Any]:
        """The first line of that event, once there is one."""
        async with asyncio.timeout(WITHIN_S):
            while True:
                for line in self.lines:
                    if line.get("event") == event:
                        return line
                assert not self._reading.done(), f"it ended and never said {event!r}: {self.lines}"
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
                self.lines.append({"event": text})
            self._said.set()
        self._said.set()


@contextlib.asynccontextmanager
async def serving(
    folder: Path, *, reservations: tuple[Reserved, ...] = (TARGETED,), timings: Timings = QUICK
) -> AsyncIterator[LiveWorld]:
    clock, ids = RealClock(), RealIds()
    server = ApiServer(clock=clock, ids=ids, tokens={TOKEN: User("admin")})
    front = Counted(server)
    await kube_worlds.install_crds(InProcess(server, token=TOKEN), clock)
    async with api_http.serving(front) as address:
        about = CloudSetup(
            kube_endpoint=address.url,
            certificate_authority=base64.b64encode(address.authority).decode(),
            reservations=reservations,
            timings=replace(ec2_setup.Timings(), boot_s=1),
            throttled=False,
        )
        cloud = Cloud(about, clock=clock, ids=ids)
        kube = Client(transport=InProcess(server, token=TOKEN), clock=clock, ids=ids, settings=CLIENT)
        cluster = Cluster(api=kube, cloud=cloud.ec2, clock=clock, ids=ids, timings=timings, name=NAME)
        world = LiveWorld(kube, server, front, cloud, folder)
        world.kubeconfig.write_text(address.kubeconfig(TOKEN), encoding="utf-8")
        async with cloud.running(), aws_http.serving(cloud.endpoint) as aws_url:
            world.environ = _environ(world.kubeconfig, aws_url, about)
            await cluster.start()
            try:
                yield world
                cluster.check()
            finally:
                for replica in world.replicas:
                    await replica.kill()
                await cluster.stop()


def _environ(kubeconfig: Path, aws_url: str, about: CloudSetup) -> dict[str, str]:
    return {
        **{name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        "KUBECONFIG": str(kubeconfig),
        "CLUSTER_NAME": NAME,
        "AWS_REGION": about.region,
        "AWS_ENDPOINT_URL": aws_url,
        "AWS_ACCESS_KEY_ID": access_key(about.account),
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
        "BIND_ADDRESS": "127.0.0.1",
        "METRICS_PORT": "0",
        "HEALTH_PROBE_PORT": "0",
        "BATCH_IDLE_DURATION": "0s",
        "LOG_FORMAT": "json",
    }
