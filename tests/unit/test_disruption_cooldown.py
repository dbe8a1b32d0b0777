"""The cool-down of consolidation: which pods were evicted a short while ago, and which moves are remembered."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import FREE, NOW_S, disruption_input, load, managed_node
from holdfast import names
from holdfast.core.disruption import cooldown
from holdfast.core.disruption.candidates import CandidateSet
from holdfast.core.disruption.commands import Action, DisruptionCommand, Method, Move
from holdfast.core.disruption.cooldown import RecentMoves
from holdfast.core.disruption.inputs import DisruptionReason, NodeFacts
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.snapshot import NodeView
from planner_builders import pods, pool, shape

COOLDOWN_S = 600
WEB, OTHER = shape(1000), shape(1500)
MOVE = Move(NOW_S - 300, frozenset({WEB}), frozenset({"old"}), NOW_S - 200)


def node_with(name: str = "a", created_s: int = NOW_S - 250, of: Any = WEB, **more: Any) -> NodeView:
    of_node = {key: more.pop(key) for key in ("deleting",) if key in more}
    return managed_node(
        name, pods=[one._replace(created_s=created_s, **more) for one in load(name, of)], **of_node
    )


def why_not(node: NodeView, move: Move = MOVE) -> Reason | None:
    candidate = CandidateSet(disruption_input(node)).candidate(node)
    return RecentMoves((move,), COOLDOWN_S, NOW_S).why_not(candidate)


@pytest.mark.parametrize(
    "created_s",
    [MOVE.at_s, MOVE.until_s, MOVE.until_s + 60],
    ids=["with the move", "at its end", "a minute later"],
)
def test_replacement_of_an_evicted_pod_is_cooling_down(created_s: int) -> None:
    found = why_not(node_with(created_s=created_s))
    assert found is not None
    assert (found.code, found.subjects) == (BlockedCode.COOLING_DOWN, ("default/a-0",))


def test_reason_names_the_end_of_the_cooldown() -> None:
    found = why_not(node_with(created_s=NOW_S - 250))
    assert found is not None
    assert found.text.endswith("is not evicted again until 13:52 (UTC)")


@pytest.mark.parametrize(
    "node",
    [
        node_with(created_s=MOVE.at_s - 1),
        node_with(created_s=MOVE.until_s + 61),
        node_with(of=OTHER),
        node_with(reschedulable=False),
    ],
    ids=["created before the move", "created too late", "another shape", "not rescheduled"],
)
def test_other_pods_are_not_cooling_down(node: NodeView) -> None:
    assert why_not(node) is None


def test_cooldown_ends() -> None:
    long_ago = Move(NOW_S - 2 * COOLDOWN_S, frozenset({WEB}), frozenset(), NOW_S)
    assert why_not(node_with(created_s=NOW_S - COOLDOWN_S + 1), long_ago) is not None
    assert why_not(node_with(created_s=NOW_S - COOLDOWN_S), long_ago) is None


def test_zone_labels_of_a_pod_do_not_change_its_shape() -> None:
    """Kubernetes labels a bound pod with the zone of its node, so the pod that was evicted had another zone."""
    bound = WEB._replace(labels=(*WEB.labels, (names.ZONE, "z1"), (names.REGION, "r")))
    assert why_not(node_with(of=bound)) is not None
    labelled = WEB._replace(labels=(*WEB.labels, ("zone", "z1")))
    assert why_not(node_with(of=labelled)) is None


# --- What is remembered ------------------------------------------------------------------------------


def after(*moves: Move, node: NodeView) -> tuple[Move, ...]:
    command = DisruptionCommand(
        Method.SINGLE_NODE, DisruptionReason.UNDERUTILIZED, Action.DELETE, (node.name,), "it pays"
    )
    candidate_set = CandidateSet(disruption_input(node))
    return RecentMoves(moves, COOLDOWN_S, NOW_S).after(command, candidate_set)


def test_a_command_is_remembered_with_the_shapes_of_its_pods() -> None:
    daemon = load("daemon", OTHER)[0]._replace(reschedulable=False)
    node = managed_node("a", pods=(*load("a", WEB), daemon))
    assert after(node=node) == (Move(NOW_S, frozenset({WEB}), frozenset({"a"}), NOW_S),)


def test_a_command_without_pods_to_reschedule_is_not_remembered() -> None:
    assert after(MOVE, node=managed_node("a")) == (MOVE,)


def test_a_move_is_forgotten_when_no_replacement_of_it_cools_down() -> None:
    held_s = COOLDOWN_S + 60
    last = replace(MOVE, until_s=NOW_S - held_s + 1)
    over = replace(MOVE, until_s=NOW_S - held_s)
    assert after(last, over, node=managed_node("a")) == (last,)


@pytest.mark.parametrize(
    ("node", "facts", "continues"),
    [
        (node_with("old", deleting=True), {}, True),
        (node_with("old"), {"old": NodeFacts(queued=True)}, True),
        (node_with("old"), {"old": NodeFacts()}, False),
        (node_with("old"), {}, False),
        (node_with("other", deleting=True), {}, False),
    ],
    ids=["draining", "queued", "kept", "unknown", "another node"],
)
def test_a_move_continues_while_one_of_its_nodes_drains(
    node: NodeView, facts: dict[str, NodeFacts], *, continues: bool
) -> None:
    (found,) = cooldown.still_moving([MOVE], disruption_input(node, facts=facts))
    assert found == (replace(MOVE, until_s=NOW_S) if continues else MOVE)


# --- After a start -----------------------------------------------------------------------------------


def moves_before(*nodes: NodeView, consolidated_s: int | None, **more: Any) -> tuple[Move, ...]:
    rules = {"default": replace(FREE, consolidated_s=consolidated_s), "other": FREE}
    pools = [pool("default"), pool("other")]
    return cooldown.moves_before(disruption_input(*nodes, rules=rules, pools=pools, **more), COOLDOWN_S)


def test_a_process_that_starts_assumes_moves_if_any_nodepool_was_consolidated_recently() -> None:
    assert moves_before(consolidated_s=None) == ()
    assert moves_before(consolidated_s=NOW_S - COOLDOWN_S) == ()
    (found,) = moves_before(consolidated_s=NOW_S - COOLDOWN_S + 1)
    assert found == Move(NOW_S - COOLDOWN_S, frozenset(), frozenset(), NOW_S)


def test_assumed_moves_are_of_young_pods_of_pods_on_deleting_nodes_and_of_pending_pods() -> None:
    young, old, waiting = shape(100), shape(200), shape(300)
    deleting = node_with("deleting", created_s=0, of=OTHER, deleting=True)
    (found,) = moves_before(
        node_with("young", created_s=NOW_S - COOLDOWN_S + 1, of=young),
        node_with("old", created_s=NOW_S - COOLDOWN_S, of=old),
        deleting,
        consolidated_s=NOW_S,
        pending=pods(1, waiting),
    )
    assert found.shapes == {young, OTHER, waiting}
    assert found.nodes == {"deleting"}
