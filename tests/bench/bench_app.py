"""From a pending pod to a NodeClaim, and to a ready node: the real program over the HTTP fronts of a simulated world.

Run by `make bench`. Prints a table; asserts nothing, since machines differ. Machines boot at once, so what is measured is
the program and the fronts it talks to. The world is one process with a loop of its own, the program another: on two
cores they do not wait for each other, but a real API server and a real EC2 are many times as fast as these.
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
import cluster_world
import live_world
from bench import timed_pieces
from holdfast.api import conditions
from holdfast.api.cluster import Lease
from holdfast.api.nodeclaim import NodeClaim
from holdfast.runtime import lease
from holdfast.sim.cluster.timings import Timings
from live_world import LiveWorld

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
class SnapshotResult:
    """When claims were written and when their nodes were ready."""

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
class Kept:
    """When the Lease was renewed, in its own words; it is lost when that is ten seconds ago."""

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
        "pods     nodes   first claim   all claims   all nodes ready   program's cpu   its memory   API calls   AWS calls   "
        "renewals of its Lease, the longest wait for one   its loop's two longest pieces"
    )
    for count in wanted:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(measure(count, Path(folder)))


async def measure(count: int, folder: Path) -> None:
    async with live_world.serving(folder, reservations=(), timings=AT_ONCE, boot_s=0) as world:
        replica = await world.start(*FLAGS, program=(timed_pieces.__file__,))
        await world.node_class()
        await world.node_pool(
            requirements=[builders.requirement("node.kubernetes.io/instance-type", "In", "m5.4xlarge")]
        )
        await world.until(world.pool_is_ready, "the NodePool is ready")
        seen, kept = SnapshotResult(), Kept()
        watching = [world.watch(NodeClaim, seen.change), world.watch(Lease, kept.change)]
        asked = len(world.front.asked), world.cloud.endpoint.counts.total()
        began_s = time.perf_counter()
        await write_pods(world, count)
        async with asyncio.timeout(WITHIN_S):
            while len(seen.claims) * PODS_A_NODE < count or len(seen.ready) < len(seen.claims):
                assert replica.is_running, replica.lines[-1]
                await asyncio.sleep(0.05)
        for one in watching:
            one.cancel()
        row(count, seen, began_s, (replica.cpu_s, replica.memory_mib))
        print(
            f"{len(world.front.asked) - asked[0]:>12,}{world.cloud.endpoint.counts.total() - asked[1]:>12,}"
            f"{len(kept.renewed_s):>12}{kept.longest_s:>8.0f} s",
            end="",
        )
        await replica.stop()
        shorter_ms, longest_ms = replica.lines[-1]["ms"]
        print(f"{longest_ms:>35.0f} ms{shorter_ms:>8.0f} ms", flush=True)


async def write_pods(world: LiveWorld, count: int) -> None:
    """Pods that a scheduler of their own has found no node for: the simulated one would be most of what is measured."""
    spec = cluster_world.pod_spec(cpu="900m", memory="1Gi", schedulerName="bench")
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
    for first in range(0, count, AT_A_TIME):
        await asyncio.gather(
            *(
                write_pod(world, f"pod-{number}", spec, waits)
                for number in range(first, min(first + AT_A_TIME, count))
            )
        )


async def write_pod(world: LiveWorld, name: str, spec: Mapping[str, Any], waits: Mapping[str, Any]) -> None:
    pods = "/api/v1/namespaces/default/pods"
    await send(world, "POST", pods, "application/json", {"metadata": {"name": name}, "spec": spec})
    status = {"status": {"conditions": [waits]}}
    await send(world, "PATCH", f"{pods}/{name}/status", "application/merge-patch+json", status)


async def send(world: LiveWorld, method: str, path: str, content: str, body: Mapping[str, Any]) -> None:
    headers = {"content-type": content}
    answer = await world.world.transport.request(method, path, {}, headers, msgspec.json.encode(body))
    assert answer.status < 300, answer.body


def row(count: int, seen: SnapshotResult, began_s: float, used: tuple[float, float]) -> None:
    first, last = min(seen.claims.values()) - began_s, max(seen.claims.values()) - began_s
    ready = max(seen.ready.values()) - began_s
    print(
        f"{count:<8,} {len(seen.claims):<7,}{first:>10.1f} s{last:>11.1f} s{ready:>16.1f} s"
        f"{used[0]:>14.1f} s{used[1]:>9.0f} MiB",
        end="",
    )


if __name__ == "__main__":
    main()
