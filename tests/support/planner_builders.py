"""Builders of planner requests: instance types, reservations, pods, nodes and NodePools as model values."""

import random
from collections.abc import Iterable, Sequence
from typing import Any

from holdfast import names
from holdfast.core.scheduling.input.request import Packing, Settings, SolveRequest
from holdfast.core.scheduling.output.plan import Plan
from holdfast.model import requirement, requirements, resources
from holdfast.model.gangs import POD_GROUP, Gang
from holdfast.model.offerings import InstanceType, Offering
from holdfast.model.pods import PodShape, PodTerm, PodView, TopologySpread
from holdfast.model.requirement import Expression, Operator, Requirement
from holdfast.model.reservations import Reservation
from holdfast.model.selectors import LabelSelector
from holdfast.model.snapshot import CloudLabels, DaemonSetView, NodePoolView, NodeView, Snapshot

RESERVATION_ID = "cloud.example/reservation-id"
WELL_KNOWN = names.WELL_KNOWN_LABELS | {RESERVATION_ID}
ZONES = ("z1", "z2", "z3")
NANO = 10**9


def is_in(key: str, *values: str) -> Requirement:
    return requirement.of(key, Operator.IN, values)


def offering(capacity_type: str, zone: str, price: float, **more: Any) -> Offering:
    id_ = more.get("reservation_id")
    reserved = is_in(RESERVATION_ID, id_) if id_ else requirement.of(RESERVATION_ID, Operator.DOES_NOT_EXIST)
    offering_requirements = requirements.of(
        is_in(names.CAPACITY_TYPE, capacity_type), is_in(names.ZONE, zone), reserved
    )
    return Offering(offering_requirements, capacity_type, zone, round(price * NANO), **more)


def instance_type(
    name: str,
    cpu: int,
    memory_gib: float,
    price: float,
    reservations: Iterable[Reservation] = (),
    zones: Sequence[str] = ZONES,
    capacity_types: Sequence[str] = (names.SPOT, names.ON_DEMAND),
    labels: dict[str, str] | None = None,
    **capacity: int,
) -> InstanceType:
    """Spot at 40 % of the price; one reserved offering for each reservation of this type."""
    factor = {names.SPOT: 0.4, names.ON_DEMAND: 1.0}
    offerings = [offering(c, zone, price * factor[c]) for c in capacity_types for zone in zones]
    offerings += [
        offering(names.RESERVED, r.zone, price, count=r.available, reservation_id=r.id)
        for r in reservations
        if r.instance_type == name
    ]
    all_labels = {names.INSTANCE_TYPE: name, names.ARCH: "amd64", names.OS: "linux"} | (labels or {})
    capacity_amounts = {"cpu": cpu * 1000, "memory": int(memory_gib * 2**30), "pods": 110} | capacity
    return InstanceType(
        name=name,
        requirements=requirements.from_labels(all_labels).add(is_in(names.ZONE, *zones)),
        capacity=resources.of(capacity_amounts),
        overhead=resources.of({"cpu": 100, "memory": 10 * 2**20}),
        offerings=tuple(offerings),
    )


def fake_types(count: int, reservations: Iterable[Reservation] = ()) -> tuple[InstanceType, ...]:
    """Karpenter's benchmark types: i+1 cores, twice as many GiB, five offerings at one price."""
    all_reservations = tuple(reservations)
    return tuple(
        instance_type(
            f"fake-it-{i}", i + 1, 2 * (i + 1), 0.001 * (i + 1), all_reservations, pods=10 * (i + 1)
        )
        for i in range(count)
    )


def reservation(
    id_: str, type_: str, zone: str = "z1", available: int = 1, total: int | None = None, **more: Any
) -> Reservation:
    return Reservation(
        id=id_,
        kind=more.pop("kind", "default"),
        instance_type=type_,
        zone=zone,
        owner="111122223333",
        total=available if total is None else total,
        available=available,
        **more,
    )


def selector(**labels: str) -> LabelSelector:
    return LabelSelector(tuple(Expression(k, Operator.IN, (v,)) for k, v in sorted(labels.items())))


def shape(cpu_millis: int = 1000, memory_mib: int = 1024, app: str = "web", **more: Any) -> PodShape:
    extra = more.pop("extra", {})
    requests = resources.of({"cpu": cpu_millis, "memory": memory_mib * 2**20, "pods": 1} | extra)
    labels = more.pop("labels", (("app", app),))
    return PodShape(more.pop("namespace", "default"), requests, labels=labels, **more)


def one_per_node(app: str = "web") -> dict[str, Any]:
    return {"anti_affinity": (PodTerm(names.HOSTNAME, selector(app=app), ("default",)),)}


def pods(count: int, of: PodShape, prefix: str = "pod") -> tuple[PodView, ...]:
    return tuple(PodView(f"{prefix}-{i:06d}", f"{prefix}-{i}", i, of) for i in range(count))


def gang(name: str, members: Iterable[PodView], least: int | None, **more: Any) -> Gang:
    """A PodGroup with these pods. Pods with a node name count as bound."""
    members = tuple(members)
    bound = frozenset(pod.uid for pod in members if pod.node_name)
    unbound = frozenset(pod.uid for pod in members) - bound
    return Gang(f"{POD_GROUP}/default/{name}", f"default/{name}", POD_GROUP, least, bound, unbound, **more)


def pool(
    name: str = "default", types: Sequence[InstanceType] = (), *pool_requirements: Requirement, **more: Any
) -> NodePoolView:
    return NodePoolView(
        name=name,
        requirements=requirements.of(is_in(names.NODEPOOL, name), *pool_requirements),
        instance_types=tuple(types),
        **more,
    )


def node(name: str = "n1", cpu: int = 4, memory_gib: int = 16, **more: Any) -> NodeView:
    """A node of the pool `default` in z1; `labels` override its default labels."""
    defaults = {
        names.HOSTNAME: name,
        names.NODEPOOL: "default",
        names.ZONE: more.pop("zone", "z1"),
        names.CAPACITY_TYPE: names.ON_DEMAND,
        names.ARCH: "amd64",
        names.OS: "linux",
    }
    labels = defaults | more.pop("labels", {})
    amounts = resources.of(
        {"cpu": cpu * 1000, "memory": memory_gib * 2**30, "pods": 110} | more.pop("extra", {})
    )
    return NodeView(
        name=name,
        labels=tuple(sorted(labels.items())),
        allocatable=amounts,
        capacity=amounts,
        node_pool=labels.get(names.NODEPOOL),
        **more,
    )


def running(count: int, of: PodShape, prefix: str = "old", **more: Any) -> tuple[PodView, ...]:
    """Pods that are bound. Their node is the one whose `pods` contain them, whatever `node_name` is."""
    return tuple(pod._replace(node_name="somewhere", **more) for pod in pods(count, of, prefix))


def daemon(of: PodShape, name: str = "logs") -> DaemonSetView:
    return DaemonSetView("kube-system", name, of)


def placed(plan: Plan) -> dict[str, tuple[str, ...]]:
    """The pods on existing nodes, by node."""
    return {one.node: one.pods for one in plan.placed}


def reasons(plan: Plan) -> dict[str, list[str]]:
    """The reason codes of pods that do not fit, by pod."""
    return {one.pod: [reason.code for reason in one.reasons] for one in plan.unplaced}


def request(
    pools: Sequence[NodePoolView],
    pending: Sequence[PodView],
    reservations: Sequence[Reservation] = (),
    packing: Packing = Packing.KARPENTER,
    **more: Any,
) -> SolveRequest:
    settings = {key: more.pop(key) for key in list(more) if key in Settings.__slots__}
    snapshot = Snapshot(
        taken_s=more.pop("taken_s", 0),
        cloud_labels=CloudLabels(
            more.pop("well_known", WELL_KNOWN), RESERVATION_ID, frozenset({RESERVATION_ID})
        ),
        node_pools=tuple(pools),
        pending=tuple(pending),
        reservations=tuple(reservations),
        **more,
    )
    return SolveRequest(snapshot, Settings(packing=packing, **settings))


def benchmark_mix(count: int, seed: int = 42, *, topology: bool = True) -> tuple[PodView, ...]:
    """Karpenter's benchmark: generic, zone spread, hostname spread, zonal affinity, hostname anti-affinity.

    Without topology, generic pods of the same sizes.
    """
    dice = random.Random(seed)
    interned: dict[PodShape, PodShape] = {}
    views: list[PodView] = []

    def add(labels: tuple[tuple[str, str], ...], **more: Any) -> None:
        cpu, memory = dice.choice([100, 250, 500, 1000, 1500]), dice.choice([100, 256, 512, 1024, 2048, 4096])
        one = shape(cpu, memory, labels=labels, **more)
        one = interned.setdefault(one, one)
        views.append(PodView(f"uid-{len(views):06d}", f"pod-{len(views)}", len(views), one))

    letters, each = "abcdefg", count // 5 if topology else 0
    for _ in range(count - 4 * each):
        add((("my-label", dice.choice(letters)),))
    for key in (names.ZONE, names.HOSTNAME):
        for _ in range(each):
            spread = TopologySpread(key, 1, True, selector(**{"my-label": dice.choice(letters)}))
            add((("my-label", dice.choice(letters)),), spreads=(spread,))
    for _ in range(each):
        letter = dice.choice(letters)
        term = PodTerm(names.ZONE, selector(affinity=letter), ("default",))
        add((("affinity", letter),), affinity=(term,))
    for _ in range(each):
        add((("app", "nginx"),), **one_per_node("nginx"))
    return tuple(views)
