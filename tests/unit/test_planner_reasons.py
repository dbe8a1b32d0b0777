"""Every reason code with its message: of unplaced pods, and of pods without a slot."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import ec2nodeclass_document, nodepool_document
from holdfast import names
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output import remedies, suitability
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement, resources
from holdfast.model.host_ports import HostPort
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape, PodTerm, PreferredNodeTerm, Volumes
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS, of
from holdfast.model.reservations import Reservation, State
from holdfast.model.snapshot import ClaimView, DaemonSetView, NodeView
from holdfast.model.taints import Effect, Taint
from objects import NOW, NOW_S
from planner_builders import (
    RESERVATION_ID,
    fake_types,
    instance_type,
    is_in,
    one_per_node,
    pods,
    pool,
    request,
    reservation,
    selector,
    shape,
)
from scenarios import catalog_document

DOCS = Path(__file__).resolve().parents[2] / "docs"
DAY_S = 86_400
RESERVED, ON_DEMAND = is_in(names.CAPACITY_TYPE, "reserved"), is_in(names.CAPACITY_TYPE, "on-demand")
GPU = Taint("gpu", Effect.NO_SCHEDULE)
# Shown by tests/unit/test_planner_gangs.py, test_planner_gang_holds.py, and tests/scenario/test_provisioning_requests.py.
GANG_CODES = (
    ReasonCode.GANG_INCOMPLETE,
    ReasonCode.GANG_DOES_NOT_FIT,
    ReasonCode.BEHIND_GANG,
    ReasonCode.HOLDS_SLOTS,
    ReasonCode.USES_REQUEST,
)
WEB_PORT = (HostPort(80),)
GPUS: dict[str, Any] = {"nvidia.com/gpu": 8}


def daemon(**more: Any) -> DaemonSetView:
    return DaemonSetView("default", "agent", shape(app="agent", **more))


def solve_request(of_pod: PodShape | None = None, count: int = 1, **more: Any) -> SolveRequest:
    """One pool with nine types of one to nine cores, and `count` equal pods."""
    of_pool = {key: more.pop(key) for key in ("taints", "limits", "weight") if key in more}
    wanted: Sequence[requirement.Requirement] = more.pop("wanted", ())
    reservations: Sequence[Reservation] = more.pop("reservations", ())
    types: Sequence[InstanceType] = more.pop("types", fake_types(9, reservations))
    pools = (pool("default", types, *wanted, **of_pool), *more.pop("others", ()))
    return request(pools, pods(count, of_pod or shape()), reservations, **more)


def sold_out() -> list[InstanceType]:
    return [
        dataclasses.replace(
            t, offerings=tuple(dataclasses.replace(o, count=0, healthy=True) for o in t.offerings)
        )
        for t in fake_types(9)
    ]


def with_volume_limit(*of_types: str) -> list[InstanceType]:
    """Nine types; these types, or all, have a volume limit. Named types come with the free reservation."""
    return [
        dataclasses.replace(t, volume_limits=(("csi", 1),)) if t.name in of_types or not of_types else t
        for t in fake_types(9, [FREE] if of_types else ())
    ]


WITH_GPUS = [*fake_types(9), instance_type("gpu", 8, 64, 9, **GPUS)]
FULL = reservation("cr-1", "fake-it-5", available=0, total=4)
FREE = reservation("cr-1", "fake-it-5")
TWO_VOLUMES = Volumes(claims=(("csi", "a"), ("csi", "b")))
VOLUMES_IN_OTHER_ZONE = Volumes(alternatives=(of(is_in(names.ZONE, "z9")),))
BLOCK = reservation("cr-1", "fake-it-5", end_s=NOW_S + 30 * 60, drain_lead_s=40 * 60)
BLOCK_ENDS = "block cr-1 ends at 10:30 and takes no new nodes since 09:50 (UTC)"
ENDING = Instance("id-1", "fake-it-5", "z1", names.RESERVED, InstanceState.ENDING, 0, reservation_id="cr-1")
UNSATISFIABLE_AFFINITY = (PodTerm(names.ZONE, selector(app="other"), ("default",)),)

# The request, the reason code and the message.
UNPLACED = [
    (request([], pods(1, shape())), ReasonCode.NO_NODE_POOL, "no NodePool is ready"),
    (
        solve_request(taints=(GPU,)),
        ReasonCode.TAINT,
        "NodePool default: did not tolerate taint gpu:NoSchedule",
    ),
    (
        solve_request(shape(node_selector=of(is_in("team", "ml")))),
        ReasonCode.REQUIREMENTS,
        "NodePool default: incompatible requirements: team In [ml] is wanted, but label team is not defined",
    ),
    (
        solve_request(shape(node_selector=of(is_in(names.INSTANCE_TYPE, "m5.large")))),
        ReasonCode.REQUIREMENTS,
        "NodePool default: no instance type has node.kubernetes.io/instance-type In [m5.large]",
    ),
    (
        solve_request(shape(node_selector=of(is_in("team", "a")), required_terms=(of(is_in("team", "b")),))),
        ReasonCode.REQUIREMENTS,
        "NodePool default: the pod's nodeSelector contradicts its node affinity: team In [a] and team In [b]",
    ),
    (
        solve_request(shape(100_000)),
        ReasonCode.RESOURCES,
        "NodePool default: no instance type has enough resources: cpu 100 is requested",
    ),
    (
        solve_request(shape(extra={"nvidia.com/gpu": 16}), types=WITH_GPUS),
        ReasonCode.RESOURCES,
        "NodePool default: no instance type has enough resources: nvidia.com/gpu 16 is requested",
    ),
    (
        solve_request(shape(extra={"hugepages-2Mi": 2**21})),
        ReasonCode.RESOURCES,  # of Kubernetes, so it is no extended resource
        "NodePool default: no instance type has enough resources: hugepages-2Mi 2Mi is requested",
    ),
    (
        solve_request(shape(extra={"vendor.example/fpga": 1})),
        ReasonCode.NO_SUCH_RESOURCE,
        "NodePool default: no instance type of any ready NodePool has the extended resource vendor.example/fpga",
    ),
    (
        solve_request(
            shape(100_000, extra={"nvidia.com/gpu": 8, "vendor.example/fpga": 1, "vendor.example/nic": 1})
        ),
        ReasonCode.NO_SUCH_RESOURCE,  # a smaller pod would not fit either
        (
            "NodePool default: no instance type of any ready NodePool has the extended resources "
            "nvidia.com/gpu, vendor.example/fpga, vendor.example/nic"
        ),
    ),
    (
        solve_request(types=sold_out()),
        ReasonCode.OFFERINGS,
        "NodePool default: spot or on-demand is not available at the moment for any instance type that suits the pod",
    ),
    (
        solve_request(shape(node_selector=of(is_in(RESERVATION_ID, "cr-9"))), reservations=[FREE]),
        ReasonCode.OFFERINGS,
        (
            "NodePool default: no instance type that suits the pod is offered with "
            "cloud.example/reservation-id In [cr-9]"
        ),
    ),
    (
        solve_request(shape(volumes=VOLUMES_IN_OTHER_ZONE)),
        ReasonCode.VOLUMES,
        (
            "NodePool default: no offering is where the pod's volumes can be attached: "
            "(topology.kubernetes.io/zone In [z9])"
        ),
    ),
    (
        solve_request(shape(volumes=TWO_VOLUMES), types=with_volume_limit()),
        ReasonCode.VOLUMES,
        "NodePool default: would exceed the volume limits of every instance type: csi",
    ),
    (
        solve_request(shape(host_ports=WEB_PORT), daemon_sets=(daemon(host_ports=WEB_PORT),)),
        ReasonCode.HOST_PORTS,
        "NodePool default: DaemonSets use host port 80/TCP on every instance type that suits the pod",
    ),
    (
        solve_request(shape(1500), limits=resources.of({"cpu": 1000})),
        ReasonCode.LIMITS,
        "NodePool default: all available instance types exceed limits: cpu 1",
    ),
    (
        solve_request(wanted=[requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, min_values=30)]),
        ReasonCode.MIN_VALUES,
        (
            "NodePool default: minValues requirement is not met for label node.kubernetes.io/instance-type: "
            "fewer than 30 values are left"
        ),
    ),
    (
        solve_request(reservations=[FULL], wanted=[RESERVED]),
        ReasonCode.WAITS_FOR_SLOT,
        "reservation cr-1 has no free slot; one becomes free when an instance in it terminates",
    ),
    (
        solve_request(shape(**one_per_node()), 2, reservations=[FREE], wanted=[RESERVED]),
        ReasonCode.WAITS_FOR_SLOT,
        "reservation cr-1 has no free slot; one becomes free when an instance in it terminates",
    ),
    (
        solve_request(wanted=[RESERVED]),
        ReasonCode.NO_RESERVATION_SELECTED,
        "NodePool default: its node class selects no reservation",
    ),
    (
        solve_request(shape(affinity=UNSATISFIABLE_AFFINITY)),
        ReasonCode.TOPOLOGY,
        "NodePool default: unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone",
    ),
    (
        solve_request(shape(affinity=UNSATISFIABLE_AFFINITY), limits=resources.of({"cpu": 10**6})),
        ReasonCode.TOPOLOGY,  # limits that are not reached are not the reason
        "NodePool default: unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone",
    ),
]


@pytest.mark.parametrize(("of", "code", "sentence"), UNPLACED)
def test_an_unplaced_pod_has_a_reason(of: SolveRequest, code: ReasonCode, sentence: str) -> None:
    (unplaced,) = solve(of).unplaced
    (reason,) = unplaced.reasons
    assert (reason.code, reason.sentence) == (code, sentence)


def codes_of(of: SolveRequest) -> list[str]:
    return [reason.code for reason in solve(of).unplaced[0].reasons]


ONE_GPU = shape(extra={"nvidia.com/gpu": 1})


def test_a_resource_that_another_nodepool_offers_exists() -> None:
    tainted = pool("tainted", WITH_GPUS, taints=(GPU,), weight=1)
    assert codes_of(solve_request(ONE_GPU, others=[tainted])) == [ReasonCode.TAINT, ReasonCode.RESOURCES]


def test_a_resource_that_no_nodepool_offers_is_named_for_each_that_passes_the_earlier_checks() -> None:
    others = [pool("tainted", fake_types(9), taints=(GPU,), weight=2), pool("plain", fake_types(9), weight=1)]
    found = [ReasonCode.TAINT, ReasonCode.NO_SUCH_RESOURCE, ReasonCode.NO_SUCH_RESOURCE]
    assert codes_of(solve_request(ONE_GPU, others=others)) == found


def test_a_resource_of_instance_types_that_every_nodepool_excludes_does_not_exist() -> None:
    without = requirement.of(names.INSTANCE_TYPE, Operator.NOT_IN, ["gpu"])
    assert codes_of(solve_request(ONE_GPU, types=WITH_GPUS, wanted=[without])) == [
        ReasonCode.NO_SUCH_RESOURCE
    ]


def test_a_resource_that_the_requirements_of_the_pod_exclude_exists() -> None:
    small = shape(extra={"nvidia.com/gpu": 1}, node_selector=of(is_in(names.INSTANCE_TYPE, "fake-it-5")))
    assert codes_of(solve_request(small, types=WITH_GPUS)) == [ReasonCode.RESOURCES]


def test_a_resource_that_daemon_sets_use_up_exists() -> None:
    whole = (daemon(extra=GPUS),)
    assert codes_of(solve_request(ONE_GPU, types=WITH_GPUS[-1:], daemon_sets=whole)) == [ReasonCode.RESOURCES]


def test_a_resource_that_is_sold_out_exists() -> None:
    types = [
        dataclasses.replace(t, offerings=tuple(dataclasses.replace(o, count=0) for o in t.offerings))
        for t in WITH_GPUS
    ]
    assert codes_of(solve_request(ONE_GPU, types=types)) == [ReasonCode.OFFERINGS]


def test_a_resource_of_which_nothing_is_requested_is_not_missing() -> None:
    none = shape(100_000, extra={"vendor.example/fpga": 0})
    assert codes_of(solve_request(none)) == [ReasonCode.RESOURCES]


def arch(name: str) -> PodShape:
    return shape(node_selector=of(is_in(names.ARCH, name)))


CLAIM_WITH_HOLD = ClaimView("other", "default", NO_REQUIREMENTS, 0, reservation_id="cr-1")
NODE = NodeView("node-a", (), resources.of({"cpu": 4000, "memory": 2**33, "pods": 10}), resources.NOTHING)
UNHEALTHY = tuple(
    dataclasses.replace(
        t, offerings=tuple(dataclasses.replace(o, healthy=o.reservation_id is None) for o in t.offerings)
    )
    for t in fake_types(9, [FREE])
)
HEAVY = pool("heavy", fake_types(9), ON_DEMAND, weight=100)

FREE_BUT = "reservation cr-1 has a free slot, and"
NOT_REQUIRED = "reservation cr-1 does not match what the pod requires:"
PREFERS_Z2 = shape(preferred_terms=(PreferredNodeTerm(1, of(is_in(names.ZONE, "z2"))),))
PREFERS_TEAM = shape(preferred_terms=(PreferredNodeTerm(1, of(is_in("team", "ml"))),))
PREFERRED_TAINT = Taint("old", Effect.PREFER_NO_SCHEDULE)
NOT_RESERVED = [
    (
        solve_request(shape(node_selector=of(ON_DEMAND)), reservations=[FREE]),
        ReasonCode.EXCLUDES_RESERVED,
        f"{NOT_REQUIRED} karpenter.sh/capacity-type In [on-demand]",
    ),
    (
        solve_request(reservations=[FREE], types=fake_types(9)),
        ReasonCode.NO_RESERVATION_SELECTED,
        "reservation cr-1 is selected by no NodePool's node class",
    ),
    (
        solve_request(shape(node_selector=of(is_in(names.INSTANCE_TYPE, "fake-it-7"))), reservations=[FREE]),
        ReasonCode.WRONG_INSTANCE_TYPE,
        f"{NOT_REQUIRED} node.kubernetes.io/instance-type In [fake-it-7]",
    ),
    (
        solve_request(shape(node_selector=of(is_in(names.ZONE, "z2"))), reservations=[FREE]),
        ReasonCode.WRONG_ZONE,
        f"{NOT_REQUIRED} topology.kubernetes.io/zone In [z2]",
    ),
    (
        solve_request(arch("arm64"), reservations=[FREE]),
        ReasonCode.WRONG_PLATFORM,
        f"{NOT_REQUIRED} kubernetes.io/arch In [arm64]",
    ),
    (
        solve_request(shape(node_selector=of(is_in(names.OS, "windows"))), reservations=[FREE]),
        ReasonCode.WRONG_PLATFORM,
        f"{NOT_REQUIRED} kubernetes.io/os In [windows]",
    ),
    (
        solve_request(shape(node_selector=of(is_in(RESERVATION_ID, "cr-2"))), reservations=[FREE]),
        ReasonCode.WRONG_RESERVATION,
        f"{NOT_REQUIRED} cloud.example/reservation-id In [cr-2]",
    ),
    (
        solve_request(shape(8_000), reservations=[FREE]),
        ReasonCode.TOO_SMALL,
        "reservation cr-1 is too small for the pod, which requests cpu 8: fake-it-5 has cpu 5900m",
    ),
    (
        solve_request(shape(5_500), reservations=[FREE], daemon_sets=(daemon(),)),
        ReasonCode.TOO_SMALL,  # allocatable minus the requests of the DaemonSet
        "reservation cr-1 is too small for the pod, which requests cpu 5500m: fake-it-5 has cpu 4900m",
    ),
    (
        solve_request(
            shape(memory_mib=1),
            reservations=[reservation("cr-1", "fake-it-0")],
            daemon_sets=(daemon(memory_mib=1),),
        ),
        ReasonCode.TOO_SMALL,  # the DaemonSet requests more than is allocatable
        "reservation cr-1 is too small for the pod, which requests cpu 1: fake-it-0 has no cpu",
    ),
    (
        solve_request(
            shape(volumes=Volumes(alternatives=(of(is_in(names.ZONE, "z2")),))), reservations=[FREE]
        ),
        ReasonCode.VOLUMES,
        "reservation cr-1 is not where the pod's volumes can be attached: (topology.kubernetes.io/zone In [z2])",
    ),
    (
        solve_request(shape(volumes=TWO_VOLUMES), reservations=[FREE], types=with_volume_limit("fake-it-5")),
        ReasonCode.VOLUMES,
        "reservation cr-1 has instances of fake-it-5, whose volume limits the pod exceeds",
    ),
    (
        solve_request(
            shape(host_ports=WEB_PORT),
            reservations=[FREE],
            daemon_sets=(
                daemon(host_ports=WEB_PORT, node_selector=of(is_in(names.INSTANCE_TYPE, "fake-it-5"))),
            ),
        ),
        ReasonCode.HOST_PORTS,
        "reservation cr-1 has nodes on which DaemonSets use host port 80/TCP",
    ),
    (
        solve_request(reservations=[FULL]),
        ReasonCode.FULL,
        "reservation cr-1 has no free slot; one becomes free when an instance in it terminates",
    ),
    (
        solve_request(reservations=[FULL], instances=(ENDING,)),
        ReasonCode.FULL,
        "reservation cr-1 has no free slot; instances in it are terminating, which frees slots soon",
    ),
    (
        solve_request(reservations=[FREE], claims=(CLAIM_WITH_HOLD,)),
        ReasonCode.HELD,
        "reservation cr-1 has no free slot: NodeClaims that are being launched hold it",
    ),
    (
        solve_request(shape(**one_per_node()), 2, reservations=[FREE]),
        ReasonCode.HELD,
        "reservation cr-1 has no free slot left: other nodes of this plan use it",
    ),
    (
        solve_request(reservations=[reservation("cr-1", "fake-it-5", start_s=NOW_S + DAY_S)], taken_s=NOW_S),
        ReasonCode.NOT_STARTED,
        "reservation cr-1 starts at 2026-11-16 10:00 (UTC) with 1 slot",
    ),
    (solve_request(reservations=[BLOCK], taken_s=NOW_S), ReasonCode.DRAINING, BLOCK_ENDS),
    (
        solve_request(reservations=[dataclasses.replace(BLOCK, end_s=NOW_S - 60)], taken_s=NOW_S),
        ReasonCode.DRAINING,
        "block cr-1 ended at 09:59 (UTC)",
    ),
    (
        solve_request(
            reservations=[reservation("cr-1", "fake-it-5", state=State.PENDING, state_name="payment-pending")]
        ),
        ReasonCode.UNHEALTHY,
        "reservation cr-1 is payment-pending and takes nodes once it is active",
    ),
    (
        solve_request(
            reservations=[reservation("cr-1", "fake-it-5", state=State.GONE, state_name="cancelled")]
        ),
        ReasonCode.UNHEALTHY,
        "reservation cr-1 is cancelled and takes no nodes any more",
    ),
    (
        solve_request(reservations=[FREE], types=UNHEALTHY),
        ReasonCode.UNHEALTHY,
        "reservation cr-1 takes no launches at the moment, and is tried again later",
    ),
    (
        solve_request(reservations=[FREE], wanted=[ON_DEMAND]),
        ReasonCode.POOL_EXCLUDES_RESERVED,
        "reservation cr-1 is excluded by NodePool default",
    ),
    (
        solve_request(reservations=[FREE], taints=(GPU,)),
        ReasonCode.TAINT,
        "reservation cr-1 has nodes with taint gpu:NoSchedule of NodePool default, not tolerated",
    ),
    (
        solve_request(reservations=[FREE], limits=resources.of({"cpu": 3000})),
        ReasonCode.LIMITS,
        f"{FREE_BUT} limits of NodePool default are reached: cpu 3",
    ),
    (
        solve_request(
            reservations=[FREE], wanted=[requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, min_values=30)]
        ),
        ReasonCode.MIN_VALUES,
        f"{FREE_BUT} minValues of NodePool default are not met",
    ),
    (
        solve_request(reservations=[FREE], nodes=(NODE,)),
        ReasonCode.EXISTING_NODE,
        f"{FREE_BUT} node node-a has capacity for the pod",
    ),
    (
        solve_request(reservations=[FREE], others=[HEAVY], reserved_before_weight=False),
        ReasonCode.HEAVIER_POOL,
        f"{FREE_BUT} NodePool heavy comes before default",
    ),
    (
        solve_request(shape(affinity=UNSATISFIABLE_AFFINITY), reservations=[FREE]),
        ReasonCode.TOPOLOGY,
        f"{FREE_BUT} unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone",
    ),
    (
        solve_request(PREFERS_Z2, reservations=[FREE]),
        ReasonCode.PREFERENCE,
        f"{FREE_BUT} the pod prefers topology.kubernetes.io/zone In [z2]",
    ),
    (
        solve_request(
            PREFERS_TEAM, reservations=[FREE], others=[pool("ml", fake_types(9), is_in("team", "ml"))]
        ),
        ReasonCode.PREFERENCE,
        f"{FREE_BUT} the pod prefers team In [ml]",
    ),
    (
        solve_request(reservations=[FREE], taints=(PREFERRED_TAINT,), others=[pool("plain", fake_types(9))]),
        ReasonCode.PREFERENCE,
        f"{FREE_BUT} the pod prefers nodes without taint old:PreferNoSchedule",
    ),
]


@pytest.mark.fact("Q-14")
@pytest.mark.parametrize(("of", "code", "sentence"), NOT_RESERVED)
def test_a_pod_without_a_slot_has_a_reason_for_each_reservation(
    of: SolveRequest, code: ReasonCode, sentence: str
) -> None:
    (not_reserved,) = solve(dataclasses.replace(of, explain_slots=True)).not_reserved
    (reason,) = not_reserved.reasons
    assert (reason.code, reason.sentence) == (code, sentence)


def test_a_reservation_of_an_offering_that_the_cloud_does_not_report_is_named() -> None:
    only_reserved = requirement.of(names.CAPACITY_TYPE, Operator.IN, [names.RESERVED])
    (unplaced,) = solve(solve_request(types=fake_types(9, [FREE]), wanted=[only_reserved])).unplaced
    (reason,) = unplaced.reasons
    assert reason.sentence == "reservation cr-1 is not among the reservations that the cloud reports"


def test_an_invalid_pod_has_the_reason_invalid() -> None:
    wrong = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}, "containers": [{"name": "main"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pinned"}, "spec": wrong}
    plan = plan_documents([catalog_document(now=NOW), nodepool_document(), ec2nodeclass_document(), pod])
    ((reason,),) = [one["reasons"] for one in plan["unplaced"]]
    assert reason["code"] == ReasonCode.INVALID
    assert "kubernetes.io/hostname" in reason["text"]


def test_a_pod_that_excludes_nodepools_has_its_own_reason_code() -> None:
    terms = [{"matchExpressions": [{"key": names.NODEPOOL, "operator": "DoesNotExist"}]}]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    spec = {"affinity": affinity, "containers": [{"name": "main"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "elsewhere"}, "spec": spec}
    plan = plan_documents([catalog_document(now=NOW), nodepool_document(), ec2nodeclass_document(), pod])
    ((reason,),) = [one["reasons"] for one in plan["unplaced"]]
    assert reason["code"] == ReasonCode.EXCLUDES_NODE_POOLS


def test_every_reason_code_is_tested_here_and_documented() -> None:
    shown = {code for _, code, *_ in (*UNPLACED, *NOT_RESERVED)} | {
        ReasonCode.INVALID,
        ReasonCode.EXCLUDES_NODE_POOLS,
        ReasonCode.SHARED_NODE,
        ReasonCode.NOT_COMPARED,
        *GANG_CODES,  # test_planner_gangs.py shows them
        ReasonCode.ENDS_TOO_SOON,  # test_planner_run_times.py
    }
    # No known plan has Packing, and only the controllers set NotBound.
    assert shown == set(ReasonCode) - {ReasonCode.PACKING, ReasonCode.NOT_BOUND}
    rows = [line for line in (DOCS / "scenario.md").read_text().splitlines() if line.startswith("| `")]
    explained = {row.split("`")[1] for row in rows}
    assert set(ReasonCode) <= explained


def test_a_pod_on_an_existing_reserved_node_has_no_reason() -> None:
    node = dataclasses.replace(NODE, labels=((names.CAPACITY_TYPE, "reserved"),))
    plan = solve(dataclasses.replace(solve_request(reservations=[FREE], nodes=(node,)), explain_slots=True))
    assert [placed.node for placed in plan.placed] == ["node-a"]
    assert plan.not_reserved == ()


def test_the_reason_is_of_the_nodepool_that_is_closest_to_matching() -> None:
    on_demand = pool("bought", fake_types(9, [FULL]), ON_DEMAND, weight=3)
    tainted = pool("tainted", fake_types(9, [FULL]), taints=(GPU,), weight=2)
    matching = pool("suiting", fake_types(9, [FULL]))
    for pools, code in (
        ([on_demand], ReasonCode.POOL_EXCLUDES_RESERVED),
        ([on_demand, tainted], ReasonCode.TAINT),
        ([on_demand, tainted, matching], ReasonCode.FULL),
    ):
        plan = solve(dataclasses.replace(request(pools, pods(1, shape()), [FULL]), explain_slots=True))
        assert [reason.code for one in plan.not_reserved for reason in one.reasons] == [code]


def test_any_node_affinity_term_may_match_a_reservation() -> None:
    either = shape(required_terms=(of(is_in(names.ZONE, "z1")), of(is_in(names.ZONE, "z2"))))
    plan = solve(dataclasses.replace(solve_request(either, reservations=[FULL]), explain_slots=True))
    assert [reason.code for one in plan.not_reserved for reason in one.reasons] == [ReasonCode.FULL]


# --- Reservations that a pod would wait for -----------------------------------------------------------


def sentences_of(of: SolveRequest) -> list[str]:
    return [reason.sentence for reason in solve(of).unplaced[0].reasons]


@pytest.mark.parametrize(
    ("closed", "code", "sentence"),
    [
        (
            reservation("cr-1", "fake-it-5", state=State.GONE, state_name="expired"),
            ReasonCode.UNHEALTHY,
            "reservation cr-1 is expired and takes no nodes any more",
        ),
        (BLOCK, ReasonCode.DRAINING, BLOCK_ENDS),
        (
            reservation("cr-1", "fake-it-5", start_s=NOW_S + DAY_S),
            ReasonCode.NOT_STARTED,
            "reservation cr-1 starts at 2026-11-16 10:00 (UTC) with 1 slot, and takes nodes from then on",
        ),
    ],
)
def test_pods_wait_only_for_an_open_reservation(closed: Reservation, code: ReasonCode, sentence: str) -> None:
    (unplaced,) = solve(solve_request(reservations=[closed], wanted=[RESERVED], taken_s=NOW_S)).unplaced
    assert [(reason.code, reason.sentence) for reason in unplaced.reasons] == [(code, sentence)]


RESERVED_OR_SPOT = is_in(names.CAPACITY_TYPE, "reserved", "spot")
FULL_SENTENCE = "reservation cr-1 has no free slot; one becomes free when an instance in it terminates"


def test_spot_that_is_not_available_is_named_beside_a_full_reservation() -> None:
    types = [
        dataclasses.replace(
            t,
            offerings=tuple(o if o.reservation_id else dataclasses.replace(o, count=0) for o in t.offerings),
        )
        for t in fake_types(9, [FULL])
    ]
    assert sentences_of(solve_request(reservations=[FULL], types=types, wanted=[RESERVED_OR_SPOT])) == [
        FULL_SENTENCE,
        "NodePool default: spot is not available at the moment for any instance type that suits the pod",
    ]


def test_spot_that_is_not_offered_is_named_beside_a_full_reservation() -> None:
    only_on_demand = [instance_type("fake-it-5", 6, 12, 0.01, [FULL], capacity_types=[names.ON_DEMAND])]
    assert sentences_of(
        solve_request(reservations=[FULL], types=only_on_demand, wanted=[RESERVED_OR_SPOT])
    ) == [
        FULL_SENTENCE,
        "NodePool default: spot is not offered for any instance type that suits the pod",
    ]


@pytest.mark.parametrize(
    ("wanted", "then"),
    [
        ([RESERVED_OR_SPOT], ", then spot is launched"),
        ([], ", then spot or on-demand is launched"),
        ([RESERVED], ", and no other capacity suits it"),
    ],
)
def test_the_reason_of_a_waiting_pod_names_the_fallback(
    wanted: list[requirement.Requirement], then: str
) -> None:
    waits = solve_request(
        reservations=[FREE], claims=(CLAIM_WITH_HOLD,), wanted=wanted, reservation_wait_s=300
    )
    assert sentences_of(waits) == [
        f"reservation cr-1 has no free slot left; the pod waits for one until 00:05 (UTC){then}"
    ]


def test_the_reason_of_a_gpu_pod_names_only_its_capacity_block() -> None:
    gpu = reservation("cr-block", "gpu", end_s=NOW_S + 30 * 60, drain_lead_s=40 * 60)
    others = [reservation("cr-cpu", "fake-it-5"), reservation("cr-full", "fake-it-6", available=0, total=2)]
    reservations = [gpu, *others]
    types = [
        *fake_types(9, reservations),
        instance_type("gpu", 8, 64, 9, reservations, capacity_types=[], **GPUS),
    ]
    of_pod = shape(extra={"nvidia.com/gpu": 8})
    assert sentences_of(
        solve_request(of_pod, reservations=reservations, types=types, wanted=[RESERVED], taken_s=NOW_S)
    ) == ["block cr-block ends at 10:30 and takes no new nodes since 09:50 (UTC)"]


def test_reservations_with_the_same_cause_share_one_reason() -> None:
    reservations = [reservation(f"cr-{n}", "fake-it-5", available=0, total=n + 1) for n in range(600)]
    sentences = sentences_of(solve_request(reservations=reservations, wanted=[RESERVED]))
    assert sentences == [
        (
            "reservations cr-0, cr-1, cr-10, cr-100, cr-101, cr-102 and 594 more: "
            "each has no free slot; one becomes free when an instance in it terminates"
        )
    ]


def test_a_reason_does_not_change_with_what_uses_the_slots() -> None:
    full = [reservation("cr-1", "fake-it-5", available=0, total=n) for n in (1, 2, 40)]
    sentences = [sentences_of(solve_request(reservations=[one], wanted=[RESERVED])) for one in full]
    sentences.append(
        sentences_of(solve_request(reservations=[FREE], claims=(CLAIM_WITH_HOLD,), wanted=[RESERVED]))
    )
    sentences.append(sentences_of(solve_request(reservations=[FULL], instances=(ENDING,), wanted=[RESERVED])))
    sentences.append(
        sentences_of(solve_request(shape(**one_per_node()), 2, reservations=[FREE], wanted=[RESERVED]))
    )
    assert sentences == [[FULL_SENTENCE]] * 6


def test_a_pod_on_a_node_launched_for_other_pods_has_the_reason_shared_node() -> None:
    large, small = pods(1, shape(8_000), "large"), pods(1, shape(100, 10), "small")
    types = fake_types(9, [FREE])
    plan = solve(
        dataclasses.replace(
            request([pool("default", types)], (*large, *small), [FREE], reserved_before_weight=False),
            explain_slots=True,
        )
    )
    (not_reserved,) = [one for one in plan.not_reserved if one.pod.startswith("small")]
    assert [(r.code, r.sentence) for r in not_reserved.reasons] == [
        (ReasonCode.SHARED_NODE, f"{FREE_BUT} a node that is launched for other pods has capacity")
    ]


def test_the_topology_constraint_of_a_pod_with_alternatives_is_named() -> None:
    terms = (of(is_in(names.INSTANCE_TYPE, "fake-it-1")), of(is_in(names.INSTANCE_TYPE, "fake-it-5")))
    plan = solve(
        dataclasses.replace(
            solve_request(shape(required_terms=terms, affinity=UNSATISFIABLE_AFFINITY), reservations=[FREE]),
            explain_slots=True,
        )
    )
    constraint = "unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone"
    assert [r.sentence for r in plan.unplaced[0].reasons] == [f"NodePool default: {constraint}"]
    assert [r.sentence for r in plan.not_reserved[0].reasons] == [f"{FREE_BUT} {constraint}"]


def test_the_reason_is_of_the_node_affinity_term_that_fails_last() -> None:
    terms = (of(is_in(names.ZONE, "z1")), of(is_in(names.INSTANCE_TYPE, "none")))
    huge = shape(100_000, required_terms=terms)
    assert sentences_of(solve_request(huge)) == [
        "NodePool default: no instance type has enough resources: cpu 100 is requested"
    ]


# --- Of claims ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("of", "code", "sentence"), NOT_RESERVED)
def test_a_claim_without_a_slot_has_the_reasons_of_its_pods(
    of: SolveRequest, code: ReasonCode, sentence: str
) -> None:
    plan = solve(dataclasses.replace(of, explain_claims=True))
    assert plan.not_reserved == ()
    unreserved = [claim for claim in plan.claims if claim.reservation_id is None]
    for claim in unreserved:
        assert [(one.code, one.sentence) for one in claim.not_reserved] == [(code, sentence)]
    assert unreserved or not plan.claims


def test_the_reason_of_a_claim_is_that_of_the_pod_that_excludes_the_reservation() -> None:
    """Two pods share a node: the reservation is full for one of them, and in a wrong zone for the other."""
    in_z2 = shape(node_selector=of(is_in(names.ZONE, "z2")))
    asked = request(
        (pool("default", fake_types(9, [FULL])),), (*pods(1, shape()), *pods(1, in_z2, "z")), [FULL]
    )
    (claim,) = solve(dataclasses.replace(asked, explain_claims=True)).claims
    assert [one.code for one in claim.not_reserved] == [ReasonCode.WRONG_ZONE]


def test_claims_in_slots_and_plans_without_the_option_have_no_reasons() -> None:
    for asked in (
        dataclasses.replace(solve_request(reservations=[FREE]), explain_claims=True),
        solve_request(reservations=[FULL]),
    ):
        (claim,) = solve(asked).claims
        assert claim.not_reserved == ()


def test_claims_beyond_the_bound_say_that_they_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suitability, "_EXPLAINED_MAX", 1)
    asked = request(
        (pool("default", fake_types(9, [FULL])),),
        (*pods(1, shape(7_000)), *pods(1, shape(7_100), "b")),
        [FULL],
    )
    claims = solve(dataclasses.replace(asked, explain_claims=True)).claims
    found = sorted(one.code for claim in claims for one in claim.not_reserved)
    assert found == [ReasonCode.NOT_COMPARED, ReasonCode.TOO_SMALL]


def test_every_reason_has_a_remedy() -> None:
    for code in ReasonCode:
        for subjects, kind in (((), ""), (("cr-1",), "reservation"), (("default",), "NodePool")):
            (text,) = remedies.sentences([Reason(code, "x", subjects, kind)])
            assert text.endswith(".")
            assert text[0].isupper()
            assert "{}" not in text


def test_remedies_are_not_repeated_and_name_the_reservations() -> None:
    full = Reason(ReasonCode.FULL, "has no free slot", ("cr-1", "cr-2"), "reservation")
    held = Reason(ReasonCode.HELD, "has no free slot", ("cr-1", "cr-2"), "reservation")
    assert remedies.sentences([full, held]) == ("A slot of reservations cr-1, cr-2 that becomes free.",)
