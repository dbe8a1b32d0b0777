"""Documents of the JSON API as a leader sends them, for the tests of the command line."""

from holdfast.api.reports import (
    Considered,
    Costs,
    DecisionRow,
    Explanation,
    Fact,
    FailingController,
    LastHour,
    NodeGroup,
    PendingGroup,
    ReservationRow,
    ReservationsReport,
    SearchHit,
    SearchReport,
    SlotsReport,
    SlotUse,
    StatusReport,
)

NOW = 1_794_880_800  # 2026-11-17T02:00:00Z
ODCR = "cr-0a1b2c3d4e5f60718"
BLOCK = "cr-0b2c3d4e5f6071829"
UNSELECTED = "cr-0c3d4e5f607182930"

RESERVATIONS = ReservationsReport(
    at=NOW,
    counted_at=NOW - 20,
    items=(
        ReservationRow(
            id=ODCR,
            kind="on-demand",
            instance_type="m5.xlarge",
            zone="us-west-2a",
            owner="123456789012",
            state="active",
            window="open",
            total=8,
            here=4,
            elsewhere=1,
            held=1,
            releasing=1,
            free=2,
            idle=2,
            idle_usd_per_hour=0.384,
            node_classes=("default",),
        ),
        ReservationRow(
            id=BLOCK,
            kind="capacity-block",
            instance_type="p4d.24xlarge",
            zone="us-west-2b",
            owner="123456789012",
            state="active",
            window="draining",
            total=2,
            here=2,
            starts=NOW - 86_400,
            drains=NOW - 600,
            reclaims=NOW + 600,
            ends=NOW + 2_400,
            node_classes=("gpu", "training"),
        ),
        ReservationRow(
            id=UNSELECTED,
            kind="on-demand",
            instance_type="p5.48xlarge",
            zone="us-west-2c",
            owner="210987654321",
            state="active",
            window="open",
            total=1,
            free=1,
            idle=1,
            idle_usd_per_hour=None,
        ),
    ),
    idle_usd_per_hour=0.384,
    without_price=1,
    idle_usd_day=17.5,
    idle_since=NOW - 86_400,
)
SLOTS = SlotsReport(
    at=NOW,
    items={
        ODCR: (
            SlotUse(
                node="ip-10-0-1-11.us-west-2.compute.internal", node_claim="general-4x2kq", state="running"
            ),
            SlotUse(
                node="ip-10-0-1-12.us-west-2.compute.internal", node_claim="general-9w7zd", state="running"
            ),
            SlotUse(node_claim="general-c8m2p", state="launching", since=NOW - 30),
            SlotUse(node="ip-10-0-1-14.us-west-2.compute.internal", state="releasing"),
        ),
        BLOCK: (
            SlotUse(node="ip-10-0-2-21.us-west-2.compute.internal", node_claim="gpu-k2v9s", state="running"),
            SlotUse(node="ip-10-0-2-22.us-west-2.compute.internal", node_claim="gpu-t6h3b", state="running"),
        ),
    },
)
STATUS = StatusReport(
    at=NOW,
    version="0.4.0",
    cluster="demo",
    kubernetes_version="1.34",
    leader="holdfast-6d5f9c7b8-x2x7k",
    leading_since=NOW - 7_500,
    nodes=14,
    launching=1,
    draining=2,
    groups=(
        NodeGroup(
            capacity_type="on-demand", zone="us-west-2a", node_pool="general", nodes=3, usd_per_hour=0.576
        ),
        NodeGroup(
            capacity_type="on-demand", zone="us-west-2b", node_pool="general", nodes=1, usd_per_hour=0.192
        ),
        NodeGroup(
            capacity_type="reserved", zone="us-west-2a", node_pool="general", nodes=4, usd_per_hour=0.0
        ),
        NodeGroup(capacity_type="reserved", zone="us-west-2b", node_pool="gpu", nodes=2, usd_per_hour=0.0),
        NodeGroup(capacity_type="spot", zone="us-west-2b", node_pool="batch", nodes=2, usd_per_hour=0.141),
    ),
    pods=212,
    pending=9,
    pending_groups=(
        PendingGroup(
            code="SlotHeld",
            text=f"waits for a slot of {ODCR} that is becoming free; at the latest at 02:05 UTC it is launched on demand",
            pods=8,
            examples=("shop/web-5c9d7-2xkqv", "shop/web-5c9d7-8hj2m"),
            oldest=NOW - 95,
        ),
        PendingGroup(
            code="NoZone",
            text="requires zone us-west-2d, and no NodePool allows it",
            pods=1,
            examples=("batch/report-1",),
            oldest=NOW - 7_200,
        ),
    ),
    costs=Costs(on_demand=0.768, spot=0.141, reserved=66.31, idle=0.384, unknown_nodes=1),
    last_hour=LastHour(launches=12, launch_failures=1, disruptions=2, removals=3, interruptions=1),
    failing=(
        FailingController(
            controller="nodeclass.status",
            keys=("gpu",),
            key_count=1,
        ),
        FailingController(
            controller="provisioning",
            keys=("a", "b", "c", "d"),
            key_count=40,
            problem="no plan finished for 5 minutes, so pending pods are not planned",
        ),
    ),
    planned_at=NOW - 12,
    reservations=3,
    slots=11,
    slots_used=6,
    slots_free=3,
)
POD = Explanation(
    at=NOW,
    kind="pod",
    namespace="shop",
    name="web-5c9d7-2xkqv",
    what=f"Pending: it waits for a slot of {ODCR}.",
    since=NOW - 95,
    why=(
        f"All slots of {ODCR} are in use, and one of them is becoming free: its instance is terminating.",
        "A slot that becomes free soon is cheaper than a new on-demand instance, so the plan waits for it.",
    ),
    considered=(
        Considered(subject=BLOCK, text="the capacity block is being drained: it ends at 02:40 UTC"),
        Considered(subject=UNSELECTED, text="no EC2NodeClass selects it"),
        Considered(
            subject="m5.xlarge on-demand",
            text="costs $0.19 an hour; launched at 02:05 UTC if no slot is free by then",
        ),
    ),
    changes=(
        "A slot of the reservation becomes free.",
        "The NodePool general sets a shorter reservation wait.",
    ),
    next="when a slot becomes free, at the latest at 02:05 UTC",
    facts=(
        Fact(name="NodePool", value="general"),
        Fact(name="requests", value="cpu 3, memory 12Gi"),
        Fact(name="priority", value="0"),
    ),
    decisions=tuple(
        DecisionRow(
            id=100 - one,
            at=NOW - 90 * one,
            type="launch",
            kind="NodeClaim",
            name=f"general-{one}",
            text=f"Launches m5.xlarge in us-west-2a for {one} pods",
            reasons=(f"{ODCR} has no free slot",),
        )
        for one in range(1, 8)
    ),
)
NEAR = SearchReport(
    at=NOW,
    items=(
        SearchHit(kind="node", name="web-node"),
        SearchHit(kind="pod", namespace="shop", name="web-5c9d7-2xkqv", text="pending"),
        SearchHit(kind="pod", namespace="shop", name="web-5c9d7-8hj2m", text="pending"),
    ),
)
