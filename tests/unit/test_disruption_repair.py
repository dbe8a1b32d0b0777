"""Node repair: which unhealthy nodes are rebooted or replaced, in which order, and which are not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import (
    FREE,
    HOUR_S,
    LARGE,
    MEDIUM,
    NOW_S,
    SMALL,
    at_most,
    catalog,
    codes,
    disruption_input,
    load,
    managed_node,
    pdb,
)
from holdfast import errors, names
from holdfast.cloud.aws.instances import repair as aws_repair
from holdfast.core.disruption import repair
from holdfast.core.disruption.commands import Action, Decision, DisruptionCommand, Method
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import DisruptionReason, NodeCondition, NodeFacts, Settings
from holdfast.core.disruption.repair import RepairAction, RepairPolicy, UnhealthyCondition
from holdfast.model.reasons import BlockedCode
from holdfast.model.snapshot import NodeView
from planner_builders import is_in, pool, reservation, shape

BIG = shape(3000)
ON = Settings(node_repair=True)
NOT_READY = RepairPolicy("Ready", "False", 30 * 60)
REPAIR_POLICIES = (
    NOT_READY,
    RepairPolicy("Accelerator", "False", 600, priority=50),
    RepairPolicy(
        "Accelerator", "False", 600, "XID.*", drain_bound_s=300, priority=80, action=RepairAction.REBOOT
    ),
)
READY_FALSE = NodeCondition("Ready", "False", "KubeletNotReady", NOW_S - HOUR_S)
XID = NodeCondition("Accelerator", "False", "XID79", NOW_S - HOUR_S)


def node(name: str, **more: Any) -> NodeView:
    return managed_node(name, MEDIUM, load(name, BIG, **more.pop("of_pods", {})), **more)


def decision_for(
    unhealthy_nodes: dict[str, NodeFacts],
    nodes: Sequence[NodeView] = (),
    settings: Settings = ON,
    **more: Any,
) -> Decision:
    """The decision for ten healthy nodes and the given nodes."""
    healthy = [node(f"well-{i}") for i in range(10)]
    reservations, repair_policies = more.get("reservations", ()), more.pop("repair_policies", REPAIR_POLICIES)
    types = pool(
        "default", catalog(reservations), is_in(names.CAPACITY_TYPE, names.ON_DEMAND, names.RESERVED)
    )
    found = disruption_input(
        *(*healthy, *(nodes or [node(name) for name in unhealthy_nodes])),
        facts=unhealthy_nodes,
        pools=more.pop("pools", [types]),
        **more,
    )
    return decide(found, settings, repair_policies=repair_policies)


def repaired(decision: Decision) -> DisruptionCommand:
    assert decision.command is not None
    assert decision.command.method is Method.REPAIR
    return decision.command


def unhealthy(*conditions: NodeCondition, **more: Any) -> NodeFacts:
    return NodeFacts(ready=False, conditions=conditions, **more)


@pytest.mark.fact("NC-38", "D-2", "D-3")
def test_unhealthy_node_is_replaced_before_empty_nodes_are_deleted() -> None:
    found = repaired(decision_for({"a": unhealthy(READY_FALSE)}, [node("a"), managed_node("empty", SMALL)]))
    assert (found.reason, found.action, found.candidates) == (
        DisruptionReason.UNHEALTHY,
        Action.REPLACE,
        ("a",),
    )
    assert len(found.replacements) == 1


@pytest.mark.fact("NC-38")
def test_no_node_is_repaired_with_the_gate_off_or_within_the_tolerated_time() -> None:
    assert decision_for({"a": unhealthy(READY_FALSE)}, settings=Settings()).command is None
    young = replace(READY_FALSE, since_s=NOW_S - 1799)
    decision = decision_for({"a": unhealthy(young)})
    assert decision.command is None
    assert BlockedCode.TOLERATED in codes(decision, "a")
    assert repaired(
        decision_for({"a": unhealthy(replace(READY_FALSE, since_s=NOW_S - 1800))})
    ).candidates == ("a",)


@pytest.mark.fact("aws-9.4.3")
@pytest.mark.parametrize(
    ("kind", "status", "minutes"),
    [
        ("Ready", "False", 30),
        ("Ready", "Unknown", 30),
        ("AcceleratedHardwareReady", "False", 10),
        ("StorageReady", "False", 30),
        ("NetworkingReady", "False", 30),
        ("KernelReady", "False", 30),
        ("ContainerRuntimeReady", "False", 30),
    ],
)
def test_aws_repair_policies_tolerate_each_condition_for_its_time(
    kind: str, status: str, minutes: int
) -> None:
    def after(seconds: int) -> Decision:
        condition = NodeCondition(kind, status, "", NOW_S - seconds)
        return decision_for({"a": unhealthy(condition)}, repair_policies=aws_repair.REPAIR_POLICIES)

    assert after(minutes * 60 - 1).command is None
    assert repaired(after(minutes * 60)).candidates == ("a",)


@pytest.mark.fact("aws-9.4.3")
def test_aws_repair_policies_ignore_other_conditions() -> None:
    pressure = NodeCondition("DiskPressure", "True", "", NOW_S - 9 * HOUR_S)
    assert (
        decision_for({"a": unhealthy(pressure)}, repair_policies=aws_repair.REPAIR_POLICIES).command is None
    )


@pytest.mark.fact("NC-38")
def test_pattern_of_the_reason_selects_reboot_and_other_reasons_mean_replace() -> None:
    assert repaired(decision_for({"a": unhealthy(XID)})).action is Action.REBOOT
    other = replace(XID, reason="Unknown")
    assert repaired(decision_for({"a": unhealthy(other)})).action is Action.REPLACE
    both = repaired(decision_for({"a": unhealthy(XID, READY_FALSE)}))
    assert both.action is Action.REPLACE  # replace takes precedence over reboot
    assert both.drain_bound_s == 300  # the shortest bound applies


@pytest.mark.fact("NC-38")
def test_repair_policy_is_chosen_by_priority_then_by_age_of_the_condition() -> None:
    def unhealthy_condition(priority: int, since_s: int, name: str = "X") -> UnhealthyCondition:
        return UnhealthyCondition(
            NodeCondition(name, "False", "", since_s), RepairPolicy(name, "False", 0, priority=priority)
        )

    urgent, old, young = unhealthy_condition(9, 50), unhealthy_condition(5, 10), unhealthy_condition(5, 20)
    assert repair.chosen([young, old, urgent]) is urgent
    assert repair.chosen([young, old]) is old
    named = unhealthy_condition(5, 10, "A")
    assert repair.chosen([old, named]) is named


@pytest.mark.fact("NC-38a", "C-9")
def test_do_not_repair_blocks_repair_and_do_not_disrupt_does_not() -> None:
    vetoed = decision_for({"a": unhealthy(READY_FALSE, do_not_repair=True)})
    assert vetoed.command is None
    assert BlockedCode.DO_NOT_REPAIR in codes(vetoed, "a")
    assert repaired(decision_for({"a": unhealthy(READY_FALSE, do_not_disrupt=True)})).candidates == ("a",)


@pytest.mark.fact("NC-38a")
def test_registered_and_uninitialized_node_is_repaired_without_budget() -> None:
    starting = node("a", initialized=False)
    found = decision_for({"a": unhealthy(READY_FALSE)}, [starting], rules=at_most("0"))
    assert repaired(found).candidates == ("a",)
    unregistered = decision_for({"a": unhealthy(READY_FALSE, registered=False)}, [starting])
    assert unregistered.command is None


@pytest.mark.fact("NC-38a", "NC-38b")
def test_node_with_blocking_pods_is_repaired_only_with_a_drain_bound() -> None:
    blocking = [node("a", of_pods={"do_not_disrupt": True})]
    assert decision_for({"a": unhealthy(READY_FALSE)}, blocking).command is None
    bounded = repaired(decision_for({"a": unhealthy(READY_FALSE, grace_period_s=120)}, blocking))
    assert bounded.drain_bound_s == 120
    assert [claim.claim.pods for claim in bounded.replacements] == [
        ("a-000000",)
    ]  # blocking pods are planned too
    both = repaired(decision_for({"a": unhealthy(XID, grace_period_s=120)}, blocking))
    assert both.drain_bound_s == 120  # the shorter bound
    of_policy = repaired(decision_for({"a": unhealthy(XID)}, blocking))
    assert of_policy.drain_bound_s == 300
    budget = decision_for({"a": unhealthy(READY_FALSE)}, budgets=(pdb(allowed=0),))
    assert budget.command is None


@pytest.mark.fact("NC-38", "D-10", "D-14")
def test_budget_limits_repairs_and_an_unhealthy_node_consumes_none() -> None:
    assert repaired(decision_for({"a": unhealthy(READY_FALSE)}, rules=at_most("1"))).candidates == ("a",)
    decision = decision_for({"a": unhealthy(READY_FALSE)}, rules=at_most("0"))
    assert decision.command is None
    assert BlockedCode.BUDGET in codes(decision, "a")


@pytest.mark.fact("NC-39")
def test_no_node_is_repaired_if_more_than_a_fifth_of_its_nodepool_is_unhealthy() -> None:
    """Twelve nodes: a fifth, rounded up, is three."""
    assert decision_for({name: unhealthy(READY_FALSE) for name in "ab"}).command is not None
    many = {name: unhealthy(READY_FALSE) for name in "abcd"}  # fourteen nodes: three may be unhealthy
    decision = decision_for(many)
    assert decision.command is None
    assert BlockedCode.BREAKER in codes(decision, "a")
    young = replace(READY_FALSE, since_s=NOW_S - 1)
    tolerated = {"a": unhealthy(READY_FALSE)} | {name: unhealthy(young) for name in "bcd"}
    assert BlockedCode.BREAKER in codes(decision_for(tolerated), "a")  # tolerated conditions count too


@pytest.mark.fact("NC-38a")
def test_nodes_are_repaired_by_priority_then_wait_then_disruption_cost() -> None:
    urgent = replace(XID, since_s=NOW_S - 601)
    assert repaired(decision_for({"a": unhealthy(READY_FALSE), "b": unhealthy(urgent)})).candidates == ("b",)
    waited = replace(READY_FALSE, since_s=NOW_S - 3 * HOUR_S)
    assert repaired(decision_for({"a": unhealthy(waited), "b": unhealthy(urgent)})).candidates == ("a",)
    busy = [managed_node("a", LARGE, load("a", shape(500), 5)), node("b")]
    assert repaired(
        decision_for({"a": unhealthy(READY_FALSE), "b": unhealthy(READY_FALSE)}, busy)
    ).candidates == ("b",)


# --- Slots -------------------------------------------------------------------------------------------------

FULL = reservation("cr-1", MEDIUM, available=0, total=1)


def reserved(facts: NodeFacts, settings: Settings = ON) -> Decision:
    only = pool("default", catalog([FULL]), is_in(names.CAPACITY_TYPE, names.RESERVED))
    nodes = [node("a", slot="cr-1"), *(node(f"n{i}", slot="cr-9") for i in range(5))]
    found = disruption_input(*nodes, facts={"a": facts}, reservations=[FULL], pools=[only], rules=FREE)
    return decide(found, settings, repair_policies=REPAIR_POLICIES)


def test_a_reserved_node_is_rebooted_before_it_is_replaced() -> None:
    found = repaired(reserved(unhealthy(READY_FALSE)))
    assert found.action is Action.REBOOT
    assert "slot" in found.why


@pytest.mark.fact("NC-38c", "W-24")
def test_reserved_node_that_is_unhealthy_after_its_reboot_is_terminated_first() -> None:
    rebooted = unhealthy(READY_FALSE, reboots_s=(NOW_S - HOUR_S,))
    found = repaired(reserved(rebooted))
    assert found.action is Action.TERMINATE_FIRST
    assert [one.waits_for_instance for one in found.replacements] == ["id-a"]
    gate_off = reserved(rebooted, Settings(node_repair=True, terminate_first_repair=False))
    assert gate_off.command is None
    drift_gate_off = Settings(node_repair=True, terminate_first_drift=False)
    assert repaired(reserved(rebooted, drift_gate_off)).action is Action.TERMINATE_FIRST


def test_reserved_node_whose_reboot_failed_is_replaced_at_once() -> None:
    recent = NodeCondition("Ready", "Unknown", "NodeStatusUnknown", NOW_S - 60)
    failed = unhealthy(recent, reboots_s=(NOW_S - HOUR_S,), rebooted_s=NOW_S, reboot_failed=True)
    assert repaired(reserved(failed)).action is Action.TERMINATE_FIRST
    assert reserved(replace(failed, ready=True)).command is None  # the node became ready
    gate_off = Settings()
    assert (
        repaired(reserved(failed, gate_off)).action is Action.TERMINATE_FIRST
    )  # a started repair is completed
    assert reserved(replace(failed, reboot_failed=False), gate_off).command is None


def test_node_is_not_repaired_within_five_minutes_after_its_reboot() -> None:
    rebooted = unhealthy(READY_FALSE, reboots_s=(NOW_S - HOUR_S,), rebooted_s=NOW_S - 299)
    assert reserved(rebooted).command is None
    assert repaired(reserved(replace(rebooted, rebooted_s=NOW_S - 300))).action is Action.TERMINATE_FIRST


@pytest.mark.fact("NC-39a")
def test_node_is_replaced_after_two_reboots_in_a_day() -> None:
    once = unhealthy(XID, reboots_s=(NOW_S - HOUR_S,))
    assert repaired(decision_for({"a": once})).action is Action.REBOOT
    twice = unhealthy(XID, reboots_s=(NOW_S - HOUR_S, NOW_S - 2 * HOUR_S))
    assert repaired(decision_for({"a": twice})).action is Action.REPLACE
    yesterday = unhealthy(XID, reboots_s=(NOW_S - 25 * HOUR_S, NOW_S - 26 * HOUR_S))
    assert repaired(decision_for({"a": yesterday})).action is Action.REBOOT


@pytest.mark.fact("NC-39a", "D-4")
def test_rebooting_node_is_not_disrupted() -> None:
    decision = decision_for({"a": unhealthy(READY_FALSE, rebooting=True)})
    assert decision.command is None
    assert BlockedCode.REBOOTING in codes(decision, "a")


@pytest.mark.fact("NC-38")
@pytest.mark.parametrize(
    "repair_policies",
    [
        (RepairPolicy("Ready", "False", 60, "X"),),
        (NOT_READY, NOT_READY),
        (replace(NOT_READY, action=RepairAction.REBOOT),),
        (replace(NOT_READY, priority=101),),
        (NOT_READY, replace(NOT_READY, reason="(")),
        (replace(NOT_READY, tolerated_s=-1),),
        (replace(NOT_READY, priority=-1),),
        (replace(NOT_READY, drain_bound_s=-1),),
    ],
)
def test_invalid_repair_policies_are_rejected(
    repair_policies: tuple[RepairPolicy, ...],
) -> None:
    with pytest.raises(errors.InvalidInput):
        repair.check(repair_policies)


def test_valid_repair_policies_are_accepted_up_to_their_bounds() -> None:
    repair.check(REPAIR_POLICIES)
    repair.check((replace(NOT_READY, priority=0, tolerated_s=0, drain_bound_s=0),))
    repair.check((replace(NOT_READY, priority=100),))
