"""The order in which pods are placed and nodes are tried; every pod is placed or has a reason."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import PodTerm, PodView, PreferredNodeTerm
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirements import from_labels, of
from planner_builders import (
    fake_types,
    instance_type,
    is_in,
    node,
    one_per_node,
    placed,
    pods,
    pool,
    reasons,
    request,
    reservation,
    running,
    selector,
    shape,
)

ONE_SIZE = [instance_type("only", 4, 16, 1.0)]


def near(app: str, key: str = names.HOSTNAME) -> PodTerm:
    return PodTerm(key, selector(app=app), ("default",))


def view(
    uid: str, created_s: int = 0, cpu_millis: int = 1000, memory_mib: int = 1024, **more: Any
) -> PodView:
    return PodView(uid, uid, created_s, shape(cpu_millis, memory_mib, **more))


# --- NodePools --------------------------------------------------------------------------------------


@pytest.mark.fact("S-11")
@pytest.mark.parametrize(
    ("weights", "first"),
    [
        ({"a": 1, "b": 0}, "a"),
        ({"a": 0, "b": 0}, "b"),
        ({"a": 10, "b": 10, "c": 9}, "b"),
    ],
)
def test_nodepools_are_tried_by_weight_then_by_descending_name(weights: dict[str, int], first: str) -> None:
    pools = [pool(name, fake_types(3), weight=weight) for name, weight in weights.items()]
    (claim,) = solve(request(pools, pods(1, shape()))).claims
    assert claim.node_pool == first


@pytest.mark.fact("S-22", "S-23")
def test_an_incompatible_nodepool_is_skipped_for_the_next_one() -> None:
    pools = [
        pool("heavy", fake_types(1), weight=9),
        pool("middle", fake_types(9), is_in(names.ZONE, "z2"), weight=5),
        pool("light", fake_types(9)),
    ]
    zone = from_labels({names.ZONE: "z1"})
    (claim,) = solve(request(pools, pods(1, shape(2000, node_selector=zone)))).claims
    assert claim.node_pool == "light"


# --- Existing nodes ---------------------------------------------------------------------------------


@pytest.mark.fact("S-15", "S-22")
def test_existing_nodes_are_tried_first_by_initialization_then_by_name() -> None:
    nodes = (node("b"), node("a", initialized=False), node("c"), node("d", deleting=True))
    plan = solve(request([pool("default", fake_types(9))], pods(4, shape(3000)), nodes=nodes))
    assert placed(plan) == {"b": ("pod-000000",), "c": ("pod-000001",), "a": ("pod-000002",)}
    assert [claim.pods for claim in plan.claims] == [("pod-000003",)]


@pytest.mark.fact("S-15")
def test_initialized_reserved_nodes_are_tried_before_other_nodes() -> None:
    nodes = (node("a"), node("b", labels={names.CAPACITY_TYPE: "reserved"}), node("c"))
    plan = solve(request([pool("default", fake_types(9))], pods(1, shape()), nodes=nodes))
    assert placed(plan) == {"b": ("pod-000000",)}


def test_an_uninitialized_node_is_filled_before_a_new_node_is_planned() -> None:
    in_flight = node("claim-1", initialized=False)
    plan = solve(request([pool("default", fake_types(9))], pods(3, shape()), nodes=(in_flight,)))
    assert not plan.claims
    assert len(placed(plan)["claim-1"]) == 3


# --- Pods -------------------------------------------------------------------------------------------


@pytest.mark.fact("S-17")
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (view("z", 9, 2000, 100), view("a", 0, 1000, 9000)),  # cpu first
        (view("z", 9, 1000, 9000), view("a", 0, 1000, 100)),  # then memory
        (view("z", 0), view("a", 9)),  # then age
        (view("a", 5), view("z", 5)),  # then uid
        (view("z", 0), view("a", 9, extra={"example.com/gpu": 8})),  # and nothing else
    ],
)
def test_pods_are_placed_by_cpu_then_memory_then_age_then_uid(one: PodView, other: PodView) -> None:
    target = node("n1", cpu=2, extra={"pods": 1, "example.com/gpu": 8})
    for pending in ((one, other), (other, one)):
        plan = solve(request([], pending, nodes=(target,)))
        assert placed(plan) == {"n1": (one.uid,)}


@pytest.mark.fact("S-16")
@pytest.mark.parametrize("packing", list(Packing))
def test_the_plan_does_not_depend_on_the_order_of_the_input(packing: Packing) -> None:
    nodes = [node(f"n{i}", cpu=2) for i in range(5)]
    pending = (*pods(4, shape(1500), "a"), *pods(4, shape(400), "b"))
    pools = [pool("default", fake_types(4)), pool("other", fake_types(4))]
    forward = solve(request(pools, pending, nodes=nodes, packing=packing))
    backward = solve(request(pools[::-1], pending[::-1], nodes=nodes[::-1], packing=packing))
    assert forward == backward
    assert placed(forward)["n0"] == ("a-000000", "b-000000")


# --- Planned nodes ----------------------------------------------------------------------------------


@pytest.mark.fact("S-22")
def test_planned_nodes_with_the_fewest_pods_are_filled_before_a_new_node_is_planned() -> None:
    apart = shape(2000, app="big", **one_per_node("big"))
    plan = solve(request([pool("default", ONE_SIZE)], (*pods(2, apart, "big"), *pods(3, shape(500)))))
    assert sorted(len(claim.pods) for claim in plan.claims) == [2, 3]


@pytest.mark.fact("S-26")
def test_each_pod_narrows_the_instance_types_of_a_planned_node() -> None:
    def types(count: int) -> set[str]:
        (claim,) = solve(request([pool("default", fake_types(5))], pods(count, shape(900)))).claims
        return set(claim.instance_types)

    assert types(1) == {f"fake-it-{i}" for i in range(5)}
    assert types(1) > types(2) > types(3)
    assert types(4) == {"fake-it-3", "fake-it-4"}


@pytest.mark.fact("S-26")
def test_requirements_of_pods_intersect_on_a_planned_node() -> None:
    first = shape(1000, node_selector=of(is_in(names.ZONE, "z1", "z2")))
    second = shape(900, node_selector=of(is_in(names.ZONE, "z2", "z3")))
    third = shape(800, node_selector=from_labels({names.CAPACITY_TYPE: "spot"}))
    pending = (*pods(1, first, "a"), *pods(1, second, "b"), *pods(1, third, "c"))
    (claim,) = solve(request([pool("default", fake_types(5))], pending)).claims
    assert claim.requirements.get(names.ZONE).values == {"z2"}
    assert claim.requirements.get(names.CAPACITY_TYPE).values == {"spot"}


@pytest.mark.fact("S-27", "S-84")
def test_every_new_node_is_its_own_hostname_domain_and_claims_require_no_hostname() -> None:
    plan = solve(request([pool("default", fake_types(5))], pods(3, shape(100, **one_per_node()))))
    assert [len(claim.pods) for claim in plan.claims] == [1, 1, 1]
    assert not any(names.HOSTNAME in claim.requirements for claim in plan.claims)


# --- Retries ----------------------------------------------------------------------------------------


@pytest.mark.fact("S-19", "S-20", "S-81")
def test_pods_with_affinity_to_smaller_pods_are_retried_while_pods_are_placed() -> None:
    last = pods(1, shape(300, app="c"), "c")
    chain = (
        *pods(1, shape(500, app="a", affinity=(near("b"),)), "a"),
        *pods(1, shape(400, app="b", affinity=(near("c"),)), "b"),
    )
    plan = solve(request([pool("default", fake_types(5))], (*chain, *last)))
    assert [claim.pods for claim in plan.claims] == [("a-000000", "b-000000", "c-000000")]
    assert not plan.unplaced


@pytest.mark.fact("S-19", "S-20")
def test_an_affinity_chain_without_its_last_pod_gives_each_pod_a_reason() -> None:
    chain = (
        *pods(1, shape(500, app="a", affinity=(near("b"),)), "a"),
        *pods(1, shape(400, app="b", affinity=(near("c"),)), "b"),
    )
    plan = solve(request([pool("default", fake_types(5))], (*chain, *pods(1, shape(100)))))
    assert reasons(plan) == {"a-000000": [ReasonCode.TOPOLOGY], "b-000000": [ReasonCode.TOPOLOGY]}


@pytest.mark.fact("S-18", "S-19")
def test_a_retried_pod_still_has_all_its_preferences() -> None:
    preference = PreferredNodeTerm(1, from_labels({names.ZONE: "z2"}))
    preferring = shape(500, app="a", affinity=(near("b"),), preferred_terms=(preference,))
    plan = solve(
        request(
            [pool("default", fake_types(5))], (*pods(1, preferring, "a"), *pods(1, shape(400, app="b"), "b"))
        )
    )
    (claim,) = plan.claims
    assert claim.pods == ("a-000000", "b-000000")
    assert claim.requirements.get(names.ZONE).values == {"z2"}


@pytest.mark.fact("S-18")
def test_each_of_equal_pods_relaxes_its_preference_only_if_needed() -> None:
    preference = PreferredNodeTerm(1, from_labels({"disk": "fast"}))
    nodes = (node("a", cpu=2), node("b", cpu=2, labels={"disk": "fast"}))
    plan = solve(request([], pods(2, shape(1500, preferred_terms=(preference,))), nodes=nodes))
    assert placed(plan) == {"b": ("pod-000000",), "a": ("pod-000001",)}


@pytest.mark.fact("S-21", "P-5")
def test_every_pod_is_placed_or_has_a_reason() -> None:
    reservations = [reservation("cr-1", "fake-it-1")]
    full = node("full", pods=running(1, shape(4000)))
    pending = (*pods(50, shape(700), "fits"), *pods(50, shape(99_000), "huge"))
    plan = solve(
        request([pool("default", fake_types(3, reservations))], pending, reservations, nodes=(full,))
    )
    planned = [uid for claim in plan.claims for uid in claim.pods] + [one.pod for one in plan.unplaced]
    assert sorted(planned) == sorted(pod.uid for pod in pending)
    assert all(one.reasons for one in plan.unplaced)


@pytest.mark.fact("S-17")
def test_the_oldest_of_equal_pods_is_placed_first() -> None:
    of = shape(1500)
    pending = [pod._replace(created_s=100 - i) for i, pod in enumerate(pods(3, of))]
    plan = solve(request([], pending, nodes=(node("n1", cpu=2),)))
    assert placed(plan) == {"n1": ("pod-000002",)}


@pytest.mark.parametrize("packing", list(Packing))
def test_without_pods_the_plan_is_empty(packing: Packing) -> None:
    plan = solve(request([pool("default", fake_types(5))], (), nodes=(node("n1"),), packing=packing))
    assert (plan.claims, plan.placed, plan.unplaced) == ((), (), ())
