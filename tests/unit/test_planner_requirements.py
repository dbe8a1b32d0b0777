"""Labels in plans: labels of templates, labels that pods may require, and requirements of claims."""

from dataclasses import replace
from typing import Any

import pytest

from builders import nodepool
from builders import requirement as wire
from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import PlannedClaim
from holdfast.core.scheduling.solve import solve
from holdfast.model import label_rules, requirement, resources
from holdfast.model.reasons import ReasonCode
from holdfast.model.requirement import Operator
from holdfast.model.requirements import Requirements, from_labels, of
from holdfast.model.resources import NOTHING
from holdfast.model.taints import Effect, Taint
from holdfast.state.conversion import nodepools
from planner_builders import (
    RESERVATION_ID,
    WELL_KNOWN,
    fake_types,
    instance_type,
    is_in,
    node,
    placed,
    pods,
    pool,
    reasons,
    request,
    reservation,
    shape,
)


def pods_requiring(*wanted: requirement.Requirement) -> Any:
    return pods(1, shape(node_selector=of(*wanted)))


def one(operator: Operator, key: str, *values: str) -> Requirements:
    return of(requirement.of(key, operator, values))


def claim_for(of_pool: Any, pending: Any = None, **more: Any) -> PlannedClaim:
    (claim,) = solve(request([of_pool], pending or pods(1, shape()), **more)).claims
    return claim


# --- Templates --------------------------------------------------------------------------------------


@pytest.mark.fact("S-13")
def test_a_claim_has_the_labels_and_requirements_of_its_nodepool_and_nodeclass() -> None:
    written = nodepool("blue", labels={"team": "x"}, requirements=[wire(names.ZONE, "In", "z1", "z2")])
    claim = claim_for(nodepools.view(written, fake_types(3), NOTHING))
    has = {key: claim.requirements.get(key).values for key in claim.requirements.by_key}
    assert has["team"] == {"x"}
    assert has[names.NODEPOOL] == {"blue"}
    assert has["karpenter.k8s.aws/ec2nodeclass"] == {"default"}
    assert has[names.ZONE] == {"z1", "z2"}
    assert not label_rules.SIMULATION_ONLY & set(has)


@pytest.mark.fact("S-14")
@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (is_in(names.INSTANCE_TYPE, "no-such-type"), ReasonCode.REQUIREMENTS),
        (is_in(names.ARCH, "arm64"), ReasonCode.REQUIREMENTS),
        (is_in(names.CAPACITY_TYPE, "reserved"), ReasonCode.NO_RESERVATION_SELECTED),
    ],
)
def test_a_nodepool_without_a_compatible_type_plans_no_nodes_and_existing_nodes_are_used(
    wanted: requirement.Requirement, why: ReasonCode
) -> None:
    pending = pods(3, shape(2000))
    plan = solve(request([pool("default", fake_types(9), wanted)], pending, nodes=(node("n1"),)))
    assert placed(plan) == {"n1": ("pod-000000", "pod-000001")}
    assert reasons(plan) == {"pod-000002": [why]}


@pytest.mark.fact("S-14")
def test_a_full_reservation_of_a_nodepool_is_the_reason() -> None:
    reservations = [reservation("cr-1", "fake-it-3", available=0, total=2)]
    full = pool("default", fake_types(9, reservations), is_in(names.CAPACITY_TYPE, "reserved"))
    assert reasons(solve(request([full], pods(1, shape()), reservations))) == {
        "pod-000000": [ReasonCode.WAITS_FOR_SLOT]
    }


@pytest.mark.fact("S-51")
def test_startup_taints_do_not_exclude_pods_from_a_new_node() -> None:
    starting = pool("default", fake_types(3), startup_taints=(Taint("starting", Effect.NO_SCHEDULE),))
    assert claim_for(starting).pods == ("pod-000000",)


# --- Labels that pods may require -------------------------------------------------------------------


@pytest.mark.fact("S-43", "S-44")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        (names.NODEPOOL, "default"),
        (names.ZONE, "z2"),
        (names.CAPACITY_TYPE, "spot"),
        *((key, "some-value") for key in (names.REGION, names.ARCH, names.OS, names.WINDOWS_BUILD)),
    ],
)
def test_a_pod_may_require_a_well_known_label_that_its_nodepool_does_not_define(key: str, value: str) -> None:
    """A custom label of an instance type is not enough: no node is certain to get the label."""
    own = {key: value} if value == "some-value" else {}
    plain = pool("default", [instance_type("only", 4, 16, 1.0, labels=own | {"team": "x"})])
    assert claim_for(plain, pods_requiring(is_in(key, value))).requirements.get(key).values == {value}
    assert reasons(solve(request([plain], pods_requiring(is_in("team", "x"))))) == {
        "pod-000000": [ReasonCode.REQUIREMENTS]
    }


@pytest.mark.fact("S-44")
def test_the_well_known_labels_are_those_of_karpenter() -> None:
    assert {
        "karpenter.sh/nodepool",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "karpenter.sh/capacity-type",
        "node.kubernetes.io/windows-build",
    } == names.WELL_KNOWN_LABELS


@pytest.mark.fact("S-44", "S-48")
def test_a_pod_may_select_a_reservation_that_its_nodepool_does_not_mention() -> None:
    reservations = [reservation("cr-1", "fake-it-3"), reservation("cr-2", "fake-it-4")]
    types = fake_types(9, reservations)
    claim = claim_for(
        pool("default", types), pods_requiring(is_in(RESERVATION_ID, "cr-2")), reservations=reservations
    )
    assert claim.reservation_id == "cr-2"
    unknown = solve(
        request([pool("default", types)], pods_requiring(is_in(RESERVATION_ID, "cr-9")), reservations)
    )
    assert not unknown.claims


@pytest.mark.fact("S-43")
def test_an_undefined_label_is_incompatible_unless_the_pod_excludes_it() -> None:
    plain = pool("default", fake_types(3))
    for operator, values in ((Operator.IN, ("x",)), (Operator.EXISTS, ()), (Operator.GT, ("1",))):
        asking = pods(1, shape(node_selector=one(operator, "team", *values)))
        assert reasons(solve(request([plain], asking, nodes=(node("n1"),)))) == {
            "pod-000000": [ReasonCode.REQUIREMENTS]
        }
    for operator, values in ((Operator.NOT_IN, ("x",)), (Operator.DOES_NOT_EXIST, ())):
        asking = pods(1, shape(node_selector=one(operator, "team", *values)))
        assert placed(solve(request([plain], asking, nodes=(node("n1"),)))) == {"n1": ("pod-000000",)}


@pytest.mark.fact("S-43")
def test_an_existing_node_must_have_a_required_well_known_label() -> None:
    asking = pods_requiring(is_in(names.WINDOWS_BUILD, "10.0.1"))
    assert not solve(request([], asking, nodes=(node("n1"),))).placed
    labelled = node("n1", labels={names.WINDOWS_BUILD: "10.0.1"})
    assert solve(request([], asking, nodes=(labelled,))).placed


@pytest.mark.fact("S-47")
def test_an_instance_type_may_lack_a_custom_label_of_the_nodepool_but_not_differ_in_it() -> None:
    types = [
        instance_type("silent", 4, 16, 1.0),
        instance_type("same", 4, 16, 2.0, labels={"disk": "fast"}),
        instance_type("other", 4, 16, 3.0, labels={"disk": "slow"}),
    ]
    assert claim_for(pool("default", types, is_in("disk", "fast"))).instance_types == ("silent", "same")


@pytest.mark.fact("S-47")
@pytest.mark.parametrize("packing", list(Packing))
def test_a_pod_that_excludes_a_label_value_is_not_placed_on_instance_types_with_it(packing: Packing) -> None:
    types = [instance_type("silent", 4, 16, 2.0), instance_type("slow", 4, 16, 1.0, labels={"disk": "slow"})]
    excluding = pods(1, shape(node_selector=one(Operator.NOT_IN, "disk", "slow")))
    claim = claim_for(pool("default", types), excluding, packing=packing)
    assert claim.instance_types == ("silent",)
    assert "disk" not in claim.requirements


@pytest.mark.fact("S-47")
def test_an_offering_must_match_the_pod_and_may_lack_a_well_known_label() -> None:
    types = [instance_type("a", 4, 16, 1.0, zones=("z1",)), instance_type("b", 4, 16, 2.0, zones=("z2",))]
    plain = pool("default", types)
    assert claim_for(plain, pods_requiring(is_in(names.ZONE, "z2"))).instance_types == ("b",)
    assert claim_for(plain, pods_requiring(is_in(names.REGION, "r1"))).instance_types == ("a", "b")


# --- Requirements of claims -------------------------------------------------------------------------


@pytest.mark.fact("S-34", "X-7")
def test_bounds_of_a_nodepool_are_inclusive_in_the_claim() -> None:
    types = [instance_type(f"g{i}", 4, 16, 1.0, labels={"generation": str(i)}) for i in range(1, 6)]
    bounded = requirement.of("generation", Operator.GT, ("2",))
    claim = claim_for(pool("default", types, bounded))
    assert claim.instance_types == ("g3", "g4", "g5")
    written = [e for e in claim.requirements.expressions() if e.key == "generation"]
    assert [(e.operator, e.values) for e in written] == [(Operator.GTE, ("3",))]


@pytest.mark.fact("S-49")
def test_a_custom_label_with_several_values_gets_one_value_in_the_claim() -> None:
    claim = claim_for(pool("default", fake_types(3), is_in("team", "b", "a")))
    assert label_rules.custom_labels(claim.requirements, WELL_KNOWN) == {"team": "a"}


@pytest.mark.fact("S-55", "S-64")
def test_an_offering_with_a_smaller_capacity_is_excluded_when_the_pod_does_not_fit() -> None:
    plain = instance_type("only", 4, 16, 1.0)
    smaller = tuple(
        replace(o, capacity_override=resources.of({"cpu": 2000})) if o.zone == "z1" else o
        for o in plain.offerings
    )
    of_pool = pool("default", [replace(plain, offerings=smaller)])
    assert claim_for(of_pool).zone == "z1"
    claim = claim_for(of_pool, pods(1, shape(3000)))
    assert claim.zone == "z2"


@pytest.mark.fact("S-42")
def test_requirements_of_one_pod_apply_to_later_pods_on_the_same_node() -> None:
    first, second = shape(1000, node_selector=from_labels({names.ZONE: "z1"})), shape(900)
    third = shape(800, node_selector=from_labels({names.ZONE: "z2"}))
    plan = solve(
        request(
            [pool("default", fake_types(9))],
            (*pods(1, first, "a"), *pods(1, second, "b"), *pods(1, third, "c")),
        )
    )
    assert sorted((claim.pods, claim.zone) for claim in plan.claims) == [
        (("a-000000", "b-000000"), "z1"),
        (("c-000000",), "z2"),
    ]
