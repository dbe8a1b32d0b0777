"""Which packings are tried: all for a small plan; for a large one the best of a sample, if its estimate holds."""

import random
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.search import packing_search
from holdfast.core.scheduling.solve import solve
from holdfast.model import resources
from holdfast.model.pods import PodView, TopologySpread
from holdfast.model.snapshot import NodePoolView
from planner_builders import instance_type, is_in, node, one_per_node, pods, pool, request, selector, shape

ON_DEMAND = is_in(names.CAPACITY_TYPE, names.ON_DEMAND)
LADDER = [
    instance_type(f"ladder-{cpu}", cpu, 4 * cpu, cpu * price, pods=8 * cpu)
    for cpu, price in ((2, 0.06), (4, 0.055), (8, 0.05), (16, 0.048), (32, 0.046), (64, 0.044), (96, 0.08))
]
POOL = pool("default", LADDER, ON_DEMAND)


def mixed(count: int) -> tuple[PodView, ...]:
    """A fifth of the pods need a node each."""
    rng = random.Random(7)
    apart = [
        pods(1, shape(rng.choice((500, 1000)), 1024, "apart", **one_per_node("apart")), f"apart-{i}")
        for i in range(count // 5)
    ]
    others = [
        pods(1, shape(rng.choice((100, 250, 500, 1500)), rng.choice((256, 1024, 4096))), f"other-{i}")
        for i in range(count - count // 5)
    ]
    return tuple(pod for some in (*apart, *others) for pod in some)


def replicas(deployments: int, each: int) -> tuple[PodView, ...]:
    """At most two pods of a Deployment fit on a node, so a sample needs far fewer nodes than all pods do."""
    rng = random.Random(3)
    found: list[PodView] = []
    for i in range(deployments):
        app = f"app-{i}"
        spread = TopologySpread(names.HOSTNAME, 2, True, selector(app=app))
        found += pods(each, shape(rng.choice((200, 400, 900)), 1024, app, spreads=(spread,)), app)
    return tuple(found)


def plan_for(pending: tuple[PodView, ...], monkeypatch: pytest.MonkeyPatch, sample: int, **more: Any) -> Plan:
    monkeypatch.setattr(packing_search, "SAMPLE_PODS", sample)
    return solve(request([POOL], pending, packing=Packing.COST, **more))


def test_a_sample_finds_the_same_packing_as_a_full_search(monkeypatch: pytest.MonkeyPatch) -> None:
    pending = mixed(500)
    all_tried, sampled = plan_for(pending, monkeypatch, 10_000), plan_for(pending, monkeypatch, 100)
    assert all_tried.price_nano_usd_per_hour < 0.9 * all_tried.baseline_nano_usd_per_hour
    assert sampled.packing == all_tried.packing
    assert sampled.claims == all_tried.claims


def test_other_packings_are_tried_when_a_sample_underestimates_the_cost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pending = replicas(30, 20)
    all_tried, sampled = plan_for(pending, monkeypatch, 10_000), plan_for(pending, monkeypatch, 100)
    assert sampled.price_nano_usd_per_hour <= 1.01 * all_tried.price_nano_usd_per_hour
    monkeypatch.setattr(packing_search, "COST_TOLERANCE", 100.0)
    unchecked = plan_for(pending, monkeypatch, 100)
    assert unchecked.price_nano_usd_per_hour > 1.5 * all_tried.price_nano_usd_per_hour


def test_with_existing_nodes_a_sample_finds_an_equally_cheap_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    existing = tuple(node(f"n{i}", 16, 64) for i in range(10))
    pending = mixed(600)
    all_tried = plan_for(pending, monkeypatch, 10_000, nodes=existing)
    sampled = plan_for(pending, monkeypatch, 80, nodes=existing)
    assert sampled.placed
    assert sampled.packing != packing_search.FIRST_FIT
    assert sampled.price_nano_usd_per_hour <= 1.01 * all_tried.price_nano_usd_per_hour


def test_limits_hold_when_packings_are_compared_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    limited = pool("default", LADDER, ON_DEMAND, limits=resources.of({"cpu": 120_000}))
    monkeypatch.setattr(packing_search, "SAMPLE_PODS", 50)
    plan = solve(request([limited], mixed(400), packing=Packing.COST))
    launched = [next(t for t in LADDER if t.name == claim.instance_type) for claim in plan.claims]
    assert 0 < sum(t.capacity[resources.CPU] for t in launched) <= 120_000
    assert plan.unplaced


def expensive_and_cheap(**expensive: int) -> list[NodePoolView]:
    """The expensive NodePool has the later name, so first fit tries it first."""
    return [
        pool("b-dear", [instance_type("dear", 4, 16, 0.2)], ON_DEMAND, **expensive),
        pool("a-cheap", [instance_type("cheap", 4, 16, 0.1)], ON_DEMAND),
    ]


def test_the_cheapest_of_nodepools_with_equal_weight_is_used() -> None:
    pending = pods(3, shape(**one_per_node()))
    plan = solve(request(expensive_and_cheap(), pending, packing=Packing.COST))
    assert [claim.node_pool for claim in plan.claims] == ["a-cheap"] * 3
    assert 2 * plan.price_nano_usd_per_hour == plan.baseline_nano_usd_per_hour
    heavier = solve(request(expensive_and_cheap(weight=1), pending, packing=Packing.COST))
    assert [claim.node_pool for claim in heavier.claims] == ["b-dear"] * 3
