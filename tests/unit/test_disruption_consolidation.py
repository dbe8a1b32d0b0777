"""Consolidation: which nodes are deleted or replaced, by what, and why other nodes are not disrupted."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import (
    FREE,
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
from holdfast import names
from holdfast.core.disruption import consolidation
from holdfast.core.disruption.candidates import Candidate, CandidateSet
from holdfast.core.disruption.commands import Action, Decision, DisruptionCommand, Method
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import (
    Budget,
    DisruptionInput,
    DisruptionReason,
    Drifted,
    NodeFacts,
    Policy,
    PoolRules,
    ReleaseSlots,
    Settings,
)
from holdfast.model import requirement, requirements
from holdfast.model.pods import PodView
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.requirement import Operator
from holdfast.model.snapshot import NodeView
from holdfast.model.taints import Effect, Taint, Toleration, TolerationOperator
from planner_builders import NANO, instance_type, is_in, one_per_node, pods, pool, reservation, shape

WEB = shape(1000)
HALF = shape(1900)
ON_DEMAND_ONLY = is_in(names.CAPACITY_TYPE, names.ON_DEMAND, names.RESERVED)


def on_demand(*expressions: Any, reservations: Sequence[Any] = (), **more: Any) -> list[Any]:
    return [pool("default", catalog(reservations), ON_DEMAND_ONLY, *expressions, **more)]


def decision_for(*nodes: NodeView, settings: Settings | None = None, **more: Any) -> Decision:
    if "pools" not in more:
        more["pools"] = on_demand(reservations=more.get("reservations", ()))
    return decide(disruption_input(*nodes, **more), settings or Settings())


def command(*nodes: NodeView, **more: Any) -> DisruptionCommand:
    found = decision_for(*nodes, **more).command
    assert found is not None
    return found


def replaced_by(found: DisruptionCommand) -> list[tuple[str, str, str | None]]:
    return [
        (one.claim.instance_type, one.claim.capacity_type, one.claim.reservation_id)
        for one in found.replacements
    ]


@pytest.mark.fact("D-2")
def test_emptiness_comes_before_drift_and_drift_before_consolidation() -> None:
    empty = managed_node("a", SMALL)
    drifted = managed_node("b", MEDIUM, load("b", shape(3000)))
    idle = managed_node("c", LARGE, load("c", shape(3500)))
    facts = {"b": NodeFacts(drifted=Drifted("AMI", 1))}
    first = decision_for(empty, drifted, idle, facts=facts)
    assert first.command is not None
    assert first.command.method is Method.EMPTINESS
    assert codes(first, "b") == codes(first, "c") == {BlockedCode.ANOTHER_FIRST}
    assert command(drifted, idle, facts=facts).method is Method.DRIFT
    assert command(drifted, idle).reason is DisruptionReason.UNDERUTILIZED


# --- Emptiness -----------------------------------------------------------------------------------------


@pytest.mark.fact("D-15", "D-16", "D-3")
def test_all_empty_nodes_are_deleted_in_one_command_without_replacements() -> None:
    reservations = [reservation("cr-1", MEDIUM, available=0, total=1)]
    found = command(
        managed_node("a"),
        managed_node("b", LARGE),
        managed_node("c", LARGE, load("c", shape(6000))),  # its pod does not fit in the slot
        managed_node("d", slot="cr-1"),
        reservations=reservations,
    )
    assert (found.method, found.reason, found.action) == (
        Method.EMPTINESS,
        DisruptionReason.EMPTY,
        Action.DELETE,
    )
    assert found.candidates == ("b", "a", "d")
    assert not found.replacements
    assert found.saves_nano_usd_per_hour == round(0.6 * NANO)


@pytest.mark.fact("D-16")
def test_budget_limits_how_many_empty_nodes_are_deleted() -> None:
    decision = decision_for(
        managed_node("a"), managed_node("b", LARGE), managed_node("c"), rules=at_most("1")
    )
    assert decision.command is not None
    assert decision.command.candidates == ("b",)
    assert codes(decision, "a") == codes(decision, "c") == {BlockedCode.BUDGET}
    assert [(one.reason, one.allowed) for one in decision.allowances] == [(DisruptionReason.EMPTY, 1)]


@pytest.mark.fact("D-15", "D-49")
def test_empty_node_is_not_deleted_before_consolidate_after_or_with_consolidation_off() -> None:
    fresh = managed_node("a", last_pod_event_s=NOW_S - 10)
    decision = decision_for(fresh, pools=on_demand(consolidate_after_s=60))
    assert decision.command is None
    assert BlockedCode.UNSETTLED in codes(decision, "a")
    never = decision_for(managed_node("a"), pools=on_demand(consolidate_after_s=None))
    assert never.command is None
    assert BlockedCode.CONSOLIDATION_OFF in codes(never, "a")
    assert decision_for(managed_node("a"), rules=PoolRules(static=True, budgets=())).command is None


@pytest.mark.fact("D-9")
def test_empty_node_of_an_unknown_instance_type_is_deleted() -> None:
    bare = managed_node("a", labels={names.INSTANCE_TYPE: "unheard-of"})
    assert command(bare).candidates == ("a",)


@pytest.mark.fact("D-49")
@pytest.mark.parametrize("policy", list(Policy))
def test_every_policy_deletes_empty_nodes(policy: Policy) -> None:
    assert command(managed_node("a"), rules=PoolRules(policy, ())).method is Method.EMPTINESS


# --- Empty nodes in slots ------------------------------------------------------------------------------

FULL = [reservation("cr-1", MEDIUM, available=0, total=2)]


@pytest.mark.fact("D-15")
def test_pods_move_to_an_empty_node_in_a_slot_before_it_is_deleted() -> None:
    paid = managed_node("paid", MEDIUM, load("paid", shape(3000)))
    found = command(paid, managed_node("slot", slot="cr-1"), reservations=FULL)
    assert (found.reason, found.action) == (DisruptionReason.UNDERUTILIZED, Action.DELETE)
    assert found.candidates == ("paid",)
    assert [one.node for one in found.placed] == ["slot"]
    assert found.saves_nano_usd_per_hour == round(0.2 * NANO)


@pytest.mark.parametrize("consumed", [False, True])
def test_only_as_many_empty_nodes_in_slots_remain_as_pods_move_to(*, consumed: bool) -> None:
    """Emptiness deletes the other one when consolidation has no command: it saves nothing, and both need the budget."""
    rules = PoolRules(budgets=(Budget("1", frozenset({"Underutilized"})),))
    paid = managed_node("paid", MEDIUM, load("paid", shape(3000)))
    slots = [managed_node(name, slot="cr-1") for name in ("slot-1", "slot-2")]
    moving = [managed_node("moving", MEDIUM, deleting=True)] if consumed else []
    decision = decision_for(paid, *slots, *moving, reservations=FULL, rules=rules)
    assert decision.command is not None
    assert decision.command.candidates == (("slot-2",) if consumed else ("paid",))
    assert codes(decision, "slot-1") == {BlockedCode.ANOTHER_FIRST}


def test_empty_node_outside_of_reservations_is_deleted_while_pods_move_to_a_slot() -> None:
    """A command that is rejected again and again must not delay the deletion of a node that costs money."""
    paid = managed_node("paid", MEDIUM, load("paid", shape(3000)))
    found = command(paid, managed_node("empty"), managed_node("slot", slot="cr-1"), reservations=FULL)
    assert (found.method, found.candidates) == (Method.EMPTINESS, ("empty",))


@pytest.mark.fact("D-15")
@pytest.mark.parametrize(
    ("pods_", "more"),
    [
        (load("paid", shape(6000)), {}),  # no slot is large enough for the pod
        (load("paid", shape(3000)), {"rules": PoolRules(Policy.WHEN_EMPTY, ())}),
        (load("paid", shape(3000), do_not_disrupt=True), {}),
        (load("paid", shape(3000)), {"rules": at_most("0", reasons=frozenset({"Underutilized"}))}),
        (load("paid", shape(3000)), {"settings": Settings(release_slots=ReleaseSlots.ALWAYS)}),
        (load("paid", shape(3000)), {"settings": Settings(saving_per_pod_nano=NANO)}),
    ],
    ids=["too large", "WhenEmpty", "do-not-disrupt", "budget", "release-slots", "saves too little"],
)
def test_empty_node_in_a_slot_is_deleted_if_no_pods_move_to_it(
    pods_: Sequence[PodView], more: dict[str, Any]
) -> None:
    paid = managed_node("paid", LARGE, pods_)
    decision = decision_for(paid, managed_node("slot", slot="cr-1"), reservations=FULL, **more)
    assert decision.command is not None
    assert (decision.command.method, decision.command.candidates) == (Method.EMPTINESS, ("slot",))


def test_empty_node_in_a_slot_remains_while_another_node_uses_up_the_budget() -> None:
    """The budget of consolidation is one node: pods of the second node move after those of the first."""
    rules = PoolRules(budgets=(Budget("1", frozenset({"Underutilized"})),))
    moving = managed_node("moving", MEDIUM, load("moving", shape(3000)), deleting=True)
    paid = managed_node("paid", MEDIUM, load("paid", shape(3000)))
    slots = [managed_node("slot-1", slot="cr-1", nominated=True), managed_node("slot-2", slot="cr-1")]
    decision = decision_for(moving, paid, *slots, reservations=FULL, rules=rules)
    assert decision.command is None
    assert codes(decision, "slot-2") == {BlockedCode.ANOTHER_FIRST}
    assert codes(decision, "paid") == {BlockedCode.BUDGET}


def test_empty_node_in_a_slot_is_deleted_for_a_pending_pod_that_needs_the_slot() -> None:
    """The pending pod does not tolerate the taint of the empty node, and its NodePool launches into slots only."""
    taints = (Taint("team", Effect.NO_SCHEDULE),)
    tolerant = shape(3000, tolerations=(Toleration("team", TolerationOperator.EXISTS),))
    pools = [
        pool("default", catalog(FULL), ON_DEMAND_ONLY, taints=taints),
        pool("other", catalog(FULL), is_in(names.CAPACITY_TYPE, names.RESERVED)),
    ]
    nodes = [
        managed_node("paid", MEDIUM, load("paid", tolerant), taints=taints),
        managed_node("slot-1", slot="cr-1", taints=taints),
        managed_node("slot-2", MEDIUM, load("used", shape(3500)), slot="cr-1"),
    ]
    decision = decision_for(*nodes, pools=pools, pending=pods(1, shape(3000)), reservations=FULL)
    assert decision.command is not None
    assert (decision.command.method, decision.command.candidates) == (Method.EMPTINESS, ("slot-1",))


@pytest.mark.parametrize("is_drifted", [True, False])
def test_drifted_empty_node_in_a_slot_is_deleted(*, is_drifted: bool) -> None:
    paid = managed_node("paid", MEDIUM, load("paid", shape(3000)))
    facts = {"slot": NodeFacts(drifted=Drifted("AMI", 1))} if is_drifted else {}
    found = command(paid, managed_node("slot", slot="cr-1"), reservations=FULL, facts=facts)
    assert found.candidates == (("slot",) if is_drifted else ("paid",))


# --- One node ------------------------------------------------------------------------------------------


@pytest.mark.fact("D-24")
def test_node_whose_pods_fit_on_other_nodes_is_deleted() -> None:
    found = command(
        managed_node("a", LARGE, load("a", WEB)), managed_node("b", MEDIUM, load("b", shape(2000)))
    )
    assert found.action is Action.DELETE
    assert found.candidates == ("a",)
    assert [(one.node, one.pods) for one in found.placed] == [("b", ("a-000000",))]


@pytest.mark.fact("D-25", "D-29", "D-3")
def test_node_is_replaced_by_a_cheaper_node_that_fits_its_pods() -> None:
    found = command(managed_node("a", LARGE, load("a", HALF)))
    assert (found.method, found.reason, found.action) == (
        Method.SINGLE_NODE,
        DisruptionReason.UNDERUTILIZED,
        Action.REPLACE,
    )
    assert replaced_by(found) == [(SMALL, names.ON_DEMAND, None)]
    (replacement,) = found.replacements
    assert replacement.claim.instance_types == (SMALL, MEDIUM)  # only cheaper types are listed
    assert found.saves_nano_usd_per_hour == round(0.3 * NANO)


@pytest.mark.fact("D-25", "D-44")
def test_node_without_a_cheaper_replacement_is_not_disrupted() -> None:
    decision = decision_for(managed_node("a", MEDIUM, load("a", shape(3000))))
    assert decision.command is None
    assert codes(decision, "a") == {BlockedCode.NOT_CHEAPER}


@pytest.mark.fact("D-24")
def test_node_is_not_replaced_by_two_on_demand_nodes() -> None:
    apart = [pod._replace(shape=shape(1900, **one_per_node())) for pod in load("a", HALF, 2)]
    decision = decision_for(managed_node("a", LARGE, apart))
    assert decision.command is None
    assert BlockedCode.TOO_MANY in codes(decision, "a")


@pytest.mark.fact("D-23", "S-25")
def test_pods_are_not_moved_to_unsettled_or_uninitialized_nodes() -> None:
    mover = managed_node("a", MEDIUM, load("a", shape(3000)))
    fresh = managed_node("b", MEDIUM, last_pod_event_s=NOW_S - 10)
    assert decision_for(mover, fresh, pools=on_demand(consolidate_after_s=60)).command is None
    starting = managed_node("b", MEDIUM, initialized=False)
    decision = decision_for(mover, starting)
    assert decision.command is None
    assert BlockedCode.ON_STARTING_NODE in codes(decision, "a")


@pytest.mark.parametrize(("used_millis", "is_deleted"), [(900, False), (400, True)])
def test_node_is_not_deleted_if_kube_scheduler_would_leave_one_of_its_pods_pending(
    used_millis: int, *, is_deleted: bool
) -> None:
    """The plan places the pod of 2 cpu on "full" and the other pods on "half". kube-scheduler binds it to "half", where
    the larger share stays free, and then one of the other pods fits on no node."""
    big, small = shape(2000), shape(1500)
    mover = managed_node("a", LARGE, (*load("a-big", big), *load("a-small", small, 2)))
    full = managed_node("full", LARGE, load("full", shape(5900)))
    half = managed_node("half", MEDIUM, load("half", shape(used_millis)))
    blocked = {"full": NodeFacts(do_not_disrupt=True), "half": NodeFacts(do_not_disrupt=True)}
    decision = decision_for(mover, full, half, facts=blocked)
    assert (decision.command is not None) is is_deleted
    assert is_deleted or BlockedCode.PODS_WITHOUT_PLACE in codes(decision, "a")


def test_node_is_deleted_once_the_target_node_has_settled() -> None:
    """Only the time changes: the other node has been settled for the consolidateAfter of its NodePool."""
    pools = on_demand(consolidate_after_s=60)
    mover, fresh = (
        managed_node("a", MEDIUM, load("a", shape(3000))),
        managed_node("b", MEDIUM, last_pod_event_s=NOW_S - 10),
    )
    blocked = {"b": NodeFacts(do_not_disrupt=True)}
    first = decision_for(mover, fresh, pools=pools, facts=blocked)
    assert first.command is None
    later = disruption_input(mover, fresh, pools=pools, facts=blocked, now_s=NOW_S + 51)
    found = decide(later, Settings(), first.cache).command
    assert found is not None
    assert found.candidates == ("a",)


@pytest.mark.fact("D-21")
@pytest.mark.parametrize(
    ("labels", "code"),
    [
        ({names.INSTANCE_TYPE: "unheard-of"}, BlockedCode.UNKNOWN_TYPE),
        ({}, None),
    ],
)
def test_node_of_an_unknown_instance_type_is_not_consolidated(
    labels: dict[str, str], code: BlockedCode | None
) -> None:
    decision = decision_for(managed_node("a", LARGE, load("a", WEB), labels=labels))
    assert (decision.command is None) is (code is not None)
    assert code is None or code in codes(decision, "a")


@pytest.mark.fact("D-9", "D-21")
@pytest.mark.parametrize("key", [names.CAPACITY_TYPE, names.ZONE])
def test_node_without_capacity_type_or_zone_label_is_not_consolidated(key: str) -> None:
    full = managed_node("a", LARGE, load("a", WEB))
    bare = replace(full, labels=tuple(one for one in full.labels if one[0] != key))
    decision = decide(disruption_input(bare, pools=on_demand(), instances=()))
    assert decision.command is None
    assert BlockedCode.NO_LABELS in codes(decision, "a")


@pytest.mark.fact("D-49", "D-21")
def test_when_empty_policy_does_not_consolidate_nodes_with_pods() -> None:
    decision = decision_for(managed_node("a", LARGE, load("a", WEB)), rules=PoolRules(Policy.WHEN_EMPTY, ()))
    assert decision.command is None
    assert BlockedCode.WHEN_EMPTY in codes(decision, "a")


@pytest.mark.fact("D-38")
def test_single_node_consolidation_alternates_between_nodepools_and_continues_in_the_next_pass() -> None:
    other = {names.NODEPOOL: "other"}
    stuck = [spot(name, LARGE, 6000) for name in "ab"]  # cheaper spot nodes exist; the gate is off
    paid = managed_node("c", SMALL, load("c", HALF), labels=other)
    pools = [
        pool("default", (*many_types(1, cpu=8), *catalog()[2:]), is_in(names.CAPACITY_TYPE, names.SPOT)),
        pool("other", (instance_type("tiny", 2, 8, 0.01), *catalog()), ON_DEMAND_ONLY),
    ]
    cluster = disruption_input(*stuck, paid, pools=pools, rules={"default": FREE, "other": FREE})
    few = Settings(nodes_simulated_max=1, together_max=0)
    first = decide(cluster, few)
    assert first.command is None
    assert BlockedCode.NOT_REACHED in codes(first, "b") & codes(first, "c")
    assert first.cache.unreached == ("other", "default")
    assert first.unfinished == (Method.SINGLE_NODE,)
    assert first.eligible == {
        DisruptionReason.EMPTY: 0,
        DisruptionReason.DRIFTED: 0,
        DisruptionReason.UNDERUTILIZED: 3,
    }
    second = decide(cluster, few, first.cache)
    assert second.command is not None
    assert second.command.candidates == ("c",)


# --- Several nodes -------------------------------------------------------------------------------------


@pytest.mark.fact("D-36", "D-24")
def test_several_nodes_are_replaced_by_one_cheaper_node() -> None:
    found = command(*(managed_node(f"n{i}", MEDIUM, load(f"n{i}", shape(2500))) for i in range(3)))
    assert found.method is Method.MULTI_NODE
    assert set(found.candidates) == {"n0", "n1", "n2"}
    assert replaced_by(found) == [(LARGE, names.ON_DEMAND, None)]
    assert found.saves_nano_usd_per_hour == round(0.2 * NANO)


@pytest.mark.fact("D-37")
def test_two_nodes_are_not_replaced_by_another_of_the_same_type() -> None:
    """Another medium node is cheaper than a medium and a small node together. They are not replaced, because it is as
    good to leave the medium node running. Karpenter does the same."""
    bound = shape(1800, node_selector=requirements.of(is_in(names.ZONE, "z2")))
    nodes = [
        managed_node("a", MEDIUM, load("a", shape(2000))),
        managed_node("b", SMALL, load("b", bound), zone="z2"),
    ]
    assert decision_for(*nodes).command is None
    large = managed_node("a", LARGE, load("a", shape(2000)))
    found = command(large, nodes[1])
    assert set(found.candidates) == {"a", "b"}
    assert replaced_by(found) == [(MEDIUM, names.ON_DEMAND, None)]


@pytest.mark.fact("D-36", "D-14")
def test_budget_limits_how_many_nodes_are_consolidated_together() -> None:
    nodes = [managed_node(f"n{i}", LARGE, load(f"n{i}", WEB)) for i in range(6)]
    found = command(*nodes, rules=at_most("2"))
    assert len(found.candidates) == 2


# --- Spot ----------------------------------------------------------------------------------------------


def spot(name: str, type_: str, cpu_millis: int) -> NodeView:
    return managed_node(name, type_, load(name, shape(cpu_millis)), capacity_type=names.SPOT)


def many_types(count: int, cpu: int = 4) -> list[Any]:
    """Types with rising prices, all below the price of the large type."""
    return [instance_type(f"t{i:02d}", cpu, 4 * cpu, 0.2 + 0.001 * i) for i in range(count)]


def spot_pools(count: int) -> list[Any]:
    return [pool("default", (*many_types(count), *catalog()[2:]), is_in(names.CAPACITY_TYPE, names.SPOT))]


@pytest.mark.fact("D-27", "D-25")
def test_spot_node_is_replaced_by_spot_only_with_the_feature_gate_on_and_enough_types() -> None:
    node = spot("a", LARGE, 3000)
    gate_off = decision_for(node, pools=spot_pools(20))
    assert gate_off.command is None
    assert BlockedCode.SPOT_TO_SPOT in codes(gate_off, "a")
    few = decision_for(node, pools=spot_pools(14), settings=Settings(spot_to_spot=True))
    assert few.command is None
    assert BlockedCode.SPOT_TO_SPOT in codes(few, "a")
    found = command(node, pools=spot_pools(20), settings=Settings(spot_to_spot=True))
    (one,) = found.replacements
    assert one.claim.instance_types == tuple(f"t{i:02d}" for i in range(15))
    assert one.claim.requirements.get(names.CAPACITY_TYPE).values == {names.SPOT}


@pytest.mark.fact("D-26")
def test_replacement_that_may_be_spot_requires_spot() -> None:
    found = command(managed_node("a", LARGE, load("a", HALF)), pools=[pool("default", catalog())])
    (one,) = found.replacements
    assert one.claim.capacity_type == names.SPOT
    assert one.claim.requirements.get(names.CAPACITY_TYPE).values == {names.SPOT}


@pytest.mark.fact("D-30", "Q-9")
def test_spot_node_moves_into_a_slot_with_the_spot_to_spot_gate_off() -> None:
    reservations = [reservation("cr-1", LARGE)]
    found = command(
        spot("a", LARGE, 7000), reservations=reservations, pools=[pool("default", catalog(reservations))]
    )
    assert replaced_by(found) == [(LARGE, names.RESERVED, "cr-1")]


@pytest.mark.parametrize("policy", [None, "Never"])
def test_pods_move_to_an_empty_node_of_equal_price_only_if_it_is_never_deleted(policy: str | None) -> None:
    """The empty node is deleted after consolidateAfter, so moving pods to it saves nothing unless that is Never."""
    after_s = None if policy == "Never" else 300
    pools = on_demand(consolidate_after_s=after_s)
    pools.append(pool("other", catalog(), ON_DEMAND_ONLY))
    used = managed_node("used", MEDIUM, load("used", shape(3000)), labels={names.NODEPOOL: "other"})
    empty = managed_node("empty", MEDIUM)
    facts = {"empty": NodeFacts(initialized_s=NOW_S - 60)}
    decision = decision_for(used, empty, pools=pools, facts=facts)
    if policy == "Never":  # the empty node is never deleted
        assert decision.command is not None
        assert decision.command.candidates == ("used",)
    else:
        assert decision.command is None
        assert BlockedCode.NOT_CHEAPER in codes(decision, "used")


def test_consolidation_requires_a_minimum_saving_per_evicted_pod() -> None:
    """Eight cores at 0.4 an hour become four at 0.2: the saving is 0.2 an hour."""
    per_pod = Settings(saving_per_pod_nano=round(0.06 * NANO))
    assert (
        decision_for(managed_node("a", LARGE, load("a", shape(1000), 3)), settings=per_pod).command
        is not None
    )
    decision = decision_for(managed_node("a", LARGE, load("a", shape(900), 4)), settings=per_pod)
    assert decision.command is None
    assert BlockedCode.BALANCE in codes(decision, "a")


@pytest.mark.fact("D-7")
def test_pod_with_a_higher_eviction_cost_requires_a_larger_saving() -> None:
    per_pod = Settings(saving_per_pod_nano=round(0.15 * NANO))
    (pod,) = load("a", shape(3000))
    assert decision_for(managed_node("a", LARGE, [pod]), settings=per_pod).command is not None
    for costly in (pod._replace(deletion_cost=2**27), pod._replace(priority=2**25)):
        assert decision_for(managed_node("a", LARGE, [costly]), settings=per_pod).command is None


def test_a_node_whose_pods_may_not_be_evicted_is_not_consolidated() -> None:
    pods_of_a = [pod._replace(do_not_disrupt=True) for pod in load("a", HALF)]
    assert decision_for(managed_node("a", LARGE, load("a", HALF))).command is not None
    decision = decision_for(managed_node("a", LARGE, pods_of_a))
    assert decision.command is None
    assert BlockedCode.POD_DO_NOT_DISRUPT in codes(decision, "a")
    blocked_by_budget = decision_for(managed_node("a", LARGE, load("a", HALF)), budgets=(pdb(allowed=0),))
    assert blocked_by_budget.command is None
    assert BlockedCode.BUDGET_OF_PODS in codes(blocked_by_budget, "a")


def test_reason_of_a_command_names_the_saving() -> None:
    filled = managed_node("b", LARGE, load("b", shape(4500)))
    deleted = command(managed_node("a", MEDIUM, load("a", HALF)), filled)
    assert deleted.why == "the pods of 1 node fit on other nodes; that saves 0.2 USD an hour"
    assert (deleted.action, deleted.saves_nano_usd_per_hour) == (Action.DELETE, round(0.2 * NANO))
    replaced = command(managed_node("a", LARGE, load("a", HALF)))
    assert replaced.why == "1 node at 0.4 USD an hour replaced by one small at 0.1"
    reservations = [reservation("cr-1", MEDIUM)]
    into_slot = command(managed_node("a", MEDIUM, load("a", shape(3000))), reservations=reservations)
    assert into_slot.why == "1 node at 0.2 USD an hour replaced by 1 slot of cr-1 at 0"
    full = [reservation("cr-1", MEDIUM, available=0, total=1)]
    releasing = command(
        managed_node("a", MEDIUM, load("a", HALF), slot="cr-1"),
        managed_node("b", LARGE, load("b", shape(3000))),
        reservations=full,
        settings=Settings(release_slots=ReleaseSlots.ALWAYS),
        facts={"b": NodeFacts(do_not_disrupt=True)},
    )
    assert releasing.why == "the pods of 1 node fit on other nodes; that frees a slot"


def test_reserved_replacement_lists_every_suitable_reservation() -> None:
    reservations = [reservation("cr-1", MEDIUM), reservation("cr-2", MEDIUM), reservation("cr-3", LARGE)]
    (one,) = command(
        managed_node("a", MEDIUM, load("a", shape(3000))), reservations=reservations
    ).replacements
    assert one.claim.reservation_ids == ("cr-1", "cr-2", "cr-3")


def test_node_is_replaced_if_the_saving_equals_the_required_minimum() -> None:
    """Eight cores at 0.4 an hour become four at 0.2."""
    exactly = Settings(saving_per_pod_nano=round(0.1 * NANO))
    assert (
        decision_for(managed_node("a", LARGE, load("a", shape(1500), 2)), settings=exactly).command
        is not None
    )
    more = Settings(saving_per_pod_nano=round(0.1 * NANO) + 1)
    assert decision_for(managed_node("a", LARGE, load("a", shape(1500), 2)), settings=more).command is None


def test_moving_pods_to_an_empty_node_saves_the_price_difference() -> None:
    """The empty node of 0.1 an hour would be deleted without the move."""
    pools = on_demand(consolidate_after_s=300)
    pools.append(pool("other", catalog(), ON_DEMAND_ONLY))
    used = managed_node("used", LARGE, load("used", shape(1500)), labels={names.NODEPOOL: "other"})
    empty = managed_node("empty", SMALL)
    young = {"empty": NodeFacts(initialized_s=NOW_S - 60)}
    found = command(used, empty, pools=pools, facts=young)
    assert (found.candidates, found.saves_nano_usd_per_hour) == (("used",), round(0.3 * NANO))
    never = [replace(pools[0], consolidate_after_s=None), pools[1]]
    never_deleted = command(used, empty, pools=never, facts=young)
    assert never_deleted.saves_nano_usd_per_hour == round(0.4 * NANO)


# --- Sets of nodes -----------------------------------------------------------------------------------


class Attempts:
    """Each node is worth its gain, and no set with a node of `blocked` gives a command."""

    def __init__(
        self, blocked: str = "", stop_after: int = 99, gains: Mapping[str, int] | None = None
    ) -> None:
        self.blocked, self.stop_after, self.gains = blocked, stop_after, gains or {}
        self.sets: list[str] = []

    def __call__(self, found: Sequence[Candidate]) -> DisruptionCommand | Reason | None:
        names_ = "".join(one.name for one in found)
        self.sets.append(names_)
        if len(self.sets) > self.stop_after:
            return None
        if set(names_) & set(self.blocked):
            return Reason(BlockedCode.NOT_CHEAPER, "no")
        saves = sum(self.gains.get(name, 1) for name in names_)
        return DisruptionCommand(
            Method.MULTI_NODE,
            DisruptionReason.UNDERUTILIZED,
            Action.DELETE,
            tuple(names_),
            "it pays",
            saves_nano_usd_per_hour=saves,
        )

    def largest(self, nodes: str) -> str | None:
        views = [managed_node(name, MEDIUM, load(name, WEB)) for name in nodes]
        candidate_set = CandidateSet(disruption_input(*views))
        found = consolidation.largest([candidate_set.candidate(one) for one in views], self)
        return None if found is None else "".join(found.candidates)


@pytest.mark.parametrize(
    ("nodes", "blocked", "largest", "sets"),
    [
        ("", "", None, []),
        ("abcd", "", "abcd", ["abcd"]),
        ("abcd", "abcd", None, ["abcd", "ab", "a", "b", "c", "d"]),
        ("abcd", "d", "abc", ["abcd", "ab", "abcd", "abc", "abcd"]),
        ("abcd", "a", "bcd", ["abcd", "ab", "a", "b", "bcd"]),
        ("abcdefgh", "e", "abcdfgh", ["abcdefgh", "abcd", "abcdefgh", "abcdef", "abcde", "abcdf", "abcdfgh"]),
    ],
)
def test_the_largest_set_leaves_out_nodes_that_cannot_be_disrupted_with_the_others(
    nodes: str, blocked: str, largest: str | None, sets: list[str]
) -> None:
    attempts = Attempts(blocked)
    assert (attempts.largest(nodes), attempts.sets) == (largest, sets)


def test_a_node_that_adds_no_saving_is_left_out() -> None:
    assert Attempts(gains={"b": 0}).largest("ab") == "ab"
    attempts = Attempts("c", gains={"b": 0})
    assert attempts.largest("abc") == "ab"


def test_no_set_is_tried_after_the_attempts_are_spent() -> None:
    attempts = Attempts("d", stop_after=2)
    assert (attempts.largest("abcd"), attempts.sets) == ("ab", ["abcd", "ab", "abcd"])


def test_at_most_24_sets_are_tried() -> None:
    attempts = Attempts("abcdefghijklmnopqrstuvwxyz")
    assert attempts.largest("abcdefghijklmnopqrstuvwxyz") is None
    assert len(attempts.sets) == 24


# --- Which nodes are looked at -----------------------------------------------------------------------


def test_node_of_a_nodepool_without_budget_has_a_reason_and_another_is_consolidated() -> None:
    pools = [
        pool(name, catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND)) for name in ("default", "other")
    ]
    idle = managed_node("a", LARGE, load("a", shape(3500)))
    other = replace(managed_node("b", LARGE, load("b", shape(3500))), node_pool="other")
    decision = decision_for(idle, other, pools=pools, rules={"default": at_most("0"), "other": FREE})
    assert decision.command is not None
    assert decision.command.candidates == ("b",)
    assert BlockedCode.BUDGET in codes(decision, "a")
    blocked = decision_for(idle, pools=pools, rules={"default": at_most("0"), "other": FREE})
    assert codes(blocked, "a") == {BlockedCode.BUDGET}


@pytest.mark.parametrize(
    ("rules", "after_s", "code"),
    [
        ({"default": replace(FREE, static=True)}, 0, BlockedCode.STATIC),
        ({"default": FREE}, None, BlockedCode.CONSOLIDATION_OFF),
        ({"default": replace(FREE, policy=Policy.WHEN_EMPTY)}, 0, BlockedCode.WHEN_EMPTY),
    ],
)
def test_nodepool_that_does_not_allow_consolidation_has_a_reason(
    rules: dict[str, PoolRules], after_s: int | None, code: BlockedCode
) -> None:
    idle = managed_node("a", LARGE, load("a", shape(3500)))
    decision = decision_for(idle, pools=on_demand(consolidate_after_s=after_s), rules=rules)
    assert decision.command is None
    assert codes(decision, "a") == {code}


NO_EMPTINESS = PoolRules(budgets=(Budget("0", frozenset({DisruptionReason.EMPTY.value})),))


@pytest.mark.parametrize(
    ("of_empty", "rules", "more", "moves"),
    [
        ({}, NO_EMPTINESS, {}, False),  # it costs as much, and would be deleted
        ({}, replace(NO_EMPTINESS, static=True), {"other": True}, True),
        ({"do_not_disrupt": True}, NO_EMPTINESS, {}, True),
    ],
    ids=["deleted otherwise", "static NodePool", "stays anyway"],
)
def test_pods_move_to_an_empty_node_only_if_it_stays_anyway(
    of_empty: dict[str, Any], rules: PoolRules, more: dict[str, bool], *, moves: bool
) -> None:
    """An empty node that would be deleted saves nothing by taking the pods of another one."""
    busy = managed_node("busy", MEDIUM, load("busy", shape(1000)))
    empty = replace(managed_node("empty", MEDIUM), node_pool="other" if more else "default")
    pools = [pool(name, catalog(), ON_DEMAND_ONLY) for name in ("default", "other")]
    decision = decision_for(
        busy,
        empty,
        pools=pools,
        rules={"default": replace(rules, static=False), "other": rules},
        facts={"empty": NodeFacts(**of_empty)},
        settings=Settings(together_max=0),
    )
    if moves:
        assert decision.command is not None
        assert (decision.command.action, decision.command.candidates) == (Action.DELETE, ("busy",))
    else:
        assert decision.command is None or decision.command.action is Action.REPLACE


def test_cheaper_replacement_that_breaks_min_values_is_refused() -> None:
    three = requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, (), min_values=3)
    idle = managed_node("a", LARGE, load("a", shape(1500)))
    decision = decision_for(idle, pools=on_demand(three))
    assert decision.command is None
    assert codes(decision, "a") == {BlockedCode.MIN_VALUES}
    two = replace(three, min_values=2)
    assert decision_for(idle, pools=on_demand(two)).command is not None


# --- Cool-down and cached results ----------------------------------------------------------------------


def test_moved_pod_is_not_moved_again_during_the_cooldown() -> None:
    decision = decision_for(managed_node("a", LARGE, load("a", HALF)))
    assert decision.command is not None
    successor = [pod._replace(created_s=NOW_S + 60) for pod in load("b", HALF)]
    cluster = disruption_input(managed_node("b", LARGE, successor), pools=on_demand(), now_s=NOW_S + 300)
    again = decide(cluster, Settings(), decision.cache)
    assert again.command is None
    assert BlockedCode.COOLING_DOWN in codes(again, "b")
    later = disruption_input(managed_node("b", LARGE, successor), pools=on_demand(), now_s=NOW_S + 660)
    assert decide(later, Settings(), decision.cache).command is not None
    older = [pod._replace(created_s=NOW_S - 1) for pod in load("b", HALF)]
    cluster = disruption_input(managed_node("b", LARGE, older), pools=on_demand(), now_s=NOW_S + 300)
    assert decide(cluster, Settings(), decision.cache).command is not None


def test_short_cooldown_of_a_recreated_pod_outlasts_another_command() -> None:
    """The pod is created 55 s after the move and cools down for 30 s more; another command is decided in between."""
    short = Settings(cooldown_s=30)
    decision = decision_for(managed_node("a", LARGE, load("a", HALF)), settings=short)
    successor = [pod._replace(created_s=NOW_S + 55) for pod in load("b", HALF)]
    held, other = (
        managed_node("b", LARGE, successor),
        managed_node("c", LARGE, load("c", shape(900, app="other"))),
    )
    between = decide(
        disruption_input(held, other, pools=on_demand(), now_s=NOW_S + 61), short, decision.cache
    )
    assert between.command is not None
    assert between.command.candidates == ("c",)
    later = decide(disruption_input(held, pools=on_demand(), now_s=NOW_S + 84), short, between.cache)
    assert BlockedCode.COOLING_DOWN in codes(later, "b")


def test_pod_created_long_after_a_pod_of_its_shape_moved_has_no_cooldown() -> None:
    """For example a Deployment that scaled up minutes later, or a drift that recreated all pods."""
    decision = decision_for(managed_node("a", LARGE, load("a", HALF)))
    assert decision.command is not None
    newer = [pod._replace(created_s=NOW_S + 120) for pod in load("b", HALF)]
    cluster = disruption_input(managed_node("b", LARGE, newer), pools=on_demand(), now_s=NOW_S + 300)
    assert decide(cluster, Settings(), decision.cache).command is not None


def test_cooldown_applies_to_a_pod_that_moved_to_another_zone() -> None:
    """Since Kubernetes 1.35 a bound pod has the zone of its node as a label, so the labels of the new pod differ."""

    def bound(name: str, zone: str, created_s: int) -> list[PodView]:
        here = HALF._replace(labels=(*HALF.labels, (names.ZONE, zone)))
        return [pod._replace(created_s=created_s) for pod in load(name, here)]

    decision = decision_for(managed_node("a", LARGE, bound("a", "z1", NOW_S - 3600)))
    assert decision.command is not None
    cluster = disruption_input(
        managed_node("b", LARGE, bound("b", "z2", NOW_S + 60)), pools=on_demand(), now_s=NOW_S + 300
    )
    assert BlockedCode.COOLING_DOWN in codes(decide(cluster, Settings(), decision.cache), "b")


@pytest.mark.parametrize(("ago_s", "is_moved"), [(None, True), (601, True), (599, False)])
def test_cooldown_is_restored_from_nodepools_after_a_restart(ago_s: int | None, *, is_moved: bool) -> None:
    young = [pod._replace(created_s=NOW_S - 60) for pod in load("a", HALF)]
    consolidated = NOW_S - ago_s if ago_s is not None else None
    rules = PoolRules(budgets=(Budget("100%"),), consolidated_s=consolidated)
    cluster = disruption_input(managed_node("a", LARGE, young), pools=on_demand(), rules=rules)
    assert (decide(cluster).command is not None) is is_moved


def test_cooldown_after_a_restart_covers_pods_of_draining_nodes() -> None:
    """The pods of the draining node were created long ago; the pods that replace them count as moved."""
    rules = PoolRules(budgets=(Budget("100%"),), consolidated_s=NOW_S - 100)
    drains = managed_node("a", LARGE, load("a", HALF), deleting=True)
    other = managed_node("c", LARGE, load("c", shape(7000, app="other")))
    first = decide(disruption_input(drains, other, pools=on_demand(), rules=rules))
    successor = [pod._replace(created_s=NOW_S + 60) for pod in load("b", HALF)]
    later = disruption_input(
        managed_node("b", LARGE, successor), pools=on_demand(), rules=rules, now_s=NOW_S + 300
    )
    again = decide(later, Settings(), first.cache)
    assert again.command is None
    assert BlockedCode.COOLING_DOWN in codes(again, "b")


def test_node_with_price_zero_is_deleted_if_its_pods_fit_on_other_nodes() -> None:
    free = instance_type("free", 4, 16, 0.0, capacity_types=(names.ON_DEMAND,))
    pools = [pool("default", (*catalog(), free), ON_DEMAND_ONLY)]
    nodes = [managed_node("a", "free", load("a", HALF)), managed_node("b", LARGE, load("b", shape(4500)))]
    found = decision_for(*nodes, pools=pools, facts={"b": NodeFacts(do_not_disrupt=True)}).command
    assert found is not None
    assert (found.candidates, found.action) == (("a",), Action.DELETE)


def test_cooldown_applies_after_a_drain_of_two_hours() -> None:
    decision = decision_for(managed_node("a", LARGE, load("a", HALF)))
    drains = managed_node("a", LARGE, load("a", HALF), deleting=True)
    other = managed_node("c", LARGE, load("c", shape(900, app="other")))
    two_hours_later = disruption_input(drains, other, pools=on_demand(), now_s=NOW_S + 7200)
    second = decide(two_hours_later, Settings(), decision.cache)
    assert second.command is not None
    successor = [pod._replace(created_s=NOW_S + 7230) for pod in load("b", HALF)]
    cluster = disruption_input(managed_node("b", LARGE, successor), pools=on_demand(), now_s=NOW_S + 7400)
    assert BlockedCode.COOLING_DOWN in codes(decide(cluster, Settings(), second.cache), "b")


@pytest.mark.fact("D-28", "D-35", "W-2")
def test_node_without_a_result_is_not_simulated_again_until_something_changes() -> None:
    full = [reservation("cr-1", MEDIUM, available=0, total=1)]
    nodes = [managed_node("a", MEDIUM, load("a", shape(3000), count=1))]

    def cluster_at(reservations: list[Any], now_s: int, changed: int = 0) -> DisruptionInput:
        found = disruption_input(
            *nodes, reservations=reservations, now_s=now_s, pools=on_demand(reservations=reservations)
        )
        return replace(found, changed=changed)

    first = decide(cluster_at(full, NOW_S))
    assert first.command is None
    second = decide(cluster_at(full, NOW_S + 10), Settings(), first.cache)
    assert codes(second, "a") >= {BlockedCode.UNCHANGED}
    for cluster in (cluster_at(full, NOW_S + 10, changed=1), cluster_at(full, NOW_S + 301)):
        assert BlockedCode.UNCHANGED not in codes(decide(cluster, Settings(), first.cache), "a")
    free = [reservation("cr-1", MEDIUM, available=1, total=1)]
    found = decide(cluster_at(free, NOW_S + 10), Settings(), first.cache).command
    assert found is not None  # a freed slot is used at once
    assert replaced_by(found) == [(MEDIUM, names.RESERVED, "cr-1")]


def test_multi_node_consolidation_runs_again_when_another_node_settles() -> None:
    """No node can be deleted or replaced alone, and two of them can be replaced by one."""
    nodes = [
        managed_node("a", LARGE, load("a", shape(7500))),
        managed_node("b", LARGE, load("b", shape(3000), count=1)),
        managed_node("c", LARGE, load("c", shape(3000), count=1), last_pod_event_s=NOW_S - 50),
    ]
    only_large = is_in(names.INSTANCE_TYPE, LARGE)
    pools = on_demand(only_large, consolidate_after_s=60)
    first = decide(disruption_input(*nodes, pools=pools, now_s=NOW_S))
    assert first.command is None
    result = first.cache.results[Method.MULTI_NODE]
    assert result.done
    assert result.tried == {"a", "b"}  # these are not simulated again while the result is recent
    found = decide(disruption_input(*nodes, pools=pools, now_s=NOW_S + 10), Settings(), first.cache).command
    assert found is not None
    assert set(found.candidates) <= {"b", "c"}


# --- Balanced ------------------------------------------------------------------------------------------

BALANCED = PoolRules(Policy.BALANCED, ())


@pytest.mark.fact("D-40", "D-38")
def test_balanced_requires_a_saving_that_is_worth_the_disruption() -> None:
    cheap_trouble = [
        managed_node("a", LARGE, load("a", HALF)),
        managed_node("b", LARGE, load("b", shape(350), 20)),
    ]
    found = command(*cheap_trouble, rules=BALANCED)
    assert found.candidates == ("a",)
    approved = [one for one in decision_for(*cheap_trouble, rules=BALANCED).scores if one.approved]
    assert {one.pool for one in approved} == {"default"}
    assert min(one.value for one in approved) >= 0.5
    many_pods = [
        managed_node("a", SMALL, load("a", shape(90), 20)),
        managed_node("b", LARGE, load("b", shape(7000))),
    ]
    decision = decision_for(*many_pods, rules=BALANCED)
    assert decision.command is None
    assert BlockedCode.BALANCE in codes(decision, "a")


@pytest.mark.fact("D-33")
def test_balanced_replaces_a_slot_by_another_only_in_a_pool_without_paid_nodes() -> None:
    reservations = [reservation("cr-big", LARGE, available=0, total=1), reservation("cr-small", SMALL)]
    slot = managed_node("a", LARGE, load("a", HALF), slot="cr-big")
    paid = managed_node("b", LARGE, load("b", shape(7000)))
    always = Settings(release_slots=ReleaseSlots.ALWAYS)
    assert (
        decision_for(slot, paid, reservations=reservations, rules=BALANCED, settings=always).command is None
    )
    alone = command(slot, reservations=reservations, rules=BALANCED, settings=always)
    assert replaced_by(alone) == [(SMALL, names.RESERVED, "cr-small")]


@pytest.mark.fact("D-33")
def test_balanced_deletes_a_reserved_node_only_in_a_pool_without_paid_nodes() -> None:
    reservations = [reservation("cr-1", LARGE, available=0, total=2)]
    always = Settings(release_slots=ReleaseSlots.ALWAYS)
    nodes = [managed_node(name, LARGE, load(name, HALF), slot="cr-1") for name in "ab"]
    alone = command(*nodes, reservations=reservations, rules=BALANCED, settings=always)
    assert (len(alone.candidates), alone.action) == (1, Action.DELETE)
    paid = managed_node("c", LARGE, load("c", shape(7000)))
    mixed = decision_for(*nodes, paid, reservations=reservations, rules=BALANCED, settings=always)
    assert mixed.command is None
    assert BlockedCode.BALANCE in codes(mixed, "a")


@pytest.mark.fact("D-33")
def test_balanced_scores_a_move_into_a_slot_like_a_deletion() -> None:
    """A third of the cost for three fifths of the disruption is a score of 0.56; half of that third is too little."""
    nodes = [
        managed_node("a", MEDIUM, load("a", shape(500), 2)),
        managed_node("b", LARGE, load("b", shape(7900))),
    ]
    cheaper = decision_for(*nodes, pools=on_demand(), rules=BALANCED)
    assert cheaper.command is None
    assert BlockedCode.BALANCE in codes(cheaper, "a")
    slot = reservation("cr-1", MEDIUM)
    found = command(*nodes, pools=on_demand(reservations=[slot]), reservations=[slot], rules=BALANCED)
    assert replaced_by(found) == [(MEDIUM, names.RESERVED, "cr-1")]
    target = managed_node("c", SMALL, slot="cr-2")
    deleted = command(
        *nodes,
        target,
        pools=on_demand(reservations=[reservation("cr-2", SMALL, available=0, total=1)]),
        reservations=[reservation("cr-2", SMALL, available=0, total=1)],
        rules=BALANCED,
        facts={"c": NodeFacts(do_not_disrupt=True)},
    )
    assert (deleted.candidates, deleted.action) == (("a",), Action.DELETE)


@pytest.mark.fact("D-41")
@pytest.mark.parametrize(("other_rules", "deleted"), [(FREE, {"big", "busy"}), (BALANCED, {"big"})])
def test_command_needs_an_accepting_score_in_every_balanced_nodepool_only(
    other_rules: PoolRules, deleted: set[str]
) -> None:
    """The cheap node with many pods belongs to the other NodePool. It is deleted too unless that pool is Balanced:
    its disruption costs too much for the saving."""
    other = {names.NODEPOOL: "other"}
    nodes = [
        managed_node("busy", SMALL, load("busy", shape(90), 20), labels=other),
        managed_node("full", LARGE, load("full", shape(7000)), labels=other),
        managed_node("big", LARGE, load("big", WEB)),
        managed_node("room", MEDIUM, load("room", WEB)),
    ]
    pools = [*on_demand(), pool("other", catalog(), ON_DEMAND_ONLY)]
    decision = decision_for(*nodes, pools=pools, rules={"default": BALANCED, "other": other_rules})
    assert decision.command is not None
    assert set(decision.command.candidates) == deleted
    assert (BlockedCode.BALANCE in codes(decision, "busy")) is (other_rules is BALANCED)


def test_pod_with_anti_affinity_finds_the_one_suitable_node_among_many() -> None:
    apart = shape(300, **one_per_node())
    full = [managed_node(f"n{i:03d}", SMALL, load(f"n{i}", apart)) for i in range(90)]
    free = managed_node("z", SMALL, load("z", shape(1500, app="other")))
    mover = managed_node("big", LARGE, [*load("big", apart), *load("huge", shape(700, app="huge"))])
    found = command(*full, free, mover, settings=Settings(together_max=0))
    assert (found.candidates, found.action) == (("big",), Action.DELETE)
    assert {one.node for one in found.placed if "big-000000" in one.pods} == {"z"}


def test_settled_node_is_found_among_many_unsettled_nodes() -> None:
    fresh = [managed_node(f"n{i:03d}", MEDIUM, load(f"n{i}", WEB), last_pod_event_s=NOW_S) for i in range(90)]
    settled = managed_node("z", MEDIUM, load("z", shape(3000, app="other")))
    mover = managed_node("big", LARGE, load("big", shape(800)))
    found = command(*fresh, settled, mover, pools=on_demand(consolidate_after_s=60))
    assert found.candidates == ("big",)
    assert [one.node for one in found.placed] == ["z"]


def test_unschedulable_pending_pod_does_not_prevent_consolidation() -> None:
    found = command(managed_node("a", LARGE, load("a", HALF)), pending=pods(1, shape(99_000)))
    assert found.candidates == ("a",)


def test_every_node_is_in_the_decision_once() -> None:
    nodes = [managed_node(f"n{i}", LARGE, load(f"n{i}", shape(1000 * i))) for i in range(1, 5)]
    decision = decision_for(*nodes, managed_node("z", claim=None))
    assert decision.command is not None
    named = sorted([*decision.command.candidates, *(one.node for one in decision.undisrupted)])
    assert named == ["n1", "n2", "n3", "n4", "z"]
    assert all(one.blockers for one in decision.undisrupted)


# --- Types whose use costs more than their price ------------------------------------------------------


def burstable_beside(plain_usd: float) -> list[Any]:
    """`small` at 0.1 an hour with a surcharge of 0.08 in use, and a type of the same size without a surcharge."""
    small = instance_type(SMALL, 2, 8, 0.10)
    offerings = tuple(replace(one, surcharge_nano_usd_per_hour=80_000_000) for one in small.offerings)
    plain = instance_type(MEDIUM, 2, 8, plain_usd)
    return [pool("default", [replace(small, offerings=offerings), plain], ON_DEMAND_ONLY)]


def test_burstable_node_is_not_replaced_by_a_node_with_a_higher_price() -> None:
    node = managed_node("n1", SMALL, load("p", WEB))
    assert decision_for(node, pools=burstable_beside(0.15)).command is None


def test_burstable_node_is_replaced_by_a_node_with_a_lower_price() -> None:
    found = command(managed_node("n1", SMALL, load("p", WEB)), pools=burstable_beside(0.09))
    assert [one.claim.instance_type for one in found.replacements] == [MEDIUM]


def test_node_is_not_replaced_by_a_burstable_node_that_costs_more_in_use() -> None:
    node = replace(
        managed_node("n1", MEDIUM, load("p", WEB)), allocatable=managed_node("n2", SMALL).allocatable
    )
    assert decision_for(node, pools=burstable_beside(0.15)).command is None
    found = command(node, pools=burstable_beside(0.19))
    assert [one.claim.instance_type for one in found.replacements] == [SMALL]


def test_pods_of_one_node_move_into_a_free_slot_and_to_a_cheaper_instance() -> None:
    slots = [reservation("cr-small", SMALL, available=1, total=1)]
    both = (*load("a", shape(1800, 256, "web")), *load("b", shape(3000, 256, "db")))
    found = command(managed_node("n", LARGE, both), reservations=slots)
    assert sorted(replaced_by(found)) == [
        (MEDIUM, names.ON_DEMAND, None),
        (SMALL, names.RESERVED, "cr-small"),
    ]
