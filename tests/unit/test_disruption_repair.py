"""Nodes that are ill: who is mended, how, in which order, and who is not."""

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
    load,
    machine,
    pdb,
    world,
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
ILL = NodeCondition("Ready", "False", "KubeletNotReady", NOW_S - HOUR_S)
XID = NodeCondition("Accelerator", "False", "XID79", NOW_S - HOUR_S)


def node(name: str, **more: Any) -> NodeView:
    return machine(name, MEDIUM, load(name, BIG, **more.pop("of_pods", {})), **more)


def decided(
    ill: dict[str, NodeFacts], nodes: Sequence[NodeView] = (), settings: Settings = ON, **more: Any
) -> Decision:
    """Ten nodes that are well, and those."""
    well = [node(f"well-{i}") for i in range(10)]
    kept, repair_policies = more.get("reservations", ()), more.pop("repair_policies", REPAIR_POLICIES)
    types = pool("default", catalog(kept), is_in(names.CAPACITY_TYPE, names.ON_DEMAND, names.RESERVED))
    found = world(
        *(*well, *(nodes or [node(name) for name in ill])),
        facts=ill,
        pools=more.pop("pools", [types]),
        **more,
    )
    return decide(found, settings, repair_policies=repair_policies)


def repaired(decision: Decision) -> DisruptionCommand:
    assert decision.command is not None
    assert decision.command.method is Method.REPAIR
    return decision.command


def sick(*conditions: NodeCondition, **more: Any) -> NodeFacts:
    return NodeFacts(ready=False, conditions=conditions, **more)


@pytest.mark.fact("NC-38", "D-2", "D-3")
def test_a_node_that_is_ill_for_too_long_is_replaced_before_anything_else_happens() -> None:
    found = repaired(decided({"a": sick(ILL)}, [node("a"), machine("empty", SMALL)]))
    assert (found.reason, found.action, found.candidates) == (
        DisruptionReason.UNHEALTHY,
        Action.REPLACE,
        ("a",),
    )
    assert len(found.replacements) == 1


@pytest.mark.fact("NC-38")
def test_with_the_gate_shut_or_within_what_is_tolerated_nothing_is_repaired() -> None:
    assert decided({"a": sick(ILL)}, settings=Settings()).command is None
    young = replace(ILL, since_s=NOW_S - 1799)
    decision = decided({"a": sick(young)})
    assert decision.command is None
    assert BlockedCode.TOLERATED in codes(decision, "a")
    assert repaired(decided({"a": sick(replace(ILL, since_s=NOW_S - 1800))})).candidates == ("a",)


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
def test_aws_says_what_is_tolerated_and_for_how_long(kind: str, status: str, minutes: int) -> None:
    def after(seconds: int) -> Decision:
        ill = NodeCondition(kind, status, "", NOW_S - seconds)
        return decided({"a": sick(ill)}, repair_policies=aws_repair.REPAIR_POLICIES)

    assert after(minutes * 60 - 1).command is None
    assert repaired(after(minutes * 60)).candidates == ("a",)


@pytest.mark.fact("aws-9.4.3")
def test_aws_says_nothing_of_other_conditions() -> None:
    pressure = NodeCondition("DiskPressure", "True", "", NOW_S - 9 * HOUR_S)
    assert decided({"a": sick(pressure)}, repair_policies=aws_repair.REPAIR_POLICIES).command is None


@pytest.mark.fact("NC-38")
def test_a_pattern_of_the_reason_decides_how_and_what_matches_none_is_replaced() -> None:
    assert repaired(decided({"a": sick(XID)})).action is Action.REBOOT
    other = replace(XID, reason="Unknown")
    assert repaired(decided({"a": sick(other)})).action is Action.REPLACE
    both = repaired(decided({"a": sick(XID, ILL)}))
    assert both.action is Action.REPLACE  # replacing comes before rebooting
    assert both.drain_bound_s == 300  # and the shortest bound of all holds


@pytest.mark.fact("NC-38")
def test_of_several_treatments_priority_then_who_waits_longest_decides() -> None:
    def illness(priority: int, since_s: int, name: str = "X") -> UnhealthyCondition:
        return UnhealthyCondition(
            NodeCondition(name, "False", "", since_s), RepairPolicy(name, "False", 0, priority=priority)
        )

    urgent, old, young = illness(9, 50), illness(5, 10), illness(5, 20)
    assert repair.chosen([young, old, urgent]) is urgent
    assert repair.chosen([young, old]) is old
    named = illness(5, 10, "A")
    assert repair.chosen([old, named]) is named


@pytest.mark.fact("NC-38a", "C-9")
def test_a_veto_on_the_node_is_heard_and_do_not_disrupt_is_not() -> None:
    vetoed = decided({"a": sick(ILL, do_not_repair=True)})
    assert vetoed.command is None
    assert BlockedCode.DO_NOT_REPAIR in codes(vetoed, "a")
    assert repaired(decided({"a": sick(ILL, do_not_disrupt=True)})).candidates == ("a",)


@pytest.mark.fact("NC-38a")
def test_a_node_that_registered_and_never_started_is_repaired_without_budget() -> None:
    starting = node("a", initialized=False)
    found = decided({"a": sick(ILL)}, [starting], rules=at_most("0"))
    assert repaired(found).candidates == ("a",)
    unregistered = decided({"a": sick(ILL, registered=False)}, [starting])
    assert unregistered.command is None


@pytest.mark.fact("NC-38a", "NC-38b")
def test_pods_that_block_need_a_bound_of_the_drain() -> None:
    stubborn = [node("a", of_pods={"do_not_disrupt": True})]
    assert decided({"a": sick(ILL)}, stubborn).command is None
    bounded = repaired(decided({"a": sick(ILL, grace_period_s=120)}, stubborn))
    assert bounded.drain_bound_s == 120
    assert [claim.claim.pods for claim in bounded.replacements] == [
        ("a-000000",)
    ]  # they are planned for as well
    both = repaired(decided({"a": sick(XID, grace_period_s=120)}, stubborn))
    assert both.drain_bound_s == 120  # the shorter one
    of_treatment = repaired(decided({"a": sick(XID)}, stubborn))
    assert of_treatment.drain_bound_s == 300
    budget = decided({"a": sick(ILL)}, budgets=(pdb(allowed=0),))
    assert budget.command is None


@pytest.mark.fact("NC-38", "D-10", "D-14")
def test_budgets_bound_repairs_and_being_down_alone_uses_none() -> None:
    assert repaired(decided({"a": sick(ILL)}, rules=at_most("1"))).candidates == ("a",)
    decision = decided({"a": sick(ILL)}, rules=at_most("0"))
    assert decision.command is None
    assert BlockedCode.BUDGET in codes(decision, "a")


@pytest.mark.fact("NC-39")
def test_when_more_than_a_fifth_of_a_pool_is_ill_nothing_is_repaired() -> None:
    """Twelve nodes: a fifth, rounded up, is three."""
    assert decided({name: sick(ILL) for name in "ab"}).command is not None
    many = {name: sick(ILL) for name in "abcd"}  # fourteen nodes: three may be ill
    decision = decided(many)
    assert decision.command is None
    assert BlockedCode.BREAKER in codes(decision, "a")
    young = replace(ILL, since_s=NOW_S - 1)
    tolerated = {"a": sick(ILL)} | {name: sick(young) for name in "bcd"}
    assert BlockedCode.BREAKER in codes(decided(tolerated), "a")  # tolerated or not


@pytest.mark.fact("NC-38a")
def test_the_most_urgent_node_is_mended_first_and_waiting_makes_urgent() -> None:
    urgent = replace(XID, since_s=NOW_S - 601)
    assert repaired(decided({"a": sick(ILL), "b": sick(urgent)})).candidates == ("b",)
    waited = replace(ILL, since_s=NOW_S - 3 * HOUR_S)
    assert repaired(decided({"a": sick(waited), "b": sick(urgent)})).candidates == ("a",)
    busy = [machine("a", LARGE, load("a", shape(500), 5)), node("b")]
    assert repaired(decided({"a": sick(ILL), "b": sick(ILL)}, busy)).candidates == ("b",)


# --- Slots -------------------------------------------------------------------------------------------------

FULL = reservation("cr-1", MEDIUM, available=0, total=1)


def reserved(facts: NodeFacts, settings: Settings = ON) -> Decision:
    only = pool("default", catalog([FULL]), is_in(names.CAPACITY_TYPE, names.RESERVED))
    nodes = [node("a", slot="cr-1"), *(node(f"n{i}", slot="cr-9") for i in range(5))]
    found = world(*nodes, facts={"a": facts}, reservations=[FULL], pools=[only], rules=FREE)
    return decide(found, settings, repair_policies=REPAIR_POLICIES)


def test_a_reserved_node_is_rebooted_before_it_is_replaced() -> None:
    found = repaired(reserved(sick(ILL)))
    assert found.action is Action.REBOOT
    assert "slot" in found.why


@pytest.mark.fact("NC-38c", "W-24")
def test_when_a_reboot_did_not_help_it_is_replaced_with_its_slot_held() -> None:
    rebooted = sick(ILL, reboots_s=(NOW_S - HOUR_S,))
    found = repaired(reserved(rebooted))
    assert found.action is Action.TERMINATE_FIRST
    assert [one.waits_for_instance for one in found.replacements] == ["id-a"]
    shut = reserved(rebooted, Settings(node_repair=True, terminate_first_repair=False))
    assert shut.command is None
    drift_alone = Settings(node_repair=True, terminate_first_drift=False)
    assert repaired(reserved(rebooted, drift_alone)).action is Action.TERMINATE_FIRST


def test_a_reserved_node_that_is_not_back_from_its_reboot_is_replaced_at_once() -> None:
    lately = NodeCondition("Ready", "Unknown", "NodeStatusUnknown", NOW_S - 60)
    gone = sick(lately, reboots_s=(NOW_S - HOUR_S,), rebooted_s=NOW_S, reboot_failed=True)
    assert repaired(reserved(gone)).action is Action.TERMINATE_FIRST
    assert reserved(replace(gone, ready=True)).command is None  # it came back after all
    shut = Settings()
    assert repaired(reserved(gone, shut)).action is Action.TERMINATE_FIRST  # what was begun is seen through
    assert reserved(replace(gone, reboot_failed=False), shut).command is None


def test_a_node_that_is_just_back_from_its_reboot_is_given_time() -> None:
    back = sick(ILL, reboots_s=(NOW_S - HOUR_S,), rebooted_s=NOW_S - 299)
    assert reserved(back).command is None
    assert repaired(reserved(replace(back, rebooted_s=NOW_S - 300))).action is Action.TERMINATE_FIRST


@pytest.mark.fact("NC-39a")
def test_after_two_reboots_in_a_day_a_node_is_replaced_whatever_the_treatment() -> None:
    once = sick(XID, reboots_s=(NOW_S - HOUR_S,))
    assert repaired(decided({"a": once})).action is Action.REBOOT
    twice = sick(XID, reboots_s=(NOW_S - HOUR_S, NOW_S - 2 * HOUR_S))
    assert repaired(decided({"a": twice})).action is Action.REPLACE
    yesterday = sick(XID, reboots_s=(NOW_S - 25 * HOUR_S, NOW_S - 26 * HOUR_S))
    assert repaired(decided({"a": yesterday})).action is Action.REBOOT


@pytest.mark.fact("NC-39a", "D-4")
def test_a_node_that_reboots_is_left_alone() -> None:
    decision = decided({"a": sick(ILL, rebooting=True)})
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
    ],
)
def test_a_set_of_treatments_that_cannot_be_used_is_refused(
    repair_policies: tuple[RepairPolicy, ...],
) -> None:
    with pytest.raises(errors.InvalidInput):
        repair.check(repair_policies)


def test_the_treatments_of_these_tests_can_be_used() -> None:
    repair.check(REPAIR_POLICIES)
