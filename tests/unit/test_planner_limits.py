"""Limits of NodePools: what remains of them, and how much a planned node is charged."""

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
def test_nodes_are_planned_until_the_limit_of_the_nodepool_is_reached(packing: Packing) -> None:
    plan = plan_for(5, limits=cores(9), packing=packing)
    assert len(plan.claims) == 2
    assert reasons(plan) == {f"pod-00000{i}": [ReasonCode.LIMITS] for i in (2, 3, 4)}


@pytest.mark.fact("S-70")
def test_resources_of_existing_nodes_count_against_the_limit() -> None:
    assert len(plan_for(5, limits=cores(9), used=cores(4)).claims) == 1
    assert not plan_for(5, limits=cores(9), used=cores(6)).claims
    assert not plan_for(5, limits=cores(9), used=cores(20)).claims


@pytest.mark.fact("S-71")
def test_instance_types_larger_than_the_remaining_limit_are_excluded() -> None:
    (claim,) = plan_for(1, fake_types(9), limits=cores(9), used=cores(5)).claims
    assert claim.instance_types == ("fake-it-0", "fake-it-1", "fake-it-2", "fake-it-3")
    too_large = shape(4500)
    assert reasons(plan_for(1, fake_types(9), too_large, limits=cores(9), used=cores(5))) == {
        "pod-000000": [ReasonCode.LIMITS]
    }


@pytest.mark.fact("S-71")
def test_every_resource_in_the_limits_counts_and_no_other() -> None:
    assert not plan_for(1, limits=cores(100, memory=2**30)).claims
    assert plan_for(1, limits=cores(100, **{"example.com/gpu": 0})).claims
    assert plan_for(1, limits=resources.of({"memory": 16 * 2**30})).claims


@pytest.mark.fact("S-72")
def test_a_new_node_is_charged_with_its_largest_instance_type() -> None:
    """The first node may use five of the nine cores, so four remain for the second."""
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
def test_a_reserved_node_is_charged_with_the_instance_type_of_its_reservation(
    packing: Packing,
) -> None:
    reservations = [reservation("cr-1", "fake-it-1", available=2, total=2)]
    of = pool("default", fake_types(9, reservations), limits=cores(4, nodes=2))
    plan = solve(request([of], pods(3, APART), reservations, packing=packing))
    assert [claim.reservation_id for claim in plan.claims] == ["cr-1", "cr-1"]
    assert reasons(plan) == {"pod-000002": [ReasonCode.LIMITS]}


def test_a_nodepool_at_its_limit_does_not_block_another() -> None:
    full = pool("full", FOUR_CORES, weight=9, limits=cores(4), used=cores(4))
    plan = solve(request([full, pool("other", FOUR_CORES)], pods(2, APART)))
    assert [claim.node_pool for claim in plan.claims] == ["other", "other"]


def test_limits_are_not_the_reason_when_another_constraint_fails() -> None:
    zone = from_labels({names.ZONE: "z9"})
    plan = plan_for(1, of=shape(node_selector=zone), limits=cores(100))
    assert reasons(plan) == {"pod-000000": [ReasonCode.REQUIREMENTS]}
    clash = shape(500, anti_affinity=APART.anti_affinity, affinity=APART.anti_affinity)
    assert reasons(plan_for(2, of=clash, limits=cores(100)))["pod-000001"] == [ReasonCode.TOPOLOGY]


@pytest.mark.fact("S-73")
@pytest.mark.parametrize(("used", "refused"), [(8, False), (9, False), (10, True)])
def test_a_claim_is_refused_only_when_usage_exceeds_the_limit(used: int, *, refused: bool) -> None:
    """The last claim may exceed the limit; after that no claim is created."""
    now = pool("default", FOUR_CORES, limits=cores(9), used=cores(used, nodes=5))
    assert (admission.why_refused(now) is not None) is refused
