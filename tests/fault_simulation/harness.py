"""Runs one fault simulation: the real controllers with faults, then a time without faults, then the oracle.

Called by the tests and by `make sim`. Everything is in virtual time and from the seed, so a simulation that fails once
fails each time. The rule: after the faults end, the oracle finds no problems within a bound, and none later.
"""

import asyncio
import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import app_environment
import aws_environment
import cluster_environment
import kube_servers
from app_environment import AppEnvironment, capacity_types, instance_types
from fault_simulation import gang_oracle, gang_workloads, generate_gangs, oracle
from fault_simulation.gang_workloads import GangWorkloads
from fault_simulation.generate import ZONES, App, FaultSchedule, Slots, Step, schedule
from fault_simulation.generate_gangs import GANGS
from fault_simulation.oracle import Scene
from fault_simulation.watch import Watch
from holdfast.api.cluster import PodDisruptionBudget
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.runtime.lease import LeaseSettings
from holdfast.sim.api.serving.front import Request
from holdfast.sim.aws.errors import ApiError
from holdfast.sim.aws.service import Caller
from holdfast.sim.cluster.kinds import Claim, Deployment, Pod, StatefulSet, Volume
from holdfast.sim.cluster.timings import Timings
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Reservation

QUIET_S: Final = (
    60 * 60
)  # a NodeClaim that never registers is deleted after 15 minutes, and so may be the one that replaces it
STABLE_S: Final = 150  # longer than the interval of garbage collection
CHECK_INTERVAL_S: Final = 10
TIMINGS: Final = Timings(
    boot_s=5, ready_s=2, devices_s=1, startup_taints=(), heartbeat_s=30, grace_s=90, poll_s=2
)
DISKS: Final = {
    "metadata": {"name": "disks"},
    "provisioner": "ebs.csi.aws.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}
DISK: Final = {
    "metadata": {"name": "disk"},
    "spec": {
        "storageClassName": "disks",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    },
}
TAINT: Final = {"key": "example.com/only", "value": "some", "effect": "NoSchedule"}
PLANS_TAKE_S = (0, 1.5, 0, 4)  # by seed: plans of a large cluster take seconds


@dataclass
class Outcome:
    seed: int
    problems: list[str]
    quiet_after_s: float
    story: list[str]
    judged: Counter[str] = field(default_factory=Counter)


def run(seed: int, tell: Callable[[str], None] = lambda _: None) -> Outcome:
    made = generate_gangs.schedule(seed) if seed >= GANGS else schedule(seed)
    outcome = Outcome(seed, [], 0.0, [])

    async def program(env: AppEnvironment) -> None:
        scenario = _Scenario(env, made, outcome, tell)
        tasks = [asyncio.create_task(scenario.restart_after_crashes())]
        await scenario.build()
        if scenario.gangs is not None:
            tasks.append(asyncio.create_task(scenario.gangs.play()))
        await scenario.run_faults()
        await scenario.settle()
        for task in tasks:
            task.cancel()
        outcome.judged = scenario.watch.judged

    start_s = int(kube_servers.START.timestamp())
    rules = [
        dataclasses.replace(rule, from_s=rule.from_s + start_s, until_s=rule.until_s + start_s)
        for rule in made.ec2_faults
    ]
    settings = app_environment.SETTINGS
    if any(slots.interruptible for slots in made.slots):
        settings = dataclasses.replace(settings, interruption_queue=app_environment.QUEUE)
    if seed >= GANGS:
        settings = dataclasses.replace(settings, provisioning_requests=True)
    if made.replicas > 1:
        settings = dataclasses.replace(settings, election=LeaseSettings("kube-system"))
    app_environment.run(
        program,
        seed=seed,
        rules=rules,
        timings=TIMINGS,
        settings=settings,
        plans_take_s=PLANS_TAKE_S[seed % len(PLANS_TAKE_S)],
        gangs=seed >= GANGS,
        requests=seed >= GANGS,
    )
    return outcome


class _Scenario:
    def __init__(
        self, env: AppEnvironment, made: FaultSchedule, outcome: Outcome, tell: Callable[[str], None]
    ) -> None:
        self._env = env
        self._schedule = made
        self._outcome = outcome
        self._tell = tell
        self._ids: dict[str, str] = {}  # of reservations
        self._sources: dict[str, Reservation] = {}  # source reservations of interruptible ones
        self._down_s = 0
        self.watch = Watch(made)
        self._wanted = {app.name: app.replicas for app in made.apps}
        self._quiet_since_s = 0
        self.gangs = GangWorkloads(env, made, self._wanted, self._scale) if made.seed >= GANGS else None

    def _log(self, what: str) -> None:
        line = f"{self._env.clock.monotonic_s():7.1f} s  {what}"
        self._outcome.story.append(line)
        self._tell(line)

    # --- Setup ----------------------------------------------------------------------------------------

    async def build(self) -> None:
        env = self._env
        self.watch.start(env)
        for slots in self._schedule.slots:
            self._log(str(slots))
            self._ids[slots.name] = self._reserve(slots).id
        for rule in self._schedule.ec2_faults:
            self._log(f"EC2 fault: {rule}")
        for pool in self._schedule.pools:
            self._log(str(pool))
            terms = [{"id": self._ids[name]} for name in pool.slots]
            await env.node_class(pool.name, **({"capacityReservationSelectorTerms": terms} if terms else {}))
            await env.node_pool(
                pool.name,
                requirements=[instance_types(*pool.instance_types), capacity_types(*pool.capacity_types)],
                nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": pool.name},
                disruption={"consolidateAfter": "30s", "budgets": list(pool.budgets)},
                **({"taints": [TAINT]} if pool.tainted else {}),
                **({"weight": pool.weight} if pool.weight else {}),
                **({"limits": {"cpu": str(pool.vcpu_limit)}} if pool.vcpu_limit is not None else {}),
            )
        await env.create("/apis/storage.k8s.io/v1/storageclasses", DISKS)
        if self.gangs is not None:
            await self.gangs.build()
        for app in self._schedule.apps:
            self._log(str(app))
            await self._start(app)
        for _ in range(1, self._schedule.replicas):
            env.stand_by()

    def _reserve(self, slots: Slots) -> Reservation:
        env, zone_id, now_s = self._env, ZONES[slots.zone], self._env.clock.now_s()
        if slots.interruptible:
            self._sources[slots.name] = source = env.reserve(
                slots.instance_type, slots.total, zone_id=zone_id
            )
            return control.lend(env.ec2.region, source.id, slots.total)
        return env.reserve(
            slots.instance_type,
            slots.total,
            zone_id=zone_id,
            elsewhere=slots.elsewhere,
            start_s=now_s + slots.starts_s,
            criteria="open" if slots.open else "targeted",
            **_end(slots, now_s),
        )

    async def _start(self, app: App) -> None:
        kind = "statefulsets" if app.disk else "deployments"
        spec: dict[str, Any] = {"replicas": app.replicas, "cpu": f"{app.cpu_millis}m"}
        if app.selector:
            spec["nodeSelector"] = dict(app.selector)
        if app.tolerates:
            spec["tolerations"] = [{"operator": "Exists"}]
        if app.disk:
            spec |= {"volumeClaimTemplates": [DISK], "podManagementPolicy": "Parallel"}
        if self.gangs is not None:
            spec |= self.gangs.pod_fields(app)
        made = cluster_environment.workload(app.name, **spec)
        await self._env.create(f"/apis/apps/v1/namespaces/default/{kind}", made)
        if app.away_max is not None:
            about = {"maxUnavailable": app.away_max, "selector": {"matchLabels": {"app": app.name}}}
            budget = {"metadata": {"name": app.name}, "spec": about}
            await self._env.create("/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)

    # --- Faults ---------------------------------------------------------------------------------------

    async def run_faults(self) -> None:
        for step in self._schedule.steps:
            await self._until(step.at_s)
            self._log(f"{step.what} {' '.join(map(str, step.about))}")
            if self.gangs is not None and step.what in gang_workloads.STEPS:
                await self.gangs.do(step)
            else:
                await self._do(step)
        await self._until(self._schedule.lasts_s)
        self._env.line.clear()
        if self._env.own_clock.jumped_s != self._env.clock.jumped_s:
            self._env.own_clock.jumped_s = self._env.clock.jumped_s
            self.watch.jumped()
        self._env.recover()
        self._quiet_since_s = self._env.clock.now_s()
        self._log("silence")

    async def restart_after_crashes(self) -> None:
        """Restarts the controller after every crash."""
        while True:
            await self._env.crashing.crashed.wait()
            self._log(f"the program died after {self._env.crashing.writes[-1:]}")
            await self._env.restart(after_s=self._down_s)

    async def _until(self, at_s: float) -> None:
        await self._env.sleep(max(0.0, at_s - self._env.clock.monotonic_s()))

    async def _do(self, step: Step) -> None:
        env, about = self._env, step.about
        if step.what not in ("scale", "drift"):
            self.watch.disturbed()
        match step.what:
            case "scale":
                self._wanted[about[0]] = about[1]
                await self._scale(*about)
            case "drift":
                found = await env.kube.get(NodePool, about[0])
                labels = {"metadata": {"labels": {"example.com/generation": about[1]}}}
                await env.kube.patch(found, {"spec": {"template": labels}})
            case "cancel":
                reservation = env.ec2.region.reservations[self._ids[about[0]]]
                if reservation.state == "active" and reservation.kind != "capacity-block":
                    with contextlib.suppress(ApiError):  # faults of EC2 apply to this call too
                        env.cancel(reservation)
            case "reclaim":
                self._reclaim(about[0], about[1])
            case "extend":
                self._extend(self._ids[about[0]], about[1])
            case "take" | "give" | "grow":
                self.watch.taken()
                self._count(step.what, self._ids[about[0]], about[1])
            case "delete pod" | "delete claim" | "delete node":
                await self._delete(_KINDS[step.what], about[0])
            case "kill instance":
                if instances := env.ec2_instances:
                    control.kill(env.ec2.region, instances[about[0] % len(instances)].id)
            case _:
                await self._inject_fault(step)

    async def _inject_fault(self, step: Step) -> None:
        env, about = self._env, step.about
        match step.what:
            case "crash":
                write, after_effect, self._down_s = about
                env.crashing.crash_after_write(len(env.crashing.writes) + write, after_effect=after_effect)
            case "clock":
                self.watch.jumped()
                env.own_clock.jumped_s += about[0]
            case "cut":
                env.line.cut()
            case "down":
                env.line.go_down()
                await env.sleep(about[0])
                env.line.come_back()
            case "request":
                which, fault, times = about
                env.line.add(fault, _WHICH[which], times=times)
            case _:
                raise AssertionError(step.what)

    async def _scale(self, name: str, replicas: int) -> None:
        kind = next(
            StatefulSet if app.disk else Deployment for app in self._schedule.apps if app.name == name
        )
        found = await self._env.kube.get(kind, name, "default")
        await self._env.kube.patch(found, {"spec": {"replicas": replicas}})

    def _count(self, what: str, reservation_id: str, slots: int) -> None:
        """Other accounts use or release slots, or the reservation grows."""
        ec2 = self._env.ec2.region
        reservation = ec2.reservations[reservation_id]
        if what == "grow" and not reservation.source_id:
            ec2.put_reservation(
                reservation, total=reservation.total + slots, available=reservation.available + slots
            )
        elif what == "take" and reservation.target < 0:
            control.take(ec2, reservation_id, slots)
        elif what == "give":
            control.give(ec2, reservation_id, slots)

    def _reclaim(self, name: str, left: int) -> None:
        """The owner reclaims all but `left` slots; instances in them have two minutes."""
        reservation = self._env.ec2.region.reservations[self._ids[name]]
        if (
            name in self._sources
            and reservation.active
            and reservation.target < 0
            and left < reservation.total
        ):
            params = {"CapacityReservationId": self._sources[name].id, "TargetInstanceCount": left}
            with contextlib.suppress(ApiError):  # faults of EC2 apply to this call too
                self._env.ec2.call(
                    "UpdateInterruptibleCapacityReservationAllocation",
                    params,
                    Caller(aws_environment.ACCOUNT, "", ""),
                )

    def _extend(self, reservation_id: str, seconds: int) -> None:
        """Moves the end of a capacity block, perhaps during its drain, but not into the past of its reclaim time."""
        ec2 = self._env.ec2.region
        reservation = ec2.reservations[reservation_id]
        if reservation.kind == "capacity-block" and reservation.active:
            end_s = max(reservation.end_s + seconds, ec2.now_s + oracle.DRAINS_S)
            control.set_end(ec2, reservation_id, end_s)

    async def _delete(self, kind: type[Object], number: int) -> None:
        found = sorted((await self._env.kube.list(kind)).items, key=lambda one: one.metadata.name)
        if found:
            one = found[number % len(found)]
            self.watch.exempt.add(one.metadata.name)
            await self._env.kube.delete(one)

    # --- After the faults -----------------------------------------------------------------------------

    async def settle(self) -> None:
        """Waits until there are no problems, and that this state is stable."""
        clock = self._env.clock
        began_s = good_s = clock.monotonic_s()
        instances: set[str] = set()
        while clock.monotonic_s() - began_s < QUIET_S:
            await self._env.sleep(CHECK_INTERVAL_S)
            self.watch.look()
            self._outcome.problems = self.watch.problems(self._env.writes())
            if self._outcome.problems:
                return  # a violation cannot recover
            scene = await self._scene()
            if self.gangs is not None:
                ever = self._env.ever(NodeClaim)
                self._outcome.problems = [*gang_oracle.violations(scene, self._quiet_since_s, ever)]
                if self._outcome.problems:
                    return
            self._outcome.problems = [*self._problems(scene), *self.watch.unused_now()]
            now = {instance.id for instance in scene.instances}
            if self._outcome.problems or now != instances:
                good_s, instances = clock.monotonic_s(), now
            elif clock.monotonic_s() - good_s >= STABLE_S:
                self._outcome.quiet_after_s = good_s - began_s
                self._env.ec2.check_all()
                self._log(f"at rest: {sorted(now)} after {self._env.crashing.writes}")
                return
        self._outcome.problems.append("it never came to rest")

    def _problems(self, scene: Scene) -> list[str]:
        if self.gangs is None:
            return oracle.problems(scene)
        return [*oracle.problems(scene, gang_oracle.is_alone), *gang_oracle.problems(scene)]

    async def _scene(self) -> Scene:
        env = self._env
        instances = tuple(env.ec2_instances)
        return Scene(
            schedule=self._schedule,
            wanted=self._wanted,
            pods=await env.all(Pod),
            claims=tuple(await env.claims()),
            nodes=tuple(await env.nodes()),
            instances=instances,
            reservations={name: env.ec2.region.reservations[id_] for name, id_ in self._ids.items()},
            disks=await self._disks(),
            held=frozenset(
                one.metadata.name
                for one in await env.all(PodDisruptionBudget)
                if one.status.disruptions_allowed == 0
            ),
            now_s=env.clock.now_s(),
            **(await self.gangs.scene() if self.gangs is not None else {}),
        )

    async def _disks(self) -> dict[str, str]:
        """The zones of volumes by the names of their pods."""
        zones = {}
        for volume in await self._env.all(Volume):
            (term,) = volume.spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
            ((zones[volume.metadata.name],),) = [one["values"] for one in term["matchExpressions"]]
        return {
            claim.metadata.name.removeprefix("disk-"): zones[claim.spec["volumeName"]]
            for claim in await self._env.all(Claim)
            if claim.spec.get("volumeName") in zones
        }


def _end(slots: Slots, now_s: int) -> dict[str, Any]:
    if slots.ends_s is None:
        return {}
    if slots.block:
        return {"kind": "capacity-block", "end_s": now_s + slots.ends_s + oracle.DRAINS_S}
    return {"end_s": now_s + slots.ends_s}


def _is_write(request: Request) -> bool:
    return request.method != "GET"


def _is_watch(request: Request) -> bool:
    return request.query.get("watch") == "true"


_KINDS: Final[dict[str, type[Object]]] = {
    "delete pod": Pod,
    "delete claim": NodeClaim,
    "delete node": Node,
}
_WHICH: Final[dict[str, Callable[[Request], bool]]] = {
    "write": _is_write,
    "status": lambda request: _is_write(request) and request.path.endswith("/status"),
    "watch": _is_watch,
    "list": lambda request: request.method == "GET" and not _is_watch(request),
}
