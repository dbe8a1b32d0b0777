"""Reports of a plan: reasons, events, and the zones where pending pods could run."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.columns import CatalogCache
from holdfast.core.scheduling.input.request import PreferencePolicy
from holdfast.core.scheduling.output import report
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import PodShape, PodTerm, PreferredNodeTerm, Volumes
from holdfast.model.reasons import Reason, ReasonCode
from holdfast.model.requirements import NO_REQUIREMENTS, from_labels, of
from holdfast.model.snapshot import ClaimView
from holdfast.model.taints import Effect, Taint
from planner_builders import (
    daemon,
    fake_types,
    instance_type,
    is_in,
    node,
    pods,
    pool,
    reasons,
    request,
    reservation,
    running,
    selector,
    shape,
)

TEAM = Taint("team", Effect.NO_SCHEDULE, "x")


def why(of_pod: PodShape, *pools: Any, **more: Any) -> tuple[Reason, ...]:
    plan = solve(request(pools or [pool("default", fake_types(9))], pods(1, of_pod), **more))
    assert not plan.claims
    return plan.unplaced[0].reasons


# --- Reasons ----------------------------------------------------------------------------------------


@pytest.mark.fact("S-10")
def test_without_a_nodepool_only_existing_nodes_are_used() -> None:
    plan = solve(request([], pods(6, shape()), nodes=(node("n1"),)))
    assert len(plan.placed[0].pods) == 4
    assert reasons(plan) == {f"pod-00000{i}": [ReasonCode.NO_NODE_POOL] for i in (4, 5)}


@pytest.mark.fact("S-24")
@pytest.mark.parametrize("types", [(), fake_types(3)])
def test_requirements_are_the_reason_when_no_instance_type_matches_the_nodepool(types: Any) -> None:
    (reason,) = why(shape(), pool("default", types, is_in(names.ARCH, "arm64")))
    assert (reason.code, reason.subject) == (ReasonCode.REQUIREMENTS, "default")
    assert reason.text.endswith("kubernetes.io/arch In [arm64]")


@pytest.mark.fact("S-23")
def test_reasons_name_each_nodepool_in_order_and_no_nodes() -> None:
    pools = [
        pool("tainted", fake_types(9), taints=(TEAM,), weight=3),
        pool("small", fake_types(1), weight=2),
        pool("elsewhere", fake_types(9), is_in(names.ZONE, "z2"), weight=1),
    ]
    wanting = shape(2000, node_selector=from_labels({names.ZONE: "z1"}))
    full = node("full", pods=running(1, shape(3500)))
    found = why(wanting, *pools, nodes=(full, node("tainted-node", taints=(TEAM,))))
    assert [(reason.code, reason.subject) for reason in found] == [
        (ReasonCode.TAINT, "tainted"),
        (ReasonCode.RESOURCES, "small"),
        (ReasonCode.REQUIREMENTS, "elsewhere"),
    ]


@pytest.mark.fact("S-63", "S-65")
def test_the_reason_is_the_first_failed_check() -> None:
    """The first pod fails every check; each step fixes the check that failed before."""
    apart = PodTerm(names.ZONE, selector(app="db"), ("default",))
    everywhere = tuple(
        node(f"n-{zone}", cpu=0, zone=zone, pods=running(1, shape(0, 0, app="db"), zone))
        for zone in ("z1", "z2", "z3")
    )
    tainted = pool("default", fake_types(9), taints=(TEAM,))
    plain = pool("default", fake_types(9))
    volumes = Volumes(alternatives=(of(is_in(names.ZONE, "z9")),))
    steps: list[tuple[Any, PodShape, ReasonCode]] = [
        (
            tainted,
            shape(99_000, node_selector=from_labels({"team": "x"}), volumes=volumes, anti_affinity=(apart,)),
            ReasonCode.TAINT,
        ),
        (
            plain,
            shape(99_000, node_selector=from_labels({"team": "x"}), volumes=volumes, anti_affinity=(apart,)),
            ReasonCode.REQUIREMENTS,
        ),
        (plain, shape(99_000, volumes=volumes, anti_affinity=(apart,)), ReasonCode.VOLUMES),
        (plain, shape(99_000, anti_affinity=(apart,)), ReasonCode.RESOURCES),
        (plain, shape(1000, anti_affinity=(apart,)), ReasonCode.TOPOLOGY),
    ]
    for of_pool, wanting, code in steps:
        assert [reason.code for reason in why(wanting, of_pool, nodes=everywhere)] == [code]


@pytest.mark.fact("S-65")
def test_reasons_distinguish_missing_offerings_from_missing_instance_types() -> None:
    spot = from_labels({names.CAPACITY_TYPE: "spot"})
    on_demand = pool("default", [instance_type("only", 4, 16, 1.0, capacity_types=[names.ON_DEMAND])])
    assert [r.code for r in why(shape(node_selector=spot), on_demand)] == [ReasonCode.OFFERINGS]
    typed = from_labels({names.INSTANCE_TYPE: "no-such-type"})
    assert [r.code for r in why(shape(node_selector=typed), on_demand)] == [ReasonCode.REQUIREMENTS]


@pytest.mark.fact("S-65")
def test_the_reason_explains_millicores_when_a_million_cores_are_requested() -> None:
    (reason,) = why(shape(10**9))
    assert "m, a thousandth" in reason.text
    assert "thousandth" not in why(shape(10**9 - 1))[0].text


@pytest.mark.fact("S-65")
def test_the_reason_names_daemonsets_that_use_resources() -> None:
    (reason,) = why(shape(8500), daemon_sets=(daemon(shape(1000, app="logs")),))
    assert reason.code is ReasonCode.RESOURCES
    assert "DaemonSets" in reason.text


def test_the_reason_names_contradicting_requirements_of_a_pod() -> None:
    contradicting = shape(
        node_selector=from_labels({"team": "x"}), required_terms=(from_labels({"team": "y"}),)
    )
    (reason,) = why(contradicting, pool("default", fake_types(3), is_in("team", "x", "y")))
    assert reason.code is ReasonCode.REQUIREMENTS
    assert "contradicts" in reason.text


# --- Events -----------------------------------------------------------------------------------------


@pytest.mark.fact("S-102")
def test_an_unplaced_pod_gets_a_warning_event_with_its_reasons() -> None:
    pools = [pool("a", fake_types(1)), pool("b", fake_types(9), taints=(TEAM,))]
    (event,) = report.events(solve(request(pools, pods(1, shape(2000)))))
    assert (event.pod, event.event, event.warning) == ("pod-000000", "FailedScheduling", True)
    assert event.text == (
        "NodePool b: did not tolerate taint team=x:NoSchedule; "
        "NodePool a: no instance type has enough resources: cpu 2 is requested"
    )


@pytest.mark.fact("S-102")
def test_a_pod_that_waits_for_a_slot_gets_a_normal_event() -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=1, total=4)]
    claim_with_hold = ClaimView("other", "default", NO_REQUIREMENTS, 0, reservation_id="cr-1")
    solve_request = request(
        [pool("default", fake_types(9, reservations))],
        pods(1, shape()),
        reservations,
        claims=(claim_with_hold,),
        reservation_wait_s=300,
    )
    (event,) = report.events(solve(solve_request))
    assert (event.event, event.warning) == ("FailedScheduling", False)
    assert event.text.startswith(
        "reservation cr-1 has no free slot left; the pod waits for one until 00:05 (UTC)"
    )


def test_nodepools_of_another_autoscaler_are_named_and_the_event_is_no_warning() -> None:
    plan = solve(request([pool("a", fake_types(1))], pods(1, shape(2000))))
    (event,) = report.events(plan, ["theirs", "theirs-too"])
    assert event.text.endswith("; not considered: NodePools of another autoscaler: theirs, theirs-too")
    assert not event.warning


@pytest.mark.fact("S-103")
def test_pods_placed_on_existing_nodes_get_a_nominated_event() -> None:
    nodes = (node("a", cpu=1), node("b", cpu=1), node("c", cpu=0))
    plan = solve(request([pool("default", fake_types(9))], pods(3, shape(900)), nodes=nodes))
    events = report.events(plan)
    assert [(one.pod, one.event) for one in events] == [
        ("pod-000000", "Nominated"),
        ("pod-000001", "Nominated"),
    ]
    assert events[0].text == "Pod should schedule on: node/a"
    assert not any(one.warning for one in events)


# --- Zones of pending pods --------------------------------------------------------------------------


@pytest.mark.fact("S-86")
@pytest.mark.parametrize(
    ("asking", "bucket"),
    [
        (shape(), "flexible"),
        (shape(node_selector=from_labels({names.ZONE: "z2"})), "z2"),
        (shape(node_selector=of(is_in(names.ZONE, "z2", "z3"))), "flexible"),
        (shape(node_selector=from_labels({names.ZONE: "z9"})), "none"),
        (shape(node_selector=from_labels({"team": "x"})), "none"),
        (shape(node_selector=from_labels({names.NODEPOOL: "one-zone"})), "z3"),
        (shape(volumes=Volumes(alternatives=(of(is_in(names.ZONE, "z1")),))), "z1"),
        (
            shape(volumes=Volumes(alternatives=(of(is_in(names.ZONE, "z1")), of(is_in(names.ZONE, "z2"))))),
            "flexible",
        ),
        (
            shape(required_terms=(from_labels({names.ZONE: "z1"}), from_labels({names.ZONE: "z2"}))),
            "flexible",
        ),
        (shape(preferred_terms=(PreferredNodeTerm(1, from_labels({names.ZONE: "z1"})),)), "flexible"),
        (
            shape(
                node_selector=from_labels({names.ZONE: "z2"}),
                volumes=Volumes(alternatives=(of(is_in(names.ZONE, "z1")),)),
            ),
            "none",
        ),
    ],
)
def test_pending_pods_are_counted_by_the_one_zone_they_can_be_in(asking: PodShape, bucket: str) -> None:
    pools = [
        pool("default", fake_types(3)),
        pool("one-zone", fake_types(3), is_in(names.ZONE, "z3")),
        pool("tainted", [instance_type("far", 4, 16, 1.0, zones=("z9",))], taints=(TEAM,)),
    ]
    snapshot = request(pools, pods(2, asking), preference_policy=PreferencePolicy.IGNORE).snapshot
    assert report.pending_by_zone(snapshot, CatalogCache()) == {bucket: 2}


# --- Why a pod is not in a reservation ----------------------------------------------------------------


def not_reserved(*codes: ReasonCode) -> str:
    plan = solve(request([pool("default", fake_types(9))], pods(1, shape())))
    (claim,) = plan.claims
    found = tuple(Reason(code, f"is {code}", (f"cr-{i}",), "reservation") for i, code in enumerate(codes))
    return report.why_not_reserved(claim._replace(not_reserved=found))


@pytest.mark.parametrize(
    "codes",
    [
        (),
        (ReasonCode.NO_RESERVATION_SELECTED,),
        (ReasonCode.POOL_EXCLUDES_RESERVED, ReasonCode.EXCLUDES_RESERVED),
    ],
)
def test_pod_that_was_not_meant_to_be_reserved_has_no_event(codes: tuple[ReasonCode, ...]) -> None:
    assert not not_reserved(*codes)


def test_reservations_without_a_slot_are_reported_instead_of_those_that_do_not_suit() -> None:
    assert not_reserved(ReasonCode.WRONG_ZONE, ReasonCode.FULL) == (
        "Pod is not in a capacity reservation: reservation cr-1 is Full"
    )
    assert not_reserved(ReasonCode.WRONG_ZONE, ReasonCode.NO_RESERVATION_SELECTED) == (
        "Pod is not in a capacity reservation: reservation cr-0 is WrongZone"
    )


def test_event_of_a_pod_outside_reservations_has_at_most_three_causes() -> None:
    text = not_reserved(*[ReasonCode.TOO_SMALL] * 4)
    assert text.count("cr-") == 3
    assert text.endswith("; and other causes")


@pytest.mark.parametrize("capacity_types", [("reserved",), ("reserved", "on-demand")])
def test_reason_of_a_waiting_pod_is_the_same_whichever_slots_other_pods_use(
    capacity_types: tuple[str, ...],
) -> None:
    def texts(*free: int) -> set[str]:
        known = [
            reservation(f"cr-{i}", "small", available=count, total=1) for i, count in enumerate(free, start=1)
        ]
        types = [instance_type("small", 4, 16, 0.1, known, capacity_types=())]
        pools = [pool("default", types, is_in(names.CAPACITY_TYPE, *capacity_types))]
        plan = solve(request(pools, pods(3, shape(cpu_millis=3000)), reservations=known))
        return {"; ".join(reason.sentence for reason in one.reasons) for one in plan.unplaced}

    assert len(texts(0, 0)) == 1
    assert texts(0, 0) == texts(1, 0) == texts(0, 1) == texts(1, 1)
