"""Every reason code, with its facts: of pods without a place, and of pods that are in no slot."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from builders import ec2nodeclass_document, nodepool_document
from holdfast import names
from holdfast.cli.plan import plan_documents
from holdfast.core.scheduling.plan import ReasonCode
from holdfast.core.scheduling.request import SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement, resources
from holdfast.model.host_ports import HostPort
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape, PodTerm, Volumes
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS, of
from holdfast.model.reservations import Reservation, State
from holdfast.model.snapshot import ClaimView, DaemonSetView, NodeView
from holdfast.model.taints import Effect, Taint
from objects import NOW
from planner_builders import (
    RESERVATION_ID,
    fake_types,
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
RESERVED, ON_DEMAND = is_in(names.CAPACITY_TYPE, "reserved"), is_in(names.CAPACITY_TYPE, "on-demand")
GPU = Taint("gpu", Effect.NO_SCHEDULE)
WEB_PORT = (HostPort(80),)


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


def with_volume_limit() -> list[InstanceType]:
    return [dataclasses.replace(t, volume_limits=(("csi", 1),)) for t in fake_types(9)]


FULL = reservation("cr-1", "fake-it-5", available=0, total=4)
FREE = reservation("cr-1", "fake-it-5")
TWO_VOLUMES = Volumes(claims=(("csi", "a"), ("csi", "b")))
ELSEWHERE = Volumes(alternatives=(of(is_in(names.ZONE, "z9")),))
NEAR_NOBODY = (PodTerm(names.ZONE, selector(app="other"), ("default",)),)

# What is asked, the code, what it is about, and a fact that its text must name.
UNPLACED = [
    (request([], pods(1, shape())), ReasonCode.NO_NODE_POOL, "", "no NodePool"),
    (asked(taints=(GPU,)), ReasonCode.TAINT, "default", "gpu:NoSchedule"),
    (
        asked(shape(node_selector=of(is_in("team", "ml")))),
        ReasonCode.REQUIREMENTS,
        "default",
        "team In [ml] is wanted, but label team is not defined",
    ),
    (
        asked(shape(node_selector=of(is_in(names.INSTANCE_TYPE, "m5.large")))),
        ReasonCode.REQUIREMENTS,
        "default",
        "no instance type is",
    ),
    (asked(shape(100_000)), ReasonCode.RESOURCES, "default", "has room for cpu 100"),
    (asked(types=sold_out()), ReasonCode.OFFERINGS, "default", "nothing is available"),
    (
        asked(shape(node_selector=of(is_in(RESERVATION_ID, "cr-9"))), kept=[FREE]),
        ReasonCode.OFFERINGS,
        "default",
        "nothing is available where cloud.example/reservation-id In [cr-9]",
    ),
    (asked(shape(volumes=ELSEWHERE)), ReasonCode.VOLUMES, "default", "volumes"),
    (asked(shape(volumes=TWO_VOLUMES), types=with_volume_limit()), ReasonCode.VOLUMES, "default", "attach"),
    (
        asked(shape(host_ports=WEB_PORT), daemon_sets=(daemon(host_ports=WEB_PORT),)),
        ReasonCode.HOST_PORTS,
        "default",
        "DaemonSet",
    ),
    (asked(shape(1500), limits=resources.of({"cpu": 1000})), ReasonCode.LIMITS, "default", "cpu 1"),
    (
        asked(wanted=[requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, min_values=30)]),
        ReasonCode.MIN_VALUES,
        "default",
        "30 different values of node.kubernetes.io/instance-type",
    ),
    (asked(kept=[FULL], wanted=[RESERVED]), ReasonCode.WAITS_FOR_SLOT, "cr-1", "no free slot (0 held"),
    (
        asked(shape(**one_per_node()), 2, kept=[FREE], wanted=[RESERVED]),
        ReasonCode.WAITS_FOR_SLOT,
        "cr-1",
        "the free slots of cr-1 go to other nodes of this plan",
    ),
    (asked(wanted=[RESERVED]), ReasonCode.NO_RESERVATION_SELECTED, "default", "selects no reservation"),
    (
        asked(shape(affinity=NEAR_NOBODY)),
        ReasonCode.TOPOLOGY,
        "default",
        "near others on topology.kubernetes.io/zone",
    ),
    (
        asked(shape(affinity=NEAR_NOBODY), limits=resources.of({"cpu": 10**6})),
        ReasonCode.TOPOLOGY,  # limits that are far away are not blamed
        "default",
        "other pods",
    ),
]


@pytest.mark.parametrize(("of", "code", "subject", "fact"), UNPLACED)
def test_a_pod_without_a_place_is_told_why(
    of: SolveRequest, code: ReasonCode, subject: str, fact: str
) -> None:
    (unplaced,) = solve(of).unplaced
    (reason,) = unplaced.reasons
    assert (reason.code, reason.subject) == (code, subject)
    assert fact in reason.text


def arch(name: str) -> PodShape:
    return shape(node_selector=of(is_in(names.ARCH, name)))


HOLDER = ClaimView("other", "default", NO_REQUIREMENTS, 0, slot="cr-1")
NODE = NodeView("node-a", (), resources.of({"cpu": 4000, "memory": 2**33, "pods": 10}), resources.NOTHING)
UNHEALTHY = tuple(
    dataclasses.replace(
        t, offerings=tuple(dataclasses.replace(o, healthy=o.reservation_id is None) for o in t.offerings)
    )
    for t in fake_types(9, [FREE])
)
HEAVY = pool("heavy", fake_types(9), ON_DEMAND, weight=100)

NOT_RESERVED = [
    (asked(shape(node_selector=of(ON_DEMAND)), kept=[FREE]), ReasonCode.EXCLUDES_RESERVED, "on-demand"),
    (asked(kept=[FREE], types=fake_types(9)), ReasonCode.NO_RESERVATION_SELECTED, "no NodePool selects it"),
    (
        asked(shape(node_selector=of(is_in(names.INSTANCE_TYPE, "fake-it-7"))), kept=[FREE]),
        ReasonCode.WRONG_INSTANCE_TYPE,
        "fake-it-7",
    ),
    (asked(shape(node_selector=of(is_in(names.ZONE, "z2"))), kept=[FREE]), ReasonCode.WRONG_ZONE, "z2"),
    (asked(arch("arm64"), kept=[FREE]), ReasonCode.WRONG_PLATFORM, "arm64"),
    (
        asked(shape(node_selector=of(is_in(names.OS, "windows"))), kept=[FREE]),
        ReasonCode.WRONG_PLATFORM,
        "windows",
    ),
    (
        asked(shape(node_selector=of(is_in(RESERVATION_ID, "cr-2"))), kept=[FREE]),
        ReasonCode.WRONG_RESERVATION,
        "cr-2",
    ),
    (asked(shape(8_000), kept=[FREE]), ReasonCode.TOO_SMALL, "fake-it-5 has cpu 5900m"),
    (
        asked(shape(5_500), kept=[FREE], daemon_sets=(daemon(),)),
        ReasonCode.TOO_SMALL,
        "fake-it-5 has cpu 4900m",  # less what the DaemonSet takes
    ),
    (asked(kept=[FULL]), ReasonCode.FULL, "all of its 4 slots are in use"),
    (asked(kept=[FREE], claims=(HOLDER,)), ReasonCode.HELD, "1 of its slots are held by other NodeClaims"),
    (asked(shape(**one_per_node()), 2, kept=[FREE]), ReasonCode.HELD, "its free slots (1) go to other nodes"),
    (
        asked(kept=[reservation("cr-1", "fake-it-5", start_s=3700)], taken_s=100),
        ReasonCode.NOT_STARTED,
        "3,600 seconds",
    ),
    (
        asked(kept=[reservation("cr-1", "fake-it-5", end_s=500, drain_lead_s=450)], taken_s=100),
        ReasonCode.DRAINING,
        "its drain has begun",
    ),
    (
        asked(kept=[reservation("cr-1", "fake-it-5", state=State.PENDING)]),
        ReasonCode.UNHEALTHY,
        "it is pending",
    ),
    (asked(kept=[FREE], types=UNHEALTHY), ReasonCode.UNHEALTHY, "nothing can be launched into it"),
    (asked(kept=[FREE], wanted=[ON_DEMAND]), ReasonCode.POOL_EXCLUDES_RESERVED, "NodePool default"),
    (asked(kept=[FREE], taints=(GPU,)), ReasonCode.TAINT, "gpu:NoSchedule of NodePool default"),
    (
        asked(kept=[FREE], limits=resources.of({"cpu": 3000})),
        ReasonCode.LIMITS,
        "the limits of NodePool default, cpu 3, are reached",
    ),
    (asked(kept=[FREE], nodes=(NODE,)), ReasonCode.EXISTING_NODE, "node node-a has room for it"),
    (
        asked(kept=[FREE], others=[HEAVY], reserved_before_weight=False),
        ReasonCode.HEAVIER_POOL,
        "NodePool heavy comes before default",
    ),
    (asked(shape(affinity=NEAR_NOBODY), kept=[FREE]), ReasonCode.TOPOLOGY, "where other pods are"),
]


@pytest.mark.fact("Q-14")
@pytest.mark.parametrize(("of", "code", "fact"), NOT_RESERVED)
def test_a_pod_in_no_slot_is_told_why_for_each_reservation(
    of: SolveRequest, code: ReasonCode, fact: str
) -> None:
    (told,) = solve(dataclasses.replace(of, explain_slots=True)).not_reserved
    (reason,) = told.reasons
    assert (reason.code, reason.subject) == (code, "cr-1")
    assert fact in reason.text


def test_a_pod_that_no_plan_can_be_made_for_is_told_why() -> None:
    wrong = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}, "containers": [{"name": "main"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pinned"}, "spec": wrong}
    made = plan_documents([catalog_document(now=NOW), nodepool_document(), ec2nodeclass_document(), pod])
    ((reason,),) = [one["reasons"] for one in made["unplaced"]]
    assert reason["code"] == ReasonCode.INVALID
    assert "kubernetes.io/hostname" in reason["text"]


def test_every_code_is_shown_here_and_explained_in_the_docs() -> None:
    shown = {code for _, code, *_ in (*UNPLACED, *NOT_RESERVED)} | {ReasonCode.INVALID}
    assert shown == set(ReasonCode)
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
