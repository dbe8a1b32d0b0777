"""Consolidation: what goes, what comes instead, and why a node stays."""

from collections.abc import Sequence
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
    load,
    machine,
    pdb,
    world,
)
from holdfast import names
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
from holdfast.model import requirements
from holdfast.model.pods import PodView
from holdfast.model.reasons import BlockedCode
from holdfast.model.snapshot import NodeView
from planner_builders import NANO, instance_type, is_in, one_per_node, pods, pool, reservation, shape

WEB = shape(1000)
HALF = shape(1900)
ON_DEMAND_ONLY = is_in(names.CAPACITY_TYPE, names.ON_DEMAND, names.RESERVED)


def on_demand(*wanted: Any, reservations: Sequence[Any] = (), **more: Any) -> list[Any]:
    return [pool("default", catalog(reservations), ON_DEMAND_ONLY, *wanted, **more)]


def decided(*nodes: NodeView, settings: Settings | None = None, **more: Any) -> Decision:
    if "pools" not in more:
        more["pools"] = on_demand(reservations=more.get("reservations", ()))
    return decide(world(*nodes, **more), settings or Settings())


def command(*nodes: NodeView, **more: Any) -> DisruptionCommand:
    found = decided(*nodes, **more).command
    assert found is not None
    return found


def became(found: DisruptionCommand) -> list[tuple[str, str, str | None]]:
    return [
        (one.claim.instance_type, one.claim.capacity_type, one.claim.reservation_id)
        for one in found.replacements
    ]


@pytest.mark.fact("D-2")
def test_emptiness_comes_before_drift_and_drift_before_consolidation() -> None:
    empty = machine("a", SMALL)
    drifted = machine("b", MEDIUM, load("b", shape(3000)))
    idle = machine("c", LARGE, load("c", shape(3500)))
    facts = {"b": NodeFacts(drifted=Drifted("AMI", 1))}
    first = decided(empty, drifted, idle, facts=facts)
    assert first.command is not None
    assert first.command.method is Method.EMPTINESS
    assert codes(first, "b") == codes(first, "c") == {BlockedCode.ANOTHER_FIRST}
    assert command(drifted, idle, facts=facts).method is Method.DRIFT
    assert command(drifted, idle).reason is DisruptionReason.UNDERUTILIZED


# --- Emptiness -----------------------------------------------------------------------------------------


@pytest.mark.fact("D-15", "D-16", "D-3")
def test_all_empty_nodes_go_at_once_and_nothing_replaces_them() -> None:
    kept = [reservation("cr-1", MEDIUM, available=0, total=1)]
    found = command(
        machine("a"),
        machine("b", LARGE),
        machine("c", pods=load("c", shape(3000))),
        machine("d", slot="cr-1"),
        reservations=kept,
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
def test_budgets_bound_how_many_empty_nodes_go() -> None:
    decision = decided(machine("a"), machine("b", LARGE), machine("c"), rules=at_most("1"))
    assert decision.command is not None
    assert decision.command.candidates == ("b",)
    assert codes(decision, "a") == codes(decision, "c") == {BlockedCode.BUDGET}
    assert [(one.reason, one.allowed) for one in decision.allowances] == [(DisruptionReason.EMPTY, 1)]


@pytest.mark.fact("D-15", "D-49")
def test_empty_nodes_stay_while_pods_just_left_or_consolidation_is_off() -> None:
    fresh = machine("a", last_pod_event_s=NOW_S - 10)
    decision = decided(fresh, pools=on_demand(consolidate_after_s=60))
    assert decision.command is None
    assert BlockedCode.UNSETTLED in codes(decision, "a")
    never = decided(machine("a"), pools=on_demand(consolidate_after_s=None))
    assert never.command is None
    assert BlockedCode.CONSOLIDATION_OFF in codes(never, "a")
    assert decided(machine("a"), rules=PoolRules(static=True, budgets=())).command is None


@pytest.mark.fact("D-9")
def test_an_empty_node_without_labels_still_goes() -> None:
    bare = machine("a", labels={names.INSTANCE_TYPE: "unheard-of"})
    assert command(bare).candidates == ("a",)


@pytest.mark.fact("D-49")
@pytest.mark.parametrize("policy", list(Policy))
def test_every_policy_removes_empty_nodes(policy: Policy) -> None:
    assert command(machine("a"), rules=PoolRules(policy, ())).method is Method.EMPTINESS


# --- One node ------------------------------------------------------------------------------------------


@pytest.mark.fact("D-24")
def test_a_node_whose_pods_fit_elsewhere_goes() -> None:
    found = command(machine("a", LARGE, load("a", WEB)), machine("b", MEDIUM, load("b", shape(2000))))
    assert found.action is Action.DELETE
    assert found.candidates == ("a",)
    assert [(one.node, one.pods) for one in found.placed] == [("b", ("a-000000",))]


@pytest.mark.fact("D-25", "D-29", "D-3")
def test_a_node_is_replaced_by_a_cheaper_one_that_holds_its_pods() -> None:
    found = command(machine("a", LARGE, load("a", HALF)))
    assert (found.method, found.reason, found.action) == (
        Method.SINGLE_NODE,
        DisruptionReason.UNDERUTILIZED,
        Action.REPLACE,
    )
    assert became(found) == [(SMALL, names.ON_DEMAND, None)]
    (replacement,) = found.replacements
    assert replacement.claim.instance_types == (SMALL, MEDIUM)  # what is not cheaper is not listed
    assert found.saves_nano_usd_per_hour == round(0.3 * NANO)


@pytest.mark.fact("D-25", "D-44")
def test_a_node_that_nothing_cheaper_holds_stays() -> None:
    decision = decided(machine("a", MEDIUM, load("a", shape(3000))))
    assert decision.command is None
    assert codes(decision, "a") == {BlockedCode.NOT_CHEAPER}


@pytest.mark.fact("D-24")
def test_a_node_is_not_replaced_by_two_that_are_bought() -> None:
    apart = [replace(pod, shape=shape(1900, **one_per_node())) for pod in load("a", HALF, 2)]
    decision = decided(machine("a", LARGE, apart))
    assert decision.command is None
    assert BlockedCode.TOO_MANY in codes(decision, "a")


@pytest.mark.fact("D-23", "S-25")
def test_pods_are_not_moved_to_a_node_that_only_just_changed_or_is_not_up() -> None:
    mover = machine("a", MEDIUM, load("a", shape(3000)))
    fresh = machine("b", MEDIUM, last_pod_event_s=NOW_S - 10)
    assert decided(mover, fresh, pools=on_demand(consolidate_after_s=60)).command is None
    starting = machine("b", MEDIUM, initialized=False)
    decision = decided(mover, starting)
    assert decision.command is None
    assert BlockedCode.ON_STARTING_NODE in codes(decision, "a")


@pytest.mark.parametrize(("used_millis", "goes"), [(900, False), (400, True)])
def test_a_node_stays_where_kube_scheduler_would_leave_one_of_its_pods_over(
    used_millis: int, *, goes: bool
) -> None:
    """By the plan the pod of 2 cpu goes to "full", and the others to "half". kube-scheduler puts it on "half", where the
    larger share stays free, and then one of the others fits nowhere."""
    big, small = shape(2000), shape(1500)
    mover = machine("a", LARGE, (*load("a-big", big), *load("a-small", small, 2)))
    full = machine("full", LARGE, load("full", shape(5900)))
    half = machine("half", MEDIUM, load("half", shape(used_millis)))
    kept = {"full": NodeFacts(do_not_disrupt=True), "half": NodeFacts(do_not_disrupt=True)}
    decision = decided(mover, full, half, facts=kept)
    assert (decision.command is not None) is goes
    assert goes or BlockedCode.PODS_WITHOUT_PLACE in codes(decision, "a")


def test_a_node_may_go_as_soon_as_another_one_may_take_its_pods() -> None:
    """Nothing changes but the time: the other node has been settled for as long as its pool wants."""
    pools = on_demand(consolidate_after_s=60)
    mover, fresh = (
        machine("a", MEDIUM, load("a", shape(3000))),
        machine("b", MEDIUM, last_pod_event_s=NOW_S - 10),
    )
    blocked = {"b": NodeFacts(do_not_disrupt=True)}
    first = decided(mover, fresh, pools=pools, facts=blocked)
    assert first.command is None
    later = world(mover, fresh, pools=pools, facts=blocked, now_s=NOW_S + 51)
    found = decide(later, Settings(), first.memory).command
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
def test_consolidation_wants_to_know_what_a_node_is(labels: dict[str, str], code: BlockedCode | None) -> None:
    decision = decided(machine("a", LARGE, load("a", WEB), labels=labels))
    assert (decision.command is None) is (code is not None)
    assert code is None or code in codes(decision, "a")


@pytest.mark.fact("D-9", "D-21")
@pytest.mark.parametrize("key", [names.CAPACITY_TYPE, names.ZONE])
def test_consolidation_leaves_a_node_without_capacity_type_or_zone(key: str) -> None:
    full = machine("a", LARGE, load("a", WEB))
    bare = replace(full, labels=tuple(one for one in full.labels if one[0] != key))
    decision = decide(world(bare, pools=on_demand(), instances=()))
    assert decision.command is None
    assert BlockedCode.NO_LABELS in codes(decision, "a")


@pytest.mark.fact("D-49", "D-21")
def test_a_pool_that_consolidates_empty_nodes_only_keeps_the_others() -> None:
    decision = decided(machine("a", LARGE, load("a", WEB)), rules=PoolRules(Policy.WHEN_EMPTY, ()))
    assert decision.command is None
    assert BlockedCode.WHEN_EMPTY in codes(decision, "a")


@pytest.mark.fact("D-38")
def test_single_nodes_are_looked_at_in_turn_over_the_pools_and_the_next_pass_goes_on() -> None:
    other = {names.NODEPOOL: "other"}
    stuck = [spot(name, LARGE, 6000) for name in "ab"]  # cheaper spot nodes exist, and the gate is shut
    paid = machine("c", SMALL, load("c", HALF), labels=other)
    pools = [
        pool("default", (*many_types(1, cpu=8), *catalog()[2:]), is_in(names.CAPACITY_TYPE, names.SPOT)),
        pool("other", (instance_type("tiny", 2, 8, 0.01), *catalog()), ON_DEMAND_ONLY),
    ]
    asked = world(*stuck, paid, pools=pools, rules={"default": FREE, "other": FREE})
    few = Settings(nodes_asked_max=1, together_max=0)
    first = decide(asked, few)
    assert first.command is None
    assert BlockedCode.NOT_REACHED in codes(first, "b") & codes(first, "c")
    assert first.memory.unreached == ("other", "default")
    second = decide(asked, few, first.memory)
    assert second.command is not None
    assert second.command.candidates == ("c",)


# --- Several nodes -------------------------------------------------------------------------------------


@pytest.mark.fact("D-36", "D-24")
def test_several_nodes_become_one_that_is_cheaper() -> None:
    found = command(*(machine(f"n{i}", MEDIUM, load(f"n{i}", shape(2500))) for i in range(3)))
    assert found.method is Method.MULTI_NODE
    assert set(found.candidates) == {"n0", "n1", "n2"}
    assert became(found) == [(LARGE, names.ON_DEMAND, None)]
    assert found.saves_nano_usd_per_hour == round(0.2 * NANO)


@pytest.mark.fact("D-37")
def test_two_nodes_are_not_replaced_by_another_of_the_same_type() -> None:
    """A medium and a small node could both go for another medium one, which is cheaper than the two. It is not done:
    to keep the medium one would be as good. In Karpenter, too."""
    bound = shape(1800, node_selector=requirements.of(is_in(names.ZONE, "z2")))
    nodes = [machine("a", MEDIUM, load("a", shape(2000))), machine("b", SMALL, load("b", bound), zone="z2")]
    assert decided(*nodes).command is None
    large = machine("a", LARGE, load("a", shape(2000)))
    found = command(large, nodes[1])
    assert set(found.candidates) == {"a", "b"}
    assert became(found) == [(MEDIUM, names.ON_DEMAND, None)]


@pytest.mark.fact("D-36", "D-14")
def test_budgets_bound_how_many_are_taken_together() -> None:
    nodes = [machine(f"n{i}", LARGE, load(f"n{i}", WEB)) for i in range(6)]
    found = command(*nodes, rules=at_most("2"))
    assert len(found.candidates) == 2


# --- Spot ----------------------------------------------------------------------------------------------


def spot(name: str, type_: str, cpu_millis: int) -> NodeView:
    return machine(name, type_, load(name, shape(cpu_millis)), capacity_type=names.SPOT)


def many_types(count: int, cpu: int = 4) -> list[Any]:
    """Types each a little dearer than the one before, all below the large one."""
    return [instance_type(f"t{i:02d}", cpu, 4 * cpu, 0.2 + 0.001 * i) for i in range(count)]


def spot_world(count: int) -> list[Any]:
    return [pool("default", (*many_types(count), *catalog()[2:]), is_in(names.CAPACITY_TYPE, names.SPOT))]


@pytest.mark.fact("D-27", "D-25")
def test_spot_is_replaced_by_spot_only_with_the_gate_open_and_enough_types() -> None:
    node = spot("a", LARGE, 3000)
    shut = decided(node, pools=spot_world(20))
    assert shut.command is None
    assert BlockedCode.SPOT_TO_SPOT in codes(shut, "a")
    few = decided(node, pools=spot_world(14), settings=Settings(spot_to_spot=True))
    assert few.command is None
    assert BlockedCode.SPOT_TO_SPOT in codes(few, "a")
    found = command(node, pools=spot_world(20), settings=Settings(spot_to_spot=True))
    (one,) = found.replacements
    assert one.claim.instance_types == tuple(f"t{i:02d}" for i in range(15))
    assert one.claim.requirements.get(names.CAPACITY_TYPE).values == {names.SPOT}


@pytest.mark.fact("D-26")
def test_a_replacement_that_may_be_spot_is_spot() -> None:
    found = command(machine("a", LARGE, load("a", HALF)), pools=[pool("default", catalog())])
    (one,) = found.replacements
    assert one.claim.capacity_type == names.SPOT
    assert one.claim.requirements.get(names.CAPACITY_TYPE).values == {names.SPOT}


@pytest.mark.fact("D-30", "Q-9")
def test_spot_moves_into_a_slot_whatever_the_gate_says() -> None:
    kept = [reservation("cr-1", LARGE)]
    found = command(spot("a", LARGE, 7000), reservations=kept, pools=[pool("default", catalog(kept))])
    assert became(found) == [(LARGE, names.RESERVED, "cr-1")]


@pytest.mark.parametrize("policy", [None, "Never"])
def test_pods_are_not_moved_onto_an_empty_node_that_costs_as_much(policy: str | None) -> None:
    """The empty node is there because no time to delete it has come; without the move both nodes' cost would fall."""
    after_s = None if policy == "Never" else 300
    pools = on_demand(consolidate_after_s=after_s)
    pools.append(pool("other", catalog(), ON_DEMAND_ONLY))
    used = machine("used", MEDIUM, load("used", shape(3000)), labels={names.NODEPOOL: "other"})
    empty = machine("empty", MEDIUM)
    facts = {"empty": NodeFacts(initialized_s=NOW_S - 60)}
    decision = decided(used, empty, pools=pools, facts=facts)
    if policy == "Never":  # the empty node would stay anyway
        assert decision.command is not None
        assert decision.command.candidates == ("used",)
    else:
        assert decision.command is None
        assert BlockedCode.NOT_CHEAPER in codes(decision, "used")


def test_to_evict_pods_takes_a_saving_for_each_of_them() -> None:
    """Eight cores at 0.4 an hour become four at 0.2: the saving is 0.2 an hour."""
    per_pod = Settings(saving_per_pod_nano=round(0.06 * NANO))
    assert decided(machine("a", LARGE, load("a", shape(1000), 3)), settings=per_pod).command is not None
    decision = decided(machine("a", LARGE, load("a", shape(900), 4)), settings=per_pod)
    assert decision.command is None
    assert BlockedCode.BALANCE in codes(decision, "a")


@pytest.mark.fact("D-7")
def test_a_pod_that_is_dear_to_evict_takes_a_larger_saving() -> None:
    per_pod = Settings(saving_per_pod_nano=round(0.15 * NANO))
    (pod,) = load("a", shape(3000))
    assert decided(machine("a", LARGE, [pod]), settings=per_pod).command is not None
    for dear in (replace(pod, deletion_cost=2**27), replace(pod, priority=2**25)):
        assert decided(machine("a", LARGE, [dear]), settings=per_pod).command is None


def test_a_node_whose_pods_may_not_be_evicted_is_not_consolidated() -> None:
    pods_of_a = [replace(pod, do_not_disrupt=True) for pod in load("a", HALF)]
    assert decided(machine("a", LARGE, load("a", HALF))).command is not None
    decision = decided(machine("a", LARGE, pods_of_a))
    assert decision.command is None
    assert BlockedCode.POD_DO_NOT_DISRUPT in codes(decision, "a")
    kept = decided(machine("a", LARGE, load("a", HALF)), budgets=(pdb(allowed=0),))
    assert kept.command is None
    assert BlockedCode.BUDGET_OF_PODS in codes(kept, "a")


def test_the_reason_of_a_command_names_what_is_saved() -> None:
    filled = machine("b", LARGE, load("b", shape(4500)))
    deleted = command(machine("a", MEDIUM, load("a", HALF)), filled)
    assert deleted.why == "the pods of 1 node fit on other nodes; that saves 0.2 USD an hour"
    assert (deleted.action, deleted.saves_nano_usd_per_hour) == (Action.DELETE, round(0.2 * NANO))
    replaced = command(machine("a", LARGE, load("a", HALF)))
    assert replaced.why == "1 node at 0.4 USD an hour replaced by one small at 0.1"
    kept = [reservation("cr-1", MEDIUM)]
    into_slot = command(machine("a", MEDIUM, load("a", shape(3000))), reservations=kept)
    assert into_slot.why == "1 node at 0.2 USD an hour replaced by 1 slot of cr-1 at 0"
    full = [reservation("cr-1", MEDIUM, available=0, total=1)]
    releasing = command(
        machine("a", MEDIUM, load("a", HALF), slot="cr-1"),
        machine("b", LARGE, load("b", shape(3000))),
        reservations=full,
        settings=Settings(release_slots=ReleaseSlots.ALWAYS),
        facts={"b": NodeFacts(do_not_disrupt=True)},
    )
    assert releasing.why == "the pods of 1 node fit on other nodes; that frees a slot"


def test_a_node_that_moves_into_a_slot_lists_every_slot_that_would_do() -> None:
    kept = [reservation("cr-1", MEDIUM), reservation("cr-2", MEDIUM), reservation("cr-3", LARGE)]
    (one,) = command(machine("a", MEDIUM, load("a", shape(3000))), reservations=kept).replacements
    assert one.claim.reservation_ids == ("cr-1", "cr-2", "cr-3")


def test_a_node_that_saves_exactly_what_its_pods_take_is_replaced() -> None:
    """Eight cores at 0.4 an hour become four at 0.2."""
    exactly = Settings(saving_per_pod_nano=round(0.1 * NANO))
    assert decided(machine("a", LARGE, load("a", shape(1500), 2)), settings=exactly).command is not None
    more = Settings(saving_per_pod_nano=round(0.1 * NANO) + 1)
    assert decided(machine("a", LARGE, load("a", shape(1500), 2)), settings=more).command is None


def test_pods_that_move_onto_an_empty_node_save_the_difference() -> None:
    """The empty node of 0.1 an hour would be deleted without the move."""
    pools = on_demand(consolidate_after_s=300)
    pools.append(pool("other", catalog(), ON_DEMAND_ONLY))
    used = machine("used", LARGE, load("used", shape(1500)), labels={names.NODEPOOL: "other"})
    empty = machine("empty", SMALL)
    young = {"empty": NodeFacts(initialized_s=NOW_S - 60)}
    found = command(used, empty, pools=pools, facts=young)
    assert (found.candidates, found.saves_nano_usd_per_hour) == (("used",), round(0.3 * NANO))
    never = [replace(pools[0], consolidate_after_s=None), pools[1]]
    stays = command(used, empty, pools=never, facts=young)
    assert stays.saves_nano_usd_per_hour == round(0.4 * NANO)


# --- Cool-down, memory ---------------------------------------------------------------------------------


def test_a_pod_that_was_moved_is_not_moved_again_for_a_while() -> None:
    decision = decided(machine("a", LARGE, load("a", HALF)))
    assert decision.command is not None
    successor = [replace(pod, created_s=NOW_S + 60) for pod in load("b", HALF)]
    asked = world(machine("b", LARGE, successor), pools=on_demand(), now_s=NOW_S + 300)
    again = decide(asked, Settings(), decision.memory)
    assert again.command is None
    assert BlockedCode.COOLING_DOWN in codes(again, "b")
    later = world(machine("b", LARGE, successor), pools=on_demand(), now_s=NOW_S + 660)
    assert decide(later, Settings(), decision.memory).command is not None
    older = [replace(pod, created_s=NOW_S - 1) for pod in load("b", HALF)]
    asked = world(machine("b", LARGE, older), pools=on_demand(), now_s=NOW_S + 300)
    assert decide(asked, Settings(), decision.memory).command is not None


def test_a_short_cool_down_is_remembered_as_long_as_a_replacement_may_need_it() -> None:
    """The pod was made 55 s after the move and is held for 30 s more; another command comes in between."""
    short = Settings(cooldown_s=30)
    decision = decided(machine("a", LARGE, load("a", HALF)), settings=short)
    successor = [replace(pod, created_s=NOW_S + 55) for pod in load("b", HALF)]
    held, other = machine("b", LARGE, successor), machine("c", LARGE, load("c", shape(900, app="other")))
    between = decide(world(held, other, pools=on_demand(), now_s=NOW_S + 61), short, decision.memory)
    assert between.command is not None
    assert between.command.candidates == ("c",)
    later = decide(world(held, pools=on_demand(), now_s=NOW_S + 84), short, between.memory)
    assert BlockedCode.COOLING_DOWN in codes(later, "b")


def test_a_pod_that_was_made_long_after_its_like_was_moved_may_be_moved() -> None:
    """A Deployment that grew minutes later, or a drift that made all pods anew."""
    decision = decided(machine("a", LARGE, load("a", HALF)))
    assert decision.command is not None
    newer = [replace(pod, created_s=NOW_S + 120) for pod in load("b", HALF)]
    asked = world(machine("b", LARGE, newer), pools=on_demand(), now_s=NOW_S + 300)
    assert decide(asked, Settings(), decision.memory).command is not None


def test_a_pod_that_was_moved_to_another_zone_is_known_again() -> None:
    """Since Kubernetes 1.35 a pod that is bound has the zone of its node among its labels."""

    def bound(name: str, zone: str, created_s: int) -> list[PodView]:
        here = replace(HALF, labels=(*HALF.labels, (names.ZONE, zone)))
        return [replace(pod, created_s=created_s) for pod in load(name, here)]

    decision = decided(machine("a", LARGE, bound("a", "z1", NOW_S - 3600)))
    assert decision.command is not None
    asked = world(machine("b", LARGE, bound("b", "z2", NOW_S + 60)), pools=on_demand(), now_s=NOW_S + 300)
    assert BlockedCode.COOLING_DOWN in codes(decide(asked, Settings(), decision.memory), "b")


@pytest.mark.parametrize(("ago_s", "is_moved"), [(None, True), (601, True), (599, False)])
def test_a_program_that_has_just_begun_knows_from_nodepools_who_is_left_in_peace(
    ago_s: int | None, *, is_moved: bool
) -> None:
    young = [replace(pod, created_s=NOW_S - 60) for pod in load("a", HALF)]
    consolidated = NOW_S - ago_s if ago_s is not None else None
    rules = PoolRules(budgets=(Budget("100%"),), consolidated_s=consolidated)
    asked = world(machine("a", LARGE, young), pools=on_demand(), rules=rules)
    assert (decide(asked).command is not None) is is_moved


def test_a_program_that_has_just_begun_knows_the_pods_of_nodes_that_drain() -> None:
    """They were made long ago; what is made instead of them was moved."""
    rules = PoolRules(budgets=(Budget("100%"),), consolidated_s=NOW_S - 100)
    drains = machine("a", LARGE, load("a", HALF), deleting=True)
    other = machine("c", LARGE, load("c", shape(7000, app="other")))
    began = decide(world(drains, other, pools=on_demand(), rules=rules))
    successor = [replace(pod, created_s=NOW_S + 60) for pod in load("b", HALF)]
    later = world(machine("b", LARGE, successor), pools=on_demand(), rules=rules, now_s=NOW_S + 300)
    again = decide(later, Settings(), began.memory)
    assert again.command is None
    assert BlockedCode.COOLING_DOWN in codes(again, "b")


def test_a_node_that_costs_nothing_goes_when_its_pods_fit_elsewhere() -> None:
    free = instance_type("free", 4, 16, 0.0, capacity_types=(names.ON_DEMAND,))
    pools = [pool("default", (*catalog(), free), ON_DEMAND_ONLY)]
    nodes = [machine("a", "free", load("a", HALF)), machine("b", LARGE, load("b", shape(4500)))]
    found = decided(*nodes, pools=pools, facts={"b": NodeFacts(do_not_disrupt=True)}).command
    assert found is not None
    assert (found.candidates, found.action) == (("a",), Action.DELETE)


def test_a_drain_that_takes_long_is_not_forgotten() -> None:
    decision = decided(machine("a", LARGE, load("a", HALF)))
    drains = machine("a", LARGE, load("a", HALF), deleting=True)
    other = machine("c", LARGE, load("c", shape(900, app="other")))
    hours = world(drains, other, pools=on_demand(), now_s=NOW_S + 7200)
    much_later = decide(hours, Settings(), decision.memory)
    assert much_later.command is not None
    successor = [replace(pod, created_s=NOW_S + 7230) for pod in load("b", HALF)]
    asked = world(machine("b", LARGE, successor), pools=on_demand(), now_s=NOW_S + 7400)
    assert BlockedCode.COOLING_DOWN in codes(decide(asked, Settings(), much_later.memory), "b")


@pytest.mark.fact("D-28", "D-35", "W-2")
def test_a_node_that_gave_nothing_is_left_until_something_changes() -> None:
    full = [reservation("cr-1", MEDIUM, available=0, total=1)]
    nodes = [machine("a", MEDIUM, load("a", shape(3000), count=1))]

    def asked(kept: list[Any], now_s: int, changed: int = 0) -> DisruptionInput:
        found = world(*nodes, reservations=kept, now_s=now_s, pools=on_demand(reservations=kept))
        return replace(found, changed=changed)

    first = decide(asked(full, NOW_S))
    assert first.command is None
    second = decide(asked(full, NOW_S + 10), Settings(), first.memory)
    assert codes(second, "a") >= {BlockedCode.UNCHANGED}
    for world_now in (asked(full, NOW_S + 10, changed=1), asked(full, NOW_S + 301)):
        assert BlockedCode.UNCHANGED not in codes(decide(world_now, Settings(), first.memory), "a")
    free = [reservation("cr-1", MEDIUM, available=1, total=1)]
    found = decide(asked(free, NOW_S + 10), Settings(), first.memory).command
    assert found is not None  # a slot that was freed is seen at once
    assert became(found) == [(MEDIUM, names.RESERVED, "cr-1")]


def test_nodes_that_gave_nothing_together_are_looked_at_again_when_time_lets_another_in() -> None:
    """Each of them is too full to go by itself, and two of them make one that is cheaper."""
    nodes = [
        machine("a", LARGE, load("a", shape(7500))),
        machine("b", LARGE, load("b", shape(3000), count=1)),
        machine("c", LARGE, load("c", shape(3000), count=1), last_pod_event_s=NOW_S - 50),
    ]
    only_large = is_in(names.INSTANCE_TYPE, LARGE)
    pools = on_demand(only_large, consolidate_after_s=60)
    first = decide(world(*nodes, pools=pools, now_s=NOW_S))
    assert first.command is None
    memo = first.memory.memos[Method.MULTI_NODE]
    assert memo.done
    assert memo.tried == {"a", "b"}  # nothing is asked twice while it is young
    found = decide(world(*nodes, pools=pools, now_s=NOW_S + 10), Settings(), first.memory).command
    assert found is not None
    assert set(found.candidates) <= {"b", "c"}


# --- Balanced ------------------------------------------------------------------------------------------

BALANCED = PoolRules(Policy.BALANCED, ())


@pytest.mark.fact("D-40", "D-38")
def test_balanced_takes_what_is_worth_the_trouble_and_no_more() -> None:
    cheap_trouble = [machine("a", LARGE, load("a", HALF)), machine("b", LARGE, load("b", shape(350), 20))]
    found = command(*cheap_trouble, rules=BALANCED)
    assert found.candidates == ("a",)
    many_pods = [machine("a", SMALL, load("a", shape(90), 20)), machine("b", LARGE, load("b", shape(7000)))]
    decision = decided(*many_pods, rules=BALANCED)
    assert decision.command is None
    assert BlockedCode.BALANCE in codes(decision, "a")


@pytest.mark.fact("D-33")
def test_balanced_never_leaves_a_slot_for_another_in_a_pool_that_pays_for_nodes() -> None:
    kept = [reservation("cr-big", LARGE, available=0, total=1), reservation("cr-small", SMALL)]
    slot = machine("a", LARGE, load("a", HALF), slot="cr-big")
    paid = machine("b", LARGE, load("b", shape(7000)))
    leaving = Settings(release_slots=ReleaseSlots.ALWAYS)
    assert decided(slot, paid, reservations=kept, rules=BALANCED, settings=leaving).command is None
    alone = command(slot, reservations=kept, rules=BALANCED, settings=leaving)
    assert became(alone) == [(SMALL, names.RESERVED, "cr-small")]


@pytest.mark.fact("D-33")
def test_balanced_deletes_a_reserved_node_only_in_a_pool_without_paid_nodes() -> None:
    kept = [reservation("cr-1", LARGE, available=0, total=2)]
    leaving = Settings(release_slots=ReleaseSlots.ALWAYS)
    nodes = [machine(name, LARGE, load(name, HALF), slot="cr-1") for name in "ab"]
    alone = command(*nodes, reservations=kept, rules=BALANCED, settings=leaving)
    assert (len(alone.candidates), alone.action) == (1, Action.DELETE)
    paid = machine("c", LARGE, load("c", shape(7000)))
    mixed = decided(*nodes, paid, reservations=kept, rules=BALANCED, settings=leaving)
    assert mixed.command is None
    assert BlockedCode.BALANCE in codes(mixed, "a")


@pytest.mark.fact("D-33")
def test_balanced_scores_a_move_into_a_slot_like_a_deletion() -> None:
    """A third of the cost for three fifths of the disruption is a score of 0.56; half of that third is too little."""
    nodes = [
        machine("a", MEDIUM, load("a", shape(500), 2)),
        machine("b", LARGE, load("b", shape(7900))),
    ]
    cheaper = decided(*nodes, pools=on_demand(), rules=BALANCED)
    assert cheaper.command is None
    assert BlockedCode.BALANCE in codes(cheaper, "a")
    slot = reservation("cr-1", MEDIUM)
    found = command(*nodes, pools=on_demand(reservations=[slot]), reservations=[slot], rules=BALANCED)
    assert became(found) == [(MEDIUM, names.RESERVED, "cr-1")]
    room = machine("c", SMALL, slot="cr-2")
    deleted = command(
        *nodes,
        room,
        pools=on_demand(reservations=[reservation("cr-2", SMALL, available=0, total=1)]),
        reservations=[reservation("cr-2", SMALL, available=0, total=1)],
        rules=BALANCED,
        facts={"c": NodeFacts(do_not_disrupt=True)},
    )
    assert (deleted.candidates, deleted.action) == (("a",), Action.DELETE)


@pytest.mark.fact("D-41")
@pytest.mark.parametrize(("theirs", "gone"), [(FREE, {"big", "busy"}), (BALANCED, {"big"})])
def test_every_balanced_pool_must_agree_and_the_others_are_not_asked(
    theirs: PoolRules, gone: set[str]
) -> None:
    """The cheap node with many pods is of the other pool: it goes along unless that pool finds it too much trouble."""
    other = {names.NODEPOOL: "other"}
    nodes = [
        machine("busy", SMALL, load("busy", shape(90), 20), labels=other),
        machine("full", LARGE, load("full", shape(7000)), labels=other),
        machine("big", LARGE, load("big", WEB)),
        machine("room", MEDIUM, load("room", WEB)),
    ]
    pools = [*on_demand(), pool("other", catalog(), ON_DEMAND_ONLY)]
    decision = decided(*nodes, pools=pools, rules={"default": BALANCED, "other": theirs})
    assert decision.command is not None
    assert set(decision.command.candidates) == gone
    assert (BlockedCode.BALANCE in codes(decision, "busy")) is (theirs is BALANCED)


def test_a_pod_that_wants_a_node_of_its_own_finds_one_among_many_that_have_its_like() -> None:
    apart = shape(300, **one_per_node())
    full = [machine(f"n{i:03d}", SMALL, load(f"n{i}", apart)) for i in range(90)]
    free = machine("z", SMALL, load("z", shape(1500, app="other")))
    mover = machine("big", LARGE, [*load("big", apart), *load("huge", shape(700, app="huge"))])
    found = command(*full, free, mover, settings=Settings(together_max=0))
    assert (found.candidates, found.action) == (("big",), Action.DELETE)
    assert {one.node for one in found.placed if "big-000000" in one.pods} == {"z"}


def test_nodes_that_only_just_changed_do_not_hide_those_that_did_not() -> None:
    fresh = [machine(f"n{i:03d}", MEDIUM, load(f"n{i}", WEB), last_pod_event_s=NOW_S) for i in range(90)]
    calm = machine("z", MEDIUM, load("z", shape(3000, app="other")))
    mover = machine("big", LARGE, load("big", shape(800)))
    found = command(*fresh, calm, mover, pools=on_demand(consolidate_after_s=60))
    assert found.candidates == ("big",)
    assert [one.node for one in found.placed] == ["z"]


def test_pods_that_wait_for_a_node_do_not_keep_others_from_moving() -> None:
    found = command(machine("a", LARGE, load("a", HALF)), pending=pods(1, shape(99_000)))
    assert found.candidates == ("a",)


def test_every_node_is_in_the_decision_once() -> None:
    nodes = [machine(f"n{i}", LARGE, load(f"n{i}", shape(1000 * i))) for i in range(1, 5)]
    decision = decided(*nodes, machine("z", claim=None))
    assert decision.command is not None
    named = sorted([*decision.command.candidates, *(kept.node for kept in decision.undisrupted)])
    assert named == ["n1", "n2", "n3", "n4", "z"]
    assert all(kept.blockers for kept in decision.undisrupted)


# --- Types whose use costs more than their price ------------------------------------------------------


def burstable_beside(plain_usd: float) -> list[Any]:
    """`small` at 0.1 an hour and 0.08 more in use, beside a type of the same size without a surcharge."""
    small = instance_type(SMALL, 2, 8, 0.10)
    offerings = tuple(replace(one, surcharge_nano_usd_per_hour=80_000_000) for one in small.offerings)
    plain = instance_type(MEDIUM, 2, 8, plain_usd)
    return [pool("default", [replace(small, offerings=offerings), plain], ON_DEMAND_ONLY)]


def test_a_burstable_node_is_not_left_for_one_that_adds_more_to_the_bill() -> None:
    node = machine("n1", SMALL, load("p", WEB))
    assert decided(node, pools=burstable_beside(0.15)).command is None


def test_a_burstable_node_is_left_for_one_with_a_lower_price() -> None:
    found = command(machine("n1", SMALL, load("p", WEB)), pools=burstable_beside(0.09))
    assert [one.claim.instance_type for one in found.replacements] == [MEDIUM]


def test_no_node_is_left_for_a_burstable_one_that_costs_more_in_use() -> None:
    node = replace(machine("n1", MEDIUM, load("p", WEB)), allocatable=machine("n2", SMALL).allocatable)
    assert decided(node, pools=burstable_beside(0.15)).command is None
    found = command(node, pools=burstable_beside(0.19))
    assert [one.claim.instance_type for one in found.replacements] == [SMALL]
