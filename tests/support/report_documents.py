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
            kind="default",
            instance_type="m5.xlarge",
            zone="us-west-2a",
            owner="123456789012",
            state="active",
            window="open",
            total=8,
            here=3,
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
            kind="default",
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
            code="WaitsForSlot",
            text=f"reservation {ODCR} has no free slot left; the pod waits for one until 02:05 (UTC), then on-demand is launched",
            pods=8,
            examples=("shop/web-5c9d7-2xkqv", "shop/web-5c9d7-8hj2m"),
            oldest=NOW - 95,
        ),
        PendingGroup(
            code="Requirements",
            text="NodePool general: incompatible requirements: topology.kubernetes.io/zone In [us-west-2d]",
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
            controller="nodeclaim.lifecycle",
            keys=("batch-0", "batch-1", "batch-2", "batch-3"),
            key_count=40,
            problem="keys wait, and no reconcile has completed for 640 s",
        ),
    ),
    planned_at=NOW - 12,
    reservations=3,
    slots=11,
    slots_used=5,
    slots_free=3,
)
CLAIM = "general-c8m2p"
POD = Explanation(
    at=NOW,
    kind="pod",
    namespace="shop",
    name="web-5c9d7-2xkqv",
    what=f"The pod is pending: it should schedule on NodeClaim {CLAIM}, planned as m5.xlarge in us-west-2a, on-demand.",
    since=NOW - 695,
    why=(
        "Its instance is being launched.",
        "Pods were pending, and no node had capacity for them.",
        "The NodeClaim was created for 1 pod: shop/web-5c9d7-2xkqv.",
    ),
    considered=(
        Considered(
            subject=f"reservation {ODCR}",
            text="has no free slot; one becomes free when an instance in it terminates",
        ),
        Considered(subject=f"block {BLOCK}", text="ends at 02:40 and takes no new nodes since 01:50 (UTC)"),
        Considered(subject=f"reservation {UNSELECTED}", text="is selected by no NodePool's node class"),
    ),
    changes=(
        f"A slot of reservation {ODCR} that becomes free.",
        "A reservation that does not end soon.",
        f"A term of capacityReservationSelectorTerms that selects reservation {UNSELECTED}.",
        "Consolidation then moves its pods, as the disruption settings of its NodePool allow.",
    ),
    next="If the launch fails, the pod is planned again at once.",
    facts=(
        Fact(name="Phase", value="Pending"),
        Fact(name="Owner", value="ReplicaSet/web-5c9d7"),
    ),
    decisions=(
        *(
            DecisionRow(
                id=100 - one,
                at=NOW - 90 * one,
                type="launch-failed",
                kind="NodeClaim",
                name=CLAIM,
                text=f"Launch of NodeClaim {CLAIM} failed: EC2 did not answer in time",
            )
            for one in range(1, 7)
        ),
        DecisionRow(
            id=93,
            at=NOW - 690,
            type="launch",
            kind="NodeClaim",
            name=CLAIM,
            text=f"Created NodeClaim {CLAIM} for 1 pod: m5.xlarge in us-west-2a, on-demand, $0.192 an hour",
            reasons=(
                f"reservation {ODCR} has no free slot; one becomes free when an instance in it terminates",
            ),
        ),
    ),
)
REQUEST = Explanation(
    at=NOW,
    kind="provisioningrequest",
    namespace="ml",
    name="job-train-capacity-1",
    what="The ProvisioningRequest waits for capacity for its 4 pods.",
    since=NOW - 720,
    why=(
        f"ProvisioningRequest ml/job-train-capacity-1: only 3 of the 4 pods that it needs would have a node (3 in {BLOCK}).",
        f"Block {BLOCK} has no free slot left for the other pods; one becomes free when an instance in it terminates.",
    ),
    considered=(
        Considered(
            subject=f"block {BLOCK}",
            text=(
                "has no free slot left for the other pods; one becomes free when an instance in it terminates; 3 of 4 "
                "slots free now: 0 used here, 1 by another cluster or account, 0 held, 0 being released; its nodes are "
                "drained from 2026-11-18 10:50 UTC; it ends at 2026-11-18 11:30 UTC"
            ),
        ),
        Considered(subject=f"reservation {ODCR}", text="is excluded by NodePool training"),
    ),
    changes=(
        "Capacity for all pods of ProvisioningRequest ml/job-train-capacity-1; Holdfast tries again by itself.",
        f"A slot of block {BLOCK} that becomes free.",
    ),
    next=(
        "The request waits until 2026-11-24 01:48 UTC at the latest. Holdfast plans again within 10 seconds while a pod is "
        "not placed, and at once when a launch fails, a slot becomes free or a reservation starts. The last plan was made at "
        "01:59 UTC."
    ),
    facts=(
        Fact(name="Class", value="atomic.holdfast.dev"),
        Fact(name="Workload", value="ml/job-train"),
        Fact(
            name="PodSet 0", value="4 pods of PodTemplate ppt-job-train-capacity-1-main: 4 without capacity"
        ),
        Fact(
            name="Rank",
            value="2 of 2 waiting gangs, with priority 0, since 2026-11-17T01:48:00Z; after PodGroup ml/eval",
        ),
        Fact(
            name="Run time",
            value="at most 10 hours (parameter maxRunDurationSeconds of the ProvisioningRequest)",
        ),
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
