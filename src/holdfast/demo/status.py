"""The demo's state at one moment: reservations, nodes, pods and cost.

Reads the caches of the controllers, and the simulated EC2 for prices. `view` draws it, `changes` compares two of them.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from holdfast import names
from holdfast.api.claim_conditions import INITIALIZED, LAUNCHED, REGISTERED
from holdfast.api.cluster import Event
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.pods import Pod
from holdfast.demo import gangs
from holdfast.demo.environment import Environment
from holdfast.demo.gangs import GangStatus
from holdfast.demo.money import Cost, Meter
from holdfast.sim.cluster.kinds import Deployment
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Instance, Reservation

_FAILED_SCHEDULING: Final = "FailedScheduling"


@dataclass(frozen=True, slots=True)
class ReservationStatus:
    """One reservation."""

    id: str
    instance_type: str
    zone: str
    kind: str  # targeted, open or capacity block
    used: int
    total: int
    state: str
    ends_in_s: int | None
    starts_in_s: int | None = None  # None: it has started


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One NodeClaim with its instance and node."""

    claim: str
    node: str
    instance_type: str
    zone: str
    capacity: str
    reservation_id: str
    nano_usd: int  # per hour, on top of the reservations; 0 until it runs, as EC2 charges
    state: str  # launching, booting, joined, ready or terminating
    pods: tuple[tuple[str, int], ...]  # by workload

    @property
    def reason(self) -> str:
        if self.capacity == names.RESERVED:
            return "uses a free slot"
        return "no free slot fits" if self.capacity else ""


@dataclass(frozen=True, slots=True)
class Status:
    elapsed_s: float
    reservations: tuple[ReservationStatus, ...]
    nodes: tuple[NodeStatus, ...]
    running: Mapping[str, int]  # by workload
    replicas: Mapping[str, int]  # by workload; Deployments without replicas are included
    pending: Mapping[str, str]  # pods without a node, with the message of their FailedScheduling event
    cost: Cost  # per hour
    total: Cost  # since the story began
    gangs: tuple[GangStatus, ...] = ()


class StatusReader:
    def __init__(self, env: Environment) -> None:
        self._env = env
        self._meter = Meter(env.sandbox.cloud.ec2.region)

    async def read(self, elapsed_s: float) -> Status:
        env, now_s = self._env, self._env.clock.now_s()
        ec2 = env.sandbox.cloud.ec2.region
        env.sandbox.cloud.ec2.advance()
        caches = env.app.caches
        pods = [pod for pod in caches.of(Pod) if gangs.is_active(pod)]
        on_node: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for pod in pods:
            on_node[pod.spec.node_name or ""][_workload(pod)] += 1
        instances = {one.id: one for one in ec2.instances if one.is_pending_or_running}
        nodes = [_node(env, claim, instances, on_node) for claim in caches.of(NodeClaim)]
        return Status(
            elapsed_s=elapsed_s,
            reservations=tuple(_reservation(env, one) for one in ec2.reservations),
            nodes=tuple(
                sorted(nodes, key=lambda one: (one.capacity != names.RESERVED, one.reservation_id, one.claim))
            ),
            running=Counter(_workload(pod) for pod in pods if gangs.is_ready(pod)),
            replicas=await _replicas(env, pods),
            pending={pod.metadata.name: why for pod, why in await _pending(env, pods)},
            cost=self._meter.per_hour(),
            total=self._meter.total(now_s - int(elapsed_s), now_s),
            gangs=tuple(gangs.read(caches, pods)),
        )


async def _replicas(env: Environment, pods: list[Pod]) -> dict[str, int]:
    deployments = (await env.sandbox.kube.list(Deployment)).items
    requested = {one.metadata.name: int(one.spec.get("replicas") or 0) for one in deployments}
    existing = Counter(_workload(pod) for pod in pods)
    return {name: max(existing[name], requested.get(name, 0)) for name in {*existing, *requested}}


def _reservation(env: Environment, one: Reservation) -> ReservationStatus:
    kind = "capacity block" if one.kind == CAPACITY_BLOCK else one.criteria
    used = one.total - one.available if one.active else 0
    now_s = env.clock.now_s()
    return ReservationStatus(
        id=one.id,
        instance_type=one.instance_type,
        zone=_zone(env, one.zone_id),
        kind=kind,
        used=used,
        total=one.total,
        state=one.state,
        ends_in_s=one.end_s - now_s if one.end_s else None,
        starts_in_s=one.start_s - now_s if one.start_s > now_s else None,
    )


def _node(
    env: Environment, claim: NodeClaim, instances: Mapping[str, Instance], on_node: Mapping[str, Counter[str]]
) -> NodeStatus:
    labels, status = claim.metadata.labels, claim.status
    instance = instances.get((status.provider_id or "").rpartition("/")[2])
    charge = env.sandbox.cloud.ec2.region.ledger.open.get(instance.id) if instance is not None else None
    return NodeStatus(
        claim=claim.metadata.name,
        node=status.node_name or "",
        instance_type=instance.instance_type if instance else "",
        zone=_zone(env, instance.zone_id) if instance else "",
        capacity=labels.get(names.CAPACITY_TYPE, "") if instance else "",
        reservation_id=instance.reservation_id if instance else "",
        nano_usd=charge.nano_usd_per_hour if charge else 0,
        state=_state(claim),
        pods=tuple(sorted(on_node.get(status.node_name or "-", Counter()).items())),
    )


def _state(claim: NodeClaim) -> str:
    if claim.metadata.deletion_timestamp is not None:
        return "terminating"
    reached = {one.type for one in claim.status.conditions if one.status == "True"}
    for condition, state in ((INITIALIZED, "ready"), (REGISTERED, "joined"), (LAUNCHED, "booting")):
        if condition in reached:
            return state
    return "launching"


async def _pending(env: Environment, pods: list[Pod]) -> list[tuple[Pod, str]]:
    pending = [pod for pod in pods if not pod.spec.node_name]
    if not pending:
        return []
    messages = {
        event.involved_object.uid: event.message
        for event in (await env.sandbox.kube.list(Event)).items
        if event.reason == _FAILED_SCHEDULING and event.source.component == "holdfast"
    }
    return [(pod, messages.get(pod.metadata.uid, "")) for pod in pending]


def _workload(pod: Pod) -> str:
    return pod.metadata.labels.get("app", pod.metadata.name)


def _zone(env: Environment, zone_id: str) -> str:
    return env.sandbox.cloud.ec2.region.setup.accounts[0].zone_name(zone_id)
