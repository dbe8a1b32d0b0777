"""Slots that several pods could use: the plan that places most pods is chosen, whichever pod comes first."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirements
from holdfast.model.pods import PodTerm, PodView, PreferredNodeTerm
from planner_builders import (
    RESERVATION_ID,
    instance_type,
    is_in,
    pods,
    pool,
    request,
    reservation,
    selector,
    shape,
)

BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))
RESERVED, ON_DEMAND = names.RESERVED, names.ON_DEMAND


def only(key: str, value: str) -> dict[str, Any]:
    return {"node_selector": requirements.of(is_in(key, value))}


def reservation_of(plan: Plan) -> dict[str, str | None]:
    """The reservation of each pod on a new node; None if the node is not reserved."""
    return {pod.removesuffix("-000000"): claim.reservation_id for claim in plan.claims for pod in claim.pods}


def one(prefix: str, cpu_millis: int = 1500, priority: int = 0, **more: Any) -> tuple[PodView, ...]:
    created = pods(1, shape(cpu_millis, app=prefix, **more), prefix)
    return tuple(PodView(p.uid, p.name, p.created_s, p.shape, priority=priority) for p in created)


@BOTH_PACKINGS
@pytest.mark.parametrize(
    "needs",
    [
        only(names.CAPACITY_TYPE, "reserved"),
        only(RESERVATION_ID, "cr-1"),
        only(names.NODEPOOL, "slots"),
    ],
    ids=["capacity type", "reservation", "NodePool"],
)
def test_a_pod_that_needs_a_slot_gets_it_before_a_pod_that_can_run_elsewhere(
    packing: Packing, needs: dict[str, Any]
) -> None:
    reservations = [reservation("cr-1", "m5.large")]
    large = [instance_type("m5.large", 2, 8, 0.1, reservations)]
    pools = [
        pool("both", large, is_in(names.CAPACITY_TYPE, "reserved", "on-demand"), weight=10),
        pool("slots", large, is_in(names.CAPACITY_TYPE, "reserved")),
    ]
    plan = solve(request(pools, one("anywhere", 1800) + one("needy", **needs), reservations, packing))
    assert reservation_of(plan) == {"anywhere": None, "needy": "cr-1"}


@BOTH_PACKINGS
def test_a_pod_that_requires_a_zone_gets_the_slot_in_that_zone(packing: Packing) -> None:
    reservations = [reservation("cr-1", "m5.large", "z1")]
    pools = [
        pool("bought", [instance_type("m5.large", 2, 8, 0.1, zones=("z2",))]),
        pool(
            "slots",
            [instance_type("m5.large", 2, 8, 0.1, reservations)],
            is_in(names.CAPACITY_TYPE, "reserved"),
        ),
    ]
    plan = solve(
        request(pools, one("anywhere", 1800) + one("needy", **only(names.ZONE, "z1")), reservations, packing)
    )
    assert reservation_of(plan) == {"anywhere": None, "needy": "cr-1"}


@BOTH_PACKINGS
@pytest.mark.fact("W-6")
def test_the_pod_of_higher_priority_gets_the_only_slot(packing: Packing) -> None:
    reservations = [reservation("cr-1", "m5.large")]
    reserved_only = pool(
        "slots", [instance_type("m5.large", 2, 8, 0.1, reservations)], is_in(names.CAPACITY_TYPE, "reserved")
    )
    plan = solve(
        request([reserved_only], one("large", 1800) + one("urgent", 1500, 1000), reservations, packing)
    )
    assert reservation_of(plan) == {"urgent": "cr-1"}


@BOTH_PACKINGS
def test_a_pod_of_higher_priority_is_placed_before_two_with_preferences(packing: Packing) -> None:
    reservations = [reservation("cr-1", "m5.xlarge")]
    xlarge = [instance_type("m5.xlarge", 4, 16, 0.1, reservations)]
    reserved_only = pool("slots", xlarge, is_in(names.CAPACITY_TYPE, "reserved"))
    prefers: dict[str, Any] = {
        "preferred_terms": (PreferredNodeTerm(1, requirements.of(is_in(names.ZONE, "z1"))),)
    }
    waiting = pods(2, shape(1900, **prefers), "large") + one("urgent", 1800, 1000)
    plan = solve(request([reserved_only], waiting, reservations, packing))
    assert reservation_of(plan)["urgent"] == "cr-1"
    assert [one.pod for one in plan.unplaced] == ["large-000001"]


@BOTH_PACKINGS
def test_a_pod_of_higher_priority_keeps_its_slot_against_several_smaller_pods(packing: Packing) -> None:
    reservations = [reservation("cr-1", "m5.xlarge")]
    reserved_only = pool(
        "slots",
        [instance_type("m5.xlarge", 4, 16, 0.1, reservations)],
        is_in(names.CAPACITY_TYPE, "reserved"),
    )
    waiting = one("urgent", 3500, 1000) + pods(3, shape(1200), "small")
    plan = solve(request([reserved_only], waiting, reservations, packing))
    assert reservation_of(plan) == {"urgent": "cr-1"}


@BOTH_PACKINGS
def test_slots_are_matched_across_nodepools(packing: Packing) -> None:
    """Pod `any` fits the slots of both NodePools, pod `first` only one of them: both slots are used."""
    reservations = [reservation("cr-1", "m5.large"), reservation("cr-2", "c5.large")]
    types = [
        instance_type("m5.large", 2, 8, 0.1, reservations),
        instance_type("c5.large", 2, 8, 0.1, reservations),
    ]
    pools = [
        pool("a", types[:1], is_in(names.CAPACITY_TYPE, "reserved", "on-demand"), weight=10),
        pool("b", types[1:], is_in(names.CAPACITY_TYPE, "reserved", "on-demand")),
    ]
    waiting = one("any", 1800) + one("first", 1500, **only(names.NODEPOOL, "a"))
    plan = solve(request(pools, waiting, reservations, packing))
    assert reservation_of(plan) == {"any": "cr-2", "first": "cr-1"}


def with_affinity(app: str, key: str) -> dict[str, Any]:
    return {"affinity": (PodTerm(key, selector(app=app), ("default",)),)}


@BOTH_PACKINGS
def test_pods_with_hostname_affinity_do_not_use_a_slot_that_is_too_small_for_all(packing: Packing) -> None:
    reservations = [reservation("cr-1", "m5.large")]
    types = [instance_type("m5.large", 2, 8, 0.1, reservations), instance_type("m5.xlarge", 4, 16, 0.2)]
    both = pool("both", types, is_in(names.CAPACITY_TYPE, "reserved", "on-demand"))
    plan = solve(
        request([both], pods(2, shape(1500, **with_affinity("web", names.HOSTNAME))), reservations, packing)
    )
    assert not plan.unplaced
    assert [(claim.instance_type, len(claim.pods)) for claim in plan.claims] == [("m5.xlarge", 2)]


@BOTH_PACKINGS
def test_pods_with_zonal_affinity_use_the_zone_with_slots_for_all(packing: Packing) -> None:
    reservations = [reservation("cr-1", "m5.large", "z1"), reservation("cr-2", "m5.large", "z2", 3)]
    reserved_only = pool(
        "slots", [instance_type("m5.large", 2, 8, 0.1, reservations)], is_in(names.CAPACITY_TYPE, "reserved")
    )
    plan = solve(
        request(
            [reserved_only], pods(3, shape(1500, **with_affinity("web", names.ZONE))), reservations, packing
        )
    )
    assert not plan.unplaced
    assert [claim.reservation_id for claim in plan.claims] == ["cr-2"] * 3


@BOTH_PACKINGS
def test_a_slot_that_only_the_second_node_affinity_term_allows_is_used(
    packing: Packing,
) -> None:
    reservations = [reservation("cr-1", "m5.large", "z2")]
    both = pool(
        "both",
        [instance_type("m5.large", 2, 8, 0.1, reservations)],
        is_in(names.CAPACITY_TYPE, RESERVED, ON_DEMAND),
    )
    terms = tuple(requirements.of(is_in(names.ZONE, zone)) for zone in ("z1", "z2"))
    plan = solve(request([both], pods(1, shape(1500, required_terms=terms)), reservations, packing))
    assert [claim.reservation_id for claim in plan.claims] == ["cr-1"]


@BOTH_PACKINGS
def test_moving_a_slot_from_a_larger_pod_displaces_no_pod_of_higher_priority(packing: Packing) -> None:
    """If only "needy" came first, "anywhere", larger than "urgent", would use the other slot. Both must come first."""
    reservations = [reservation("cr-1", "m5.large", "z1", 2)]
    pools = [
        pool("bought", [instance_type("m5.large", 2, 8, 0.1, zones=("z2",))]),
        pool(
            "slots",
            [instance_type("m5.large", 2, 8, 0.1, reservations)],
            is_in(names.CAPACITY_TYPE, "reserved"),
        ),
    ]
    zonal = only(names.ZONE, "z1")
    waiting = one("anywhere", 1900) + one("urgent", 1800, 100, **zonal) + one("needy", 1700, **zonal)
    plan = solve(request(pools, waiting, reservations, packing))
    assert reservation_of(plan) == {"anywhere": None, "urgent": "cr-1", "needy": "cr-1"}


@BOTH_PACKINGS
def test_a_slot_is_not_freed_for_a_pod_that_is_too_large_for_it(
    packing: Packing,
) -> None:
    sizes = {"m5.large": 2, "m5.xlarge": 4, "m5.4xlarge": 16}
    reservations = [reservation(f"cr-{name}", name) for name in sizes]
    types = [instance_type(name, cpu, 4 * cpu, cpu / 20, reservations) for name, cpu in sizes.items()]
    reserved_only = pool("default", types, is_in(names.CAPACITY_TYPE, RESERVED))
    first = (*one("largest", 15500, priority=10), *one("smallest", 1500, priority=10))
    elsewhere = requirements.of(is_in(names.INSTANCE_TYPE, "m5.large", "m5.4xlarge"))
    pending = (*first, *one("large", 1400, memory_mib=20 * 1024, node_selector=elsewhere))
    plan = solve(request([reserved_only], pending, reservations, packing))
    assert reservation_of(plan) == {"largest": "cr-m5.4xlarge", "smallest": "cr-m5.large"}
    assert [one.pod for one in plan.unplaced] == [pending[2].uid]
