"""Simulates one study: starts the cluster, carries out the agenda, and writes the result.

`simulate` is called in a process of its own for each variant and seed. Nothing here reads the clock of the computer, so a
run is the same wherever it runs.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from importlib import metadata
from typing import Final

from holdfast import errors
from holdfast.api.simulation_results import NodesResult, SimulationResult, Unplaced
from holdfast.model import prices
from holdfast.runtime.huge_pages import HugePages
from holdfast.sim import time
from holdfast.sim.cluster.engine import run_together
from holdfast.sim.cluster.kinds import Deployment, Job
from holdfast.sim.cluster.pods import condition
from holdfast.simulate import bills, results, virtual_cluster, workloads
from holdfast.simulate.actions import Action, Create, Delete, Patch
from holdfast.simulate.bills import IN_SLOT, ON_DEMAND, SPOT, Bills
from holdfast.simulate.pod_times import PodTimes
from holdfast.simulate.results import Paid, Samples
from holdfast.simulate.study import Study
from holdfast.simulate.virtual_cluster import VirtualCluster

STEPS_MAX: Final = 2016  # a week of five minutes
STEP_MIN_S: Final = 60
_STEP_S: Final = 300
_SEE_S: Final = 1200  # EC2 forgets terminated instances after an hour
_CLEAN_S: Final = 600
_UNPLACED_MAX: Final = 20
_THERE: Final = dict.fromkeys(
    ("Namespace", "PriorityClass"), (errors.AlreadyExists,)
)  # some are always there
_CALLS: Final = ("kubernetes", "aws")
_DISRUPTED: Final = "karpenter_nodeclaims_disrupted_total"
_REFUSED: Final = "karpenter_cloudprovider_instance_launch_failures_total"

Goes = Callable[[int], bool]  # takes the simulated time; False: stop now


def simulate(study: Study, goes: Goes = lambda _: True) -> SimulationResult:
    return time.run(_simulate(study, goes))


def step_s(study: Study) -> int:
    """The step of the timeline: five minutes, or less for a short simulation, or more for a long one."""
    duration_s = study.ends_s - study.begins_s
    if duration_s <= 2 * _STEP_S * 12:
        return STEP_MIN_S
    return max(_STEP_S, -(-duration_s // STEPS_MAX // STEP_MIN_S) * STEP_MIN_S)


async def _simulate(study: Study, goes: Goes) -> SimulationResult:
    async with virtual_cluster.running(
        study.setup, study.timings, study.planning, begins_s=study.begins_s, seed=study.seed
    ) as found:
        return await run_on(found, study, goes)


async def run_on(found: VirtualCluster, study: Study, goes: Goes) -> SimulationResult:
    """Runs the study on a cluster without objects, whose clock shows the start of the study."""
    running = _Run(study, found)
    for document in workloads.initial(study):
        with contextlib.suppress(*_THERE.get(str(document.get("kind")), ())):
            await found.create(document)
    agenda = workloads.agenda(study)
    await run_together((running.sample(goes), running.act(agenda), running.clean(), running.see()))
    return running.result()


class _Run:
    def __init__(self, study: Study, cluster: VirtualCluster) -> None:
        self._study = study
        self._cluster = cluster
        slot_prices = {
            one.instance_type: prices.parse(one.usd_per_hour) for one in study.spec.reservation_prices
        }
        self._bills = Bills(cluster.cloud.ec2.region, study.setup.account, slot_prices)
        self._pods = PodTimes(cluster.cluster.caches, cluster.clock)
        self._samples = Samples(study.begins_s, step_s(study))
        self._until_s = study.begins_s

    async def sample(self, goes: Goes) -> None:
        """Samples at each step, until the end or until `goes` is False."""
        clock, samples, pages = self._cluster.clock, self._samples, HugePages()
        while self._until_s < self._study.ends_s and goes(self._until_s):
            samples.pods_running.append(self._pods.running)
            samples.pods_waiting.append(self._pods.waiting)
            reservations = self._cluster.cloud.ec2.region.reservations
            samples.elsewhere.update({one.id: one.elsewhere for one in reservations if one.active})
            self._until_s = min(self._until_s + samples.step_s, self._study.ends_s)
            await clock.sleep(self._until_s - clock.monotonic_s() - self._study.begins_s)
            self._cluster.check()
            pages.extend()

    async def see(self) -> None:
        while True:
            self._bills.see()
            await self._cluster.clock.sleep(_SEE_S)

    # --- Workloads --------------------------------------------------------------------------------------

    async def act(self, agenda: Sequence[Action]) -> None:
        clock = self._cluster.clock
        for action in agenda:
            await clock.sleep(max(0.0, action.at_s - self._study.begins_s - clock.monotonic_s()))
            match action.what:
                case Patch(namespace, name, change):
                    deployment = await self._cluster.kube.get(Deployment, name, namespace)
                    await self._cluster.kube.patch(deployment, change)
                case Delete(_, namespace, name):
                    await self._delete(namespace, name)
                case Create(document, unless_running):
                    if not unless_running or not await self._is_running(unless_running):
                        await self._cluster.create(document)
        await asyncio.get_running_loop().create_future()  # until the simulation ends

    async def _delete(self, namespace: str, name: str) -> None:
        with contextlib.suppress(errors.NotFound):
            await self._cluster.kube.delete(await self._cluster.kube.get(Job, name, namespace))

    async def _is_running(self, cron_job: str) -> bool:
        """Whether a Job of the CronJob is not over. Their names end in the minute of their start."""
        return any(
            one.metadata.name.rpartition("-")[0] == cron_job and not _is_over(one)
            for one in self._cluster.cluster.caches.of(Job)
        )

    async def clean(self) -> None:
        """Deletes Jobs that are over, as `ttlSecondsAfterFinished` does: a long simulation has very many."""
        while True:
            await self._cluster.clock.sleep(_CLEAN_S)
            for job in list(self._cluster.cluster.caches.of(Job)):
                if _is_over(job):
                    with contextlib.suppress(errors.NotFound):
                        await self._cluster.kube.delete(job)

    # --- The result -------------------------------------------------------------------------------------

    def result(self) -> SimulationResult:
        study, cluster = self._study, self._cluster
        region = cluster.cloud.ec2.region
        paid = Paid(self._bills.uses(self._until_s), study.begins_s, self._until_s)
        found = list(region.reservations)
        rows = results.reservations(paid, found, self._samples, self._bills.zones)
        unplaced = self._unplaced()
        return SimulationResult(
            study=study.name,
            input=study.input,
            variant=study.variant,
            seed=study.seed,
            study_variants=study.study_variants,
            study_seeds=study.study_seeds,
            holdfast=metadata.version("holdfast"),
            begins=study.begins_s,
            ends=study.ends_s,
            until=self._until_s,
            settings=dict(study.settings),
            changes=study.changes,
            dollars=results.dollars(paid, rows, study.spec.savings_plan),
            reservations=rows,
            pods=self._pods.result(cluster.counts.evictions),
            nodes=self._nodes(paid),
            unplaced=tuple(unplaced[:_UNPLACED_MAX]),
            unplaced_total=len(unplaced),
            on_demand=results.on_demand_use(paid),
            calls=dict(
                zip(
                    _CALLS,
                    (cluster.counts.by_method.total(), cluster.cloud.endpoint.counts.total()),
                    strict=True,
                )
            ),
            events=tuple(results.events(found, study.begins_s, self._until_s)),
            timeline=results.timeline(paid, self._samples, rows),
            notes=(*study.notes, *(note for one in study.recordings for note in one.notes)),
        )

    def _nodes(self, paid: Paid) -> NodesResult:
        instances = paid.of(IN_SLOT, ON_DEMAND, SPOT)
        metrics = self._cluster.app.metrics
        running = {one.what for one in instances if one.to_s >= self._until_s}
        return NodesResult(
            launched=len({one.what for one in instances}),
            terminated=len({one.what for one in instances} - running),
            launches_failed=int(sum(metrics.sums(_REFUSED, "reason").values())),
            most=max((count for _, count in bills.changes(instances)), default=0),
            disrupted={name: int(n) for name, n in sorted(metrics.sums(_DISRUPTED, "reason").items())},
        )

    def _unplaced(self) -> list[Unplaced]:
        """Pods that wait at the end, the longest first."""
        plan = self._cluster.app.cluster_state.reasons.plan
        unplaced = plan.unplaced if plan else {}
        reasons = {uid: "; ".join(reason.text for reason in one.reasons) for uid, one in unplaced.items()}
        return [
            Unplaced(
                pod=name,
                since=int(self._study.begins_s + since_s),
                reason=reasons.get(uid, "it is not scheduled yet"),
            )
            for uid, since_s, name in self._pods.still_waiting()
        ]


def _is_over(job: Job) -> bool:
    return any(condition(job.status, kind).get("status") == "True" for kind in ("Complete", "Failed"))
