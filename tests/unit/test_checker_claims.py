"""The checker's rules about claims, limits and cost."""

from typing import Any

import pytest

from checker import check, samples
from checker.samples import (
    A,
    B,
    Document,
    big_claim,
    catalog,
    claim,
    instance_type,
    large,
    node,
    node_class,
    plan,
    pod,
    pool,
    small,
    unplaced,
    wanted,
)
from holdfast import names

BASIC = [catalog(), pool(), node_class()]


def rules(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.check(documents, found)}


def test_a_claim_belongs_to_a_pool() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(claim("p", nodePool="ghost"))) == {"claim-pool"}


def test_claim_allows_only_what_its_nodepool_allows() -> None:
    documents = [catalog(), pool(requirements=[wanted(names.ZONE, "In", A)]), node_class(), pod("p")]
    assert rules(documents, plan(claim("p"))) == set()
    any_zone = claim("p")
    any_zone["requirements"] = [one for one in any_zone["requirements"] if one["key"] != names.ZONE]
    assert rules(documents, plan(any_zone)) == {"claim-within-pool"}


@pytest.mark.parametrize(
    ("pool_requirement", "good", "bad"),
    [
        (("In", "3", "4"), ("In", "4"), ("In", "4", "5")),
        (("Gt", "3"), ("Gte", "4"), ("Gte", "3")),
        (("Lt", "3"), ("Lte", "2"), ("Lte", "3")),
        (("NotIn", "3"), ("NotIn", "3", "5"), ("NotIn", "5")),
    ],
)
def test_requirements_are_compared_by_the_values_they_allow(
    pool_requirement: tuple[str, ...], good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    key = "example.com/rank"
    documents = [catalog(), pool(requirements=[wanted(key, *pool_requirement)]), node_class(), pod("p")]
    assert rules(documents, plan(claim("p", extra=[wanted(key, *good)]))) == set()
    assert rules(documents, plan(claim("p", extra=[wanted(key, *bad)]))) == {"claim-within-pool"}


def test_exists_requirement_allows_any_value() -> None:
    documents = [catalog(), pool(requirements=[wanted("rank", "Exists")]), node_class(), pod("p")]
    assert rules(documents, plan(claim("p", extra=[wanted("rank", "NotIn", "5")]))) == set()
    assert rules(documents, plan(claim("p", extra=[wanted("rank", "DoesNotExist")]))) == {"claim-type"}


def test_a_claim_does_not_exclude_its_own_label() -> None:
    documents = [catalog(), pool(labels={"team": "ml"}), node_class(), pod("p")]
    assert rules(documents, plan(claim("p", extra=[wanted("team", "In", "ml")]))) == set()
    assert "claim-within-pool" in rules(documents, plan(claim("p", extra=[wanted("team", "In", "web")])))


def test_the_chosen_type_is_listed() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p", instanceTypes=["small", "large"]))) == set()
    assert rules(documents, plan(claim("p", instanceTypes=["large"]))) == {"claim-chosen"}


def test_every_listed_type_can_be_launched() -> None:
    unavailable = [{"zone": A, "capacityType": names.ON_DEMAND, "price": "0.4", "available": 0}]
    unhealthy = [{"zone": A, "capacityType": names.ON_DEMAND, "price": "0.4", "healthy": False}]
    listed = plan(claim("p", instanceTypes=["small", "large"]))
    assert rules([*BASIC, pod("p")], listed) == set()
    for offerings in (unavailable, unhealthy, []):
        documents = [catalog(small(), large(offerings=offerings)), pool(), node_class(), pod("p")]
        assert rules(documents, listed) == {"claim-type"}
    arm = [catalog(small(), large(**{names.ARCH: "arm64"})), pool(), node_class(), pod("p")]
    amd = claim("p", instanceTypes=["small", "large"], extra=[wanted(names.ARCH, "In", "amd64")])
    assert rules(arm, plan(amd)) == {"claim-type"}


def test_every_listed_type_fits_the_pods() -> None:
    documents = [*BASIC, pod("p", cpu="3")]
    assert rules(documents, plan(big_claim("p"))) == set()
    assert rules(documents, plan(big_claim("p", instanceTypes=["large", "small"]))) == {"claim-fits"}


def test_daemonsets_use_capacity_of_a_new_node() -> None:
    template = {"spec": pod("", cpu="500m")["spec"]}
    daemon: Document = {"kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {"template": template}}
    documents = [*BASIC, daemon, pod("p", cpu="1600m")]
    assert rules(documents, plan(big_claim("p"))) == set()
    assert rules(documents, plan(claim("p"))) == {"claim-fits"}
    template["spec"]["nodeSelector"] = {names.ZONE: B}
    assert rules(documents, plan(claim("p"))) == set()


def test_overhead_is_not_available_to_pods() -> None:
    tight = small() | {"overhead": {"cpu": "200m"}}
    documents = [catalog(tight, large()), pool(), node_class()]
    assert rules([*documents, pod("p", cpu="1800m")], plan(claim("p"))) == set()
    assert rules([*documents, pod("p", cpu="1801m")], plan(claim("p"))) == {"claim-fits"}


def test_the_chosen_offering_can_be_launched() -> None:
    offerings = [{"zone": A, "capacityType": names.ON_DEMAND, "price": "0.10"}]
    offerings += [{"zone": B, "capacityType": names.ON_DEMAND, "price": "0.10", "available": "0"}]
    documents = [catalog(small(offerings=offerings)), pool(), node_class(), pod("p")]
    zones = [wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND), wanted(names.ZONE, "In", A, B)]
    assert rules(documents, plan(claim("p", requirements=zones))) == set()
    assert rules(documents, plan(claim("p", zone=B, requirements=zones))) == {"claim-offering"}


def test_a_claim_costs_what_its_offering_costs() -> None:
    documents = [*BASIC, pod("p")]
    assert rules(documents, plan(claim("p", pricePerHour="0.1"))) == set()
    assert rules(documents, plan(claim("p", pricePerHour="0.20"))) == {"claim-price"}
    unknown = [catalog(samples.instance_type("small", 2, None)), pool(), node_class(), pod("p")]
    assert rules(unknown, plan(claim("p", pricePerHour=None))) == set()
    assert rules(unknown, plan(claim("p"))) == {"claim-price"}


def test_claim_satisfies_min_values() -> None:
    requirement = wanted(names.INSTANCE_TYPE, "Exists") | {"minValues": 2}
    documents = [catalog(), pool(requirements=[requirement]), node_class(), pod("p")]
    assert rules(documents, plan(claim("p", instanceTypes=["small", "large"]))) == set()
    assert rules(documents, plan(claim("p"))) == {"min-values"}
    relaxed = [catalog(minValuesPolicy="BestEffort"), *documents[1:]]
    assert rules(relaxed, plan(claim("p"))) == set()


def test_limits_are_checked_with_the_chosen_types() -> None:
    documents = [catalog(), pool(limits={"cpu": "4"}), node_class(), pod("p"), pod("q"), pod("r")]
    two = plan(claim("p"), claim("q"), unplaced=[unplaced("r", "Limits")])
    assert "limits" not in rules(documents, two)
    assert rules(documents, plan(claim("p"), claim("q"), claim("r"))) == {"limits"}


def test_limits_include_existing_nodes() -> None:
    existing = node(cpu="2", **{names.NODEPOOL: "default"})
    documents = [catalog(), pool(limits={"cpu": "4"}), node_class(), existing, pod("p"), pod("q")]
    assert rules(documents, plan(nodes={"node-1": ["p", "q"]})) == set()
    assert rules(documents, plan(claim("p"), claim("q"))) == {"limits", "node-left"}


def test_limit_of_nodes_is_checked() -> None:
    documents = [catalog(), pool(limits={"nodes": "1"}), node_class(), pod("p"), pod("q")]
    assert rules(documents, plan(claim("p", "q"))) == set()
    assert rules(documents, plan(claim("p"), claim("q"))) == {"limits"}


def test_limits_are_checked_with_every_listed_type() -> None:
    documents = [catalog(), pool(limits={"cpu": "4"}), node_class(), pod("p")]
    assert rules(documents, plan(claim("p"))) == set()
    assert rules(documents, plan(claim("p", instanceTypes=["small", "large"]))) == {"limits-strict"}


def cost(price: str, baseline: str) -> dict[str, Any]:
    nodes = {"baselineNodes": 1, "nodeCostPerHour": "0"}
    return {"perHour": price, "baselinePerHour": baseline, "baselineUnplaced": 0, **nodes, "packing": "x"}


def test_cost_is_the_sum_of_the_claims() -> None:
    documents = [*BASIC, pod("p"), pod("q")]
    plan_cost = cost("0.2", "0.3")
    assert rules(documents, plan(claim("p"), claim("q"), cost=plan_cost)) == set()
    assert rules(documents, plan(claim("p"), claim("q"), cost=plan_cost | {"perHour": "0.1"})) == {"cost-sum"}


def test_cost_packing_is_not_dearer_than_the_baseline() -> None:
    plan_cost = cost("0.1", "0.09")
    assert rules([*BASIC, pod("p")], plan(claim("p"), cost=plan_cost)) == {"cost-baseline"}
    more_nodes = {"baselineNodes": 2, "nodeCostPerHour": "0.01"}
    assert rules([*BASIC, pod("p")], plan(claim("p"), cost=plan_cost | more_nodes)) == set()
    plain = [catalog(packing="karpenter"), pool(), node_class(), pod("p")]
    assert rules(plain, plan(claim("p"), cost=plan_cost)) == set()
    unpriced = catalog(small(), instance_type("other", 8, None))
    assert rules([unpriced, pool(), node_class(), pod("p")], plan(claim("p"), cost=plan_cost)) == set()


def test_the_same_plan_has_the_same_bytes() -> None:
    one, other = plan(claim("p"), claim("q")), plan(claim("q"), claim("p"))
    assert check.difference(one, plan(claim("p"), claim("q"))) == []
    assert [violation.rule for violation in check.difference(one, other)] == ["determinism"]
