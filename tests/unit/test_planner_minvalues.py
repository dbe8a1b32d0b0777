"""minValues: how many different instance types, zones or families a claim must allow."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import MinValuesPolicy, Packing, SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirement
from holdfast.model.pods import PodShape, TopologySpread, Volumes
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.requirements import of
from planner_builders import fake_types, is_in, pods, pool, reasons, request, reservation, selector, shape

BEST_EFFORT: dict[str, Any] = {"min_values_policy": MinValuesPolicy.BEST_EFFORT}


def at_least(key: str, least: int) -> Requirement:
    return requirement.of(key, Operator.EXISTS, (), least)


def solve_request(of_pods: PodShape, least: int, count: int = 1, **more: Any) -> SolveRequest:
    """Nine types of 1 to 9 cores, of which a claim must list at least `least`."""
    of_types = at_least(names.INSTANCE_TYPE, least)
    return request([pool("default", fake_types(9), of_types)], pods(count, of_pods), **more)


@pytest.mark.fact("S-66", "S-67")
def test_a_pod_too_large_for_enough_types_is_not_placed() -> None:
    enough, too_large = shape(4500), shape(5500)
    (claim,) = solve(solve_request(enough, 5)).claims
    assert claim.instance_types == ("fake-it-4", "fake-it-5", "fake-it-6", "fake-it-7", "fake-it-8")
    assert reasons(solve(solve_request(too_large, 5))) == {"pod-000000": [ReasonCode.MIN_VALUES]}


@pytest.mark.fact("S-67", "S-14")
def test_a_nodepool_with_too_few_types_plans_a_node_only_with_best_effort() -> None:
    assert reasons(solve(solve_request(shape(), 10))) == {"pod-000000": [ReasonCode.MIN_VALUES]}
    assert len(solve(solve_request(shape(), 10, **BEST_EFFORT)).claims) == 1


@pytest.mark.fact("S-66", "S-67")
def test_a_node_gets_no_more_pods_when_too_few_types_would_remain() -> None:
    plan = solve(solve_request(shape(1500), 7, count=4))
    assert [len(claim.pods) for claim in plan.claims] == [1, 1, 1, 1]
    assert all(len(claim.instance_types) >= 7 for claim in plan.claims)


@pytest.mark.fact("S-66")
def test_min_values_counts_only_values_that_the_node_can_have() -> None:
    def in_zones(least: int, **more: Any) -> set[str]:
        wanted = pool("default", fake_types(9), at_least(names.ZONE, least))
        plan = solve(request([wanted], pods(1, shape(**more))))
        return {code for codes in reasons(plan).values() for code in codes}

    in_one_zone = Volumes(alternatives=(of(is_in(names.ZONE, "z2")),))
    spread = TopologySpread(names.ZONE, 1, True, selector(app="web"))
    assert not in_zones(3)
    assert not in_zones(1, volumes=in_one_zone)
    assert in_zones(2, volumes=in_one_zone)
    assert not in_zones(1, spreads=(spread,))
    assert in_zones(2, spreads=(spread,))


@pytest.mark.fact("S-67", "S-68")
@pytest.mark.parametrize("packing", list(Packing))
def test_best_effort_lowers_the_min_values_of_the_claim_and_annotates_it(
    packing: Packing,
) -> None:
    (claim,) = solve(solve_request(shape(5500), 5, packing=packing, **BEST_EFFORT)).claims
    assert claim.requirements.get(names.INSTANCE_TYPE).min_values == len(claim.instance_types) == 4
    assert claim.annotations["karpenter.sh/nodeclaim-min-values-relaxed"] == "true"


@pytest.mark.fact("S-68")
def test_a_claim_with_full_min_values_is_annotated_as_not_relaxed() -> None:
    (claim,) = solve(solve_request(shape(4500), 5, **BEST_EFFORT)).claims
    assert claim.requirements.get(names.INSTANCE_TYPE).min_values == 5
    assert claim.annotations["karpenter.sh/nodeclaim-min-values-relaxed"] == "false"


@pytest.mark.fact("S-67")
def test_best_effort_relaxes_min_values_only_for_the_first_pod_of_a_node() -> None:
    plan = solve(solve_request(shape(3500), 8, count=2, **BEST_EFFORT))
    assert [len(claim.pods) for claim in plan.claims] == [1, 1]
    assert [claim.requirements.get(names.INSTANCE_TYPE).min_values for claim in plan.claims] == [6, 6]


def test_best_effort_drops_min_values_for_a_label_that_no_type_has() -> None:
    wanted = pool("default", fake_types(3), requirement.of("team", Operator.IN, ("a", "b"), 2))
    (claim,) = solve(request([wanted], pods(1, shape()), **BEST_EFFORT)).claims
    assert claim.requirements.get("team").min_values is None
    assert claim.min_values_relaxed


@pytest.mark.fact("S-101")
def test_a_claim_lists_the_cheapest_types_that_fit_up_to_the_maximum() -> None:
    plan = solve(request([pool("default", fake_types(9))], pods(1, shape(2500)), max_instance_types=3))
    assert plan.claims[0].instance_types == ("fake-it-2", "fake-it-3", "fake-it-4")
    assert plan.claims[0].requirements.get(names.INSTANCE_TYPE).values == set(plan.claims[0].instance_types)


@pytest.mark.fact("S-101", "S-69")
def test_min_values_counts_only_the_types_that_the_claim_lists() -> None:
    assert reasons(solve(solve_request(shape(), 5, max_instance_types=4))) == {
        "pod-000000": [ReasonCode.MIN_VALUES]
    }
    assert not reasons(solve(solve_request(shape(), 5, max_instance_types=5)))
    (claim,) = solve(solve_request(shape(), 5, max_instance_types=4, **BEST_EFFORT)).claims
    assert claim.requirements.get(names.INSTANCE_TYPE).min_values == 4


@pytest.mark.fact("S-69", "W-17")
def test_min_values_counts_all_types_although_the_claim_is_pinned_to_one_reservation() -> None:
    reservations = [reservation("cr-1", "fake-it-5")]
    wanted = pool("default", fake_types(9, reservations), at_least(names.INSTANCE_TYPE, 5))
    (claim,) = solve(request([wanted], pods(1, shape()), reservations)).claims
    assert claim.annotations["holdfast.dev/reservation-id"] == "cr-1"
    assert claim.instance_types == ("fake-it-5",)
    assert claim.requirements.get(names.INSTANCE_TYPE).min_values is None
