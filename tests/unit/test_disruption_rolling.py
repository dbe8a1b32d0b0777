"""Rolling: which slot a node that is deleted leaves to its replacement, and how many nodes may be away at once."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import HOUR_S, LARGE, MEDIUM, NOW_S, at_most, catalog, load, machine, pdb, world
from holdfast import names
from holdfast.core.disruption.candidates import Survey
from holdfast.core.disruption.commands import Action, Decision, DisruptionCommand, Method, Replacement
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import (
    DisruptionInput,
    DisruptionReason,
    Drifted,
    MixedPools,
    NodeFacts,
    Settings,
)
from holdfast.core.disruption.rolling import Rolling
from holdfast.core.disruption.simulation import Simulator
from holdfast.model.reasons import BlockedCode
from holdfast.model.requirements import NO_REQUIREMENTS, of
from holdfast.model.reservations import State
from holdfast.model.snapshot import ClaimView, NodeView
from planner_builders import is_in, pool, reservation, shape

BIG = shape(3000)
DRIFTED = NodeFacts(drifted=Drifted("AMI", NOW_S - HOUR_S))
RESERVED_ONLY = is_in(names.CAPACITY_TYPE, names.RESERVED)
MIXED = is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND)
FALLBACK = Settings(roll_mixed_pools=MixedPools.FALLBACK)


def slotted(name: str, **more: Any) -> NodeView:
    return machine(name, MEDIUM, load(name, BIG), slot=more.pop("slot", "cr-1"), **more)


def asked(*nodes: NodeView, allowed: Any = RESERVED_ONLY, available: int = 0, **more: Any) -> DisruptionInput:
    """Nodes in the slots of cr-1."""
    kept = [
        reservation("cr-1", MEDIUM, available=available, total=4, state=more.pop("state", State.ACTIVE)),
        reservation("cr-2", LARGE, available=0, total=1),
    ]
    pools = more.pop("pools", None) or [pool("default", catalog(kept), allowed)]
    return world(*nodes, reservations=kept, pools=pools, **more)


# --- Nodes that are being deleted --------------------------------------------------------------------


def held(found: DisruptionInput, name: str = "a", settings: Settings | None = None) -> Replacement | None:
    settings = settings or Settings()
    survey = Survey(found)
    (node,) = (one for one in found.snapshot.nodes if one.name == name)
    return Rolling(survey, Simulator(found, settings), settings).held(survey.candidate(node))


@pytest.mark.parametrize("allowed", [RESERVED_ONLY, MIXED])
def test_the_slot_of_a_node_that_is_being_deleted_is_held_whatever_budgets_allow(allowed: Any) -> None:
    found = held(asked(slotted("a", deleting=True), allowed=allowed, rules=at_most("0")))
    assert found is not None
    assert (found.claim.reservation_id, found.waits_for_instance) == ("cr-1", "id-a")
    assert found.claim.reservation_ids == ("cr-1",)


@pytest.mark.parametrize(
    ("found", "settings"),
    [
        (asked(slotted("a", deleting=True), machine("b", LARGE)), Settings()),  # the pods fit on b
        (asked(slotted("a", deleting=True), available=1), Settings()),  # another slot is free
        (asked(slotted("a", deleting=True), state=State.PENDING), Settings()),
        (asked(slotted("a", deleting=True), allowed=MIXED), FALLBACK),  # launched on demand
        (asked(machine("a", MEDIUM, load("a", BIG), deleting=True)), Settings()),  # it is in no slot
        (asked(machine("a", MEDIUM, (), slot="cr-1", deleting=True)), Settings()),  # it has no pods
    ],
)
def test_a_slot_is_not_held_where_the_pods_need_none(found: DisruptionInput, settings: Settings) -> None:
    assert held(found, settings=settings) is None


def test_with_fallback_a_slot_is_held_where_the_pods_fit_nowhere_else() -> None:
    assert held(asked(slotted("a", deleting=True)), settings=FALLBACK) is not None


def test_with_fallback_a_drifted_node_goes_first_where_its_pods_fit_nowhere_else() -> None:
    found = decide(asked(slotted("a"), facts={"a": DRIFTED}), FALLBACK).command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST


def with_a_pod_on_demand(**more: Any) -> DisruptionInput:
    """A node in a slot of a full reservation. One of its pods selects on-demand capacity."""
    selects = shape(500, node_selector=of(is_in(names.CAPACITY_TYPE, names.ON_DEMAND)))
    node = machine("a", MEDIUM, (*load("a", BIG), *load("selects", selects)), slot="cr-1", **more)
    return asked(node, allowed=MIXED, facts={"a": DRIFTED})


def test_a_slot_is_not_held_where_the_pods_need_a_node_on_demand_as_well() -> None:
    assert held(with_a_pod_on_demand(deleting=True)) is None


def test_a_drifted_node_is_not_deleted_first_where_its_pods_need_a_node_on_demand_as_well() -> None:
    decided = command(with_a_pod_on_demand())
    assert decided.action is Action.REPLACE
    assert [one.claim.reservation_id for one in decided.replacements] == [None]


# --- Budgets -----------------------------------------------------------------------------------------


def waiting(slot: str = "cr-1", node_pool: str = "default", **more: Any) -> ClaimView:
    """A replacement that waits for an instance that still runs."""
    known = {"reservation_id": slot, "waits_for_instance": "id-b"} | more
    return ClaimView("new", node_pool, NO_REQUIREMENTS, NOW_S, **known)


def starting(slot: str = "cr-1", *, initialized: bool = False, **more: Any) -> NodeView:
    return replace(machine("new", MEDIUM, slot=slot, **more), initialized=initialized)


def rolls(*others: NodeView, claims: tuple[ClaimView, ...] = (), limit: str = "1") -> Decision:
    """Whether node a is rolled, beside node b, whose instance is ending."""
    two = (slotted("a"), slotted("b", deleting=True))
    pods_block = {"new": NodeFacts(do_not_disrupt=True)}
    facts = {"a": DRIFTED, "b": NodeFacts(ending=True), **pods_block}
    return decide(asked(*two, *others, claims=claims, facts=facts, rules=at_most(limit)))


@pytest.mark.parametrize(
    ("others", "claims"), [((), (waiting(),)), ((starting(),), ()), ((starting(claim="new"),), (waiting(),))]
)
def test_a_replacement_that_is_not_up_counts_as_away_once(
    others: tuple[NodeView, ...], claims: tuple[ClaimView, ...]
) -> None:
    decision = rolls(*others, claims=claims)
    assert decision.command is None
    (why,) = [
        why for one in decision.undisrupted for why in one.blockers if why.reason.code is BlockedCode.BUDGET
    ]
    assert (why.method, why.reason.subject) == (Method.DRIFT, "default")
    found = rolls(*others, claims=claims, limit="2").command
    assert found is not None
    assert (found.action, found.candidates) == (Action.TERMINATE_FIRST, ("a",))


@pytest.mark.parametrize(
    ("others", "claims"),
    [
        ((), ()),
        ((), (waiting(slot="cr-2"),)),
        ((), (waiting(node_pool="other"),)),
        ((), (waiting(deleting=True),)),
        ((starting("cr-2"),), ()),
        ((replace(starting(), node_pool="other"),), ()),
    ],
)
def test_other_slots_and_nodepools_do_not_count_as_away(
    others: tuple[NodeView, ...], claims: tuple[ClaimView, ...]
) -> None:
    found = rolls(*others, claims=claims).command
    assert found is not None
    assert found.candidates == ("a",)


def test_a_static_nodepool_and_one_without_budget_keep_their_nodes() -> None:
    decision = decide(asked(slotted("a"), facts={"a": DRIFTED}, rules=at_most("0")))
    assert decision.command is None
    assert BlockedCode.BUDGET in {why.reason.code for one in decision.undisrupted for why in one.blockers}


# --- Drains that end ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("allowed", "of_budget", "ready", "rolled"),
    [
        (1, {}, True, False),
        (2, {}, True, True),
        (1, {}, False, False),
        (1, {"always_allows_unhealthy": True}, False, True),
        (1, {"always_allows_unhealthy": True}, True, False),
    ],
)
def test_a_drain_begins_only_if_the_disruption_budget_allows_all_pods_to_be_away(
    allowed: int, of_budget: dict[str, Any], *, ready: bool, rolled: bool
) -> None:
    two = load("a", shape(1500), 2, ready=ready)
    node = machine("a", MEDIUM, two, slot="cr-1")
    budgets = (pdb(allowed=allowed, **of_budget),)
    found = decide(asked(node, facts={"a": DRIFTED}, budgets=budgets)).command
    assert (found is not None) is rolled


# --- What the command says ---------------------------------------------------------------------------


def command(found: DisruptionInput, settings: Settings | None = None) -> DisruptionCommand:
    decided = decide(found, settings or Settings()).command
    assert decided is not None
    return decided


def test_the_reason_of_a_drift_names_what_replaces_the_node() -> None:
    on_demand = [pool("default", catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND))]
    bought = command(asked(machine("a", MEDIUM, load("a", BIG)), facts={"a": DRIFTED}, pools=on_demand))
    assert bought.why == "AMI; replaced by a medium on-demand"
    assert (bought.reason, bought.action) == (DisruptionReason.DRIFTED, Action.REPLACE)
    into_slot = command(asked(slotted("a"), available=1, facts={"a": DRIFTED}))
    assert into_slot.why == "AMI; replaced by a medium in cr-1"
    elsewhere = command(asked(slotted("a"), machine("b", LARGE, load("b", BIG)), facts={"a": DRIFTED}))
    assert (elsewhere.why, elsewhere.action) == ("AMI; its pods fit on other nodes", Action.DELETE)


def test_without_terminate_first_a_node_in_a_full_reservation_stays() -> None:
    stays = decide(asked(slotted("a"), facts={"a": DRIFTED}), Settings(terminate_first_drift=False))
    assert stays.command is None
    assert BlockedCode.PODS_WITHOUT_PLACE in {
        why.reason.code for one in stays.undisrupted for why in one.blockers
    }
