"""A sandbox with a fault proxy between each replica and each endpoint.

On top of `process_environment`: the simulated API server and AWS on real sockets, `holdfast run` as a process. Each start of the
process has a number, its own AWS access key and two proxies, so the replica of every call is known. Used by the
campaigns and the tests of this folder.
"""

import asyncio
import base64
import contextlib
import dataclasses
import json
import random
import signal
import ssl
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp

import aws_environment
import builders
import process_environment
from faults import calls
from faults.calls import Call
from faults.damage import Kind
from faults.judge import ACCESS_KEY, REVISION, Judge
from faults.proxy import Injection, Proxy, Upstream
from holdfast import errors
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.app import sandbox
from holdfast.runtime import lease
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.sim.api.serving import certificates
from holdfast.sim.api.serving.http import Address
from holdfast.sim.cloud_setup import CloudSetup, Reserved
from holdfast.sim.cluster.kinds import Deployment, Lease
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import setup as ec2_setup

SLOTS: Final = 2  # full from the start
MANY_SLOTS: Final = 4  # some are free for the next nodes
TYPE: Final = "m5.large"
LEASE_S: Final = 15.0  # how long a standby waits after the last renewal
LOG_MAX_BYTES: Final = 2 * 2**20  # of one process
LINE_MAX_BYTES: Final = 2**18
LEAD_LOST: Final = "lost the Lease"
PARKED: Final = "holdfast_parked_keys"
_FAILING: Final = (PARKED, "holdfast_failing_keys")
_RESERVED: Final = Reserved(
    instance_type=TYPE, zone_id=aws_environment.ZONE_A, total=SLOTS, criteria="targeted"
)
_FAST: Final = Timings(
    boot_s=0.2, ready_s=0.1, devices_s=0.1, startup_taints=(), pod_start_s=0.1, pod_stop_s=0.1, poll_s=0.2
)
_CLOUD: Final = dataclasses.replace(ec2_setup.Timings(), boot_s=1, shutdown_s=1, release_lag_s=1)
_SETTINGS: Final = {"CONSOLIDATION_COOLDOWN": "0s", "BATCH_IDLE_DURATION": "0s"}


class LoggedReplica(process_environment.Replica):
    """A replica whose log bytes are counted; lines that are too long are not parsed."""

    log_bytes = 0

    async def _read(self) -> None:
        assert self.process.stderr is not None
        rest = b""
        while data := await self.process.stderr.read(2**16):
            self.log_bytes += len(data)
            *whole, rest = (rest + data).split(b"\n")
            rest = rest[: LINE_MAX_BYTES + 1]
            self.lines += [_parsed(line) for line in whole if line]
            self._said.set()
        self._said.set()


@dataclass(eq=False)
class Process:
    """One start of `holdfast run`, with its proxies."""

    number: int
    kube: Proxy
    aws: Proxy
    environ: dict[str, str]
    call_counts: Counter[Call] = field(default_factory=Counter)
    replica: LoggedReplica | None = None

    @property
    def running(self) -> LoggedReplica:
        assert self.replica is not None, "not started"
        return self.replica

    @property
    def proxies(self) -> tuple[Proxy, Proxy]:
        return self.kube, self.aws

    def proxy_of(self, call: Call) -> Proxy:
        return self.kube if call.endpoint == calls.KUBERNETES else self.aws

    async def start(self) -> None:
        made = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "holdfast",
            "run",
            env=self.environ,
            stderr=asyncio.subprocess.PIPE,
            limit=2**26,
        )
        self.replica = LoggedReplica(made)

    def signal(self, number: signal.Signals) -> None:
        self.running.process.send_signal(number)

    def has_logged(self, message: str) -> bool:
        return any(line.get("message") == message for line in self.running.lines)

    async def problems(self) -> list[str]:
        """Problems of the process itself: probes that fail, and work queue keys that keep failing."""
        started = next((one for one in self.running.lines if one.get("message") == "started"), None)
        if started is None:
            return ["the process has not started"]
        found = []
        try:
            for path in ("/healthz", "/readyz"):
                status, text = await _get(started["health_probe_port"], path)
                if status != 200:
                    found.append(f"{path} is {status}: {text.strip()}")
            _, page = await _get(started["metrics_port"], "/metrics")
        except (aiohttp.ClientError, TimeoutError) as error:
            return [f"the process does not answer its probes: {error!r}"]
        failing = [line for line in page.splitlines() if line.startswith(_FAILING)]
        return found + [f"keys keep failing: {line}" for line in failing if float(line.split()[-1]) > 0]


class FaultEnvironment(process_environment.ProcessEnvironment):
    def __init__(
        self, env: sandbox.Sandbox, judge: Judge, stack: contextlib.AsyncExitStack, folder: Path
    ) -> None:
        super().__init__(env, process_environment.Counted(), RealClock())
        self.judge = judge
        self.processes: list[Process] = []
        self.restarts = True  # whether a process that has exited is started again
        self.exits: list[str] = []  # processes that exited without a signal
        self._stack = stack
        self._folder = folder
        self._tls_files = certificates.make("127.0.0.1")

    # --- Processes --------------------------------------------------------------------------------------

    async def prepare(self) -> Process:
        """A process that is not started yet; its proxies listen."""
        number = len(self.processes) + 1
        call_counts: Counter[Call] = Counter()

        def count(call: Call) -> None:
            call_counts[call] += 1

        server = urlsplit(self.sandbox.address.url)
        kube = Proxy(
            Upstream(str(server.hostname), server.port or 0, self.sandbox.address.trust()),
            calls.of_kubernetes, number, tls=server_tls(self._tls_files), on_call=count,
        )  # fmt: skip
        cloud = urlsplit(self.sandbox.aws_url)
        aws = Proxy(
            Upstream(str(cloud.hostname), cloud.port or 0),
            calls.of_aws, number, on_call=count, on_fault=self.judge.damaged,
        )  # fmt: skip
        for proxy in (kube, aws):
            await self._stack.enter_async_context(proxy.serving())
        config = self._folder / f"kubeconfig-{number}"
        address = Address(f"https://127.0.0.1:{kube.port}", self._tls_files.authority)
        config.write_text(address.kubeconfig(self._token()), encoding="utf-8")
        environ = self.environ | _SETTINGS | {
            "KUBECONFIG": str(config),
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{aws.port}",
            "AWS_ACCESS_KEY_ID": f"{ACCESS_KEY}{number}",
            "INTERRUPTION_QUEUE": self.cloud.queue,
            # The proxy shows a certificate of its own to the process; nodes connect to the API server itself.
            "CLUSTER_CA_BUNDLE": base64.b64encode(self.sandbox.address.authority).decode(),
        }  # fmt: skip
        process = Process(number, kube, aws, environ, call_counts)
        self.processes.append(process)
        return process

    async def start_process(self) -> Process:
        process = await self.prepare()
        await process.start()
        return process

    def _token(self) -> str:
        written = json.loads(self.sandbox.kubeconfig.read_text(encoding="utf-8"))
        return str(written["users"][0]["user"]["token"])

    @property
    def current(self) -> Process:
        return self.processes[-1]

    async def replace_lease(self) -> None:
        """Deletes the Lease, so that the next process need not wait until that of a killed one has expired."""
        with contextlib.suppress(errors.NotFound):
            await self.kube.delete(await self.kube.get(Lease, lease.NAME, "kube-system"))

    async def keep_running(self) -> None:
        """Restarts the process when it has exited, as a kubelet does; records exits other than for a lost Lease."""
        process = self.current
        if not self.restarts or process.replica is None or process.running.is_running:
            return
        code = await process.running.ended()
        last = process.running.lines[-1] if process.running.lines else {}
        why = f"process {process.number} exited with {code}: {json.dumps(last)[:500]}"
        started = process.has_logged("started")
        if started and LEAD_LOST not in why:
            self.exits.append(why)
        following = await self.prepare()
        for old, new in zip(process.proxies, following.proxies, strict=True):
            new.injections = old.injections  # a fault that was not removed applies to the next process too
        await asyncio.sleep(0.5)
        await following.start()

    # --- Workloads --------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        await self.node_class(capacityReservationSelectorTerms=[{"id": self.slots}])
        await self.pool("default")

    async def pool(self, name: str, **template: Any) -> None:
        document = builders.nodepool_document(
            name,
            requirements=[
                builders.requirement("node.kubernetes.io/instance-type", "In", TYPE),
                builders.requirement("karpenter.sh/capacity-type", "In", "reserved", "on-demand"),
            ],
            nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
            **template,
        )
        document["spec"]["disruption"] = {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "0s",
            "budgets": [{"nodes": "100%"}],
        }
        await self.sandbox.create(document)

    async def app(self, name: str, replicas: int, **spec: Any) -> None:
        """Creates a Deployment whose pods run one per node."""
        self.judge.wanted[name] = replicas
        await self.deploy(name, replicas, affinity=process_environment.apart("any"), **spec)

    async def scale(self, name: str, replicas: int) -> None:
        self.judge.wanted[name] = replicas
        deployment = await self.kube.get(Deployment, name, "default")
        await self.kube.patch(deployment, {"spec": {"replicas": replicas}})

    async def change_class(self, tag: str) -> None:
        """Changes the EC2NodeClass so that all its nodes drift."""
        self.judge.revision = tag
        found = await self.kube.get(EC2NodeClass, "default")
        await self.kube.patch(found, {"spec": {"tags": {REVISION: tag}}})

    # --- Checks ------------------------------------------------------------------------------------------

    async def problems(self) -> list[str]:
        found = self.judge.problems()
        if self.current.kube.has_silent_watches:
            found.append("a watch is silent, and was not opened again")
        return found or ([] if self.current.replica is None else await self.current.problems())

    async def converged(self, within_s: float, *, steady_s: float = 0.5) -> list[str]:
        """Waits until there have been no problems for a while; returns the problems left when the time is over."""
        loop = asyncio.get_running_loop()
        ends_s, good_since_s = loop.time() + within_s, None
        problems: list[str] = []
        while loop.time() < ends_s:
            await self.keep_running()
            self.sandbox.check()
            problems = await self.problems()
            if self.broken_rules():
                return problems  # a violation cannot recover
            if problems:
                good_since_s = None
            else:
                good_since_s = good_since_s or loop.time()
                if loop.time() - good_since_s >= steady_s:
                    return []
            await asyncio.sleep(0.2)
        return [*problems, *await self.current.problems()] or ["not steady"]

    def broken_rules(self) -> list[str]:
        """Violations that must never happen."""
        logs = [
            f"process {one.number} logged {one.running.log_bytes} bytes"
            for one in self.processes
            if one.replica is not None and one.running.log_bytes > LOG_MAX_BYTES
        ]
        return [*self.judge.violations, *self.exits, *logs]


@contextlib.asynccontextmanager
async def serving(*, slots: int = SLOTS) -> AsyncIterator[FaultEnvironment]:
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        folder = Path(name)
        (folder / "sandbox").mkdir()
        judge = Judge(asyncio.get_running_loop().time)
        setup = CloudSetup(
            reservations=(dataclasses.replace(_RESERVED, total=slots),), timings=_CLOUD, throttled=False
        )
        plan = sandbox.Plan(folder=folder / "sandbox", setup=setup, timings=_FAST, around=judge.around)
        async with sandbox.running(plan, clock=RealClock(), ids=RealIds()) as made:
            judge.observe(made.cloud)
            async with contextlib.AsyncExitStack() as stack:
                env = FaultEnvironment(made, judge, stack, folder)
                try:
                    yield env
                finally:
                    for process in env.processes:
                        if process.replica is not None:
                            if process.running.is_running:
                                process.signal(signal.SIGCONT)
                            await process.running.kill()


def injection(kind: Kind, call: Call, dice: random.Random) -> Injection:
    """For one call, or for more calls than a client's own retries."""
    times = 1 if kind in (Kind.STALL, Kind.SILENT, Kind.HUGE, Kind.REFUSED) else dice.choice((1, 1, 6))
    return Injection(kind, call, times, random.Random(dice.random()))


async def _get(port: int, path: str) -> tuple[int, str]:
    timeout = aiohttp.ClientTimeout(total=5)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


def _parsed(line: bytes) -> dict[str, Any]:
    if len(line) > LINE_MAX_BYTES:
        return {
            "message": "a line that is too long",
            "level": "error",
            "begins": line[:300].decode(errors="replace"),
        }
    try:
        found = json.loads(line)
    except ValueError:
        return {"message": line.decode(errors="replace")}
    return found if isinstance(found, dict) else {"message": str(found)}


def server_tls(made: certificates.Certificates) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder) / "tls.crt", Path(folder) / "tls.key"
        certificate.write_bytes(made.certificate)
        key.write_bytes(made.key)
        context.load_cert_chain(certificate, key)
    return context


def text(call: Call, kind: Kind) -> str:
    return f"{call}: {kind}"


def lines(process: Process, levels: Sequence[str] = ("warning", "error", "critical")) -> list[str]:
    """Warnings and errors that a process logged, for a report."""
    found = [one for one in process.running.lines if one.get("level") in levels]
    return [json.dumps(one | _short(one))[:700] for one in found]


def _short(line: dict[str, Any]) -> dict[str, Any]:
    """The exceptions of a log line without the local values of each frame."""
    exceptions = line.get("exception")
    if not isinstance(exceptions, list):
        return {}
    short = [f"{one.get('exc_type')}: {one.get('exc_value')} at {_frames(one)}" for one in exceptions]
    return {"exception": short}


def _frames(exception: dict[str, Any]) -> str:
    return " < ".join(
        f"{Path(f['filename']).name}:{f['lineno']}" for f in exception.get("frames", ())[::-1][:4]
    )
