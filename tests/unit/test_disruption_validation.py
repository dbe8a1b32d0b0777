"""A command is looked at again before it is acted on."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import LARGE, MEDIUM, NOW_S, SMALL, at_most, catalog, load, machine, pdb, world
from holdfast import names
from holdfast.core.disruption.commands import DisruptionCommand
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import DisruptionInput, Drifted, NodeFacts, Settings
from holdfast.core.disruption.validation import Invalid, still_valid
from holdfast.model.snapshot import NodeView
from planner_builders import instance_type, is_in, pool, reservation, shape

HALF = shape(1900)
ON_DEMAND = is_in(names.CAPACITY_TYPE, names.ON_DEMAND, names.RESERVED)


def asked(*nodes: NodeView, **more: Any) -> DisruptionInput:
    kept = more.get("reservations", ())
    more.setdefault("pools", [pool("default", more.pop("types", catalog(kept)), ON_DEMAND)])
    return world(*nodes, now_s=NOW_S + 15, **more)


def decided(*nodes: NodeView, **more: Any) -> DisruptionCommand:
    found = decide(asked(*nodes, **more)).command
    assert found is not None
    return found


def kind(command: DisruptionCommand, now: DisruptionInput) -> str | None:
    found = still_valid(command, now, Settings())
    return found.kind if isinstance(found, Invalid) else None


EMPTY = [machine("a"), machine("b", LARGE)]


@pytest.mark.fact("D-16")
def test_of_empty_nodes_those_that_are_empty_no_more_are_left_out() -> None:
    command = decided(*EMPTY)
    assert still_valid(command, asked(*EMPTY), Settings()) == command
    filled = asked(EMPTY[0], machine("b", LARGE, load("new", HALF)))
    left = still_valid(command, filled, Settings())
    assert isinstance(left, DisruptionCommand)
    assert left.candidates == ("a",)
    nominated = asked(EMPTY[0], replace(EMPTY[1], nominated=True))
    left = still_valid(command, nominated, Settings())
    assert isinstance(left, DisruptionCommand)
    assert left.candidates == ("a",)
    fewer = still_valid(command, asked(*EMPTY, rules=at_most("1")), Settings())
    assert isinstance(fewer, DisruptionCommand)
    assert fewer.candidates == ("b",)
    assert kind(command, asked(EMPTY[0], rules=at_most("0"))) == "churn"


BIG = machine("a", LARGE, load("a", HALF))


@pytest.mark.fact("D-42", "D-44")
def test_a_consolidation_stands_while_nothing_changed() -> None:
    command = decided(BIG)
    assert still_valid(command, asked(BIG), Settings()) == command


@pytest.mark.fact("D-42", "D-44")
@pytest.mark.parametrize(
    ("now", "why"),
    [
        (asked(), "churn"),
        (asked(replace(BIG, deleting=True)), "churn"),
        (asked(BIG, facts={"a": NodeFacts(do_not_disrupt=True)}), "churn"),
        (asked(replace(BIG, nominated=True)), "budget"),
        (asked(BIG, rules=at_most("0")), "budget"),
        (asked(BIG, budgets=(pdb(allowed=0),)), "churn"),
        (
            asked(machine("a", LARGE, load("a", shape(7000)))),
            "scheduling",
        ),  # a pod came: nothing cheaper holds it
        (asked(BIG, machine("b", LARGE)), "scheduling"),  # it could just go: not what was decided
        (asked(BIG, types=catalog()[1:]), "scheduling"),  # the type that was counted on is not sold any more
    ],
)
def test_a_consolidation_falls_with_what_it_was_based_on(now: DisruptionInput, why: str) -> None:
    assert kind(decided(BIG), now) == why


@pytest.mark.fact("D-42")
def test_more_types_that_would_do_are_no_reason_to_stop() -> None:
    more = (*catalog(), instance_type("bargain", 2, 8, 0.01))
    assert kind(decided(BIG), asked(BIG, types=more)) is None


@pytest.mark.fact("D-43", "W-9")
def test_a_slot_that_is_gone_ends_the_command() -> None:
    node = machine("a", MEDIUM, load("a", shape(3500)))
    free, taken = reservation("cr-1", MEDIUM), reservation("cr-1", MEDIUM, available=0, total=1)
    command = decided(node, reservations=[free])
    assert command.replacements[0].claim.reservation_id == "cr-1"
    assert kind(command, asked(node, reservations=[free])) is None
    found = still_valid(command, asked(node, reservations=[taken]), Settings())
    assert isinstance(found, Invalid)
    assert "cr-1 has 0 free slots" in found.why


def test_a_drift_that_is_not_drained_away_stands_and_one_without_budget_falls() -> None:
    facts = {"a": NodeFacts(drifted=Drifted("AMI", 1))}
    node = machine("a", SMALL, load("a", HALF))
    command = decided(node, facts=facts)
    assert kind(command, asked(node, facts=facts)) is None
    assert kind(command, asked(node, facts=facts, rules=at_most("0"))) == "budget"
    assert kind(command, asked()) == "churn"
