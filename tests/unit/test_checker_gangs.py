"""The checker's rules about gangs: each accepts a correct plan and reports the same plan with one error."""

from typing import Any

import pytest

import labelled_pods
from checker import check
from checker.samples import (
    A,
    B,
    Document,
    catalog,
    claim,
    node,
    node_class,
    plan,
    pod,
    pool,
    unplaced,
    wanted,
)
from holdfast import names

TOPOLOGY = {"topology": [{"key": names.ZONE}]}


def rules(documents: list[Document], found: Document) -> set[str]:
    return {violation.rule for violation in check.check(documents, found)}


def group(least: int, **spec: Any) -> Document:
    kind = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "train"}}
    return kind | {"spec": {"schedulingPolicy": {"gang": {"minCount": least}}, **spec}}


def member(name: str, **more: Any) -> Document:
    found = pod(name, **more)
    found["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    return found


def scenario(*more: Document) -> list[Document]:
    """Two pods that need a node each."""
    return [catalog(), pool(), node_class(), member("p"), member("q"), *more]


def without(*pods: str, code: str = "GangIncomplete") -> list[Document]:
    return [unplaced(name) | {"reasons": [{"code": code}]} for name in pods]


def test_fewer_pods_than_the_gang_needs_are_reported() -> None:
    both, one = plan(claim("p"), claim("q")), plan(claim("p"), unplaced=without("q"))
    assert rules(scenario(group(2)), both) == set()
    assert rules(scenario(group(2)), one) == {"gang-whole", "gang-left-out"}
    assert rules(scenario(group(3)), both) == {"gang-whole"}
    assert rules(scenario(group(3)), plan(unplaced=without("p", "q"))) == set()


def test_pods_of_a_podgroup_that_does_not_exist_have_no_node() -> None:
    assert rules(scenario(), plan(unplaced=without("p", "q"))) == set()
    assert rules(scenario(), plan(claim("p"), claim("q"))) == {"gang-whole"}


def test_running_pods_count() -> None:
    running = [node("n1"), member("old", cpu="2", nodeName="n1")]
    found = plan(claim("p"), claim("q"))
    assert rules(scenario(group(3), *running), found) == set()
    assert rules(scenario(group(4), *running), found) == {"gang-whole"}


def test_a_gang_that_could_be_launched_is_not_left_out() -> None:
    assert rules(scenario(group(2)), plan(unplaced=without("p", "q"))) == {"gang-left-out"}


def test_a_pod_that_fits_may_wait_behind_a_gang() -> None:
    documents = [*scenario(group(2)), pod("web")]
    both = (claim("p"), claim("q"))
    assert rules(documents, plan(*both, unplaced=without("web", code="BehindGang"))) == set()
    assert rules(documents, plan(*both, unplaced=without("web", code="Resources"))) == {"placeable"}


@pytest.mark.parametrize(("zones", "violated"), [((A, A), set()), ((A, B), {"gang-together"})])
def test_pods_of_a_gang_with_a_topology_are_in_one_domain(zones: tuple[str, str], violated: set[str]) -> None:
    documents = scenario(group(2, schedulingConstraints=TOPOLOGY))
    claims = [claim(name, zone=zone) for name, zone in zip(("p", "q"), zones, strict=True)]
    assert rules(documents, plan(*claims)) == violated


def test_new_pods_are_in_the_domain_of_the_running_pods_of_their_gang() -> None:
    running = [node("n1", zone=B), member("old", cpu="2", nodeName="n1")]
    documents = scenario(group(3, schedulingConstraints=TOPOLOGY), *running)
    assert rules(documents, plan(claim("p", zone=B), claim("q", zone=B))) == set()
    assert rules(documents, plan(claim("p"), claim("q"))) == {"gang-together"}


def test_the_domain_of_a_gang_with_a_topology_is_certain() -> None:
    either = [wanted(names.CAPACITY_TYPE, "In", names.ON_DEMAND), wanted(names.INSTANCE_TYPE, "In", "small")]
    documents = scenario(group(2, schedulingConstraints=TOPOLOGY))
    found = plan(claim("p", requirements=either), claim("q", requirements=either))
    assert rules(documents, found) == {"gang-together"}


# --- Gangs of labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("metadata", [labelled_pods.of_group(size="64"), {"labels": labelled_pods.job_set()}])
def test_all_pods_with_the_labels_of_a_gang_have_a_node_or_none(metadata: Document) -> None:
    running = [node("n1"), labelled("old", metadata, cpu="2", nodeName="n1")]
    base = [catalog(), pool(), node_class(), *running, labelled("p", metadata), labelled("q", metadata)]
    both, one, none = (
        plan(claim("p"), claim("q")),
        plan(claim("p"), unplaced=without("q")),
        plan(unplaced=without("p", "q")),
    )
    assert rules(base, both) == set()
    assert rules(base, one) == {"gang-whole", "gang-left-out"}
    assert rules(base, none) == {"gang-left-out"}


def test_a_size_that_cannot_be_used_makes_no_gang() -> None:
    metadata = labelled_pods.of_group(size="many")
    base = [catalog(), pool(), node_class(), labelled("p", metadata), labelled("q", metadata)]
    assert rules(base, plan(claim("p"), unplaced=without("q"))) == {"placeable"}


def test_a_podgroup_has_precedence_over_labels() -> None:
    base = [catalog(), pool(), node_class(), group(1), member("p"), member("q")]
    for one in base[-2:]:
        one["metadata"]["labels"] = labelled_pods.job_set()
    assert rules(base, plan(claim("p"), unplaced=without("q"))) == {"placeable"}


def labelled(name: str, metadata: Document, **more: Any) -> Document:
    found = pod(name, **more)
    found["metadata"] |= metadata
    return found


def test_a_hold_without_the_setting_or_after_its_end_is_reported() -> None:
    """The PodGroup is one hour old."""
    found = group(3)
    found["metadata"]["creationTimestamp"] = "2026-11-15T09:00:00Z"
    held = {"code": "HoldsSlots", "subjects": ["default/train"]}
    nothing = plan(unplaced=[unplaced(name) | {"reasons": [held]} for name in ("p", "q")])

    def with_hold(length: str | None) -> set[str]:
        documents = scenario(found)
        documents[0]["spec"]["settings"] = {} if length is None else {"gangHold": length}
        return rules(documents, nothing)

    assert with_hold("61m") == set()
    assert with_hold("60m") == with_hold(None) == {"gang-hold"}


def test_a_gang_that_holds_slots_has_no_nodes() -> None:
    found = group(2)
    documents = [*scenario(found), member("r")]
    documents[0]["spec"]["settings"] = {"gangHold": "1h"}
    held = {"code": "HoldsSlots", "subjects": ["default/train"]}
    planned = plan(claim("p"), claim("q"), unplaced=[unplaced("r") | {"reasons": [held]}])
    assert rules(documents, planned) == {"gang-hold"}
