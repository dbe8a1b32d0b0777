"""What must hold of gangs and ProvisioningRequests after a fault simulation, by counting. It shares no code with the
controllers.

A gang whose pods are pending, and a request that waits, cannot have capacity for all of these pods: a pod counts as one
slot, so what fits only together on one node is not found. No node is empty, no node keeps the taint of a gang that
forms, no booking is left, and every NodeClaim of a gang was launched with all others of its launch.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from fault_simulation import oracle
from fault_simulation.generate import VCPUS, ZONES, App, Pool, Request
from fault_simulation.oracle import Scene
from holdfast.api import conditions
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.provisioning import ProvisioningRequest
from holdfast.sim.cluster import pods as pod_words

FORMING: Final = "holdfast.dev/forming"
LAUNCH: Final = "holdfast.dev/gang-launch"
BOOKS_S: Final = 600
LATE_S: Final = 60  # the controller may be late: another replica takes over, or a call is repeated
_EXISTING_ONLY: Final = "check-capacity.autoscaling.x-k8s.io"


def problems(scene: Scene) -> list[str]:
    return [*_gangs(scene), *_requests(scene), *_nodes(scene)]


def violations(scene: Scene, quiet_since_s: int, ever: Iterable[NodeClaim]) -> Iterator[str]:
    """What must not happen at any time after the faults. `ever`: every version of every NodeClaim."""
    for one in scene.requests:
        provisioned = conditions.find(one.status.conditions, "Provisioned")
        if _is_booked(one) and provisioned is not None and provisioned.last_transition_time is not None:
            since_s = max(quiet_since_s, int(provisioned.last_transition_time.timestamp()))
            if scene.now_s - since_s > BOOKS_S + LATE_S:
                yield f"{one.metadata.name} is booked since {since_s}, now {scene.now_s}"
    created, launched = defaultdict[str, set[str]](set), set[str]()
    for claim in ever:
        launch = claim.metadata.annotations.get(LAUNCH, "")
        created[launch].add(claim.metadata.name)
        if conditions.holds(claim.status.conditions, "Launched"):
            launched.add(launch)
    for launch in sorted(launched - {""}):
        if len(created[launch]) != int(launch.rpartition("/")[2]):
            yield f"a part of the gang launch {launch} was launched: {sorted(created[launch])}"


def is_alone(scene: Scene, app: App) -> bool:
    """Whether a pending pod of an app needs a node for itself only."""
    if app.consumes:
        return not any(one.metadata.name == app.name and _is_live(one) for one in scene.requests)
    return not app.gang


def _gangs(scene: Scene) -> Iterator[str]:
    for app in scene.schedule.apps:
        own = [pod for pod in scene.pods if pod.metadata.labels.get("app") == app.name]
        own = [pod for pod in own if not pod_words.is_terminating(pod)]
        bound = sum(bool(pod_words.node_of(pod)) for pod in own)
        if not app.gang or bound == len(own):
            continue
        least = app.least if app.gang == "PodGroup" else len(own)
        needed = max(1, least - bound)
        if len(own) >= least and _have_capacity(scene, needed, app.cpu_millis):
            yield f"{app.name} has {bound} of {len(own)} pods on nodes, and there is capacity for {needed} more"


def _requests(scene: Scene) -> Iterator[str]:
    wanted = {one.name: one for one in scene.schedule.requests}
    for one in scene.requests:
        request = wanted[one.metadata.name]
        if not conditions.holds(one.status.conditions, "Accepted"):
            yield f"{one.metadata.name} is not accepted"
        if not _is_live(one):
            continue
        if _is_booked(one):
            yield f"{one.metadata.name} is still booked"
        elif one.metadata.name not in scene.templates:
            yield f"{one.metadata.name} waits without a template"
        elif request.class_name != _EXISTING_ONLY and _could_have(scene, request):
            yield f"{one.metadata.name} waits, and there is capacity for {request.count} pods"


def _could_have(scene: Scene, request: Request) -> bool:
    zones = ZONES if request.is_in_one_zone else (None,)
    lasts = request.run_time_s is not None
    return any(
        _have_capacity(scene, request.count, request.cpu_millis, zone=zone, lasts=lasts) for zone in zones
    )


def _nodes(scene: Scene) -> Iterator[str]:
    used = {pod_words.node_of(pod) for pod in scene.pods}
    for node in scene.nodes:
        if any(taint.key == FORMING for taint in node.spec.taints):
            yield f"{node.metadata.name} still forms"
    for claim in scene.claims:
        if claim.metadata.deletion_timestamp is None and claim.status.node_name not in used:
            yield f"{claim.metadata.name} has no pods"


def _is_live(one: ProvisioningRequest) -> bool:
    return not any(conditions.holds(one.status.conditions, type_) for type_ in ("Failed", "BookingExpired"))


def _is_booked(one: ProvisioningRequest) -> bool:
    return _is_live(one) and conditions.holds(one.status.conditions, "Provisioned")


def _have_capacity(
    scene: Scene, count: int, cpu_millis: int, *, zone: str | None = None, lasts: bool = False
) -> bool:
    """Whether as many nodes can be launched, each for one pod. `lasts`: no capacity block counts."""
    free: dict[str, int] = {}
    for pool in scene.schedule.pools:
        fitting = [kind for kind in pool.instance_types if cpu_millis <= 1000 * VCPUS[kind]]
        if "on-demand" in pool.capacity_types and fitting:
            smallest = min(VCPUS[kind] for kind in fitting)
            if pool.vcpu_limit is None or _used(scene, pool) + count * smallest <= pool.vcpu_limit:
                return True
        if pool.vcpu_limit is None:
            for slots in scene.schedule.slots:
                fits = slots.instance_type in fitting and slots.zone == (zone or slots.zone)
                if fits and slots.name in pool.slots and not (lasts and slots.block):
                    free[slots.name] = oracle.free_slots(scene, slots)
    return sum(free.values()) >= count


def _used(scene: Scene, pool: Pool) -> int:
    labels = (claim.metadata.labels for claim in scene.claims)
    return sum(
        VCPUS.get(one.get("node.kubernetes.io/instance-type", ""), 0)
        for one in labels
        if one.get("karpenter.sh/nodepool") == pool.name
    )
