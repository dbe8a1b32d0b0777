"""Slots in a plan: every free slot is used before other capacity, and none is oversold."""

from collections import Counter

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement
from holdfast.model.pods import PodShape, PodTerm
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirement import Expression, Operator
from holdfast.model.requirements import of
from holdfast.model.selectors import LabelSelector
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
BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def slots_by_reservation(plan: Plan) -> Counter[str | None]:
    return Counter(claim.reservation_id for claim in plan.claims)


@pytest.mark.fact("Q-19", "Q-8")
@BOTH_PACKINGS
def test_ten_thousand_one_per_node_pods_use_the_one_slot_and_other_capacity(packing: Packing) -> None:
    reservations = [reservation("cr-1", "fake-it-5")]
    plan = solve(
        request(
            [pool("default", fake_types(20, reservations))],
            pods(10_000, shape(**one_per_node())),
            reservations,
            packing,
            packing_candidates=2,
        )
    )
    assert slots_by_reservation(plan) == {"cr-1": 1, None: 9_999}
    assert not plan.unplaced


@pytest.mark.fact("Q-19", "Q-11")
def test_pods_stay_unplaced_when_only_reserved_is_allowed_and_no_slot_is_free() -> None:
    reservations = [reservation("cr-1", "fake-it-5")]
    reserved_only = pool("default", fake_types(20, reservations), RESERVED_ONLY)
    plan = solve(request([reserved_only], pods(100, shape(**one_per_node())), reservations))
    assert slots_by_reservation(plan) == {"cr-1": 1}
    assert len(plan.unplaced) == 99


@pytest.mark.fact("Q-6", "R-50", "W-1", "AW-19")
@BOTH_PACKINGS
def test_thirty_slots_in_three_zones_are_used_in_one_run(packing: Packing) -> None:
    reservations = [reservation(f"cr-{zone}", "fake-it-5", zone, 10) for zone in ("z1", "z2", "z3")]
    plan = solve(
        request(
            [pool("default", fake_types(50, reservations))],
            pods(30, shape(**one_per_node())),
            reservations,
            packing,
        )
    )
    assert slots_by_reservation(plan) == {"cr-z1": 10, "cr-z2": 10, "cr-z3": 10}


@pytest.mark.fact("R-51", "R-56", "W-1")
def test_twenty_reservations_of_one_slot_each_are_used_in_one_run() -> None:
    reservations = [reservation(f"cr-{i:02d}", f"fake-it-{i + 3}") for i in range(20)]
    plan = solve(
        request(
            [pool("default", fake_types(50, reservations))], pods(25, shape(**one_per_node())), reservations
        )
    )
    assert slots_by_reservation(plan) == {None: 5} | {f"cr-{i:02d}": 1 for i in range(20)}


@pytest.mark.fact("R-17")
@BOTH_PACKINGS
@pytest.mark.parametrize("ids", ["abcd", "dcba"])
def test_planned_nodes_move_to_other_slots_for_a_node_with_fewer_choices(packing: Packing, ids: str) -> None:
    """First fit never finds all four slots: whichever workload comes first uses the two smallest."""
    reservations = [reservation(f"cr-{id_}", f"fake-it-{i}") for i, id_ in enumerate(ids, start=2)]
    apart = LabelSelector((Expression("app", Operator.IN, ("a", "b")),))

    def workload(app: str, *sizes: int) -> PodShape:
        types = is_in(names.INSTANCE_TYPE, *(f"fake-it-{i}" for i in sizes))
        term = PodTerm(names.HOSTNAME, apart, ("default",))
        return shape(app=app, node_selector=of(types), anti_affinity=(term,))

    pending = (*pods(2, workload("a", 2, 3, 5), "a"), *pods(2, workload("b", 2, 3, 4), "b"))
    plan = solve(
        request([pool("default", fake_types(9, reservations), RESERVED_ONLY)], pending, reservations, packing)
    )
    assigned = {claim.instance_type: claim.pods[0][0] for claim in plan.claims}
    assert sorted(assigned) == ["fake-it-2", "fake-it-3", "fake-it-4", "fake-it-5"]
    assert (assigned["fake-it-4"], assigned["fake-it-5"]) == ("b", "a")


@BOTH_PACKINGS
@pytest.mark.parametrize("sizes", [(100, 500), (500, 100)])
def test_only_the_node_that_holds_a_slot_can_free_it(packing: Packing, sizes: tuple[int, int]) -> None:
    """The node of workload `free` can move, but it holds no slot that workload `bound` could use."""
    reservations = [reservation(f"cr-{i}", f"fake-it-{i}") for i in (2, 3, 4)]
    apart = LabelSelector((Expression("app", Operator.IN, ("bound", "free")),))

    def workload(app: str, millicores: int, *types: int) -> PodShape:
        wanted = of(is_in(names.INSTANCE_TYPE, *(f"fake-it-{i}" for i in types)))
        term = PodTerm(names.HOSTNAME, apart, ("default",))
        return shape(millicores, app=app, node_selector=wanted, anti_affinity=(term,))

    bound, free = workload("bound", sizes[0], 2), workload("free", sizes[1], 3, 4)
    pending = (*pods(2, bound, "bound"), *pods(1, free, "free"))
    plan = solve(
        request([pool("default", fake_types(9, reservations), RESERVED_ONLY)], pending, reservations, packing)
    )
    assert slots_by_reservation(plan) == {"cr-2": 1, "cr-3": 1}
    assert [one.pod.partition("-")[0] for one in plan.unplaced] == ["bound"]


@BOTH_PACKINGS
def test_pods_with_affinity_are_placed_in_the_zone_of_the_slot_of_their_target(packing: Packing) -> None:
    """Each of the two large nodes could be in either zone; the first zone is right only for the first of them."""
    reservations = [
        reservation("cr-z1", "fake-it-3", "z1"),
        reservation("cr-z2", "fake-it-3", "z2"),
        reservation("cr-small-z1", "fake-it-1", "z1", 2),
        reservation("cr-small-z2", "fake-it-1", "z2", 2),
    ]
    apart = PodTerm(
        names.HOSTNAME, LabelSelector((Expression("app", Operator.IN, ("a", "b")),)), ("default",)
    )

    def with_affinity_to(app: str) -> PodShape:
        return shape(
            1500, app=f"near-{app}", affinity=(PodTerm(names.ZONE, selector(app=app), ("default",)),)
        )

    pending = (
        *pods(1, shape(3000, app="a", anti_affinity=(apart,)), "a"),
        *pods(1, shape(3000, app="b", anti_affinity=(apart,)), "b"),
        *pods(1, with_affinity_to("a"), "near-a"),
        *pods(1, with_affinity_to("b"), "near-b"),
    )
    plan = solve(
        request([pool("default", fake_types(9, reservations), RESERVED_ONLY)], pending, reservations, packing)
    )
    assigned = {claim.pods[0].rpartition("-")[0]: claim.reservation_id for claim in plan.claims}
    assert assigned == {"a": "cr-z1", "b": "cr-z2", "near-a": "cr-small-z1", "near-b": "cr-small-z2"}


@pytest.mark.fact("aws-4.6.2", "aws-4.6.4", "aws-4.6.4a", "X-4", "R-17", "R-27", "X-8")
def test_a_reserved_claim_is_pinned_to_reservations_and_other_claims_exclude_reserved() -> None:
    reservations = [reservation("cr-1", "fake-it-5"), reservation("cr-2", "fake-it-6")]
    plan = solve(
        request(
            [pool("default", fake_types(9, reservations))], pods(3, shape(**one_per_node())), reservations
        )
    )
    reserved = [claim for claim in plan.claims if claim.reservation_id]
    assert [claim.reservation_ids for claim in reserved] == [("cr-1", "cr-2"), ("cr-1", "cr-2")]
    for claim in reserved:
        assert claim.requirements.get(names.CAPACITY_TYPE) == RESERVED_ONLY
        assert claim.requirements.get(RESERVATION_ID) == is_in(RESERVATION_ID, "cr-1", "cr-2")
    unreserved = next(claim for claim in plan.claims if not claim.reservation_id)
    assert not unreserved.requirements.get(names.CAPACITY_TYPE).has("reserved")


@pytest.mark.fact("Q-14", "R-9", "aws-10.5.4")
def test_a_pod_that_selects_on_demand_never_gets_a_slot_and_one_that_excludes_spot_does() -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=2)]
    on_demand = shape(app="od", node_selector=of(is_in(names.CAPACITY_TYPE, "on-demand")))
    no_spot = shape(
        app="ns", node_selector=of(requirement.of(names.CAPACITY_TYPE, Operator.NOT_IN, ("spot",)))
    )
    pending = (*pods(1, on_demand, "od"), *pods(1, no_spot, "ns"))
    plan = solve(request([pool("default", fake_types(9, reservations))], pending, reservations))
    by_pod = {claim.pods[0]: claim for claim in plan.claims}
    assert by_pod["od-000000"].capacity_type == "on-demand"
    assert by_pod["ns-000000"].reservation_id == "cr-1"


@pytest.mark.fact("R-24a", "R-57", "W-22")
def test_a_nodepool_without_free_slots_does_not_block_another() -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=2)]
    types = fake_types(9, reservations)
    heavy = pool("heavy", types, RESERVED_ONLY, weight=100)
    light = pool("light", types, is_in(names.CAPACITY_TYPE, "on-demand"), weight=1)
    plan = solve(request([heavy, light], pods(5, shape(**one_per_node())), reservations))
    assert Counter((claim.node_pool, claim.reservation_id) for claim in plan.claims) == {
        ("heavy", "cr-1"): 2,
        ("light", None): 3,
    }


@pytest.mark.fact("R-25", "W-3")
def test_a_free_slot_comes_before_nodepool_weight_by_default() -> None:
    reservations = [reservation("cr-1", "fake-it-5")]
    heavy = pool("heavy", fake_types(9), is_in(names.CAPACITY_TYPE, "on-demand"), weight=100)
    light = pool("light", fake_types(9, reservations), weight=1)
    slot_first = request([heavy, light], pods(1, shape()), reservations)
    assert [claim.node_pool for claim in solve(slot_first).claims] == ["light"]
    weight_first = request([heavy, light], pods(1, shape()), reservations, reserved_before_weight=False)
    assert [claim.node_pool for claim in solve(weight_first).claims] == ["heavy"]


@pytest.mark.fact("Q-15", "R-21")
def test_a_reserved_node_gets_no_pod_that_would_cost_it_its_last_slot() -> None:
    reservations = [reservation("cr-1", "fake-it-3")]  # four cores
    plan = solve(
        request([pool("default", fake_types(50, reservations))], pods(6, shape(1_000)), reservations)
    )
    reserved = next(claim for claim in plan.claims if claim.reservation_id)
    assert len(reserved.pods) == 3
    assert sum(len(claim.pods) for claim in plan.claims) == 6


@pytest.mark.fact("R-53")
def test_a_full_reservation_is_not_used_and_is_the_reason() -> None:
    reservations = [reservation("cr-1", "fake-it-5", available=0, total=4)]
    plan = solve(
        request([pool("default", fake_types(9, reservations), RESERVED_ONLY)], pods(1, shape()), reservations)
    )
    assert not plan.claims
    assert [reason.code for reason in plan.unplaced[0].reasons] == [ReasonCode.WAITS_FOR_SLOT]
    assert plan.unplaced[0].reasons[0].subject == "cr-1"
