"""Every reason code, with its facts: of pods without a place, and of pods that are in no slot."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import ec2nodeclass_document, nodepool_document
from holdfast import names
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement, resources
from holdfast.model.host_ports import HostPort
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape, PodTerm, PreferredNodeTerm, Volumes
from holdfast.model.reasons import ReasonCode
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
WEB_PORT = (HostPort(80),)
GPUS: dict[str, Any] = {"nvidia.com/gpu": 8}


def daemon(**more: Any) -> DaemonSetView:
    return DaemonSetView("default", "agent", shape(app="agent", **more))


def asked(of_pod: PodShape | None = None, count: int = 1, **more: Any) -> SolveRequest:
    """One pool with nine types of one to nine cores, and as many equal pods as said."""
    of_pool = {key: more.pop(key) for key in ("taints", "limits", "weight") if key in more}
    wanted: Sequence[requirement.Requirement] = more.pop("wanted", ())
    kept: Sequence[Reservation] = more.pop("kept", ())
    types: Sequence[InstanceType] = more.pop("types", fake_types(9, kept))
    pools = (pool("default", types, *wanted, **of_pool), *more.pop("others", ()))
    return request(pools, pods(count, of_pod or shape()), kept, **more)


def sold_out() -> list[InstanceType]:
    return [
        dataclasses.replace(
            t, offerings=tuple(dataclasses.replace(o, count=0, healthy=True) for o in t.offerings)
        )
        for t in fake_types(9)
    ]


def with_volume_limit(*of_types: str) -> list[InstanceType]:
    """Of these types, or of all; with the free reservation where types are named."""
    return [
        dataclasses.replace(t, volume_limits=(("csi", 1),)) if t.name in of_types or not of_types else t
        for t in fake_types(9, [FREE] if of_types else ())
    ]


FULL = reservation("cr-1", "fake-it-5", available=0, total=4)
FREE = reservation("cr-1", "fake-it-5")
TWO_VOLUMES = Volumes(claims=(("csi", "a"), ("csi", "b")))
ELSEWHERE = Volumes(alternatives=(of(is_in(names.ZONE, "z9")),))
BLOCK = reservation("cr-1", "fake-it-5", end_s=NOW_S + 30 * 60, drain_lead_s=40 * 60)
BLOCK_ENDS = "block cr-1 ends at 10:30 and takes no new nodes since 09:50 (UTC)"
ENDING = Instance("id-1", "fake-it-5", "z1", names.RESERVED, InstanceState.ENDING, 0, reservation_id="cr-1")
NEAR_NOBODY = (PodTerm(names.ZONE, selector(app="other"), ("default",)),)

# What is asked, the code, and the sentence.
UNPLACED = [
    (request([], pods(1, shape())), ReasonCode.NO_NODE_POOL, "no NodePool is ready"),
    (asked(taints=(GPU,)), ReasonCode.TAINT, "NodePool default: did not tolerate taint gpu:NoSchedule"),
    (
        asked(shape(node_selector=of(is_in("team", "ml")))),
        ReasonCode.REQUIREMENTS,
        "NodePool default: incompatible requirements: team In [ml] is wanted, but label team is not defined",
    ),
    (
        asked(shape(node_selector=of(is_in(names.INSTANCE_TYPE, "m5.large")))),
        ReasonCode.REQUIREMENTS,
        "NodePool default: no instance type has node.kubernetes.io/instance-type In [m5.large]",
    ),
    (
        asked(shape(node_selector=of(is_in("team", "a")), required_terms=(of(is_in("team", "b")),))),
        ReasonCode.REQUIREMENTS,
        "NodePool default: the pod's nodeSelector contradicts its node affinity: team In [a] and team In [b]",
    ),
    (
        asked(shape(100_000)),
        ReasonCode.RESOURCES,
        "NodePool default: no instance type has enough resources: cpu 100 is requested",
    ),
    (
        asked(shape(extra={"nvidia.com/gpu": 8})),
        ReasonCode.RESOURCES,
        "NodePool default: no instance type has enough resources: nvidia.com/gpu 8 is requested",
    ),
    (
        asked(types=sold_out()),
        ReasonCode.OFFERINGS,
        "NodePool default: spot or on-demand is not available at the moment for any instance type that suits the pod",
    ),
    (
        asked(shape(node_selector=of(is_in(RESERVATION_ID, "cr-9"))), kept=[FREE]),
        ReasonCode.OFFERINGS,
        (
            "NodePool default: no instance type that suits the pod is offered with "
            "cloud.example/reservation-id In [cr-9]"
        ),
    ),
    (
        asked(shape(volumes=ELSEWHERE)),
        ReasonCode.VOLUMES,
        (
            "NodePool default: no offering is where the pod's volumes can be attached: "
            "(topology.kubernetes.io/zone In [z9])"
        ),
    ),
    (
        asked(shape(volumes=TWO_VOLUMES), types=with_volume_limit()),
        ReasonCode.VOLUMES,
        "NodePool default: would exceed the volume limits of every instance type: csi",
    ),
    (
        asked(shape(host_ports=WEB_PORT), daemon_sets=(daemon(host_ports=WEB_PORT),)),
        ReasonCode.HOST_PORTS,
        "NodePool default: DaemonSets use host port 80/TCP on every instance type that suits the pod",
    ),
    (
        asked(shape(1500), limits=resources.of({"cpu": 1000})),
        ReasonCode.LIMITS,
        "NodePool default: all available instance types exceed limits: cpu 1",
    ),
    (
        asked(wanted=[requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, min_values=30)]),
        ReasonCode.MIN_VALUES,
        (
            "NodePool default: minValues requirement is not met for label node.kubernetes.io/instance-type: "
            "fewer than 30 values are left"
        ),
    ),
    (
        asked(kept=[FULL], wanted=[RESERVED]),
        ReasonCode.WAITS_FOR_SLOT,
        "reservation cr-1 has no free slot; one becomes free when an instance in it terminates",
    ),
    (
        asked(shape(**one_per_node()), 2, kept=[FREE], wanted=[RESERVED]),
        ReasonCode.WAITS_FOR_SLOT,
        "reservation cr-1 has no free slot; one becomes free when an instance in it terminates",
    ),
    (
        asked(wanted=[RESERVED]),
        ReasonCode.NO_RESERVATION_SELECTED,
        "NodePool default: its node class selects no reservation",
    ),
    (
        asked(shape(affinity=NEAR_NOBODY)),
        ReasonCode.TOPOLOGY,
        "NodePool default: unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone",
    ),
    (
        asked(shape(affinity=NEAR_NOBODY), limits=resources.of({"cpu": 10**6})),
        ReasonCode.TOPOLOGY,  # limits that are far away are not blamed
        "NodePool default: unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone",
    ),
]


@pytest.mark.parametrize(("of", "code", "sentence"), UNPLACED)
def test_an_unplaced_pod_has_a_reason(of: SolveRequest, code: ReasonCode, sentence: str) -> None:
    (unplaced,) = solve(of).unplaced
    (reason,) = unplaced.reasons
    assert (reason.code, reason.sentence) == (code, sentence)


def arch(name: str) -> PodShape:
    return shape(node_selector=of(is_in(names.ARCH, name)))


HOLDER = ClaimView("other", "default", NO_REQUIREMENTS, 0, reservation_id="cr-1")
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
        asked(shape(node_selector=of(ON_DEMAND)), kept=[FREE]),
        ReasonCode.EXCLUDES_RESERVED,
        f"{NOT_REQUIRED} karpenter.sh/capacity-type In [on-demand]",
    ),
    (
        asked(kept=[FREE], types=fake_types(9)),
        ReasonCode.NO_RESERVATION_SELECTED,
        "reservation cr-1 is selected by no NodePool's node class",
    ),
    (
        asked(shape(node_selector=of(is_in(names.INSTANCE_TYPE, "fake-it-7"))), kept=[FREE]),
        ReasonCode.WRONG_INSTANCE_TYPE,
        f"{NOT_REQUIRED} node.kubernetes.io/instance-type In [fake-it-7]",
    ),
    (
        asked(shape(node_selector=of(is_in(names.ZONE, "z2"))), kept=[FREE]),
        ReasonCode.WRONG_ZONE,
        f"{NOT_REQUIRED} topology.kubernetes.io/zone In [z2]",
    ),
    (
        asked(arch("arm64"), kept=[FREE]),
        ReasonCode.WRONG_PLATFORM,
        f"{NOT_REQUIRED} kubernetes.io/arch In [arm64]",
    ),
    (
        asked(shape(node_selector=of(is_in(names.OS, "windows"))), kept=[FREE]),
        ReasonCode.WRONG_PLATFORM,
        f"{NOT_REQUIRED} kubernetes.io/os In [windows]",
    ),
    (
        asked(shape(node_selector=of(is_in(RESERVATION_ID, "cr-2"))), kept=[FREE]),
        ReasonCode.WRONG_RESERVATION,
        f"{NOT_REQUIRED} cloud.example/reservation-id In [cr-2]",
    ),
    (
        asked(shape(8_000), kept=[FREE]),
        ReasonCode.TOO_SMALL,
        "reservation cr-1 is too small for the pod, which requests cpu 8: fake-it-5 has cpu 5900m",
    ),
    (
        asked(shape(5_500), kept=[FREE], daemon_sets=(daemon(),)),
        ReasonCode.TOO_SMALL,  # less what the DaemonSet takes
        "reservation cr-1 is too small for the pod, which requests cpu 5500m: fake-it-5 has cpu 4900m",
    ),
    (
        asked(
            shape(memory_mib=1), kept=[reservation("cr-1", "fake-it-0")], daemon_sets=(daemon(memory_mib=1),)
        ),
        ReasonCode.TOO_SMALL,  # the DaemonSet takes more than there is
        "reservation cr-1 is too small for the pod, which requests cpu 1: fake-it-0 has no cpu",
    ),
    (
        asked(shape(volumes=Volumes(alternatives=(of(is_in(names.ZONE, "z2")),))), kept=[FREE]),
        ReasonCode.VOLUMES,
        "reservation cr-1 is not where the pod's volumes can be attached: (topology.kubernetes.io/zone In [z2])",
    ),
    (
        asked(shape(volumes=TWO_VOLUMES), kept=[FREE], types=with_volume_limit("fake-it-5")),
        ReasonCode.VOLUMES,
        "reservation cr-1 has instances of fake-it-5, whose volume limits the pod exceeds",
    ),
    (
        asked(
            shape(host_ports=WEB_PORT),
            kept=[FREE],
            daemon_sets=(
                daemon(host_ports=WEB_PORT, node_selector=of(is_in(names.INSTANCE_TYPE, "fake-it-5"))),
            ),
        ),
        ReasonCode.HOST_PORTS,
        "reservation cr-1 has nodes on which DaemonSets use host port 80/TCP",
    ),
    (
        asked(kept=[FULL]),
        ReasonCode.FULL,
        "reservation cr-1 has no free slot; one becomes free when an instance in it terminates",
    ),
    (
        asked(kept=[FULL], instances=(ENDING,)),
        ReasonCode.FULL,
        "reservation cr-1 has no free slot; instances in it are terminating, which frees slots soon",
    ),
    (
        asked(kept=[FREE], claims=(HOLDER,)),
        ReasonCode.HELD,
        "reservation cr-1 has no free slot: NodeClaims that are being launched hold it",
    ),
    (
        asked(shape(**one_per_node()), 2, kept=[FREE]),
        ReasonCode.HELD,
        "reservation cr-1 has no free slot left: other nodes of this plan use it",
    ),
    (
        asked(kept=[reservation("cr-1", "fake-it-5", start_s=NOW_S + DAY_S)], taken_s=NOW_S),
        ReasonCode.NOT_STARTED,
        "reservation cr-1 takes nodes from 2026-11-16 10:00 on (UTC)",
    ),
    (asked(kept=[BLOCK], taken_s=NOW_S), ReasonCode.DRAINING, BLOCK_ENDS),
    (
        asked(kept=[dataclasses.replace(BLOCK, end_s=NOW_S - 60)], taken_s=NOW_S),
        ReasonCode.DRAINING,
        "block cr-1 ended at 09:59 (UTC)",
    ),
    (
        asked(kept=[reservation("cr-1", "fake-it-5", state=State.PENDING, state_name="payment-pending")]),
        ReasonCode.UNHEALTHY,
        "reservation cr-1 is payment-pending and takes nodes once it is active",
    ),
    (
        asked(kept=[reservation("cr-1", "fake-it-5", state=State.GONE, state_name="cancelled")]),
        ReasonCode.UNHEALTHY,
        "reservation cr-1 is cancelled and takes no nodes any more",
    ),
    (
        asked(kept=[FREE], types=UNHEALTHY),
        ReasonCode.UNHEALTHY,
        "reservation cr-1 takes no launches at the moment, and is tried again later",
    ),
    (
        asked(kept=[FREE], wanted=[ON_DEMAND]),
        ReasonCode.POOL_EXCLUDES_RESERVED,
        "reservation cr-1 is excluded by NodePool default",
    ),
    (
        asked(kept=[FREE], taints=(GPU,)),
        ReasonCode.TAINT,
        "reservation cr-1 has nodes with taint gpu:NoSchedule of NodePool default, not tolerated",
    ),
    (
        asked(kept=[FREE], limits=resources.of({"cpu": 3000})),
        ReasonCode.LIMITS,
        f"{FREE_BUT} limits of NodePool default are reached: cpu 3",
    ),
    (
        asked(kept=[FREE], wanted=[requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, min_values=30)]),
        ReasonCode.MIN_VALUES,
        f"{FREE_BUT} minValues of NodePool default are not met",
    ),
    (
        asked(kept=[FREE], nodes=(NODE,)),
        ReasonCode.EXISTING_NODE,
        f"{FREE_BUT} node node-a has capacity for the pod",
    ),
    (
        asked(kept=[FREE], others=[HEAVY], reserved_before_weight=False),
        ReasonCode.HEAVIER_POOL,
        f"{FREE_BUT} NodePool heavy comes before default",
    ),
    (
        asked(shape(affinity=NEAR_NOBODY), kept=[FREE]),
        ReasonCode.TOPOLOGY,
        f"{FREE_BUT} unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone",
    ),
    (
        asked(PREFERS_Z2, kept=[FREE]),
        ReasonCode.PREFERENCE,
        f"{FREE_BUT} the pod prefers topology.kubernetes.io/zone In [z2]",
    ),
    (
        asked(PREFERS_TEAM, kept=[FREE], others=[pool("ml", fake_types(9), is_in("team", "ml"))]),
        ReasonCode.PREFERENCE,
        f"{FREE_BUT} the pod prefers team In [ml]",
    ),
    (
        asked(kept=[FREE], taints=(PREFERRED_TAINT,), others=[pool("plain", fake_types(9))]),
        ReasonCode.PREFERENCE,
        f"{FREE_BUT} the pod prefers nodes without taint old:PreferNoSchedule",
    ),
]


@pytest.mark.fact("Q-14")
@pytest.mark.parametrize(("of", "code", "sentence"), NOT_RESERVED)
def test_a_pod_in_no_slot_has_a_reason_for_each_reservation(
    of: SolveRequest, code: ReasonCode, sentence: str
) -> None:
    (told,) = solve(dataclasses.replace(of, explain_slots=True)).not_reserved
    (reason,) = told.reasons
    assert (reason.code, reason.sentence) == (code, sentence)


def test_a_pod_that_no_plan_can_be_made_for_is_told_why() -> None:
    wrong = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}, "containers": [{"name": "main"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pinned"}, "spec": wrong}
    made = plan_documents([catalog_document(now=NOW), nodepool_document(), ec2nodeclass_document(), pod])
    ((reason,),) = [one["reasons"] for one in made["unplaced"]]
    assert reason["code"] == ReasonCode.INVALID
    assert "kubernetes.io/hostname" in reason["text"]


def test_pod_for_nodes_of_no_nodepool_has_a_code_of_its_own() -> None:
    terms = [{"matchExpressions": [{"key": names.NODEPOOL, "operator": "DoesNotExist"}]}]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    spec = {"affinity": affinity, "containers": [{"name": "main"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "elsewhere"}, "spec": spec}
    made = plan_documents([catalog_document(now=NOW), nodepool_document(), ec2nodeclass_document(), pod])
    ((reason,),) = [one["reasons"] for one in made["unplaced"]]
    assert reason["code"] == ReasonCode.EXCLUDES_NODE_POOLS


def test_every_code_is_shown_here_and_explained_in_the_docs() -> None:
    shown = {code for _, code, *_ in (*UNPLACED, *NOT_RESERVED)} | {
        ReasonCode.INVALID,
        ReasonCode.EXCLUDES_NODE_POOLS,
        ReasonCode.SHARED_NODE,
    }
    # No plan is known to have Packing, and NotBound is of the running program.
    assert shown == set(ReasonCode) - {ReasonCode.PACKING, ReasonCode.NOT_BOUND}
    rows = [line for line in (DOCS / "scenario.md").read_text().splitlines() if line.startswith("| `")]
    explained = {row.split("`")[1] for row in rows}
    assert set(ReasonCode) <= explained


def test_a_pod_on_a_reserved_node_that_exists_needs_no_reason() -> None:
    node = dataclasses.replace(NODE, labels=((names.CAPACITY_TYPE, "reserved"),))
    plan = solve(dataclasses.replace(asked(kept=[FREE], nodes=(node,)), explain_slots=True))
    assert [placed.node for placed in plan.placed] == ["node-a"]
    assert plan.not_reserved == ()


def test_of_several_pools_the_one_in_which_least_is_missing_gives_the_reason() -> None:
    bought = pool("bought", fake_types(9, [FULL]), ON_DEMAND, weight=3)
    tainted = pool("tainted", fake_types(9, [FULL]), taints=(GPU,), weight=2)
    suiting = pool("suiting", fake_types(9, [FULL]))
    for pools, code in (
        ([bought], ReasonCode.POOL_EXCLUDES_RESERVED),
        ([bought, tainted], ReasonCode.TAINT),
        ([bought, tainted, suiting], ReasonCode.FULL),
    ):
        plan = solve(dataclasses.replace(request(pools, pods(1, shape()), [FULL]), explain_slots=True))
        assert [reason.code for one in plan.not_reserved for reason in one.reasons] == [code]


def test_any_alternative_of_what_a_pod_requires_may_suit_a_slot() -> None:
    either = shape(required_terms=(of(is_in(names.ZONE, "z1")), of(is_in(names.ZONE, "z2"))))
    plan = solve(dataclasses.replace(asked(either, kept=[FULL]), explain_slots=True))
    assert [reason.code for one in plan.not_reserved for reason in one.reasons] == [ReasonCode.FULL]


# --- Reservations that a pod would wait for -----------------------------------------------------------


def sentences_of(of: SolveRequest) -> list[str]:
    return [reason.sentence for reason in solve(of).unplaced[0].reasons]


@pytest.mark.parametrize(
    ("kept", "code", "sentence"),
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
            "reservation cr-1 takes nodes from 2026-11-16 10:00 on (UTC)",
        ),
    ],
)
def test_only_a_reservation_that_is_open_is_waited_for(
    kept: Reservation, code: ReasonCode, sentence: str
) -> None:
    (unplaced,) = solve(asked(kept=[kept], wanted=[RESERVED], taken_s=NOW_S)).unplaced
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
    assert sentences_of(asked(kept=[FULL], types=types, wanted=[RESERVED_OR_SPOT])) == [
        FULL_SENTENCE,
        "NodePool default: spot is not available at the moment for any instance type that suits the pod",
    ]


def test_spot_that_is_not_offered_is_named_beside_a_full_reservation() -> None:
    only_on_demand = [instance_type("fake-it-5", 6, 12, 0.01, [FULL], capacity_types=[names.ON_DEMAND])]
    assert sentences_of(asked(kept=[FULL], types=only_on_demand, wanted=[RESERVED_OR_SPOT])) == [
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
def test_a_pod_that_waits_is_told_what_follows(wanted: list[requirement.Requirement], then: str) -> None:
    waits = asked(kept=[FREE], claims=(HOLDER,), wanted=wanted, reservation_wait_s=300)
    assert sentences_of(waits) == [
        f"reservation cr-1 has no free slot left; the pod waits for one until 00:05 (UTC){then}"
    ]


def test_a_gpu_pod_is_told_that_its_block_ends_whatever_is_free_for_other_pods() -> None:
    gpu = reservation("cr-block", "gpu", end_s=NOW_S + 30 * 60, drain_lead_s=40 * 60)
    others = [reservation("cr-cpu", "fake-it-5"), reservation("cr-full", "fake-it-6", available=0, total=2)]
    kept = [gpu, *others]
    types = [
        *fake_types(9, kept),
        instance_type("gpu", 8, 64, 9, kept, capacity_types=[], **GPUS),
    ]
    of_pod = shape(extra={"nvidia.com/gpu": 8})
    assert sentences_of(asked(of_pod, kept=kept, types=types, wanted=[RESERVED], taken_s=NOW_S)) == [
        "block cr-block ends at 10:30 and takes no new nodes since 09:50 (UTC)"
    ]


def test_reservations_with_one_cause_are_one_reason_and_each_is_named_once() -> None:
    kept = [reservation(f"cr-{n}", "fake-it-5", available=0, total=n + 1) for n in range(600)]
    said = sentences_of(asked(kept=kept, wanted=[RESERVED]))
    assert said == [
        (
            "reservations cr-0, cr-1, cr-10, cr-100, cr-101, cr-102 and 594 more: "
            "each has no free slot; one becomes free when an instance in it terminates"
        )
    ]


def test_a_reason_does_not_change_with_what_uses_the_slots() -> None:
    full = [reservation("cr-1", "fake-it-5", available=0, total=n) for n in (1, 2, 40)]
    said = [sentences_of(asked(kept=[one], wanted=[RESERVED])) for one in full]
    said.append(sentences_of(asked(kept=[FREE], claims=(HOLDER,), wanted=[RESERVED])))
    said.append(sentences_of(asked(kept=[FULL], instances=(ENDING,), wanted=[RESERVED])))
    said.append(sentences_of(asked(shape(**one_per_node()), 2, kept=[FREE], wanted=[RESERVED])))
    assert said == [[FULL_SENTENCE]] * 6


def test_a_pod_on_a_node_of_other_pods_is_told_so() -> None:
    large, small = pods(1, shape(8_000), "large"), pods(1, shape(100, 10), "small")
    types = fake_types(9, [FREE])
    plan = solve(
        dataclasses.replace(
            request([pool("default", types)], (*large, *small), [FREE], reserved_before_weight=False),
            explain_slots=True,
        )
    )
    (told,) = [one for one in plan.not_reserved if one.pod.startswith("small")]
    assert [(r.code, r.sentence) for r in told.reasons] == [
        (ReasonCode.SHARED_NODE, f"{FREE_BUT} a node that is launched for other pods has capacity")
    ]


def test_the_topology_constraint_of_a_pod_with_alternatives_is_named() -> None:
    terms = (of(is_in(names.INSTANCE_TYPE, "fake-it-1")), of(is_in(names.INSTANCE_TYPE, "fake-it-5")))
    plan = solve(
        dataclasses.replace(
            asked(shape(required_terms=terms, affinity=NEAR_NOBODY), kept=[FREE]), explain_slots=True
        )
    )
    near = "unsatisfiable topology constraint for pod affinity, key=topology.kubernetes.io/zone"
    assert [r.sentence for r in plan.unplaced[0].reasons] == [f"NodePool default: {near}"]
    assert [r.sentence for r in plan.not_reserved[0].reasons] == [f"{FREE_BUT} {near}"]


def test_of_the_alternatives_of_a_pod_the_one_that_came_furthest_is_explained() -> None:
    terms = (of(is_in(names.ZONE, "z1")), of(is_in(names.INSTANCE_TYPE, "none")))
    huge = shape(100_000, required_terms=terms)
    assert sentences_of(asked(huge)) == [
        "NodePool default: no instance type has enough resources: cpu 100 is requested"
    ]
