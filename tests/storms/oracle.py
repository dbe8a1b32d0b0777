"""What must be true when a storm is over, by counting: nothing here asks the program, or knows how it plans.

A pod that does not run must have no way to run: no NodePool that it may use has a type that it fits, at a place it
may be, that may be bought, or has a free slot; a disk holds its pod in its zone, and a capacity block is no place once
it is drained. Machines, claims and nodes are one to one, no node is on its way out but one that a disruption budget
holds, and no reservation has more machines in it than slots.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from holdfast.api import conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodes import Node
from holdfast.sim.cluster import pods as pod_words
from holdfast.sim.cluster.kinds import Pod
from holdfast.sim.ec2.entities import Instance, Reservation
from storms.generate import VCPUS, ZONES, App, Pool, Storm

ZONE: Final = "topology.kubernetes.io/zone"
DRAINS_S: Final = 40 * 60  # before its end a capacity block is left


@dataclass(frozen=True)
class Scene:
    """Everything there is, as its keepers say."""

    storm: Storm
    wanted: dict[str, int]  # replicas by app
    pods: tuple[Pod, ...]
    claims: tuple[NodeClaim, ...]
    nodes: tuple[Node, ...]
    machines: tuple[Instance, ...]  # that run, or will
    reservations: dict[str, Reservation]  # by their names here
    disks: dict[str, str] = field(default_factory=dict)  # zones, by the name of the pod
    held: frozenset[str] = frozenset()  # apps of which no pod may be evicted now
    now_s: int = 0


def problems(scene: Scene) -> list[str]:
    return [*_pods(scene), *_pairs(scene), *_slots(scene)]


def _pods(scene: Scene) -> Iterator[str]:
    for app in scene.storm.apps:
        own = [p for p in scene.pods if p.metadata.labels.get("app") == app.name and not pod_words.leaving(p)]
        if len(own) != scene.wanted[app.name]:
            yield f"{app.name} has {len(own)} pods of {scene.wanted[app.name]}"
        for pod in own:
            if not pod_words.ready(pod):
                way = next(ways(scene, app, scene.disks.get(pod.metadata.name)), None)
                if way is not None:
                    yield f"{pod.metadata.name} could run: {way}"


def ways(scene: Scene, app: App, disk: str | None) -> Iterator[str]:
    """How a node could be had for one more pod, whose disk, if it has one, is in that zone."""
    selector = dict(app.selector)
    zones = [zone for zone in ZONES if selector.get(ZONE, zone) == zone == (disk or zone)]
    if not zones:
        return
    for pool in scene.storm.pools:
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
    for slots in scene.storm.slots:
        there = scene.reservations[slots.name]
        fits = slots.instance_type == kind and slots.zone in zones
        drains = slots.block and scene.now_s >= there.end_s - DRAINS_S
        if slots.name in pool.slots and fits and there.active and not drains and there.available > 0:
            yield f"{pool.name} has {there.available} slots free in {slots.name} ({there.id})"


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
    machines = {one.id for one in scene.machines}
    claimed = Counter((claim.status.provider_id or "").rpartition("/")[2] for claim in scene.claims)
    nodes = {(node.spec.provider_id or "").rpartition("/")[2]: node for node in scene.nodes}
    for claim in scene.claims:
        if claim.metadata.deletion_timestamp is not None:
            if not _is_held(scene, claim):
                yield f"claim {claim.metadata.name} is still being deleted"
        elif (claim.status.provider_id or "").rpartition("/")[2] not in machines:
            yield f"claim {claim.metadata.name} has no machine ({claim.status.provider_id})"
        elif not conditions.holds(claim.status.conditions, "Ready"):
            yield f"claim {claim.metadata.name} is not Ready: {claim.status.conditions}"
    for machine in machines:
        if claimed[machine] != 1:
            yield f"machine {machine} has {claimed[machine]} claims"
        elif machine not in nodes:
            yield f"machine {machine} has no node"
    for machine, node in nodes.items():
        if machine not in machines:
            yield f"node {node.metadata.name} has no machine"


def _is_held(scene: Scene, claim: NodeClaim) -> bool:
    """Whether a pod is on its node that may not be evicted."""
    return any(
        pod_words.node_of(pod) == claim.status.node_name and pod.metadata.labels.get("app") in scene.held
        for pod in scene.pods
    )


def _slots(scene: Scene) -> Iterator[str]:
    for name, there in scene.reservations.items():
        inside = sum(one.reservation_id == there.id for one in scene.machines)
        if inside + there.elsewhere > there.total:
            yield f"{name} has {inside} machines and {there.elsewhere} others in {there.total} slots"
    by_provider_id = {one.id: one for one in scene.machines}
    for claim in scene.claims:
        machine = by_provider_id.get((claim.status.provider_id or "").rpartition("/")[2])
        labelled = claim.metadata.labels.get("karpenter.sh/capacity-type") == "reserved"
        if machine is not None and labelled != _is_reserved(scene, claim, machine):
            yield f"claim {claim.metadata.name} is wrong about being reserved: {machine.reservation_id or 'it is not'}"


def _is_reserved(scene: Scene, claim: NodeClaim, machine: Instance) -> bool:
    """In a reservation that its class selects; an open one that it fell into by itself does not count."""
    names = {there.id: name for name, there in scene.reservations.items()}
    pool = next(p for p in scene.storm.pools if p.name == claim.metadata.labels["karpenter.sh/nodepool"])
    return names.get(machine.reservation_id) in pool.slots
