"""Which pods get which slots: selectors, modes, limits, topology, and what exists already."""

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


def slots(plan: Plan) -> Counter[str | None]:
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
    ("wanted", "slot"),
    [
        (is_in(RESERVATION_ID, "cr-2"), "cr-2"),
        (requirement.of(RESERVATION_ID, Operator.NOT_IN, ("cr-1",)), "cr-2"),
        (requirement.of(RESERVATION_ID, Operator.EXISTS), "cr-1"),
        (requirement.of(RESERVATION_ID, Operator.DOES_NOT_EXIST), None),
        (is_in(names.CAPACITY_TYPE, "reserved", "spot"), "cr-1"),
        (requirement.of(names.CAPACITY_TYPE, Operator.NOT_IN, ("reserved",)), None),
    ],
)
def test_pods_and_pools_select_reservations_with_any_operator(wanted: Requirement, slot: str | None) -> None:
    kept = [reservation("cr-1", "fake-it-5"), reservation("cr-2", "fake-it-6")]
    types = fake_types(9, kept)
    by_pod = request([pool("default", types)], pods(1, shape(node_selector=of(wanted))), kept)
    by_pool = request([pool("default", types, wanted)], pods(1, shape()), kept)
    for asked in (by_pod, by_pool):
        assert slots(solve(asked)) == {slot: 1}


@pytest.mark.fact("aws-4.6.3", "R-20")
@pytest.mark.parametrize(
    ("available", "wanted", "waiting"),
    [
        (1, (), 2),  # (a) slots, and the others got them
        (0, (RESERVED_ONLY,), 3),  # (c) full, and nothing else
        (0, (), 0),  # full beside what can be bought: as if it were not there
    ],
)
def test_in_strict_mode_pods_wait_for_slots_they_could_have_had(
    available: int, wanted: tuple[Requirement, ...], waiting: int
) -> None:
    kept = [reservation("cr-1", "fake-it-5", available=available, total=4)]
    asked = [pool("default", fake_types(9, kept), *wanted)], pods(3, shape(**one_per_node())), kept
    plan = solve(request(*asked, reserved_mode=ReservedMode.STRICT))
    assert [one.waits_for for one in plan.unplaced] == ["cr-1"] * waiting
    in_fallback = solve(request(*asked))
    assert not any(one.waits_for for one in in_fallback.unplaced)


@pytest.mark.fact("R-20", "R-21")
def test_in_strict_mode_too_a_node_keeps_its_last_slot() -> None:
    kept = [reservation("cr-1", "fake-it-3", available=2)]  # four cores
    asked = [pool("default", fake_types(50, kept))], pods(5, shape(1_000)), kept
    plan = solve(request(*asked, reserved_mode=ReservedMode.STRICT))
    assert sorted((claim.reservation_id, len(claim.pods)) for claim in plan.claims) == [
        ("cr-1", 2),
        ("cr-1", 3),
    ]


@pytest.mark.fact("R-22", "R-24a")
def test_in_strict_mode_a_full_pool_keeps_pods_from_lighter_ones_as_in_karpenter() -> None:
    kept = [reservation("cr-1", "fake-it-5", available=0, total=4)]
    heavy = pool("heavy", fake_types(9, kept), RESERVED_ONLY, weight=100)
    light = pool("light", fake_types(9, kept), ON_DEMAND, weight=1)
    strict = request([heavy, light], pods(1, shape()), kept, reserved_mode=ReservedMode.STRICT)
    assert [one.waits_for for one in solve(strict).unplaced] == ["cr-1"]
    bought = solve(request([heavy, light], pods(1, shape()), kept))
    assert [claim.node_pool for claim in bought.claims] == ["light"]


@pytest.mark.fact("R-23")
@BOTH_PACKINGS
def test_what_cannot_join_a_reserved_node_opens_the_next_slot(packing: Packing) -> None:
    kept = [reservation("cr-1", "fake-it-3", available=2)]  # four cores: three pods
    plan = solve(request([pool("default", fake_types(9, kept))], pods(4, shape(1_200)), kept, packing))
    assert slots(plan) == {"cr-1": 2}


@pytest.mark.fact("R-24")
@pytest.mark.parametrize("mode", list(ReservedMode))
def test_reservations_that_are_not_available_hold_nobody_back(mode: ReservedMode) -> None:
    kept = [reservation("cr-1", "fake-it-5", available=2)]
    types = unhealthy(fake_types(9, kept))
    mixed = solve(request([pool("default", types)], pods(1, shape()), kept, reserved_mode=mode))
    assert slots(mixed) == {None: 1}
    heavy, light = pool("heavy", types, RESERVED_ONLY, weight=9), pool("light", types, ON_DEMAND)
    next_pool = solve(request([heavy, light], pods(1, shape()), kept, reserved_mode=mode))
    assert [claim.node_pool for claim in next_pool.claims] == ["light"]


@pytest.mark.fact("R-28", "R-27")
def test_a_claim_with_a_slot_lists_the_types_that_have_one_and_no_others() -> None:
    kept = [reservation("cr-1", "fake-it-5"), reservation("cr-2", "fake-it-7")]
    plan = solve(request([pool("default", fake_types(9, kept))], pods(1, shape()), kept))
    (claim,) = plan.claims
    assert claim.instance_types == ("fake-it-5", "fake-it-7")
    assert claim.requirements.get(names.CAPACITY_TYPE) == RESERVED_ONLY
    assert claim.requirements.get(RESERVATION_ID) == is_in(RESERVATION_ID, "cr-1", "cr-2")


@pytest.mark.fact("R-39")
@BOTH_PACKINGS
def test_a_pool_at_its_limit_is_passed_over_whatever_slots_it_has(packing: Packing) -> None:
    kept = [reservation("cr-1", "fake-it-5", available=3)]  # six cores each
    heavy = pool("heavy", fake_types(9, kept), RESERVED_ONLY, weight=9, limits=resources.of({"cpu": 7_000}))
    light = pool("light", fake_types(9), ON_DEMAND)
    asked = request([heavy, light], pods(2, shape(4_000)), kept, packing)
    plan = solve(dataclasses.replace(asked, explain_slots=True))
    assert {claim.node_pool: claim.reservation_id for claim in plan.claims} == {
        "heavy": "cr-1",
        "light": None,
    }
    assert [one.reasons[0].code for one in plan.not_reserved] == [ReasonCode.LIMITS]


@pytest.mark.fact("R-40", "W-21")
@BOTH_PACKINGS
@pytest.mark.parametrize("zone", ["z1", "z2", "z3"])
def test_of_zones_that_spread_allows_the_one_with_a_free_slot_is_taken(zone: str, packing: Packing) -> None:
    kept = [reservation("cr-1", "fake-it-5", zone)]
    over_zones = TopologySpread(names.ZONE, 1, True, selector(app="web"))
    pending = pods(3, shape(spreads=(over_zones,), **one_per_node()))
    plan = solve(request([pool("default", fake_types(9, kept))], pending, kept, packing))
    assert sorted((claim.zone, claim.reservation_id == "cr-1") for claim in plan.claims) == [
        (one, one == zone) for one in ("z1", "z2", "z3")
    ]


@pytest.mark.fact("R-41")
@pytest.mark.parametrize("places", [("z1", "z2"), ("z2", "z1")])
def test_of_places_a_volume_can_be_in_the_one_with_a_free_slot_is_taken(places: tuple[str, ...]) -> None:
    kept = [reservation("cr-1", "fake-it-5", "z1")]
    somewhere = Volumes(alternatives=tuple(of(is_in(names.ZONE, place)) for place in places))
    plan = solve(request([pool("default", fake_types(9, kept))], pods(1, shape(volumes=somewhere)), kept))
    assert slots(plan) == {"cr-1": 1}


@pytest.mark.fact("R-42")
@pytest.mark.parametrize("mode", list(ReservedMode))
def test_a_pod_that_excludes_reserved_never_waits_for_a_slot(mode: ReservedMode) -> None:
    kept = [reservation("cr-1", "fake-it-5", available=1)]
    on_demand = shape(node_selector=of(ON_DEMAND), **one_per_node())
    plan = solve(
        request([pool("default", fake_types(9, kept))], pods(2, on_demand), kept, reserved_mode=mode)
    )
    assert slots(plan) == {None: 2}


@pytest.mark.fact("R-42", "S-22")
@BOTH_PACKINGS
def test_a_node_that_exists_comes_before_a_slot_and_a_slot_before_a_node_that_is_bought(
    packing: Packing,
) -> None:
    kept = [reservation("cr-1", "fake-it-3")]
    room = resources.of({"cpu": 2_000, "memory": 2**33, "pods": 10})
    node = NodeView("node-a", ((names.CAPACITY_TYPE, "on-demand"),), room, room)
    asked = [pool("default", fake_types(9, kept))], pods(1, shape()), kept, packing
    assert [placed.node for placed in solve(request(*asked, nodes=(node,))).placed] == ["node-a"]
    # The large pod is bought a node with room to spare, and still the small one goes into the slot.
    large = shape(4_500, app="large")
    pending = (*pods(1, large, "large"), *pods(1, shape(1_000), "small"))
    plan = solve(request([pool("default", fake_types(9, kept))], pending, kept, packing))
    assert {claim.pods[0]: claim.reservation_id for claim in plan.claims} == {
        "large-000000": None,
        "small-000000": "cr-1",
    }


@pytest.mark.fact("R-52")
@BOTH_PACKINGS
def test_pods_that_each_select_another_reservation_get_it_in_one_run(packing: Packing) -> None:
    kept = [reservation(f"cr-{n}", f"fake-it-{n + 3}") for n in range(5)]
    pending = tuple(
        pods(1, shape(app=f"app-{n}", node_selector=of(is_in(RESERVATION_ID, f"cr-{n}"))), f"pod-{n}")[0]
        for n in range(5)
    )
    plan = solve(request([pool("default", fake_types(9, kept))], pending, kept, packing))
    assert {claim.pods: claim.reservation_id for claim in plan.claims} == {
        (f"pod-{n}-000000",): f"cr-{n}" for n in range(5)
    }
