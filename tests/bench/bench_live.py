"""Two hundred pods with anti-affinity, two of them in reserved slots, on a real control plane: seconds, CPU time, memory.

Run by `make bench-live`, which builds the real programs. Prints tables; asserts nothing, since computers differ. There are
three runs, each with a control plane of its own: without an autoscaler, where this script launches the instances (a lower
bound for every autoscaler), with Holdfast, and with Karpenter. The autoscaler, etcd, kube-apiserver,
kube-controller-manager and kube-scheduler are processes of their own; kubelets, EC2 and this script are one more, called
`sandbox`. Instances boot as in `process_environment.QUICK`, and no node is consolidated.
"""

import asyncio
import base64
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import build_peers
import builders
import process_environment
from holdfast.api import claim_conditions, conditions
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.app.sandbox import ControlPlane
from holdfast.sim import processes
from holdfast.sim.aws.service import Caller
from holdfast.state.conversion import pod_states
from peers import arena
from process_environment import ProcessEnvironment

Begin = Callable[[int], object]  # called with the number of pods when the Deployment is created

PODS = 200
WITHIN_S = 600
FLAGS = ("--log-level=error", "--batch-idle-duration=1s")  # as it is by default
SETTLED_S = 35  # kube-controller-manager and kube-apiserver start informers of new CRDs for half a minute
QUIET_S = 15  # after the last pod runs
STAGES = (
    "claim written",
    *(claim_conditions.LAUNCHED, claim_conditions.REGISTERED, claim_conditions.INITIALIZED),
    "pod bound",
    "pod running",
)


@dataclass
class StageTimes:
    """When each NodeClaim and each pod reached a stage."""

    at_s: dict[str, dict[str, float]] = field(default_factory=lambda: {stage: {} for stage in STAGES})

    def claim(self, _before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is not None:
            self._at("claim written", after)
            for one in after.status.conditions:
                if one.type in self.at_s and one.status == conditions.TRUE:
                    self._at(one.type, after)

    def pod(self, _before: Pod | None, after: Pod | None) -> None:
        if after is not None and after.spec.node_name:
            self._at("pod bound", after)
            if pod_states.is_ready(after):
                self._at("pod running", after)

    def _at(self, stage: str, obj: Object) -> None:
        self.at_s[stage].setdefault(obj.metadata.name, time.perf_counter())


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PODS
    for name in sys.argv[2:] or AUTOSCALERS:
        print(f"\n{name}")
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(name, count, Path(folder)))


async def measure(name: str, count: int, folder: Path) -> None:
    async with process_environment.serving(folder, control_plane=ControlPlane.REAL) as env:
        await env.node_class(capacityReservationSelectorTerms=[{"id": env.slots}])
        pool = builders.nodepool_document()
        pool["spec"]["disruption"] = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"}
        await env.sandbox.create(pool)
        async with AUTOSCALERS[name](env, folder) as begin:
            await asyncio.sleep(SETTLED_S)
            stage_times = StageTimes()
            async with watching(env, stage_times):
                before, began_s = used(), time.perf_counter()
                await env.deploy(
                    "web", replicas=count, cpu="1500m", affinity=process_environment.apart("web")
                )
                begin(count)
                async with asyncio.timeout(WITHIN_S):
                    while len(stage_times.at_s["pod running"]) < count:
                        assert all(replica.is_running for replica in env.replicas)
                        await asyncio.sleep(0.05)
                stages(stage_times, began_s)
                print(f"\n{'process':<18}{'cpu, s':>10}{'quiet, s':>10}{'peak, MiB':>12}")
                after = used()
                await asyncio.sleep(QUIET_S)
                later = used()
            for process in before:
                cpu_s, quiet_s = after[process] - before[process], later[process] - after[process]
                print(f"{process[1]:<18}{cpu_s:>10.1f}{quiet_s:>10.1f}{peak_mib(process[0]):>12.0f}")


@contextlib.asynccontextmanager
async def without_autoscaler(env: ProcessEnvironment, _folder: Path) -> AsyncIterator[Begin]:
    """Launches as many instances as there are pods, without an autoscaler."""
    about = env.cloud.about
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}
    address = env.sandbox.address
    cluster = {
        "name": process_environment.NAME,
        "apiServerEndpoint": address.url,
        "certificateAuthority": base64.b64encode(address.authority).decode(),
    }
    node_config = config | {"spec": {"cluster": cluster}}
    images = env.cloud.ec2.region.setup.images
    linux = next(one.id for one in images if one.architecture == "x86_64" and one.platform != "Windows")
    user_data = base64.b64encode(json.dumps(node_config).encode()).decode()
    params = {"ImageId": linux, "InstanceType": "m5.large", "UserData": user_data}
    yield lambda count: env.cloud.ec2.call(
        "RunInstances",
        params | {"MinCount": count, "MaxCount": count},
        Caller(about.account, user_agent="bench"),
    )


@contextlib.asynccontextmanager
async def holdfast(env: ProcessEnvironment, _folder: Path) -> AsyncIterator[Begin]:
    await env.start(*FLAGS)
    await env.until(env.pool_is_ready, "the NodePool is ready")
    yield lambda _count: None


@contextlib.asynccontextmanager
async def karpenter(env: ProcessEnvironment, folder: Path) -> AsyncIterator[Begin]:
    async with processes.running(folder, env.clock, build_peers.binary) as started:
        await arena.start_karpenter(env.sandbox, started, folder)
        await env.until(env.pool_is_ready, "the NodePool is ready")
        yield lambda _count: None


AUTOSCALERS = {autoscaler.__name__: autoscaler for autoscaler in (without_autoscaler, holdfast, karpenter)}


@contextlib.asynccontextmanager
async def watching(env: ProcessEnvironment, stage_times: StageTimes) -> AsyncIterator[None]:
    watches = [env.watch(NodeClaim, stage_times.claim), env.watch(Pod, stage_times.pod)]
    try:
        yield
    finally:
        for one in watches:
            one.cancel()


def stages(stage_times: StageTimes, began_s: float) -> None:
    print(f"{'stage':<18}{'first, s':>10}{'half, s':>10}{'last, s':>10}")
    for stage, times in stage_times.at_s.items():
        at_s = sorted(one - began_s for one in times.values()) or [0.0]  # a watch may be behind
        print(f"{stage:<18}{at_s[0]:>10.1f}{at_s[len(at_s) // 2]:>10.1f}{at_s[-1]:>10.1f}")


def used() -> dict[tuple[int, str], float]:
    """CPU seconds of this process and of its child processes."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            head, _, tail = (folder / "stat").read_text(encoding="utf-8").rpartition(")")
            fields, pid = tail.split(), int(folder.name)
            if int(fields[1]) == os.getpid() or pid == os.getpid():
                name = {os.getpid(): "sandbox"}.get(pid, head.partition("(")[2])
                found[pid, name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return dict(sorted(found.items()))


def peak_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    main()
