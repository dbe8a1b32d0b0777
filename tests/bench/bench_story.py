"""The same workloads with Holdfast and with Karpenter: restarts of pods, cost, and use of slots.

Run by `make bench-story`, which builds the real programs. Prints a table; asserts nothing. Each autoscaler has a control plane of
its own (etcd, kube-apiserver, kube-controller-manager, kube-scheduler) and the same simulated EC2 with two reservations.
Deployments grow and shrink, and the NodePool's template changes in between, so all nodes drift. A restart is a pod that
replaces an evicted one: the number of created pods minus the pods that the steps add. The NodePool has Karpenter's
defaults, except for a short `consolidateAfter` and a budget of two nodes, so that a run takes minutes.
"""

import asyncio
import contextlib
import sys
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aws_environment
import builders
import process_environment
from bench import bench_live
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.workloads import Deployment
from holdfast.app.sandbox import ControlPlane
from holdfast.sim.cloud_setup import Reserved
from holdfast.sim.cluster.kinds import Pod
from process_environment import ProcessEnvironment

RESERVED = (
    Reserved(
        instance_type="m5.large", zone_id=aws_environment.ZONE_A, total=3, criteria="targeted", id="cr-0a"
    ),
    Reserved(
        instance_type="m5.2xlarge", zone_id=aws_environment.ZONE_A, total=1, criteria="targeted", id="cr-0b"
    ),
)
REQUIREMENTS = [
    builders.requirement("karpenter.sh/capacity-type", "In", "reserved", "on-demand"),
    builders.requirement("karpenter.k8s.aws/instance-family", "In", "m5", "c5"),
    builders.requirement("karpenter.k8s.aws/instance-size", "In", "large", "xlarge", "2xlarge"),
]
DISRUPTION = {
    "consolidationPolicy": "WhenEmptyOrUnderutilized",
    "consolidateAfter": "15s",
    "budgets": [{"nodes": "2"}],
}
DEPLOYMENTS = {"web": (12, "900m"), "api": (6, "400m"), "cache": (3, "1500m")}
NANO_S = 1e9 * 3600
WITHIN_S = 300
SAMPLE_S = 0.5
NAMESPACE = "default"


@dataclass
class Tally:
    """The results of one run."""

    asked_for: int = 0  # pods that the steps add
    created: set[str] = field(default_factory=set)  # pods, by uid
    instances: set[str] = field(default_factory=set)
    cost_usd: float = 0.0
    slots_used_s: float = 0.0
    lasted_s: float = 0.0

    def pod(self, _before: Pod | None, after: Pod | None) -> None:
        if after is not None:
            self.created.add(after.metadata.uid)

    @property
    def restarts(self) -> int:
        return len(self.created) - self.asked_for

    def line(self, what: str) -> str:
        used = self.slots_used_s / (self.lasted_s * sum(one.total for one in RESERVED))
        return f"{what:<20}{self.restarts:>10}{len(self.instances):>11}{self.cost_usd:>13.4f}{used:>12.0%}{self.lasted_s:>9.0f}"

    def sample(self, env: ProcessEnvironment, passed_s: float) -> None:
        ec2 = env.cloud.ec2.region
        charges = ec2.ledger.open.values()
        nano_usd_per_hour = sum(one.nano_usd_per_hour for one in charges if one.kind in ("spot", "on-demand"))
        self.cost_usd += nano_usd_per_hour * passed_s / NANO_S
        running = [one for one in ec2.instances if one.is_pending_or_running]
        self.instances |= {one.id for one in running}
        self.slots_used_s += passed_s * sum(bool(one.reservation_id) for one in running)
        self.lasted_s += passed_s


def main() -> None:
    print(
        f"{'autoscaler, after':<20}{'restarts':>10}{'instances':>11}{'cost, USD':>13}{'slots used':>12}{'seconds':>9}"
    )
    for name in sys.argv[1:] or ("holdfast", "karpenter"):
        with tempfile.TemporaryDirectory() as folder:
            tally = asyncio.run(run_story(name, Path(folder)))
        print(tally.line(name), flush=True)


async def run_story(name: str, folder: Path) -> Tally:
    tally = Tally()
    async with process_environment.serving(
        folder, reservations=RESERVED, control_plane=ControlPlane.REAL
    ) as env:
        await env.node_class(capacityReservationSelectorTerms=[{"id": one.id} for one in RESERVED])
        pool = builders.nodepool_document(requirements=REQUIREMENTS)
        pool["spec"]["disruption"] = DISRUPTION
        await env.sandbox.create(pool)
        async with bench_live.AUTOSCALERS[name](env, folder), counting(env, tally):
            await asyncio.sleep(bench_live.SETTLED_S)
            await steps(Story(env, tally))
    return tally


async def steps(one: "Story") -> None:
    """The steps of a run: scale-up, scale-down, drift."""
    for name, (replicas, cpu) in DEPLOYMENTS.items():
        await one.deploy(name, replicas, cpu)
    await one.all_running()
    await one.quiet(60, "21 pods added")
    await one.scale("web", 6)
    await one.quiet(90, "6 pods removed")
    await one.drift("blue")
    await one.quiet(60, "all nodes drift")
    await one.scale("web", 14)
    await one.all_running()
    await one.quiet(60, "8 pods added")
    await one.scale("web", 4)
    await one.scale("api", 2)
    await one.quiet(120, "14 pods removed")


@dataclass
class Story:
    env: ProcessEnvironment
    tally: Tally
    replicas: dict[str, int] = field(default_factory=dict)

    async def deploy(self, name: str, replicas: int, cpu: str) -> None:
        self.replicas[name], self.tally.asked_for = replicas, self.tally.asked_for + replicas
        await self.env.deploy(name, replicas=replicas, cpu=cpu)

    async def scale(self, name: str, replicas: int) -> None:
        self.tally.asked_for += max(0, replicas - self.replicas[name])
        self.replicas[name] = replicas
        await self._patch(Deployment, name, {"spec": {"replicas": replicas}})

    async def drift(self, label: str) -> None:
        """Changes the template of the NodePool, and waits until all nodes are of the new template."""
        labels = {"template": {"metadata": {"labels": {"example.com/colour": label}}}}
        await self._patch(NodePool, "default", {"spec": labels})

        async def rolled() -> bool:
            claims = (await self.env.kube.list(NodeClaim)).items
            return all(one.metadata.labels.get("example.com/colour") == label for one in claims)

        await self.env.until(rolled, "all nodes are new", within_s=WITHIN_S)
        await self.all_running()

    async def all_running(self) -> None:
        async def holds() -> bool:
            return await self.env.running_pods() == sum(self.replicas.values())

        await self.env.until(holds, "all pods run", within_s=WITHIN_S)

    async def quiet(self, seconds: float, step: str) -> None:
        await asyncio.sleep(seconds)
        await self.all_running()
        print(self.tally.line(f"  {step}"), flush=True)

    async def _patch(self, kind: type[Any], name: str, change: dict[str, Any]) -> None:
        found = await self.env.kube.get(kind, name, NAMESPACE if kind.namespaced else "")
        await self.env.kube.patch(found, change)


@contextlib.asynccontextmanager
async def counting(env: ProcessEnvironment, tally: Tally) -> AsyncIterator[None]:
    async def sample() -> None:
        at_s = env.clock.monotonic_s()
        while True:
            await asyncio.sleep(SAMPLE_S)
            now_s = env.clock.monotonic_s()
            tally.sample(env, now_s - at_s)
            at_s = now_s

    tasks = [env.watch(Pod, tally.pod), asyncio.create_task(sample())]
    try:
        yield
    finally:
        for one in tasks:
            one.cancel()


if __name__ == "__main__":
    main()
