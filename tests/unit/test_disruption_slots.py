"""Consolidation with reservations: which nodes move into slots, which slots are released, and several nodes at once."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from disruption_builders import (
    FREE,
    LARGE,
    MEDIUM,
    NOW_S,
    SMALL,
    catalog,
    codes,
    disruption_input,
    instances,
    load,
    managed_node,
)
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


def decision_for(*nodes: NodeView, reservations: Sequence[Reservation], **more: Any) -> Decision:
    pools = more.pop("pools", None) or [pool("default", catalog(reservations), ON_DEMAND)]
    pending = more.pop("pending", ())
    return decide(
        disruption_input(*nodes, reservations=reservations, pools=pools, rules=FREE, pending=pending), **more
    )


def moves(found: DisruptionCommand | None) -> tuple[set[str], list[tuple[str, str | None]]]:
    """The deleted nodes, and the sorted pairs of instance type and reservation id of their replacements."""
    assert found is not None
    return set(found.candidates), sorted(
        (one.claim.instance_type, one.claim.reservation_id) for one in found.replacements
    )


def paid(name: str, type_: str, *sizes: int, **more: Any) -> NodeView:
    pods = [pod for i, size in enumerate(sizes) for pod in load(f"{name}{i}", shape(size))]
    return managed_node(name, type_, pods, **more)


@pytest.mark.fact("D-30", "Q-9")
def test_an_on_demand_node_moves_into_a_free_slot_of_the_same_type() -> None:
    found = decision_for(paid("a", MEDIUM, 3000), reservations=[reservation("cr-1", MEDIUM)]).command
    assert moves(found) == ({"a"}, [(MEDIUM, "cr-1")])
    assert found is not None
    assert found.action is Action.REPLACE
    assert found.saves_nano_usd_per_hour == round(0.2 * NANO)


def test_an_on_demand_node_that_the_cloud_moved_into_a_slot_does_not_move_into_another() -> None:
    """Its labels follow within a minute; in a reservation that its class does not select it stays on-demand."""
    node, both = paid("a", MEDIUM, 3000), [reservation("cr-1", MEDIUM, available=1, total=2)]
    for id_, blocked in (("cr-1", {BlockedCode.MOVED_INTO_SLOT}), ("cr-other", set())):
        (running,) = instances(node)
        moved = dataclasses.replace(running, reservation_id=id_)
        one = disruption_input(
            node,
            reservations=both,
            pools=[pool("default", catalog(both), ON_DEMAND)],
            instances=(moved,),
        )
        found = decide(one)
        assert (found.command is None) == bool(blocked)
        assert codes(found, "a") == blocked


@pytest.mark.fact("Q-28")
def test_slot_of_a_zone_or_type_that_the_pods_exclude_is_not_used() -> None:
    here = requirements.of(is_in(names.ZONE, "z1"))
    node = managed_node("a", MEDIUM, load("a", shape(3000, node_selector=here)))
    assert decision_for(node, reservations=[reservation("cr-1", MEDIUM, "z2")]).command is None
    selects_type = managed_node(
        "a", MEDIUM, load("a", shape(3000, node_selector=requirements.of(is_in(names.INSTANCE_TYPE, MEDIUM))))
    )
    assert decision_for(selects_type, reservations=[reservation("cr-1", LARGE)]).command is None
    assert decision_for(selects_type, reservations=[reservation("cr-1", MEDIUM)]).command is not None


@pytest.mark.fact("Q-10", "D-31")
def test_large_slot_is_released_for_a_small_one_if_the_pods_fit() -> None:
    """The example of the design document in our sizes: after a scale-down other pods may need the large slot."""
    reservations = [reservation("cr-big", LARGE, available=0, total=1), reservation("cr-small", SMALL)]
    node = managed_node("a", LARGE, load("a", HALF), slot="cr-big")
    assert decision_for(node, reservations=reservations).command is None  # no cost is saved
    found = decision_for(node, reservations=reservations, settings=ALWAYS).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-small")])
    assert found is not None
    (one,) = found.replacements
    assert one.claim.reservation_ids == ("cr-small",)
    assert one.claim.requirements.get(RESERVATION_ID).values == {"cr-small"}
    assert (found.saves_nano_usd_per_hour, found.frees_nano_usd_per_hour) == (0, round(0.3 * NANO))


def test_replacement_of_a_large_slot_lists_no_slot_of_equal_value() -> None:
    reservations = [
        reservation("cr-big", LARGE, available=0, total=1),
        reservation("cr-other", LARGE),
        reservation("cr-small", SMALL),
    ]
    found = decision_for(
        managed_node("a", LARGE, load("a", HALF), slot="cr-big"), reservations=reservations, settings=ALWAYS
    ).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-small")])
    assert found is not None
    (claim,) = (one.claim for one in found.replacements)
    assert claim.requirements.get(RESERVATION_ID).values == {"cr-small"}
    assert claim.requirements.get(names.INSTANCE_TYPE).values == {SMALL}


@pytest.mark.fact("D-31")
def test_slot_is_not_released_for_a_slot_of_equal_value() -> None:
    reservations = [reservation("cr-1", LARGE, available=0, total=1), reservation("cr-2", LARGE)]
    assert (
        decision_for(
            managed_node("a", LARGE, load("a", shape(7000)), slot="cr-1"), reservations=reservations
        ).command
        is None
    )


@pytest.mark.fact("D-32")
def test_slot_is_never_released_for_an_on_demand_node() -> None:
    reservations = [reservation("cr-1", LARGE, available=0, total=1)]
    decision = decision_for(managed_node("a", LARGE, load("a", HALF), slot="cr-1"), reservations=reservations)
    assert decision.command is None
    assert any(
        why.reason.code is BlockedCode.NOT_CHEAPER for one in decision.undisrupted for why in one.blockers
    )


@pytest.mark.fact("D-32", "Q-27", "W-7")
def test_slots_are_filled_first_and_emptied_last() -> None:
    reservations = [reservation("cr-1", MEDIUM, available=0, total=1)]
    slot, on_demand = managed_node("a", MEDIUM, load("a", HALF), slot="cr-1"), paid("b", MEDIUM, 1900)
    found = decision_for(slot, on_demand, reservations=reservations).command
    assert moves(found) == ({"b"}, [])
    assert found is not None
    assert [one.node for one in found.placed] == ["a"]
    two = [slot, managed_node("b", MEDIUM, load("b", HALF), slot="cr-2")]
    both = [*reservations, reservation("cr-2", MEDIUM, available=0, total=1)]
    assert decision_for(*two, reservations=both).command is None  # no cost is saved
    assert moves(decision_for(*two, reservations=both, settings=ALWAYS).command) == ({"a"}, [])


RESERVED_ONLY = is_in(names.CAPACITY_TYPE, names.RESERVED)


def test_large_slot_is_released_for_a_small_one_if_a_pending_pod_gets_it() -> None:
    reservations = [reservation("cr-big", LARGE, available=0, total=1), reservation("cr-small", SMALL)]
    pools = [pool("default", catalog(reservations), RESERVED_ONLY)]
    node = managed_node("a", LARGE, load("a", HALF), slot="cr-big")
    found = decision_for(node, reservations=reservations, pools=pools, pending=pods(1, shape(7000))).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-small")])


def test_slot_is_released_if_its_pods_fit_on_other_nodes_and_a_pending_pod_gets_it() -> None:
    reservations = [reservation("cr-1", MEDIUM, available=0, total=2)]
    pools = [pool("default", catalog(reservations), RESERVED_ONLY)]
    two = [managed_node(name, MEDIUM, load(name, HALF), slot="cr-1") for name in ("a", "b")]
    found = decision_for(*two, reservations=reservations, pools=pools, pending=pods(1, shape(3000))).command
    assert moves(found) == ({"a"}, [])
    too_big = decision_for(*two, reservations=reservations, pools=pools, pending=pods(1, shape(7000)))
    assert too_big.command is None
    elsewhere = requirements.of(is_in(names.ZONE, "z3"))
    other_zone = pods(1, shape(3000, node_selector=elsewhere))
    assert decision_for(*two, reservations=reservations, pools=pools, pending=other_zone).command is None


def test_no_slot_is_released_while_another_slot_of_the_reservation_is_free() -> None:
    reservations = [reservation("cr-1", MEDIUM, available=1, total=3)]
    pools = [pool("default", catalog(reservations), RESERVED_ONLY)]
    two = [managed_node(name, MEDIUM, load(name, HALF), slot="cr-1") for name in ("a", "b")]
    assert (
        decision_for(*two, reservations=reservations, pools=pools, pending=pods(1, shape(3000))).command
        is None
    )


def test_no_slot_is_released_for_a_pending_pod_that_fits_on_an_existing_node() -> None:
    reservations = [reservation("cr-1", MEDIUM, available=0, total=2)]
    two = [managed_node(name, MEDIUM, load(name, HALF), slot="cr-1") for name in ("a", "b")]
    small = pods(1, shape(1000))  # fits on the existing nodes
    assert decision_for(*two, reservations=reservations, pending=small).command is None


@pytest.mark.parametrize("other", [names.SPOT, names.ON_DEMAND])
@pytest.mark.parametrize("settings", [Settings(), ALWAYS])
def test_pods_of_a_reserved_node_never_move_to_an_empty_spot_or_on_demand_node(
    other: str, settings: Settings
) -> None:
    reservations = [reservation("cr-1", MEDIUM, available=0, total=1)]
    pools = [pool("default", catalog(reservations), consolidate_after_s=30)]
    facts = {"empty": NodeFacts(initialized_s=NOW_S - 5)}
    nodes = [
        managed_node("a", MEDIUM, load("a", HALF), slot="cr-1"),
        managed_node("empty", LARGE, capacity_type=other),
    ]
    cluster = disruption_input(*nodes, reservations=reservations, pools=pools, rules=FREE, facts=facts)
    assert decide(cluster, settings).command is None


# --- Several nodes into several slots --------------------------------------------------------------------


def test_two_nodes_move_into_two_slots_in_one_command() -> None:
    found = decision_for(
        paid("a", MEDIUM, 3500),
        paid("b", MEDIUM, 3500),
        reservations=[reservation("cr-1", MEDIUM, available=2)],
    )
    assert moves(found.command) == ({"a", "b"}, [(MEDIUM, "cr-1"), (MEDIUM, "cr-1")])
    assert found.command is not None
    assert found.command.method is Method.MULTI_NODE
    assert found.command.saves_nano_usd_per_hour == round(0.4 * NANO)


@pytest.mark.fact("D-34", "W-7")
def test_one_node_moves_into_several_slots() -> None:
    """Karpenter replaces a node by one node or none."""
    reservations = [reservation("cr-1", SMALL, available=4)]
    found = decision_for(paid("a", LARGE, 1800, 1800, 1800), reservations=reservations).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-1")] * 3)


@pytest.mark.fact("W-7", "D-34")
def test_three_nodes_move_into_two_slots_of_different_types() -> None:
    reservations = [reservation("cr-1", LARGE), reservation("cr-2", MEDIUM)]
    nodes = [paid("a", MEDIUM, 3800), paid("b", MEDIUM, 3800), paid("c", MEDIUM, 3600)]
    assert moves(decision_for(*nodes, reservations=reservations).command) == (
        {"a", "b", "c"},
        [(LARGE, "cr-1"), (MEDIUM, "cr-2")],
    )


def test_no_more_nodes_move_than_slots_are_free() -> None:
    reservations = [reservation("cr-1", MEDIUM, available=3)]
    nodes = [paid(f"n{i}", MEDIUM, 3500) for i in range(7)]
    found = decision_for(*nodes, reservations=reservations).command
    deleted, launched = moves(found)
    assert len(deleted) == 3
    assert launched == [(MEDIUM, "cr-1")] * 3


def test_nodes_with_several_small_pods_move_into_slots() -> None:
    reservations = [reservation("cr-1", MEDIUM, available=2)]
    nodes = [paid(f"n{i}", MEDIUM, 1200, 1200, 1200) for i in range(5)]
    deleted, launched = moves(decision_for(*nodes, reservations=reservations).command)
    assert (len(deleted), len(launched)) == (2, 2)


def test_node_whose_pods_fit_in_no_slot_is_left_out_of_the_command() -> None:
    reservations = [reservation("cr-1", MEDIUM, available=2)]
    fixed = shape(7000, node_selector=requirements.of(is_in(names.INSTANCE_TYPE, LARGE)))
    nodes = [managed_node("a", LARGE, load("a", fixed)), paid("b", MEDIUM, 3500), paid("c", MEDIUM, 3500)]
    assert moves(decision_for(*nodes, reservations=reservations).command) == (
        {"b", "c"},
        [(MEDIUM, "cr-1")] * 2,
    )


def test_most_expensive_node_moves_first_if_slots_are_few() -> None:
    reservations = [reservation("cr-1", LARGE)]
    nodes = [paid("a", MEDIUM, 3500), paid("b", LARGE, 7500)]
    assert moves(decision_for(*nodes, reservations=reservations).command) == ({"b"}, [(LARGE, "cr-1")])


def test_slot_held_by_a_claim_in_flight_is_not_used() -> None:
    reservations = [reservation("cr-1", MEDIUM)]
    in_flight = ClaimView("new", "default", requirements.NO_REQUIREMENTS, created_s=0, reservation_id="cr-1")
    cluster = disruption_input(
        paid("a", MEDIUM, 3500),
        reservations=reservations,
        pools=[pool("default", catalog(reservations), ON_DEMAND)],
        claims=(in_flight,),
    )
    assert decide(cluster).command is None


def test_slots_of_another_nodepool_are_used() -> None:
    reservations = [reservation("cr-1", MEDIUM)]
    reserved_only = pool("slots", catalog(reservations), is_in(names.CAPACITY_TYPE, names.RESERVED))
    on_demand = pool("default", catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND))
    found = decision_for(
        paid("a", MEDIUM, 3500), reservations=reservations, pools=[on_demand, reserved_only]
    ).command
    assert moves(found) == ({"a"}, [(MEDIUM, "cr-1")])
    assert found is not None
    assert found.replacements[0].claim.node_pool == "slots"


def test_with_the_gate_off_no_node_moves_into_a_slot() -> None:
    gate_off = Settings(solving=Solving(packing=Packing.KARPENTER, reserved_capacity=False))
    reservations = [reservation("cr-1", MEDIUM)]
    assert decision_for(paid("a", MEDIUM, 3500), reservations=reservations, settings=gate_off).command is None


def test_slot_and_one_cheaper_node_may_replace_several_nodes() -> None:
    reservations = [reservation("cr-1", MEDIUM)]
    types = (*catalog(reservations), instance_type("bargain", 4, 16, 0.15))
    nodes = [paid("a", MEDIUM, 3500), paid("b", MEDIUM, 3500)]
    found = decision_for(*nodes, reservations=reservations, pools=[pool("default", types, ON_DEMAND)]).command
    deleted, launched = moves(found)
    assert deleted == {"a", "b"}
    assert launched == [("bargain", None), (MEDIUM, "cr-1")]


def test_a_node_does_not_move_to_a_slot_that_is_worth_no_less() -> None:
    slots = [reservation("cr-1", MEDIUM, available=0), reservation("cr-2", MEDIUM)]
    node = paid("a", MEDIUM, 1000, slot="cr-1")
    decision = decision_for(node, reservations=slots, settings=ALWAYS)
    assert decision.command is None
    smaller = [slots[0], reservation("cr-2", SMALL)]
    found = decision_for(node, reservations=smaller, settings=ALWAYS).command
    assert moves(found) == ({"a"}, [(SMALL, "cr-2")])
    assert found is not None
    assert found.replacements[0].claim.reservation_ids == ("cr-2",)
