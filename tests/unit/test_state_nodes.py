"""Conversion of Nodes, NodeClaims, DaemonSets, PodDisruptionBudgets and NodePools; a Node is merged with its claim."""

from datetime import datetime
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from builders import nodepool, nodepool_document, requirement
from holdfast import names
from holdfast.api import aws, kinds
from holdfast.api.nodepool import NodePool, NodePoolStatus
from holdfast.cloud.aws.nodeclass.preflight import WELL_KNOWN_LABELS
from holdfast.model import resources
from holdfast.model.requirement import Operator
from holdfast.model.selectors import LabelSelector
from holdfast.model.snapshot import BudgetView, CloudLabels, CountBefore, NodeView
from holdfast.state.conversion import budgets, claims, daemonsets, nodepools, nodes
from holdfast.state.conversion.node_terms import LabelRules
from holdfast.state.conversion.nodes import NodeAndClaim
from holdfast.state.conversion.pods import PodConverter
from objects import (
    AN_HOUR_AGO,
    NOW,
    NOW_S,
    budget,
    container,
    csi_node,
    daemonset,
    node,
    nodeclaim,
    owned,
    pod,
)

REGISTERED = {names.REGISTERED: "true"}
READY = REGISTERED | {names.INITIALIZED: "true"}
LABELS = CloudLabels(WELL_KNOWN_LABELS, aws.CAPACITY_RESERVATION_ID)


def node_view(**pair: Any) -> NodeView:
    return nodes.view(NodeAndClaim(pair.get("node"), pair.get("claim")))


def condition(type_: str, status: str = "True", at: str = AN_HOUR_AGO) -> dict[str, str]:
    return {"type": type_, "status": status, "lastTransitionTime": at}


# --- Nodes ------------------------------------------------------------------------------------------


@pytest.mark.fact("ST-6")
def test_nodes_and_claims_are_paired_by_provider_id_and_a_launched_claim_counts_as_a_node() -> None:
    one = nodeclaim("one", status={"providerID": "cloud:///n"})
    two = nodeclaim(
        "two", {"labels": {names.ZONE: "a"}}, {"providerID": "cloud:///x", "allocatable": {"cpu": "2"}}
    )
    unlaunched = nodeclaim("three")
    found = nodes.pairs([node("n"), node("foreign")], [two, unlaunched, one])
    assert [(h.name, h.claim and h.claim.metadata.name) for h in found] == [
        ("n", "one"),
        ("foreign", None),
        ("two", "two"),
    ]
    in_flight = nodes.view(found[2])
    assert (in_flight.initialized, in_flight.claim, in_flight.provider_id) == (False, "two", "cloud:///x")
    assert dict(in_flight.labels) == {names.ZONE: "a", names.HOSTNAME: "two"}
    assert in_flight.allocatable == resources.of({"cpu": 2000})


def test_a_claim_with_a_node_name_is_paired_with_that_node() -> None:
    claim = nodeclaim("c", status={"providerID": "cloud:///other", "nodeName": "n"})
    (pair,) = nodes.pairs([node("n", spec={"providerID": ""})], [claim])
    assert pair.claim is claim


@pytest.mark.fact("ST-5")
@pytest.mark.parametrize(
    ("labels", "provider_id", "known"),
    [
        ({}, "", True),  # no NodePool
        ({names.NODEPOOL: "p", names.INSTANCE_TYPE: "m5.large"}, "", False),
        ({names.NODEPOOL: "p"}, "cloud:///n", False),
        ({names.NODEPOOL: "p", names.INSTANCE_TYPE: "m5.large"}, "cloud:///n", True),
        ({names.NODEPOOL: "p"} | READY, "cloud:///n", True),
    ],
)
def test_a_node_of_a_nodepool_without_provider_id_or_instance_type_is_not_known(
    labels: dict[str, str],
    provider_id: str,
    known: bool,  # noqa: FBT001 - the expected result
) -> None:
    assert nodes.is_known(node("n", {"labels": labels}, spec={"providerID": provider_id})) is known


@pytest.mark.fact("ST-7")
def test_labels_come_from_the_claim_until_the_node_has_registered() -> None:
    claim = nodeclaim("c", {"labels": {"from": "claim", names.NODEPOOL: "p"}})
    early = node_view(node=node("n", {"labels": {"from": "node"}}), claim=claim)
    assert (dict(early.labels)["from"], early.node_pool, early.initialized) == ("claim", "p", False)
    later = node_view(node=node("n", {"labels": READY | {"from": "node"}}), claim=claim)
    assert (dict(later.labels)["from"], later.initialized) == ("node", True)
    foreign = node_view(node=node("n", {"labels": {"from": "node"}}))
    assert (foreign.initialized, foreign.claim, dict(foreign.labels)[names.HOSTNAME]) == (True, None, "n")


TAINTS = [
    {"key": "lasting", "effect": "NoSchedule"},
    {"key": "startup", "effect": "NoSchedule"},
    {"key": names.NOT_READY_TAINT, "effect": "NoExecute"},
    {"key": "readiness.k8s.io/network", "effect": "NoSchedule"},
]
STARTUP = [{"key": "startup", "effect": "NoSchedule"}]


@pytest.mark.fact("S-52")
@pytest.mark.parametrize(
    ("labels", "more", "expected"),
    [
        ({}, [], ["claim"]),
        (REGISTERED, [], ["lasting"]),
        (READY, [], [t["key"] for t in TAINTS]),
        (READY, [{"key": names.REBOOTING_TAINT, "effect": "NoSchedule"}], ["lasting"]),
    ],
)
def test_startup_and_temporary_taints_of_a_starting_node_are_ignored(
    labels: dict[str, str], more: list[dict[str, str]], expected: list[str]
) -> None:
    own = [{"key": "claim", "effect": "NoSchedule"}, {"key": names.UNREGISTERED_TAINT, "effect": "NoExecute"}]
    claim = nodeclaim("c", taints=own, startupTaints=STARTUP)
    view = node_view(node=node("n", {"labels": labels}, spec={"taints": TAINTS + more}), claim=claim)
    assert [taint.key for taint in view.taints] == expected


@pytest.mark.fact("S-61")
def test_zero_resources_of_a_starting_node_are_replaced_by_those_of_its_claim() -> None:
    reported = {"cpu": "3900m", "nvidia.com/gpu": "0"}
    of_claim = {"cpu": "4", "nvidia.com/gpu": "8", "pods": "10"}
    claim = nodeclaim("c", status={"allocatable": of_claim, "capacity": of_claim})
    status = {"allocatable": reported, "capacity": reported}
    starting = node_view(node=node("n", {"labels": REGISTERED}, status=status), claim=claim)
    assert starting.allocatable == resources.of({"cpu": 3900, "nvidia.com/gpu": 8, "pods": 10})
    assert starting.capacity == starting.allocatable
    started = node_view(node=node("n", {"labels": READY}, status=status), claim=claim)
    assert started.allocatable == resources.of({"cpu": 3900, "nvidia.com/gpu": 0})


@pytest.mark.fact("ST-13")
def test_deletion_of_a_node_is_read_from_its_claim_if_it_has_one() -> None:
    deleted = {"deletionTimestamp": AN_HOUR_AGO}
    terminating = nodeclaim("c", status={"conditions": [condition("InstanceTerminating")]})
    assert node_view(node=node(), claim=nodeclaim("c", deleted)).deleting
    assert node_view(node=node(), claim=terminating).deleting
    assert node_view(node=node("n", deleted)).deleting
    assert not node_view(node=node("n", deleted), claim=nodeclaim()).deleting
    assert nodes.view(NodeAndClaim(node(), None), to_delete=True).deleting


def test_volume_limits_come_from_csi_drivers_or_else_from_the_instance_type() -> None:
    of_type = (("a", 5), ("b", 6), ("c", 7))
    assert nodes.volume_limits(csi_node("n", a=3, b=None), of_type) == (("a", 3), ("c", 7))
    assert nodes.volume_limits(None, of_type) == of_type


# --- Claims -----------------------------------------------------------------------------------------


def test_a_claim_holds_the_slot_of_its_annotation() -> None:
    annotations = {names.RESERVATION_ID: "cr-1", names.WAITS_FOR_INSTANCE: "i-1", names.HELD_FOR: "one two"}
    meta = {"annotations": annotations, "labels": {names.NODEPOOL: "p"}, "creationTimestamp": AN_HOUR_AGO}
    wanted = [requirement(names.CAPACITY_TYPE, "In", "reserved")]
    view = claims.view(nodeclaim("c", meta, requirements=wanted), LABELS)
    assert (view.reservation_id, view.waits_for_instance, view.node_pool) == ("cr-1", "i-1", "p")
    assert view.held_for == frozenset({"one", "two"})
    assert (view.created_s, view.launched_s, view.provider_id) == (NOW_S - 3600, None, None)
    assert view.requirements.get(names.CAPACITY_TYPE).values == {"reserved"}


def test_a_claim_of_an_earlier_release_holds_its_slot() -> None:
    meta = {"annotations": {names.RESERVATION_ID_BEFORE_0_2: "cr-1"}}
    assert claims.view(nodeclaim("c", meta), LABELS).reservation_id == "cr-1"
    assert claims.has_slot(nodeclaim("c", meta))
    assert claims.holding("cr-2") == {names.RESERVATION_ID: "cr-2", names.RESERVATION_ID_BEFORE_0_2: None}


@pytest.mark.parametrize(
    ("written", "counted"),
    [
        ("1000 3 2 1", CountBefore(1000, 3, 2, 1)),
        ("1000 -1 2 1", CountBefore(1000, -1, 2, 1)),
        ("1000 3 2", CountBefore(1000, 3, 2)),  # of an earlier release
        ("1000 3", None),
        ("1000 3 2 -1", None),
        ("many", None),
    ],
)
def test_a_claim_has_the_count_of_its_annotation(written: str, counted: CountBefore | None) -> None:
    meta = {"annotations": {names.SLOTS_COUNTED: written}}
    assert claims.view(nodeclaim("c", meta), LABELS).counted == counted


def test_capacity_of_a_launched_claim_is_held_only_during_a_reboot() -> None:
    meta = {"annotations": {names.HELD_FOR: "one"}}
    rebooting = {"conditions": [condition("Rebooting", at=NOW)]}
    view = claims.view(nodeclaim("c", meta, rebooting), LABELS)
    assert (view.held_for, view.rebooting_s) == (frozenset({"one"}), NOW_S)
    assert claims.view(nodeclaim("c", meta), LABELS).held_for is None  # a crash left the annotation


def test_the_launch_time_of_a_claim_is_that_of_its_launched_condition() -> None:
    status = {"providerID": "cloud:///i", "conditions": [condition("Launched", at=NOW)]}
    assert claims.view(nodeclaim("c", status=status), LABELS).launched_s == NOW_S


def test_a_claim_of_another_autoscaler_holds_the_slot_of_its_labels() -> None:
    labels = {names.CAPACITY_TYPE: "reserved", aws.CAPACITY_RESERVATION_ID: "cr-2"}
    assert claims.view(nodeclaim("c", {"labels": labels}), LABELS).reservation_id == "cr-2"
    moved = labels | {names.CAPACITY_TYPE: "on-demand"}
    assert claims.view(nodeclaim("c", {"labels": moved}), LABELS).reservation_id is None


# --- DaemonSets and budgets -------------------------------------------------------------------------


def daemon_pod(name: str, created: str, **spec: Any) -> Any:
    meta = owned("DaemonSet", "ds") | {"namespace": "kube-system", "creationTimestamp": created}
    return pod(name, meta, **spec)


@pytest.mark.fact("S-56", "ST-11")
def test_a_daemon_set_is_converted_from_its_newest_pod_with_the_affinity_of_its_template() -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    both = by_name | {"matchExpressions": [{"key": "x", "operator": "Exists"}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    pinned = {"nodeAffinity": {required: {"nodeSelectorTerms": [both]}}}
    found = [
        daemon_pod("old", AN_HOUR_AGO, containers=[container(cpu="1")]),
        daemon_pod("new", NOW, containers=[container(cpu="3")], affinity=pinned),
    ]
    newest = daemonsets.newest_pods(found)[("kube-system", "ds")]
    converter = PodConverter(LabelRules(WELL_KNOWN_LABELS))
    gpu = {
        "nodeAffinity": {
            required: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
        }
    }
    view, problems = daemonsets.view(daemonset(affinity=gpu), newest, converter)
    assert not problems
    assert (view.namespace, view.name, view.pod.requests["cpu"]) == ("kube-system", "ds", 3000)
    assert [term.get("gpu").operator for term in view.pod.required_terms] == [Operator.EXISTS]
    plain, problems = daemonsets.view(daemonset(), newest, converter)
    assert not problems
    assert ["x" in term for term in plain.pod.required_terms] == [True]


@pytest.mark.fact("S-56")
def test_a_daemon_set_without_pods_is_converted_from_its_template_with_limits_for_missing_requests() -> None:
    made = daemonset(containers=[container(limits={"cpu": "2", "memory": "1Gi"}, cpu="1")])
    view, _ = daemonsets.view(made, None, PodConverter(LabelRules(WELL_KNOWN_LABELS)))
    assert view.pod.requests == resources.of({"cpu": 1000, "memory": 1 << 30, "pods": 1})
    assert view.pod.labels == (("ds", "ds"),)


def test_the_node_name_affinity_of_a_daemon_set_pod_is_ignored() -> None:
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    pinned = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [by_name]}}
    }
    newest = daemon_pod("new", NOW, affinity=pinned)
    view, problems = daemonsets.view(daemonset(), newest, PodConverter(LabelRules(WELL_KNOWN_LABELS)))
    assert (view.pod.required_terms, problems) == ((), ())


@pytest.mark.parametrize(
    ("spec", "blocking"),
    [
        ({"maxUnavailable": 0}, True),
        ({"maxUnavailable": "0%"}, True),
        ({"minAvailable": "100%"}, True),
        ({"maxUnavailable": 1}, False),
        ({"minAvailable": 1}, False),
        ({}, False),
    ],
)
def test_a_budget_is_fully_blocking_when_it_can_never_allow_a_disruption(
    spec: dict[str, Any], *, blocking: bool
) -> None:
    assert budgets.view(budget(**spec)).fully_blocking is blocking


def test_a_budget_view_has_the_selector_and_the_allowed_disruptions() -> None:
    made = budget(selector={}, status={"disruptionsAllowed": 2}, unhealthyPodEvictionPolicy="AlwaysAllow")
    assert budgets.view(made) == BudgetView("default", "pdb", LabelSelector(), False, 2, True)
    assert budgets.view(budget()).selector is None


# --- NodePools --------------------------------------------------------------------------------------


def test_a_nodepool_view_has_requirements_and_labels() -> None:
    wanted = [requirement("team", "In", "a", "b"), requirement(names.CAPACITY_TYPE, "In", "reserved")]
    pool = nodepool("gpu", labels={"team": "a"}, requirements=wanted)
    view = nodepools.view(pool, (), resources.NOTHING)
    assert dict(view.labels) == {"team": "a", names.NODEPOOL: "gpu", aws.EC2NODECLASS: "default"}
    assert str(view.requirements) == ", ".join(
        [
            f"{aws.EC2NODECLASS} In [default]",
            f"{names.CAPACITY_TYPE} In [reserved]",
            f"{names.NODEPOOL} In [gpu]",
            "team In [a]",
        ]
    )


def test_a_nodepool_view_has_weight_limits_taints_and_consolidate_after() -> None:
    document = nodepool_document("p", taints=[{"key": "gpu", "effect": "NoSchedule"}])
    document["spec"] |= {"weight": 7, "limits": {"cpu": "9"}, "disruption": {"consolidateAfter": "90s"}}
    pool = kinds.from_plain(document, NodePool)
    assert isinstance(pool, NodePool)
    view = nodepools.view(pool, (), resources.NOTHING)
    assert (view.weight, view.limits, view.consolidate_after_s) == (7, resources.of({"cpu": 9000}), 90)
    assert [str(taint) for taint in view.taints] == ["gpu:NoSchedule"]


@pytest.mark.fact("S-70")
def test_the_usage_of_a_nodepool_excludes_deleting_nodes() -> None:
    def member(name: str, pool: str, *, gpus: int = 0, **more: Any) -> NodeView:
        capacity = resources.of({"cpu": 4000} | ({"gpus": gpus} if gpus else {}))
        return NodeView(name, (), resources.NOTHING, capacity, node_pool=pool, **more)

    of_p = [member("a", "p"), member("b", "p"), member("e", "p", gpus=2), member("f", "p", gpus=1)]
    assert nodepools.used([*of_p, member("c", "p", deleting=True), member("d", "q")]) == {
        "p": resources.of({"cpu": 16_000, "gpus": 3, "nodes": 4}),
        "q": resources.of({"cpu": 4000, "nodes": 1}),
    }


SUPPORTED_CLASSES = {(aws.GROUP, "EC2NodeClass")}


@pytest.mark.fact("S-10")
def test_a_nodepool_that_launches_no_nodes_has_a_reason() -> None:
    def why(pool: NodePool, *, needs_ready: bool = False) -> str | None:
        return nodepools.why_no_nodes(pool, SUPPORTED_CLASSES, needs_ready=needs_ready)

    def with_ready_condition(status: str) -> NodePool:
        return replace(
            nodepool(), status=convert({"conditions": [condition("Ready", status)]}, NodePoolStatus)
        )

    pool = nodepool()
    assert why(pool) is None
    assert why(pool, needs_ready=True) == "it is not Ready"
    assert why(with_ready_condition("True"), needs_ready=True) is None
    assert why(with_ready_condition("False")) == "it is not Ready"
    assert why(replace(pool, spec=replace(pool.spec, replicas=1))) == "it has a fixed number of replicas"
    deleted = replace(pool.metadata, deletion_timestamp=convert(NOW, datetime))
    assert why(replace(pool, metadata=deleted)) == "it is being deleted"
    assert nodepools.why_no_nodes(pool, set(), needs_ready=False)
