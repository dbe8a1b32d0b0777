"""Limits of NodePools: what is left of them, and what is charged for a node of this plan."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output import admission
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import resources
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirements import from_labels
from holdfast.model.resources import Resources
from planner_builders import (
    fake_types,
    instance_type,
    one_per_node,
    pods,
    pool,
    reasons,
    request,
    reservation,
    shape,
)

FOUR_CORES = [instance_type("only", 4, 16, 1.0)]
APART = shape(500, **one_per_node())
BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))


def cores(count: int, **more: int) -> Resources:
    return resources.of({"cpu": count * 1000} | more)


def plan_for(count: int, types: Any = FOUR_CORES, of: Any = APART, **more: Any) -> Plan:
    settings = {key: more.pop(key) for key in list(more) if key == "packing"}
    return solve(request([pool("default", types, **more)], pods(count, of), **settings))


@pytest.mark.fact("S-70", "S-71")
@BOTH_PACKINGS
def test_a_pool_opens_nodes_until_its_limit_is_reached(packing: Packing) -> None:
    plan = plan_for(5, limits=cores(9), packing=packing)
    assert len(plan.claims) == 2
    assert reasons(plan) == {f"pod-00000{i}": [ReasonCode.LIMITS] for i in (2, 3, 4)}


@pytest.mark.fact("S-70")
def test_what_nodes_of_the_pool_have_is_no_longer_free() -> None:
    assert len(plan_for(5, limits=cores(9), used=cores(4)).claims) == 1
    assert not plan_for(5, limits=cores(9), used=cores(6)).claims
    assert not plan_for(5, limits=cores(9), used=cores(20)).claims


@pytest.mark.fact("S-71")
def test_types_larger_than_what_is_left_are_left_out() -> None:
    (claim,) = plan_for(1, fake_types(9), limits=cores(9), used=cores(5)).claims
    assert claim.instance_types == ("fake-it-0", "fake-it-1", "fake-it-2", "fake-it-3")
    too_large = shape(4500)
    assert reasons(plan_for(1, fake_types(9), too_large, limits=cores(9), used=cores(5))) == {
        "pod-000000": [ReasonCode.LIMITS]
    }


@pytest.mark.fact("S-71")
def test_every_resource_of_a_limit_counts_and_others_do_not() -> None:
    assert not plan_for(1, limits=cores(100, memory=2**30)).claims
    assert plan_for(1, limits=cores(100, **{"example.com/gpu": 0})).claims
    assert plan_for(1, limits=resources.of({"memory": 16 * 2**30})).claims


@pytest.mark.fact("S-72")
def test_a_new_node_is_charged_with_the_largest_type_it_may_become() -> None:
    """Five types up to five cores: the first node may be of five, so the second may have but four of nine."""
    plan = plan_for(3, fake_types(5), limits=cores(9))
    assert [claim.instance_types[-1] for claim in plan.claims] == ["fake-it-4", "fake-it-3"]
    assert len(plan.unplaced) == 1


@pytest.mark.fact("S-71", "S-72")
@BOTH_PACKINGS
@pytest.mark.parametrize(("used", "opened"), [(0, 3), (2, 1), (3, 0), (4, 0)])
def test_a_limit_on_nodes_is_exact_within_one_plan(used: int, opened: int, packing: Packing) -> None:
    plan = plan_for(5, limits=resources.of({"nodes": 3}), used=resources.of({"nodes": used}), packing=packing)
    assert len(plan.claims) == opened
    assert len(plan.unplaced) == 5 - opened


@pytest.mark.fact("W-19")
@BOTH_PACKINGS
def test_a_node_in_a_slot_is_charged_with_the_type_of_the_slot_however_large_others_are(
    packing: Packing,
) -> None:
    kept = [reservation("cr-1", "fake-it-1", available=2, total=2)]
    of = pool("default", fake_types(9, kept), limits=cores(4, nodes=2))
    plan = solve(request([of], pods(3, APART), kept, packing=packing))
    assert [claim.reservation_id for claim in plan.claims] == ["cr-1", "cr-1"]
    assert reasons(plan) == {"pod-000002": [ReasonCode.LIMITS]}


def test_a_full_pool_holds_back_no_other() -> None:
    full = pool("full", FOUR_CORES, weight=9, limits=cores(4), used=cores(4))
    plan = solve(request([full, pool("other", FOUR_CORES)], pods(2, APART)))
    assert [claim.node_pool for claim in plan.claims] == ["other", "other"]


def test_a_limit_that_is_not_the_cause_is_not_the_reason() -> None:
    zone = from_labels({names.ZONE: "z9"})
    plan = plan_for(1, of=shape(node_selector=zone), limits=cores(100))
    assert reasons(plan) == {"pod-000000": [ReasonCode.REQUIREMENTS]}
    clash = shape(500, anti_affinity=APART.anti_affinity, affinity=APART.anti_affinity)
    assert reasons(plan_for(2, of=clash, limits=cores(100)))["pod-000001"] == [ReasonCode.TOPOLOGY]


@pytest.mark.fact("S-73")
@pytest.mark.parametrize(("used", "refused"), [(8, False), (9, False), (10, True)])
def test_when_a_claim_is_written_only_use_above_the_limit_refuses_it(used: int, *, refused: bool) -> None:
    """The last claim may exceed the limit; nothing is written once it is exceeded."""
    now = pool("default", FOUR_CORES, limits=cores(9), used=cores(used, nodes=5))
    assert (admission.why_refused(now) is not None) is refused
