"""From a pending pod to a NodeClaim, and to a ready node: the real controller over the HTTP fronts of a sandbox.

Run by `make bench`. Prints a table; asserts nothing, since computers differ. Instances boot at once, so the controller and
the fronts are measured. The sandbox is one process, the controller another: on two cores they do not wait for each other,
but a real API server and a real EC2 are many times as fast as the simulated ones.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

import builders
import cluster_environment
import process_environment
from bench import timed_pieces
from holdfast.api import conditions
from holdfast.api.cluster import Lease
from holdfast.api.nodeclaim import NodeClaim
from holdfast.runtime import lease
from holdfast.sim.cluster.timings import Timings
from process_environment import ProcessEnvironment

PODS = (10, 100, 1_000, 10_000)
AT_ONCE = Timings(
    boot_s=0,
    ready_s=0,
    devices_s=0,
    startup_taints=(),
    pod_start_s=0,
    poll_s=0.2,
    heartbeat_s=60,
    grace_s=180,
)
FLAGS = ("--batch-idle-duration=1s", "--log-level=error")
PODS_A_NODE = 17  # of 0.9 processors on an m5.4xlarge
WITHIN_S = 600
AT_A_TIME = 100


@dataclass
class ClaimTimes:
    """When NodeClaims were created and when their nodes were ready."""

    claims: dict[str, float] = field(default_factory=dict)
    ready: dict[str, float] = field(default_factory=dict)

    def change(self, _before: NodeClaim | None, after: NodeClaim | None) -> None:
        if after is None:
            return
        now_s = time.perf_counter()
        if after.metadata.name not in self.claims:
            self.claims[after.metadata.name] = now_s
        done = conditions.find(after.status.conditions, "Initialized")
        if done is not None and done.status == "True":
            self.ready.setdefault(after.metadata.name, now_s)


@dataclass
class LeaseTimes:
    """The renewTimes of the Lease; the Lease is lost ten seconds after the last one."""

    renewed_s: list[float] = field(default_factory=list)

    def change(self, _before: Lease | None, after: Lease | None) -> None:
        if after is not None and after.metadata.name == lease.NAME and after.spec.renew_time is not None:
            self.renewed_s.append(after.spec.renew_time.timestamp())

    @property
    def longest_s(self) -> float:
        return max((after - before for before, after in pairwise(self.renewed_s)), default=0.0)


def main() -> None:
    wanted = [int(arg) for arg in sys.argv[1:]] or PODS
    print(
        "pods     nodes   first claim   all claims   all nodes ready   controller cpu       memory   API calls   AWS calls   "
        "Lease renewals, longest interval   two longest event loop steps"
    )
    for count in wanted:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(count, Path(folder)))


async def measure(count: int, folder: Path) -> None:
    async with process_environment.serving(folder, reservations=(), timings=AT_ONCE, boot_s=0) as env:
        replica = await env.start(*FLAGS, program=(timed_pieces.__file__,))
        await env.node_class()
        await env.node_pool(
            requirements=[builders.requirement("node.kubernetes.io/instance-type", "In", "m5.4xlarge")]
        )
        await env.until(env.pool_is_ready, "the NodePool is ready")
        claim_times, lease_times = ClaimTimes(), LeaseTimes()
        watching = [env.watch(NodeClaim, claim_times.change), env.watch(Lease, lease_times.change)]
        calls_before = len(env.front.asked), env.cloud.endpoint.counts.total()
        began_s = time.perf_counter()
        await write_pods(env, count)
        async with asyncio.timeout(WITHIN_S):
            while len(claim_times.claims) * PODS_A_NODE < count or len(claim_times.ready) < len(
                claim_times.claims
            ):
                assert replica.is_running, replica.lines[-1]
                await asyncio.sleep(0.05)
        for one in watching:
            one.cancel()
        row(count, claim_times, began_s, (replica.cpu_s, replica.memory_mib))
        print(
            f"{len(env.front.asked) - calls_before[0]:>12,}{env.cloud.endpoint.counts.total() - calls_before[1]:>12,}"
            f"{len(lease_times.renewed_s):>12}{lease_times.longest_s:>8.0f} s",
            end="",
        )
        await replica.stop()
        shorter_ms, longest_ms = replica.lines[-1]["ms"]
        print(f"{longest_ms:>35.0f} ms{shorter_ms:>8.0f} ms", flush=True)


async def write_pods(env: ProcessEnvironment, count: int) -> None:
    """Unschedulable pods with a schedulerName of their own: otherwise the simulated kube-scheduler would dominate the times."""
    spec = cluster_environment.pod_spec(cpu="900m", memory="1Gi", schedulerName="bench")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    for first in range(0, count, AT_A_TIME):
        await asyncio.gather(
            *(
                write_pod(env, f"pod-{number}", spec, condition)
                for number in range(first, min(first + AT_A_TIME, count))
            )
        )


async def write_pod(
    env: ProcessEnvironment, name: str, spec: Mapping[str, Any], condition: Mapping[str, Any]
) -> None:
    pods = "/api/v1/namespaces/default/pods"
    await send(env, "POST", pods, "application/json", {"metadata": {"name": name}, "spec": spec})
    status = {"status": {"conditions": [condition]}}
    await send(env, "PATCH", f"{pods}/{name}/status", "application/merge-patch+json", status)


async def send(
    env: ProcessEnvironment, method: str, path: str, content: str, body: Mapping[str, Any]
) -> None:
    headers = {"content-type": content}
    answer = await env.sandbox.transport.request(method, path, {}, headers, msgspec.json.encode(body))
    assert answer.status < 300, answer.body


def row(count: int, claim_times: ClaimTimes, began_s: float, used: tuple[float, float]) -> None:
    first, last = min(claim_times.claims.values()) - began_s, max(claim_times.claims.values()) - began_s
    ready = max(claim_times.ready.values()) - began_s
    print(
        f"{count:<8,} {len(claim_times.claims):<7,}{first:>10.1f} s{last:>11.1f} s{ready:>16.1f} s"
        f"{used[0]:>14.1f} s{used[1]:>9.0f} MiB",
        end="",
    )


if __name__ == "__main__":
    main()
