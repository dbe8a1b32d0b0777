"""What there is at one moment, as a person wants to see it: slots, nodes, pods, money, and why.

Taken by `holdfast demo`, drawn by `view`, compared by `telling`. It reads the caches of the controllers and the
simulated EC2, which knows what things cost.
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
from holdfast.demo.stage import Stage
from holdfast.sim.ec2 import prices
from holdfast.sim.ec2.entities import CAPACITY_BLOCK, Instance, Reservation

_FAILED_SCHEDULING: Final = "FailedScheduling"


@dataclass(frozen=True, slots=True)
class Slots:
    """A reservation."""

    id: str
    instance_type: str
    zone: str
    kind: str  # targeted, open or capacity block
    used: int
    total: int
    state: str
    ends_in_s: int | None


@dataclass(frozen=True, slots=True)
class Machine:
    """A NodeClaim, and the node that it became."""

    claim: str
    node: str
    instance_type: str
    zone: str
    capacity: str
    reservation_id: str
    nano_usd: int  # an hour, on top of what is paid anyway; 0 until it runs, as EC2 charges
    state: str  # wanted, launching, booting, ready or ending
    pods: tuple[str, ...]

    @property
    def why(self) -> str:
        if self.capacity == names.RESERVED:
            return "a slot that is paid for was free"
        if self.capacity == names.SPOT:
            return "no free slot fits; spot is the cheapest"
        return "no free slot fits" if self.capacity else "EC2 is being asked"


@dataclass(frozen=True, slots=True)
class Money:
    """Nano-USD an hour."""

    slots: int  # for reservations, used or not
    used: int  # the part of it that something runs in
    bought: int  # for what runs outside of them
    on_demand: int  # for all that runs, had nobody reserved anything


@dataclass(frozen=True, slots=True)
class Picture:
    elapsed_s: float
    slots: tuple[Slots, ...]
    machines: tuple[Machine, ...]
    running: Mapping[str, int]  # by workload
    wanted: Mapping[str, int]
    waiting: Mapping[str, str]  # pods without a node, and why, as far as anybody said
    money: Money


async def take(stage: Stage, elapsed_s: float) -> Picture:
    world = stage.world.cloud.ec2.world
    stage.world.cloud.ec2.advance()
    caches = stage.app.caches
    pods = [pod for pod in caches.of(Pod) if pod.metadata.deletion_timestamp is None]
    on_node: defaultdict[str, list[str]] = defaultdict(list)
    for pod in pods:
        on_node[pod.spec.node_name or ""].append(pod.metadata.name)
    instances = {one.id: one for one in world.instances if one.live}
    machines = [_machine(stage, claim, instances, on_node) for claim in caches.of(NodeClaim)]
    live = [one for one in instances.values() if one.state == "running"]
    return Picture(
        elapsed_s=elapsed_s,
        slots=tuple(_slots(stage, one) for one in world.reservations),
        machines=tuple(
            sorted(machines, key=lambda one: (one.capacity != names.RESERVED, one.reservation_id, one.claim))
        ),
        running=Counter(_workload(pod) for pod in pods if _is_ready(pod)),
        wanted=Counter(_workload(pod) for pod in pods),
        waiting={pod.metadata.name: why for pod, why in await _waiting(stage, pods)},
        money=_money(stage, live),
    )


def _slots(stage: Stage, one: Reservation) -> Slots:
    kind = "capacity block" if one.kind == CAPACITY_BLOCK else one.criteria
    used = one.total - one.available if one.active else 0
    ends_in_s = one.end_s - stage.clock.now_s() if one.end_s else None
    return Slots(
        one.id, one.instance_type, _zone(stage, one.zone_id), kind, used, one.total, one.state, ends_in_s
    )


def _machine(
    stage: Stage, claim: NodeClaim, instances: Mapping[str, Instance], on_node: Mapping[str, list[str]]
) -> Machine:
    labels, status = claim.metadata.labels, claim.status
    instance = instances.get((status.provider_id or "").rpartition("/")[2])
    charge = stage.world.cloud.ec2.world.ledger.open.get(instance.id) if instance is not None else None
    return Machine(
        claim=claim.metadata.name,
        node=status.node_name or "",
        instance_type=instance.instance_type if instance else "",
        zone=_zone(stage, instance.zone_id) if instance else "",
        capacity=labels.get(names.CAPACITY_TYPE, "") if instance else "",
        reservation_id=instance.reservation_id if instance else "",
        nano_usd=charge.nano_usd_per_hour if charge else 0,
        state=_state(claim),
        pods=tuple(sorted(on_node.get(status.node_name or "-", ()))),
    )


def _state(claim: NodeClaim) -> str:
    if claim.metadata.deletion_timestamp is not None:
        return "ending"
    reached = {one.type for one in claim.status.conditions if one.status == "True"}
    for condition, state in ((INITIALIZED, "ready"), (REGISTERED, "joined"), (LAUNCHED, "booting")):
        if condition in reached:
            return state
    return "launching"


async def _waiting(stage: Stage, pods: list[Pod]) -> list[tuple[Pod, str]]:
    waiting = [pod for pod in pods if not pod.spec.node_name]
    if not waiting:
        return []
    said = {
        event.involved_object.uid: event.message
        for event in (await stage.world.kube.list(Event)).items
        if event.reason == _FAILED_SCHEDULING and event.source.component == "holdfast"
    }
    return [(pod, said.get(pod.metadata.uid, "")) for pod in waiting]


def _is_ready(pod: Pod) -> bool:
    ready = next((one for one in pod.status.conditions if one.type == "Ready"), None)
    return ready is not None and ready.status == "True"


def _workload(pod: Pod) -> str:
    return pod.metadata.labels.get("app", pod.metadata.name)


def _money(stage: Stage, live: list[Instance]) -> Money:
    world = stage.world.cloud.ec2.world
    charges = list(world.ledger.open.values())
    list_price = {one.id: prices.on_demand(world.setup, one.instance_type) or 0 for one in live}
    return Money(
        slots=sum(c.nano_usd_per_hour for c in charges if c.kind in ("reservation", CAPACITY_BLOCK)),
        used=sum(list_price[one.id] for one in live if one.reservation_id),
        bought=sum(c.nano_usd_per_hour for c in charges if c.kind in ("spot", "on-demand")),
        on_demand=sum(list_price.values()),
    )


def _zone(stage: Stage, zone_id: str) -> str:
    return stage.world.cloud.ec2.world.setup.accounts[0].zone_name(zone_id)
