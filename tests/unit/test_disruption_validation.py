"""A DisruptionCommand is validated again before it starts."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import (
    LARGE,
    MEDIUM,
    NOW_S,
    SMALL,
    at_most,
    catalog,
    disruption_input,
    load,
    managed_node,
    pdb,
)
from holdfast import names
from holdfast.core.disruption.commands import DisruptionCommand
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import DisruptionInput, Drifted, NodeFacts, Settings
from holdfast.core.disruption.validation import Invalid, still_valid
from holdfast.model.snapshot import NodeView
from planner_builders import instance_type, is_in, pool, reservation, shape

HALF = shape(1900)
ON_DEMAND = is_in(names.CAPACITY_TYPE, names.ON_DEMAND, names.RESERVED)


def cluster_of(*nodes: NodeView, **more: Any) -> DisruptionInput:
    reservations = more.get("reservations", ())
    more.setdefault("pools", [pool("default", more.pop("types", catalog(reservations)), ON_DEMAND)])
    return disruption_input(*nodes, now_s=NOW_S + 15, **more)


def command_for(*nodes: NodeView, **more: Any) -> DisruptionCommand:
    found = decide(cluster_of(*nodes, **more)).command
    assert found is not None
    return found


def kind(command: DisruptionCommand, now: DisruptionInput) -> str | None:
    found = still_valid(command, now, Settings())
    return found.kind if isinstance(found, Invalid) else None


EMPTY = [managed_node("a"), managed_node("b", LARGE)]


@pytest.mark.fact("D-16")
def test_emptiness_command_drops_nodes_that_are_no_longer_empty() -> None:
    command = command_for(*EMPTY)
    assert still_valid(command, cluster_of(*EMPTY), Settings()) == command
    filled = cluster_of(EMPTY[0], managed_node("b", LARGE, load("new", HALF)))
    remaining = still_valid(command, filled, Settings())
    assert isinstance(remaining, DisruptionCommand)
    assert remaining.candidates == ("a",)
    nominated = cluster_of(EMPTY[0], replace(EMPTY[1], nominated=True))
    remaining = still_valid(command, nominated, Settings())
    assert isinstance(remaining, DisruptionCommand)
    assert remaining.candidates == ("a",)
    fewer = still_valid(command, cluster_of(*EMPTY, rules=at_most("1")), Settings())
    assert isinstance(fewer, DisruptionCommand)
    assert fewer.candidates == ("b",)
    assert kind(command, cluster_of(EMPTY[0], rules=at_most("0"))) == "churn"


BIG = managed_node("a", LARGE, load("a", HALF))


@pytest.mark.fact("D-42", "D-44")
def test_consolidation_is_still_valid_if_nothing_changed() -> None:
    command = command_for(BIG)
    assert still_valid(command, cluster_of(BIG), Settings()) == command


@pytest.mark.fact("D-42", "D-44")
@pytest.mark.parametrize(
    ("now", "why"),
    [
        (cluster_of(), "churn"),
        (cluster_of(replace(BIG, deleting=True)), "churn"),
        (cluster_of(BIG, facts={"a": NodeFacts(do_not_disrupt=True)}), "churn"),
        (cluster_of(replace(BIG, nominated=True)), "budget"),
        (cluster_of(BIG, rules=at_most("0")), "budget"),
        (cluster_of(BIG, budgets=(pdb(allowed=0),)), "churn"),
        (
            cluster_of(managed_node("a", LARGE, load("a", shape(7000)))),
            "scheduling",
        ),  # a new pod: no cheaper type fits it
        (cluster_of(BIG, managed_node("b", LARGE)), "scheduling"),  # the node needs no replacement any more
        (cluster_of(BIG, types=catalog()[1:]), "scheduling"),  # the planned type is no longer offered
    ],
)
def test_consolidation_is_invalid_after_a_relevant_change(now: DisruptionInput, why: str) -> None:
    assert kind(command_for(BIG), now) == why


@pytest.mark.fact("D-42")
def test_consolidation_is_still_valid_if_more_types_are_offered() -> None:
    more = (*catalog(), instance_type("bargain", 2, 8, 0.01))
    assert kind(command_for(BIG), cluster_of(BIG, types=more)) is None


@pytest.mark.fact("D-43", "W-9")
def test_command_is_invalid_if_its_slot_is_no_longer_free() -> None:
    node = managed_node("a", MEDIUM, load("a", shape(3500)))
    free, full = reservation("cr-1", MEDIUM), reservation("cr-1", MEDIUM, available=0, total=1)
    command = command_for(node, reservations=[free])
    assert command.replacements[0].claim.reservation_id == "cr-1"
    assert kind(command, cluster_of(node, reservations=[free])) is None
    found = still_valid(command, cluster_of(node, reservations=[full]), Settings())
    assert isinstance(found, Invalid)
    assert "cr-1 has 0 free slots" in found.why


def test_drift_command_is_invalid_without_budget_or_without_its_node() -> None:
    facts = {"a": NodeFacts(drifted=Drifted("AMI", 1))}
    node = managed_node("a", SMALL, load("a", HALF))
    command = command_for(node, facts=facts)
    assert kind(command, cluster_of(node, facts=facts)) is None
    assert kind(command, cluster_of(node, facts=facts, rules=at_most("0"))) == "budget"
    assert kind(command, cluster_of()) == "churn"
