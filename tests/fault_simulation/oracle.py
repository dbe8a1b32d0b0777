"""What must hold after a fault simulation, by counting. It shares no code with the controllers and the planner.

A pod may only be pending if no node can be launched for it: no NodePool that it may use has an instance type that fits,
in an allowed zone, on demand, on spot or with a free slot. A volume restricts its pod to a zone, and a draining capacity
block has no free slots. Instances, NodeClaims and nodes are one to one; only a PodDisruptionBudget may delay the
deletion of a node; and no reservation has more instances than slots.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from fault_simulation.generate import VCPUS, ZONES, App, FaultSchedule, Pool, Slots
from holdfast.api import conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.sim.cluster import pods as pod_words
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2.entities import Instance, Reservation

ZONE: Final = "topology.kubernetes.io/zone"
DRAINS_S: Final = 40 * 60  # before its end a capacity block is drained


@dataclass(frozen=True)
class Scene:
    """The state of the API server and of EC2."""

    schedule: FaultSchedule
    wanted: dict[str, int]  # replicas by app
    pods: tuple[Pod, ...]
    claims: tuple[NodeClaim, ...]
    nodes: tuple[Node, ...]
    instances: tuple[Instance, ...]  # pending or running
    reservations: dict[str, Reservation]  # by their names in the simulation
    disks: dict[str, str] = field(default_factory=dict)  # zones, by the name of the pod
    held: frozenset[str] = frozenset()  # apps of which no pod may be evicted now
    now_s: int = 0
    requests: tuple[ProvisioningRequest, ...] = ()
    templates: frozenset[str] = frozenset()  # names of PodTemplates


def problems(scene: Scene, is_alone: Callable[[Scene, App], bool] = lambda _scene, _app: True) -> list[str]:
    """`is_alone`: whether each pending pod of an app needs a node for itself only."""
    return [*_pods(scene, is_alone), *_pairs(scene), *_slots(scene)]


def _pods(scene: Scene, is_alone: Callable[[Scene, App], bool]) -> Iterator[str]:
    for app in scene.schedule.apps:
        own = [
            p
            for p in scene.pods
            if p.metadata.labels.get("app") == app.name and not pod_words.is_terminating(p)
        ]
        if len(own) != scene.wanted[app.name]:
            yield f"{app.name} has {len(own)} pods of {scene.wanted[app.name]}"
        for pod in own if is_alone(scene, app) else ():
            if not pod_words.ready(pod):
                way = next(ways(scene, app, scene.disks.get(pod.metadata.name)), None)
                if way is not None:
                    yield f"{pod.metadata.name} could run: {way}"


def ways(scene: Scene, app: App, disk: str | None) -> Iterator[str]:
    """The ways to launch a node for one more pod, whose volume, if it has one, is in zone `disk`."""
    selector = dict(app.selector)
    zones = [zone for zone in ZONES if selector.get(ZONE, zone) == zone == (disk or zone)]
    if not zones:
        return
    for pool in scene.schedule.pools:
        if pool.tainted and not app.tolerates:
            continue
        for kind in pool.instance_types:
            if app.cpu_millis > 1000 * VCPUS[kind] or not _within_limit(scene, pool, kind):
                continue
            for market in pool.capacity_types:
                if selector.get("karpenter.sh/capacity-type", market) != market:
                    continue
                if market != "reserved":
                    yield f"{pool.name} buys a {kind}, {market}"
                else:
                    yield from _free_slots(scene, pool, kind, zones)


def _free_slots(scene: Scene, pool: Pool, kind: str, zones: list[str]) -> Iterator[str]:
    for slots in scene.schedule.slots:
        fits = slots.instance_type == kind and slots.zone in zones
        free = free_slots(scene, slots)
        if slots.name in pool.slots and fits and free > 0:
            yield f"{pool.name} has {free} slots free in {slots.name} ({scene.reservations[slots.name].id})"


def free_slots(scene: Scene, slots: Slots) -> int:
    reservation = scene.reservations[slots.name]
    drains = slots.block and scene.now_s >= reservation.end_s - DRAINS_S
    return reservation.available if reservation.active and not drains else 0


def _within_limit(scene: Scene, pool: Pool, kind: str) -> bool:
    if pool.vcpu_limit is None:
        return True
    used = sum(
        VCPUS[claim.metadata.labels["node.kubernetes.io/instance-type"]]
        for claim in scene.claims
        if claim.metadata.labels.get("karpenter.sh/nodepool") == pool.name
        and claim.metadata.labels.get("node.kubernetes.io/instance-type") in VCPUS
    )
    return used + VCPUS[kind] <= pool.vcpu_limit


def _pairs(scene: Scene) -> Iterator[str]:
    instance_ids = {one.id for one in scene.instances}
    claimed = Counter((claim.status.provider_id or "").rpartition("/")[2] for claim in scene.claims)
    nodes = {(node.spec.provider_id or "").rpartition("/")[2]: node for node in scene.nodes}
    for claim in scene.claims:
        if claim.metadata.deletion_timestamp is not None:
            if not _is_held(scene, claim):
                yield f"claim {claim.metadata.name} is still being deleted"
        elif (claim.status.provider_id or "").rpartition("/")[2] not in instance_ids:
            yield f"claim {claim.metadata.name} has no instance ({claim.status.provider_id})"
        elif not conditions.holds(claim.status.conditions, "Ready"):
            yield f"claim {claim.metadata.name} is not Ready: {claim.status.conditions}"
    for instance in instance_ids:
        if claimed[instance] != 1:
            yield f"instance {instance} has {claimed[instance]} claims"
        elif instance not in nodes:
            yield f"instance {instance} has no node"
    for instance, node in nodes.items():
        if instance not in instance_ids:
            yield f"node {node.metadata.name} has no instance"


def _is_held(scene: Scene, claim: NodeClaim) -> bool:
    """Whether a PodDisruptionBudget blocks the eviction of a pod on its node."""
    return any(
        pod_words.node_of(pod) == claim.status.node_name and pod.metadata.labels.get("app") in scene.held
        for pod in scene.pods
    )


def _slots(scene: Scene) -> Iterator[str]:
    for name, reservation in scene.reservations.items():
        inside = sum(one.reservation_id == reservation.id for one in scene.instances)
        if inside + reservation.elsewhere > reservation.total:
            yield f"{name} has {inside} instances and {reservation.elsewhere} of other clusters in {reservation.total} slots"
    by_provider_id = {one.id: one for one in scene.instances}
    for claim in scene.claims:
        instance = by_provider_id.get((claim.status.provider_id or "").rpartition("/")[2])
        labelled = claim.metadata.labels.get("karpenter.sh/capacity-type") == "reserved"
        if instance is not None and labelled != _is_reserved(scene, claim, instance):
            yield f"claim {claim.metadata.name} is wrong about being reserved: {instance.reservation_id or 'it is not'}"


def _is_reserved(scene: Scene, claim: NodeClaim, instance: Instance) -> bool:
    """In a reservation that its EC2NodeClass selects; an open reservation that EC2 matched by itself does not count."""
    names = {reservation.id: name for name, reservation in scene.reservations.items()}
    pool = next(p for p in scene.schedule.pools if p.name == claim.metadata.labels["karpenter.sh/nodepool"])
    return names.get(instance.reservation_id) in pool.slots
