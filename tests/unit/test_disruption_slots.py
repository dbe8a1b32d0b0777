"""Reservations in consolidation: what moves into slots, what leaves them, and several at once."""

from collections.abc import Sequence
from typing import Any

import pytest

from disruption_builders import FREE, LARGE, MEDIUM, NOW_S, SMALL, catalog, load, machine, world
from holdfast import names
from holdfast.core.disruption.commands import Action, Decision, DisruptionCommand, Method
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import NodeFacts, ReleaseSlots, Settings
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.input.request import Settings as Solving
from holdfast.model import requirements
from holdfast.model.reasons import BlockedCode
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import ClaimView, NodeView
from planner_builders import NANO, RESERVATION_ID, instance_type, is_in, pods, pool, reservation, shape

HALF = shape(1900)
ON_DEMAND = is_in(names.CAPACITY_TYPE, names.ON_DEMAND, names.RESERVED)
ALWAYS = Settings(release_slots=ReleaseSlots.ALWAYS)


def decided(*nodes: NodeView, kept: Sequence[Reservation], **more: Any) -> Decision:
    pools = more.pop("pools", None) or [pool("default", catalog(kept), ON_DEMAND)]
    pending = more.pop("pending", ())
    return decide(world(*nodes, reservations=kept, pools=pools, rules=FREE, pending=pending), **more)


def moves(found: DisruptionCommand | None) -> tuple[set[str], list[tuple[str, str | None]]]:
    """Which nodes go, and what comes: types with their slots, sorted."""
    assert found is not None
    return set(found.candidates), sorted(
        (one.claim.instance_type, one.claim.reservation_id) for one in found.replacements
    )


def paid(name: str, type_: str, *sizes: int, **more: Any) -> NodeView:
    pods = [pod for i, size in enumerate(sizes) for pod in load(f"{name}{i}", shape(size))]
    return machine(name, type_, pods, **more)


@pytest.mark.fact("D-30", "Q-9")
def test_an_on_demand_node_moves_into_a_free_slot_of_the_same_type() -> None:
    found = decided(paid("a", MEDIUM, 3000), kept=[reservation("cr-1", MEDIUM)]).command
    assert moves(found) == ({"a"}, [(MEDIUM, "cr-1")])
    assert found is not None
    assert found.action is Action.REPLACE
    assert found.saves_nano_usd_per_hour == round(0.2 * NANO)


@pytest.mark.fact("Q-28")
def test_a_slot_of_another_zone_or_a_type_that_the_pods_do_not_want_is_left_alone() -> None:
    here = requirements.of(is_in(names.ZONE, "z1"))
    node = machine("a", MEDIUM, load("a", shape(3000, node_selector=here)))
    assert decided(node, kept=[reservation("cr-1", MEDIUM, "z2")]).command is None
    picky = machine(
        "a", MEDIUM, load("a", shape(3000, node_selector=requirements.of(is_in(names.INSTANCE_TYPE, MEDIUM))))
    )
    assert decided(picky, kept=[reservation("cr-1", LARGE)]).command is None
    assert decided(picky, kept=[reservation("cr-1", MEDIUM)]).command is not None


@pytest.mark.fact("Q-10", "D-31")
def test_a_big_slot_is_left_for_a_small_one_when_the_pods_fit() -> None:
    """The seed's example, in our sizes: the pods were scaled down, and the big slot may serve somebody else."""
    kept = [reservation("cr-big", LARGE, available=0, total=1), reservation("cr-small", SMALL)]
    node = machine("a", LARGE, load("a", HALF), slot="cr-big")
    assert decided(node, kept=kept).command is None  # nothing is saved on the bill
    found = decided(node, kept=kept, settings=ALWAYS).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-small")])
    assert found is not None
    (one,) = found.replacements
    assert one.claim.reservation_ids == ("cr-small",)
    assert one.claim.requirements.get(RESERVATION_ID).values == {"cr-small"}
    assert (found.saves_nano_usd_per_hour, found.frees_nano_usd_per_hour) == (0, round(0.3 * NANO))


def test_a_node_that_leaves_a_big_slot_lists_no_slot_that_is_worth_as_much() -> None:
    kept = [
        reservation("cr-big", LARGE, available=0, total=1),
        reservation("cr-other", LARGE),
        reservation("cr-small", SMALL),
    ]
    found = decided(machine("a", LARGE, load("a", HALF), slot="cr-big"), kept=kept, settings=ALWAYS).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-small")])
    assert found is not None
    (claim,) = (one.claim for one in found.replacements)
    assert claim.requirements.get(RESERVATION_ID).values == {"cr-small"}
    assert claim.requirements.get(names.INSTANCE_TYPE).values == {SMALL}


@pytest.mark.fact("D-31")
def test_a_slot_is_not_left_for_one_that_is_worth_as_much() -> None:
    kept = [reservation("cr-1", LARGE, available=0, total=1), reservation("cr-2", LARGE)]
    assert decided(machine("a", LARGE, load("a", shape(7000)), slot="cr-1"), kept=kept).command is None


@pytest.mark.fact("D-32")
def test_a_slot_is_never_left_for_something_that_is_bought() -> None:
    kept = [reservation("cr-1", LARGE, available=0, total=1)]
    decision = decided(machine("a", LARGE, load("a", HALF), slot="cr-1"), kept=kept)
    assert decision.command is None
    assert any(
        why.reason.code is BlockedCode.NOT_CHEAPER for one in decision.undisrupted for why in one.blockers
    )


@pytest.mark.fact("D-32", "Q-27", "W-7")
def test_slots_are_filled_first_and_emptied_last() -> None:
    kept = [reservation("cr-1", MEDIUM, available=0, total=1)]
    slot, bought = machine("a", MEDIUM, load("a", HALF), slot="cr-1"), paid("b", MEDIUM, 1900)
    found = decided(slot, bought, kept=kept).command
    assert moves(found) == ({"b"}, [])
    assert found is not None
    assert [one.node for one in found.placed] == ["a"]
    two = [slot, machine("b", MEDIUM, load("b", HALF), slot="cr-2")]
    both = [*kept, reservation("cr-2", MEDIUM, available=0, total=1)]
    assert decided(*two, kept=both).command is None  # nothing is saved on the bill
    assert moves(decided(*two, kept=both, settings=ALWAYS).command) == ({"a"}, [])


RESERVED_ONLY = is_in(names.CAPACITY_TYPE, names.RESERVED)


def test_a_big_slot_is_left_for_a_small_one_when_a_pending_pod_gets_it() -> None:
    kept = [reservation("cr-big", LARGE, available=0, total=1), reservation("cr-small", SMALL)]
    pools = [pool("default", catalog(kept), RESERVED_ONLY)]
    node = machine("a", LARGE, load("a", HALF), slot="cr-big")
    found = decided(node, kept=kept, pools=pools, pending=pods(1, shape(7000))).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-small")])


def test_a_slot_is_left_for_other_nodes_when_a_pending_pod_gets_it() -> None:
    kept = [reservation("cr-1", MEDIUM, available=0, total=2)]
    pools = [pool("default", catalog(kept), RESERVED_ONLY)]
    two = [machine(name, MEDIUM, load(name, HALF), slot="cr-1") for name in ("a", "b")]
    found = decided(*two, kept=kept, pools=pools, pending=pods(1, shape(3000))).command
    assert moves(found) == ({"a"}, [])
    too_big = decided(*two, kept=kept, pools=pools, pending=pods(1, shape(7000)))
    assert too_big.command is None
    elsewhere = requirements.of(is_in(names.ZONE, "z3"))
    other_zone = pods(1, shape(3000, node_selector=elsewhere))
    assert decided(*two, kept=kept, pools=pools, pending=other_zone).command is None


def test_no_slot_is_left_while_another_slot_of_the_reservation_is_free() -> None:
    kept = [reservation("cr-1", MEDIUM, available=1, total=3)]
    pools = [pool("default", catalog(kept), RESERVED_ONLY)]
    two = [machine(name, MEDIUM, load(name, HALF), slot="cr-1") for name in ("a", "b")]
    assert decided(*two, kept=kept, pools=pools, pending=pods(1, shape(3000))).command is None


def test_no_slot_is_left_for_a_pending_pod_that_gets_a_node_anyway() -> None:
    kept = [reservation("cr-1", MEDIUM, available=0, total=2)]
    two = [machine(name, MEDIUM, load(name, HALF), slot="cr-1") for name in ("a", "b")]
    small = pods(1, shape(1000))  # fits beside the others
    assert decided(*two, kept=kept, pending=small).command is None


@pytest.mark.parametrize("other", [names.SPOT, names.ON_DEMAND])
@pytest.mark.parametrize("settings", [Settings(), ALWAYS])
def test_a_node_in_a_slot_is_never_emptied_onto_an_empty_node_that_costs_money(
    other: str, settings: Settings
) -> None:
    kept = [reservation("cr-1", MEDIUM, available=0, total=1)]
    pools = [pool("default", catalog(kept), consolidate_after_s=30)]
    facts = {"empty": NodeFacts(initialized_s=NOW_S - 5)}
    nodes = [machine("a", MEDIUM, load("a", HALF), slot="cr-1"), machine("empty", LARGE, capacity_type=other)]
    asked = world(*nodes, reservations=kept, pools=pools, rules=FREE, facts=facts)
    assert decide(asked, settings).command is None


# --- Several nodes into several slots --------------------------------------------------------------------


def test_two_nodes_move_into_two_slots_in_one_command() -> None:
    found = decided(
        paid("a", MEDIUM, 3500), paid("b", MEDIUM, 3500), kept=[reservation("cr-1", MEDIUM, available=2)]
    )
    assert moves(found.command) == ({"a", "b"}, [(MEDIUM, "cr-1"), (MEDIUM, "cr-1")])
    assert found.command is not None
    assert found.command.method is Method.MULTI_NODE
    assert found.command.saves_nano_usd_per_hour == round(0.4 * NANO)


@pytest.mark.fact("D-34", "W-7")
def test_one_node_moves_into_several_slots() -> None:
    """Karpenter replaces a node by one node or none."""
    kept = [reservation("cr-1", SMALL, available=4)]
    found = decided(paid("a", LARGE, 1800, 1800, 1800), kept=kept).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-1")] * 3)


@pytest.mark.fact("W-7", "D-34")
def test_three_nodes_move_into_two_slots_of_different_kinds() -> None:
    kept = [reservation("cr-1", LARGE), reservation("cr-2", MEDIUM)]
    nodes = [paid("a", MEDIUM, 3800), paid("b", MEDIUM, 3800), paid("c", MEDIUM, 3600)]
    assert moves(decided(*nodes, kept=kept).command) == (
        {"a", "b", "c"},
        [(LARGE, "cr-1"), (MEDIUM, "cr-2")],
    )


def test_as_many_nodes_move_as_there_are_slots_for_and_none_is_oversold() -> None:
    kept = [reservation("cr-1", MEDIUM, available=3)]
    nodes = [paid(f"n{i}", MEDIUM, 3500) for i in range(7)]
    found = decided(*nodes, kept=kept).command
    gone, come = moves(found)
    assert len(gone) == 3
    assert come == [(MEDIUM, "cr-1")] * 3


def test_nodes_of_many_small_pods_move_as_well() -> None:
    kept = [reservation("cr-1", MEDIUM, available=2)]
    nodes = [paid(f"n{i}", MEDIUM, 1200, 1200, 1200) for i in range(5)]
    gone, come = moves(decided(*nodes, kept=kept).command)
    assert (len(gone), len(come)) == (2, 2)


def test_a_node_that_does_not_go_with_the_others_is_left_out() -> None:
    kept = [reservation("cr-1", MEDIUM, available=2)]
    fixed = shape(7000, node_selector=requirements.of(is_in(names.INSTANCE_TYPE, LARGE)))
    nodes = [machine("a", LARGE, load("a", fixed)), paid("b", MEDIUM, 3500), paid("c", MEDIUM, 3500)]
    assert moves(decided(*nodes, kept=kept).command) == ({"b", "c"}, [(MEDIUM, "cr-1")] * 2)


def test_the_dearest_nodes_move_first_when_slots_are_few() -> None:
    kept = [reservation("cr-1", LARGE)]
    nodes = [paid("a", MEDIUM, 3500), paid("b", LARGE, 7500)]
    assert moves(decided(*nodes, kept=kept).command) == ({"b"}, [(LARGE, "cr-1")])


def test_slots_that_claims_in_flight_hold_are_not_counted_on() -> None:
    kept = [reservation("cr-1", MEDIUM)]
    in_flight = ClaimView("new", "default", requirements.NO_REQUIREMENTS, created_s=0, reservation_id="cr-1")
    asked = world(
        paid("a", MEDIUM, 3500),
        reservations=kept,
        pools=[pool("default", catalog(kept), ON_DEMAND)],
        claims=(in_flight,),
    )
    assert decide(asked).command is None


def test_slots_of_another_pool_serve_as_well() -> None:
    kept = [reservation("cr-1", MEDIUM)]
    reserved_only = pool("slots", catalog(kept), is_in(names.CAPACITY_TYPE, names.RESERVED))
    bought = pool("default", catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND))
    found = decided(paid("a", MEDIUM, 3500), kept=kept, pools=[bought, reserved_only]).command
    assert moves(found) == ({"a"}, [(MEDIUM, "cr-1")])
    assert found is not None
    assert found.replacements[0].claim.node_pool == "slots"


def test_with_the_gate_shut_nothing_moves_into_slots() -> None:
    shut = Settings(solving=Solving(packing=Packing.KARPENTER, reserved_capacity=False))
    kept = [reservation("cr-1", MEDIUM)]
    assert decided(paid("a", MEDIUM, 3500), kept=kept, settings=shut).command is None


def test_a_slot_and_one_cheaper_node_may_replace_several() -> None:
    kept = [reservation("cr-1", MEDIUM)]
    types = (*catalog(kept), instance_type("bargain", 4, 16, 0.15))
    nodes = [paid("a", MEDIUM, 3500), paid("b", MEDIUM, 3500)]
    found = decided(*nodes, kept=kept, pools=[pool("default", types, ON_DEMAND)]).command
    gone, come = moves(found)
    assert gone == {"a", "b"}
    assert come == [("bargain", None), (MEDIUM, "cr-1")]
