"""Which pods get which slots: selectors, modes, limits, topology and existing nodes."""

import dataclasses
from collections import Counter

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing, ReservedMode
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement, resources
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import TopologySpread, Volumes
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import of
from holdfast.model.snapshot import NodeView
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

RESERVED_ONLY = is_in(names.CAPACITY_TYPE, "reserved")
ON_DEMAND = is_in(names.CAPACITY_TYPE, "on-demand")
BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def slots_by_reservation(plan: Plan) -> Counter[str | None]:
    return Counter(claim.reservation_id for claim in plan.claims)


def unhealthy(types: tuple[InstanceType, ...]) -> list[InstanceType]:
    """Types whose reserved offerings cannot be launched at the moment."""
    return [
        dataclasses.replace(
            t, offerings=tuple(dataclasses.replace(o, healthy=not o.reservation_id) for o in t.offerings)
        )
        for t in types
    ]


@pytest.mark.fact("R-8")
@pytest.mark.parametrize(
    ("wanted", "reservation_id"),
    [
        (is_in(RESERVATION_ID, "cr-2"), "cr-2"),
        (requirement.of(RESERVATION_ID, Operator.NOT_IN, ("cr-1",)), "cr-2"),
        (requirement.of(RESERVATION_ID, Operator.EXISTS), "cr-1"),
        (requirement.of(RESERVATION_ID, Operator.DOES_NOT_EXIST), None),
        (is_in(names.CAPACITY_TYPE, "reserved", "spot"), "cr-1"),
        (requirement.of(names.CAPACITY_TYPE, Operator.NOT_IN, ("reserved",)), None),
    ],
)
def test_pods_and_pools_select_reservations_with_any_operator(
    wanted: Requirement, reservation_id: str | None
) -> None:
    reservations = [reservation("cr-1", "fake-it-5"), reservation("cr-2", "fake-it-6")]
    types = fake_types(9, reservations)
    by_pod = request([pool("default", types)], pods(1, shape(node_selector=of(wanted))), reservations)
    by_pool = request([pool("default", types, wanted)], pods(1, shape()), reservations)
    for solve_request in (by_pod, by_pool):
        assert slots_by_reservation(solve(solve_request)) == {reservation_id: 1}


@pytest.mark.fact("aws-4.6.3", "R-20")
@pytest.mark.parametrize(
    ("available", "wanted", "waiting"),
    [
        (1, (), 2),  # (a) one slot, which another pod uses
        (0, (RESERVED_ONLY,), 3),  # (c) full, and no other capacity is allowed
        (0, (), 0),  # full, and other capacity is allowed: no pod waits
    ],
)
def test_in_strict_mode_pods_wait_for_slots_that_they_could_use(
    available: int, wanted: tuple[Requirement, ...], waiting: int
) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=available, total=4)]
    arguments = (
        [pool("default", fake_types(9, reservations), *wanted)],
        pods(3, shape(**one_per_node())),
        reservations,
    )
    plan = solve(request(*arguments, reserved_mode=ReservedMode.STRICT))
    assert [one.waits_for for one in plan.unplaced] == ["cr-1"] * waiting
    in_fallback = solve(request(*arguments))
    assert not any(one.waits_for for one in in_fallback.unplaced)


@pytest.mark.fact("R-20", "R-21")
def test_in_strict_mode_a_planned_node_keeps_its_last_slot() -> None:
    reservations = [reservation("cr-1", "fake-it-3", available=2)]  # four cores
    arguments = [pool("default", fake_types(50, reservations))], pods(5, shape(1_000)), reservations
    plan = solve(request(*arguments, reserved_mode=ReservedMode.STRICT))
    assert sorted((claim.reservation_id, len(claim.pods)) for claim in plan.claims) == [
        ("cr-1", 2),
        ("cr-1", 3),
    ]


@pytest.mark.fact("R-22", "R-24a")
def test_in_strict_mode_a_nodepool_without_free_slots_blocks_lighter_nodepools() -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=0, total=4)]
    heavy = pool("heavy", fake_types(9, reservations), RESERVED_ONLY, weight=100)
    light = pool("light", fake_types(9, reservations), ON_DEMAND, weight=1)
    strict = request([heavy, light], pods(1, shape()), reservations, reserved_mode=ReservedMode.STRICT)
    assert [one.waits_for for one in solve(strict).unplaced] == ["cr-1"]
    fallback = solve(request([heavy, light], pods(1, shape()), reservations))
    assert [claim.node_pool for claim in fallback.claims] == ["light"]


@pytest.mark.fact("R-23")
@BOTH_PACKINGS
def test_a_pod_that_does_not_fit_on_a_reserved_node_uses_the_next_slot(packing: Packing) -> None:
    reservations = [reservation("cr-1", "fake-it-3", available=2)]  # four cores: three pods
    plan = solve(
        request([pool("default", fake_types(9, reservations))], pods(4, shape(1_200)), reservations, packing)
    )
    assert slots_by_reservation(plan) == {"cr-1": 2}


@pytest.mark.fact("R-24")
@pytest.mark.parametrize("mode", list(ReservedMode))
def test_unavailable_reservations_do_not_block_pods(mode: ReservedMode) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=2)]
    types = unhealthy(fake_types(9, reservations))
    mixed = solve(request([pool("default", types)], pods(1, shape()), reservations, reserved_mode=mode))
    assert slots_by_reservation(mixed) == {None: 1}
    heavy, light = pool("heavy", types, RESERVED_ONLY, weight=9), pool("light", types, ON_DEMAND)
    next_pool = solve(request([heavy, light], pods(1, shape()), reservations, reserved_mode=mode))
    assert [claim.node_pool for claim in next_pool.claims] == ["light"]


@pytest.mark.fact("R-28", "R-27")
def test_a_reserved_claim_lists_only_instance_types_with_a_free_slot() -> None:
    reservations = [reservation("cr-1", "fake-it-5"), reservation("cr-2", "fake-it-7")]
    plan = solve(request([pool("default", fake_types(9, reservations))], pods(1, shape()), reservations))
    (claim,) = plan.claims
    assert claim.instance_types == ("fake-it-5", "fake-it-7")
    assert claim.requirements.get(names.CAPACITY_TYPE) == RESERVED_ONLY
    assert claim.requirements.get(RESERVATION_ID) == is_in(RESERVATION_ID, "cr-1", "cr-2")


@pytest.mark.fact("R-39")
@BOTH_PACKINGS
def test_a_nodepool_at_its_limit_is_skipped_despite_free_slots(packing: Packing) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=3)]  # six cores each
    heavy = pool(
        "heavy", fake_types(9, reservations), RESERVED_ONLY, weight=9, limits=resources.of({"cpu": 7_000})
    )
    light = pool("light", fake_types(9), ON_DEMAND)
    solve_request = request([heavy, light], pods(2, shape(4_000)), reservations, packing)
    plan = solve(dataclasses.replace(solve_request, explain_slots=True))
    assert {claim.node_pool: claim.reservation_id for claim in plan.claims} == {
        "heavy": "cr-1",
        "light": None,
    }
    assert [one.reasons[0].code for one in plan.not_reserved] == [ReasonCode.LIMITS]


@pytest.mark.fact("R-40", "W-21")
@BOTH_PACKINGS
@pytest.mark.parametrize("zone", ["z1", "z2", "z3"])
def test_a_spread_prefers_a_zone_with_a_free_slot(zone: str, packing: Packing) -> None:
    reservations = [reservation("cr-1", "fake-it-5", zone)]
    over_zones = TopologySpread(names.ZONE, 1, True, selector(app="web"))
    pending = pods(3, shape(spreads=(over_zones,), **one_per_node()))
    plan = solve(request([pool("default", fake_types(9, reservations))], pending, reservations, packing))
    assert sorted((claim.zone, claim.reservation_id == "cr-1") for claim in plan.claims) == [
        (one, one == zone) for one in ("z1", "z2", "z3")
    ]


@pytest.mark.fact("R-41")
@pytest.mark.parametrize("zones", [("z1", "z2"), ("z2", "z1")])
def test_a_volume_topology_with_a_free_slot_is_preferred(zones: tuple[str, ...]) -> None:
    reservations = [reservation("cr-1", "fake-it-5", "z1")]
    volumes = Volumes(alternatives=tuple(of(is_in(names.ZONE, zone)) for zone in zones))
    plan = solve(
        request([pool("default", fake_types(9, reservations))], pods(1, shape(volumes=volumes)), reservations)
    )
    assert slots_by_reservation(plan) == {"cr-1": 1}


@pytest.mark.fact("R-42")
@pytest.mark.parametrize("mode", list(ReservedMode))
def test_a_pod_that_excludes_reserved_never_waits_for_a_slot(mode: ReservedMode) -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=1)]
    on_demand = shape(node_selector=of(ON_DEMAND), **one_per_node())
    plan = solve(
        request(
            [pool("default", fake_types(9, reservations))],
            pods(2, on_demand),
            reservations,
            reserved_mode=mode,
        )
    )
    assert slots_by_reservation(plan) == {None: 2}


@pytest.mark.fact("R-42", "S-22")
@BOTH_PACKINGS
def test_existing_nodes_come_before_slots_and_slots_before_other_new_nodes(
    packing: Packing,
) -> None:
    reservations = [reservation("cr-1", "fake-it-3")]
    allocatable = resources.of({"cpu": 2_000, "memory": 2**33, "pods": 10})
    node = NodeView("node-a", ((names.CAPACITY_TYPE, "on-demand"),), allocatable, allocatable)
    arguments = [pool("default", fake_types(9, reservations))], pods(1, shape()), reservations, packing
    assert [placed.node for placed in solve(request(*arguments, nodes=(node,))).placed] == ["node-a"]
    # The node of the large pod has capacity left, and still the small pod uses the slot.
    large = shape(4_500, app="large")
    pending = (*pods(1, large, "large"), *pods(1, shape(1_000), "small"))
    plan = solve(request([pool("default", fake_types(9, reservations))], pending, reservations, packing))
    assert {claim.pods[0]: claim.reservation_id for claim in plan.claims} == {
        "large-000000": None,
        "small-000000": "cr-1",
    }


@pytest.mark.fact("R-52")
@BOTH_PACKINGS
def test_pods_that_select_different_reservations_get_them_in_one_run(packing: Packing) -> None:
    reservations = [reservation(f"cr-{n}", f"fake-it-{n + 3}") for n in range(5)]
    pending = tuple(
        pods(1, shape(app=f"app-{n}", node_selector=of(is_in(RESERVATION_ID, f"cr-{n}"))), f"pod-{n}")[0]
        for n in range(5)
    )
    plan = solve(request([pool("default", fake_types(9, reservations))], pending, reservations, packing))
    assert {claim.pods: claim.reservation_id for claim in plan.claims} == {
        (f"pod-{n}-000000",): f"cr-{n}" for n in range(5)
    }
