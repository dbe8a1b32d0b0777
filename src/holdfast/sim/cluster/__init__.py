"""The simulated rest of a cluster: kube-scheduler, a kubelet on every instance, and the controllers of Kubernetes.

All of them use the Kube port, like the real programs, and read the simulated EC2 only where a kubelet or a cloud
controller would. It runs on any event loop; in virtual time, with ports from a seed, a run replays exactly.
docs/sim-cluster.md describes what is simulated.

    cluster = Cluster(api=client, cloud=ec2, clock=clock, ids=ids)
    await cluster.start()
    ...
    await cluster.stop()
"""

import asyncio
from typing import Protocol

from holdfast.ports import Clock, Ids, Kube
from holdfast.sim.cluster.budgets import Budgets
from holdfast.sim.cluster.cloud_nodes import CloudNodes, Orphans
from holdfast.sim.cluster.daemonsets import DaemonSets
from holdfast.sim.cluster.deployments import Deployments
from holdfast.sim.cluster.engine import Engine, run_together
from holdfast.sim.cluster.jobs import Jobs
from holdfast.sim.cluster.kubelet_starter import Joined, KubeletStarter
from holdfast.sim.cluster.node_lifecycle import NodeLifecycle
from holdfast.sim.cluster.pod_workers import PodWorkers
from holdfast.sim.cluster.replicas import ReplicaSets
from holdfast.sim.cluster.scheduler import Scheduler
from holdfast.sim.cluster.statefulsets import StatefulSets
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.cluster.volumes import Attachments, OwnClaims, Volumes
from holdfast.sim.ec2.service import Ec2


class Program(Protocol):
    """A program that runs until it is cancelled."""

    async def run(self) -> None: ...


class Cluster:
    """`joined`: values that the user data of an instance must have for its node to join; by default every instance
    joins. Without `control_plane` only the kubelets and the cloud controller run, for a cluster with a real scheduler
    and real controllers. `pod_groups`: the API server serves PodGroups, and kube-scheduler schedules gangs."""

    def __init__(  # noqa: PLR0913 - all by keyword
        self,
        *,
        api: Kube,
        cloud: Ec2,
        clock: Clock,
        ids: Ids,
        timings: Timings | None = None,
        joined: Joined | None = None,
        control_plane: bool = True,
        pod_groups: bool = False,
    ) -> None:
        times = timings or Timings()
        self._engine = engine = Engine(kube=api, clock=clock, ids=ids, pod_groups=pod_groups)
        self.caches = engine.caches
        self.kubelets = KubeletStarter(engine=engine, cloud=cloud, timings=times, cluster=joined or Joined())
        zones = tuple(sorted(account_zone for account_zone in cloud.region.setup.accounts[0].zone_ids))
        node_programs = [PodWorkers(engine, self.kubelets, times).worker, CloudNodes(engine, cloud).worker]
        self._programs: list[Program] = [self.kubelets, *node_programs]
        if control_plane:
            self._programs += _control_plane(engine, times, zones, self.kubelets)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Returns when the caches are synced and the programs run: no program acts on a partial list."""
        assert not self._tasks, "a cluster is started once"
        self._tasks.append(asyncio.create_task(run_together(self._engine.watches())))
        await self._engine.until_synced()
        programs = [program.run() for program in self._programs]
        self._tasks.append(asyncio.create_task(run_together(programs)))
        await asyncio.sleep(0)  # the programs have started, even if `stop` follows at once

    def check(self) -> None:
        """Raises the error of a program that ended: a bug, because none of them ends."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def stop(self) -> None:
        self.check()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _control_plane(
    engine: Engine, timings: Timings, zones: tuple[str, ...], kubelets: KubeletStarter
) -> list[Program]:
    controllers = (
        NodeLifecycle(engine, timings, kubelets),
        Orphans(engine, timings),
        Deployments(engine),
        ReplicaSets(engine),
        StatefulSets(engine),
        DaemonSets(engine),
        Jobs(engine),
        Budgets(engine),
        Volumes(engine, zones),
        OwnClaims(engine),
        Attachments(engine),
    )
    return [Scheduler(engine), *(each.worker for each in controllers)]
