"""Documents of the JSON API for tests of the page: a small cluster, one with hostile names, and a huge one.

The documents are those of `holdfast.api.reports`, so the page is tested with what the API can really send.
"""

import random
from dataclasses import dataclass, field
from typing import Final

from holdfast.api.reports import (
    Considered,
    Costs,
    DecisionRow,
    Explanation,
    Fact,
    FailingController,
    GangRow,
    LastHour,
    NodeGroup,
    NodeRow,
    PendingGroup,
    PlannedNode,
    PlanReport,
    ReservationRow,
    SearchHit,
    SlotUse,
    StatusReport,
)

HOUR: Final = 3600
DAY: Final = 24 * HOUR
MARKUP: Final = "<img src=x onerror=alert(1)>"
HOSTILE: Final = (
    MARKUP,
    "</script><script>alert(2)</script>",
    "javascript:alert(3)",
    '"onmouseover=alert(4) x="',
    "\u202egnp.exe",  # right-to-left override
    "\u0645\u0631\u062d\u0628\u0627",
    "\U0001f525\U0001f469\u200d\U0001f680",
    "x" * 253,
    "%2e%2e%2f%00",
    "a/../../b",
    "{{7*7}}${7*7}",
)


@dataclass(slots=True)
class Documents:
    """What the server answers with. A test changes it, and then publishes an update."""

    at: int
    status: StatusReport
    reservations: list[ReservationRow]
    idle_usd_day: float = 0.0
    idle_since: int = 0
    slots: dict[str, tuple[SlotUse, ...]] = field(default_factory=dict)
    nodes: list[NodeRow] = field(default_factory=list)
    pending: list[PendingGroup] = field(default_factory=list)
    decisions: list[DecisionRow] = field(default_factory=list)  # newest first
    plan: PlanReport | None = None
    pods: list[tuple[str, str]] = field(default_factory=list)  # namespace and name
    explanations: dict[tuple[str, str, str], Explanation] = field(default_factory=dict)
    gangs: list[GangRow] = field(default_factory=list)

    def hits(self, text: str) -> list[SearchHit]:
        """Objects that have the text in their name."""
        found = [SearchHit(kind="pod", namespace=ns, name=name) for ns, name in self.pods if text in name]
        found += [
            SearchHit(kind="node", name=row.name, text=f"{row.state}, {row.capacity_type}, {row.zone}")
            for row in self.nodes
            if text in row.name
        ]
        found += [
            SearchHit(kind="nodeclaim", name=row.node_claim) for row in self.nodes if text in row.node_claim
        ]
        found += [
            SearchHit(kind=row.kind, namespace=row.namespace, name=row.name)
            for row in self.gangs
            if text in row.name
        ]
        found += [
            SearchHit(kind="reservation", name=row.id, text=f"{row.instance_type} in {row.zone}")
            for row in self.reservations
            if text in row.id
        ]
        pools = sorted({row.node_pool for row in self.nodes if row.node_pool and text in row.node_pool})
        return found + [SearchHit(kind="nodepool", name=name) for name in pools]

    def explanation(self, kind: str, namespace: str, name: str) -> Explanation | None:
        known = self.explanations.get((kind, namespace, name))
        if known:
            return known
        for hit in self.hits(name):
            if (hit.kind, hit.namespace, hit.name) == (kind, namespace, name):
                return Explanation(
                    at=self.at, kind=kind, namespace=namespace, name=name, what=f"{name} is {kind}."
                )
        return None


# --- A small cluster ------------------------------------------------------------------------------------


def small(at: int) -> Documents:
    """Seven reservations, thirty-one nodes and some pending pods, as a user of the demo may have them."""
    reservations = _small_reservations(at)
    nodes, slots = _small_nodes(at, reservations)
    pending = _small_pending(at)
    gangs = _small_gangs(at)
    status = _replaced(_status(at, reservations, nodes, pending, cluster="training-eu"), gangs=len(gangs))
    return Documents(
        at=at,
        status=status,
        reservations=reservations,
        idle_usd_day=5212.48,
        idle_since=at - 2 * DAY,
        slots=slots,
        nodes=nodes,
        pending=pending,
        gangs=gangs,
        decisions=_small_decisions(at, nodes),
        plan=_small_plan(at),
        pods=[tuple(pod.split("/", 1)) for group in pending for pod in group.examples],  # type: ignore[misc]
        explanations=_small_explanations(at, reservations),
    )


def _small_reservations(at: int) -> list[ReservationRow]:
    def row(
        number: int, kind: str, instance_type: str, zone: str, total: int, **rest: object
    ) -> ReservationRow:
        values: dict[str, object] = {
            "id": f"cr-0{number:016x}",
            "kind": kind,
            "instance_type": instance_type,
            "zone": f"eu-west-1{zone}",
            "owner": "111122223333",
            "state": "active",
            "window": "open",
            "node_classes": ("gpu",),
            "total": total,
            **rest,
        }
        return ReservationRow(**values)  # type: ignore[arg-type]

    block = "capacity-block"
    return sorted(
        [
            row(
                0x5EB1C0FFEE, block, "p5.48xlarge", "a", 8, here=6, held=1, free=1, idle=1,
                idle_usd_per_hour=31.46, starts=at - 9 * HOUR, drains=at + 2 * DAY + 5 * HOUR,
                reclaims=at + 2 * DAY + 5 * HOUR + 600, ends=at + 2 * DAY + 5 * HOUR + 2400,
            ),
            row(
                0x1D1E0000A1, block, "p4d.24xlarge", "b", 4, window="draining", here=2, releasing=2, idle=0,
                starts=at - 3 * DAY, drains=at - 600, reclaims=at + 600, ends=at + 2400,
            ),
            row(
                0xF0F0F0F0F0, block, "p5e.48xlarge", "a", 16, window="upcoming", state="scheduled",
                starts=at + 30 * HOUR, drains=at + 5 * DAY, reclaims=at + 5 * DAY + 600, ends=at + 5 * DAY + 2400,
            ),
            row(
                0x7A7A7A7A7A, "default", "m7i.4xlarge", "a", 20, here=14, elsewhere=3, held=1, free=2, idle=2,
                idle_usd_per_hour=1.80, starts=at - 90 * DAY, node_classes=("general", "gpu"),
            ),
            row(
                0xC0DEC0DE01, "default", "g6e.12xlarge", "c", 5, here=2, elsewhere=0, free=3, idle=3,
                idle_usd_per_hour=35.09, starts=at - 20 * DAY, ends=at + 4 * DAY,
            ),
            row(
                0xBEEF00BEEF, "default", "c7g.16xlarge", "b", 120, here=0, elsewhere=96, free=0, idle=24,
                idle_usd_per_hour=60.13, starts=at - 200 * DAY, node_classes=(), owner="444455556666",
            ),
            row(
                0x1A7E11A7E1, "interruptible", "r7i.8xlarge", "c", 6, here=3, free=3, idle=3,
                idle_usd_per_hour=None, starts=at - 5 * HOUR,
            ),
        ],
        key=lambda one: one.id,
    )  # fmt: skip


def _small_nodes(
    at: int, reservations: list[ReservationRow]
) -> tuple[list[NodeRow], dict[str, tuple[SlotUse, ...]]]:
    nodes: list[NodeRow] = []
    slots: dict[str, tuple[SlotUse, ...]] = {}
    for row in reservations:
        uses = []
        pool = "training" if row.instance_type.startswith("p") else "general"
        used = row.here + row.releasing
        for number in range(used + row.held):
            launching = number >= used
            releasing = not launching and number >= row.here
            claim = f"{pool}-{row.id[-4:]}{number:02d}"
            name = claim if launching else f"ip-10-0-{row.total}-{number + 10}.eu-west-1.compute.internal"
            state = "launching" if launching else "draining" if releasing else "ready"
            since = at - (40 if launching else 5 * HOUR + number * 977)
            nodes.append(
                NodeRow(
                    name=name,
                    node_claim=claim,
                    node_pool=pool,
                    instance_type=row.instance_type,
                    zone=row.zone,
                    capacity_type="reserved",
                    reservation=row.id,
                    state=state,
                    pods=0 if launching else 8,
                    usd_per_hour=0.0,
                    created=since,
                )
            )
            use = "launching" if launching else "releasing" if releasing else "running"
            uses.append(SlotUse(node="" if launching else name, node_claim=claim, state=use, since=since))
        slots[row.id] = tuple(uses)
    for number in range(9):
        spot = number % 3 == 0
        nodes.append(
            NodeRow(
                name=f"ip-10-0-200-{number + 10}.eu-west-1.compute.internal",
                node_claim=f"general-{number:02d}x7",
                node_pool="general" if number < 7 else "batch",
                instance_type="c7i.2xlarge" if spot else "m7i.4xlarge",
                zone=f"eu-west-1{'abc'[number % 3]}",
                capacity_type="spot" if spot else "on-demand",
                state="ready",
                pods=12 + number,
                usd_per_hour=0.1427 if spot else 0.8988,
                created=at - number * 3011 - 300,
            )
        )  # fmt: skip
    return sorted(nodes, key=lambda node: node.name), slots


def _small_gangs(at: int) -> list[GangRow]:
    return [
        GangRow(
            kind="provisioningrequest",
            namespace="research",
            name="job-llm-capacity-1",
            state="booked",
            since=at - 120,
            pods=8,
            needed=8,
            located=8,
            text="8 pods have capacity on 8 nodes, for 10 minutes.",
        ),
        GangRow(
            kind="podgroup",
            namespace="research",
            name="llm-pretrain",
            state="waiting",
            since=at - 2 * HOUR,
            pods=16,
            needed=16,
            text=(
                "PodGroup research/llm-pretrain: only 2 of the 16 pods that it needs would have a node (2 in "
                "cr-00000005eb1c0ffee)."
            ),
        ),
    ]


def _small_pending(at: int) -> list[PendingGroup]:
    return [
        PendingGroup(
            code="waits-for-slot",
            text="Waits for a slot of cr-0000000f0f0f0f0f0: the capacity block starts in 30 h.",
            pods=16,
            examples=tuple(f"research/llm-pretrain-{number}" for number in range(5)),
            oldest=at - 2 * HOUR,
        ),
        PendingGroup(
            code="nodeclaim",
            text="A node is being launched for the pod.",
            pods=3,
            examples=("web/frontend-6c5f8-x2x7k", "web/frontend-6c5f8-p9qj2", "web/cart-7d9c4-zz8wd"),
            oldest=at - 45,
        ),
        PendingGroup(
            code="limits",
            text='NodePool "batch" has reached its limit of 64 cpu.',
            pods=2,
            examples=("batch/report-nightly-28311", "batch/report-nightly-28312"),
            oldest=at - 15 * 60,
        ),
    ]


def _small_plan(at: int) -> PlanReport:
    return PlanReport(
        at=at,
        planned_at=at - 41,
        usd_per_hour=0.9,
        first_fit_usd_per_hour=2.7,
        launching=(
            PlannedNode(
                node_claim="general-7a7a14",
                pods=("web/frontend-6c5f8-x2x7k", "web/frontend-6c5f8-p9qj2"),
                pod_count=2,
                text="m7i.4xlarge in eu-west-1a, a slot of cr-00000007a7a7a7a7a",
            ),
        ),
        nominated=3,
    )


def _small_decisions(at: int, nodes: list[NodeRow]) -> list[DecisionRow]:
    reserved = next(node for node in nodes if node.reservation and node.state == "ready")
    rows = [
        (40, "launch", "NodeClaim", "general-7a7a14", "Launch m7i.4xlarge in a slot of cr-00000007a7a7a7a7a for 2 pods",
         ("2 pods need 8 cpu and 12Gi; no node has this capacity.", "The reservation has 3 free slots; a slot costs nothing more.",
          "Spot c7i.4xlarge in eu-west-1b would cost $0.31 an hour.")),
        (600, "disruption", "NodeClaim", "training-00a103", "Drain the node: its capacity block ends in 40 minutes",
         ("EC2 terminates instances of cr-00000001d1e0000a1 from 10 minutes before its end.", "2 of 4 nodes are drained already.")),
        (1500, "launched", "NodeClaim", "training-ffee05", "EC2 launched i-0a1b2c3d4e5f in cr-00000005eb1c0ffee", ()),
        (1530, "launch", "NodeClaim", "training-ffee05", "Launch p5.48xlarge in a slot of cr-00000005eb1c0ffee for 8 pods",
         ("8 pods need 8 nvidia.com/gpu.",)),
        (2400, "launch-failed", "NodeClaim", "general-9q2lm", "EC2 refused the launch: InsufficientInstanceCapacity",
         ("r7i.8xlarge in eu-west-1c on spot is not launched for 3 minutes.", "The pods are planned again.")),
        (4100, "removal", "NodeClaim", "general-4kd8s", "Delete the node: it is empty", ("consolidateAfter 30s has passed.",)),
        (5200, "interruption", "Node", reserved.name, "EC2 rebalance recommendation", ()),
    ]  # fmt: skip
    return [
        DecisionRow(
            id=len(rows) - i, at=at - age, type=type_, kind=kind, name=name, text=text, reasons=reasons
        )
        for i, (age, type_, kind, name, text, reasons) in enumerate(rows)
    ]


def _small_explanations(at: int, rows: list[ReservationRow]) -> dict[tuple[str, str, str], Explanation]:
    block = next(row for row in rows if row.kind == "capacity-block" and row.window == "open")
    pod = Explanation(
        at=at,
        kind="pod",
        namespace="research",
        name="llm-pretrain-0",
        what="The pod waits for a slot of capacity block cr-0000000f0f0f0f0f0, which starts in 30 h.",
        since=at - 2 * HOUR,
        why=(
            "The pod needs 8 nvidia.com/gpu and selects karpenter.sh/capacity-type: reserved.",
            "No node of the cluster has this capacity free.",
        ),
        considered=(
            Considered(
                subject=block.id, text="7 of 8 slots are used; the last one is planned for web/frontend."
            ),
            Considered(subject="p5.48xlarge on demand", text="The pod selects reserved capacity only."),
            Considered(subject="NodePool batch", text="Its requirements allow no p instance types."),
        ),
        changes=(
            "The capacity block starts.",
            "A slot of cr-00000005eb1c0ffee becomes free.",
            "The pod allows on-demand capacity: about $31.46 an hour.",
        ),
        next="At the start of the capacity block, and whenever a pod, a node or a reservation changes.",
        facts=(
            Fact(name="Requests", value="8 nvidia.com/gpu, 180 cpu, 1900Gi memory"),
            Fact(name="NodePool", value="training"),
            Fact(name="Reservation", value="cr-0000000f0f0f0f0f0"),
            Fact(name="PodGroup", value="research/llm-pretrain"),
        ),
    )
    reservation = Explanation(
        at=at,
        kind="reservation",
        name=block.id,
        what="Capacity block of 8 p5.48xlarge in eu-west-1a: 6 slots used here, 1 held, 1 free.",
        since=block.starts,
        why=("6 nodes of NodePool training run in it.", "1 slot is held for NodeClaim training-ffee06."),
        changes=("Nodes are drained 40 minutes before its end.",),
        next="EC2's counts are read once a minute.",
        facts=(
            Fact(name="Instance type", value="p5.48xlarge"),
            Fact(name="Idle", value="1 slot, $31.46 an hour"),
        ),
    )
    return {("pod", "research", "llm-pretrain-0"): pod, ("reservation", "", block.id): reservation}


def _status(
    at: int,
    reservations: list[ReservationRow],
    nodes: list[NodeRow],
    pending: list[PendingGroup],
    cluster: str,
) -> StatusReport:
    groups: dict[tuple[str, str, str], list[float]] = {}
    for node in nodes:
        key = node.capacity_type, node.zone, node.node_pool
        groups.setdefault(key, []).append(node.usd_per_hour or 0.0)
    cost = {
        kind: sum(node.usd_per_hour or 0.0 for node in nodes if node.capacity_type == kind)
        for kind in ("on-demand", "spot")
    }
    return StatusReport(
        at=at,
        version="0.9.0",
        cluster=cluster,
        kubernetes_version="v1.36.3",
        leader="holdfast-7f9c5d8b6-k2m4x",
        leading_since=at - 3 * DAY,
        nodes=len(nodes),
        launching=sum(node.state == "launching" for node in nodes),
        draining=sum(node.state == "draining" for node in nodes),
        groups=tuple(
            NodeGroup(capacity_type=kind, zone=zone, node_pool=pool, nodes=len(usd), usd_per_hour=sum(usd))
            for (kind, zone, pool), usd in sorted(groups.items())
        ),
        pods=sum(node.pods for node in nodes) + sum(group.pods for group in pending),
        pending=sum(group.pods for group in pending),
        pending_groups=tuple(pending[:5]),
        costs=Costs(
            on_demand=cost["on-demand"], spot=cost["spot"], reserved=402.5, idle=idle_usd(reservations)
        ),
        last_hour=LastHour(launches=2, launch_failures=1, disruptions=1, removals=1),
        planned_at=at - 41,
        reservations=len(reservations),
        slots=sum(row.total for row in reservations),
        slots_used=sum(row.here for row in reservations),
        slots_free=sum(row.free for row in reservations),
    )


def idle_usd(reservations: list[ReservationRow]) -> float:
    return sum(row.idle_usd_per_hour or 0.0 for row in reservations)


# --- Hostile names --------------------------------------------------------------------------------------


def hostile(at: int) -> Documents:
    """Every text is one that an attacker may want to become markup, an address or a layout."""
    texts = HOSTILE
    reservations = [
        ReservationRow(
            id=text, kind=text, instance_type=text, zone=text, owner=text, state=text, window=text, total=4,
            here=2, free=2, idle=2, idle_usd_per_hour=1.0, starts=-(10**15), ends=10**15, node_classes=(text,),
        )
        for text in texts
    ]  # fmt: skip
    nodes = [
        NodeRow(
            name=text, node_claim=f"{text}-claim", node_pool=text, instance_type=text, zone=text,
            capacity_type=text, reservation=text, state=text, usd_per_hour=1e300, created=at,
        )
        for text in texts
    ]  # fmt: skip
    pending = [
        PendingGroup(code=text, text=text, pods=1, examples=(f"{text}/{text}",), oldest=at) for text in texts
    ]
    status = _status(at, reservations, nodes, pending, cluster=MARKUP)
    failing = tuple(FailingController(controller=t, keys=(t,), key_count=1, problem=t) for t in texts[:2])
    return Documents(
        at=at,
        status=_replaced(status, leader=MARKUP, version=MARKUP, problem=MARKUP, failing=failing),
        reservations=reservations,
        slots={text: (SlotUse(node=text, node_claim=text, state="running", since=at),) for text in texts},
        nodes=nodes,
        pending=pending,
        decisions=[
            DecisionRow(id=i + 1, at=at, type=text, kind="Pod", namespace=text, name=text, text=text, reasons=(text,))
            for i, text in enumerate(texts)
        ][::-1],
        gangs=[
            GangRow(kind=kind, namespace=text, name=text, state=text, since=at, pods=1, needed=1, text=text)
            for text in texts
            for kind in ("podgroup", text)
        ],
        plan=PlanReport(at=at, launching=tuple(PlannedNode(node_claim=t, text=t) for t in texts)),
        pods=[(text, text) for text in texts],
        explanations={
            ("pod", text, text): Explanation(
                at=at, kind="pod", namespace=text, name=text, what=text, why=texts, changes=texts, next=text,
                considered=(Considered(subject=text, text=text),),
                facts=(Fact(name="Node", value=text), Fact(name=text, value=text)),
            )
            for text in texts
        },
    )  # fmt: skip


def _replaced(status: StatusReport, **changes: object) -> StatusReport:
    fields = {name: getattr(status, name) for name in status.__struct_fields__}
    return StatusReport(**{**fields, **changes})


# --- A huge cluster -------------------------------------------------------------------------------------


def huge(at: int, nodes: int = 10_000, reservations: int = 500, pods: int = 100_000) -> Documents:
    dice = random.Random(7)
    types = ("p5.48xlarge", "m7i.4xlarge", "c7g.16xlarge", "g6e.12xlarge", "r7i.8xlarge", "m7g.metal")
    zones = tuple(f"us-east-1{letter}" for letter in "abcdef")
    rows: list[ReservationRow] = []
    slots: dict[str, tuple[SlotUse, ...]] = {}
    found: list[NodeRow] = []
    for number in range(reservations):
        total = dice.choice((4, 8, 16, 20, 32, 48))
        here = min(dice.randint(0, total), nodes - len(found))
        elsewhere = dice.randint(0, (total - here) // 2)
        free = total - here - elsewhere
        block = number % 3 == 0
        starts = at - dice.randint(-3 * DAY, 5 * DAY) if block else at - 30 * DAY
        ends = starts + dice.choice((1, 2, 7, 14)) * DAY if block else None
        row = ReservationRow(
            id=f"cr-{dice.getrandbits(68):017x}", kind="capacity-block" if block else "default",
            instance_type=dice.choice(types), zone=dice.choice(zones), owner="111122223333", state="active",
            window="upcoming" if starts > at else "open", total=total, here=here, elsewhere=elsewhere, free=free,
            idle=free, idle_usd_per_hour=round(free * dice.uniform(0.5, 40), 4), starts=starts, ends=ends,
            drains=ends - 2400 if ends else None, reclaims=ends - 1800 if ends else None, node_classes=("default",),
        )  # fmt: skip
        rows.append(row)
        claims = [f"pool-{number % 20}-{dice.getrandbits(25):05x}" for _ in range(here)]
        names = [_node_name(dice) for _ in range(here)]
        slots[row.id] = tuple(
            SlotUse(node=name, node_claim=claim, state="running", since=at - 7200)
            for name, claim in zip(names, claims, strict=True)
        )
        found += [
            NodeRow(
                name=name, node_claim=claim, node_pool=f"pool-{number % 20}", instance_type=row.instance_type,
                zone=row.zone, capacity_type="reserved", reservation=row.id, state="ready", pods=10, usd_per_hour=0.0,
                created=at - 7200,
            )
            for name, claim in zip(names, claims, strict=True)
        ]  # fmt: skip
    for number in range(nodes - len(found)):
        found.append(
            NodeRow(
                name=_node_name(dice), node_claim=f"pool-{number % 20}-{dice.getrandbits(25):05x}",
                node_pool=f"pool-{number % 20}", instance_type=dice.choice(types), zone=dice.choice(zones),
                capacity_type=dice.choice(("spot", "on-demand")), state="ready", pods=10,
                usd_per_hour=round(dice.uniform(0.1, 4), 4), created=at - dice.randint(60, 10**6),
            )
        )  # fmt: skip
    rows.sort(key=lambda one: one.id)
    found.sort(key=lambda node: node.name)
    pending = [
        PendingGroup(code=f"reason-{i}", text=f"Reason {i} why pods are pending.", pods=40, oldest=at - 60 * i,
                     examples=tuple(f"team-{i}/job-{i}-{j}" for j in range(5)))
        for i in range(30)
    ]  # fmt: skip
    status = _status(at, rows, found, pending, cluster="huge")
    decisions = [
        DecisionRow(id=n, at=at - (2000 - n) * 9, type="launch", kind="NodeClaim", name=f"pool-{n % 20}-{n:05x}",
                    text=f"Launch m7i.4xlarge on demand for {n % 30 + 1} pods", reasons=("No slot is free.",) * 3)
        for n in range(2000, 0, -1)
    ]  # fmt: skip
    names_of_pods = [(f"team-{n % 50}", f"job-{n % 50}-{n:06d}") for n in range(pods)]
    return Documents(
        at, status, rows, 90_412.2, at - DAY, slots, found, pending, decisions, None, names_of_pods
    )


def _node_name(dice: random.Random) -> str:
    return f"ip-10-{dice.randint(0, 255)}-{dice.randint(0, 255)}-{dice.randint(0, 255)}.ec2.internal"
