"""Rolling: when the slot of a deleted node is held for its replacement, and how many nodes are rolled at once."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import (
    HOUR_S,
    LARGE,
    MEDIUM,
    NOW_S,
    at_most,
    catalog,
    codes,
    disruption_input,
    load,
    managed_node,
    pdb,
)
from holdfast import names
from holdfast.core.disruption.candidates import CandidateSet
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
from holdfast.core.disruption.rolling import Need, Rolling
from holdfast.core.disruption.simulation import Simulator
from holdfast.model.reasons import BlockedCode, Reason
from holdfast.model.requirements import NO_REQUIREMENTS, of
from holdfast.model.reservations import State
from holdfast.model.snapshot import ClaimView, NodeView
from planner_builders import RESERVATION_ID, is_in, pods, pool, reservation, shape

BIG = shape(3000)
DRIFTED = NodeFacts(drifted=Drifted("AMI", NOW_S - HOUR_S))
RESERVED_ONLY = is_in(names.CAPACITY_TYPE, names.RESERVED)
MIXED = is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND)
FALLBACK = Settings(roll_mixed_pools=MixedPools.FALLBACK)


def reserved_node(name: str, **more: Any) -> NodeView:
    return managed_node(name, MEDIUM, load(name, BIG), slot=more.pop("slot", "cr-1"), **more)


def cluster_of(
    *nodes: NodeView, allowed: Any = RESERVED_ONLY, available: int = 0, **more: Any
) -> DisruptionInput:
    """A cluster with nodes in the slots of cr-1."""
    reservations = [
        reservation("cr-1", MEDIUM, available=available, total=4, state=more.pop("state", State.ACTIVE)),
        reservation("cr-2", LARGE, available=0, total=1),
        *more.pop("other_reservations", ()),
    ]
    pools = more.pop("pools", None) or [pool("default", catalog(reservations), allowed)]
    return disruption_input(*nodes, reservations=reservations, pools=pools, **more)


# --- Nodes that are being deleted --------------------------------------------------------------------


def replacement_for(
    found: DisruptionInput, name: str = "a", settings: Settings | None = None
) -> Replacement | None:
    settings = settings or Settings()
    candidate_set = CandidateSet(found)
    (node,) = (one for one in found.snapshot.nodes if one.name == name)
    return Rolling(candidate_set, Simulator(found, settings), settings).held(candidate_set.candidate(node))


@pytest.mark.parametrize("allowed", [RESERVED_ONLY, MIXED])
def test_slot_of_a_deleting_node_is_held_even_without_budget(allowed: Any) -> None:
    found = replacement_for(
        cluster_of(reserved_node("a", deleting=True), allowed=allowed, rules=at_most("0"))
    )
    assert found is not None
    assert (found.claim.reservation_id, found.waits_for_instance) == ("cr-1", "id-a")
    assert found.claim.reservation_ids == ("cr-1",)


@pytest.mark.parametrize(
    ("found", "settings"),
    [
        (
            cluster_of(reserved_node("a", deleting=True), managed_node("b", LARGE)),
            Settings(),
        ),  # the pods fit on b
        (cluster_of(reserved_node("a", deleting=True), available=1), Settings()),  # another slot is free
        (cluster_of(reserved_node("a", deleting=True), state=State.PENDING), Settings()),
        (cluster_of(reserved_node("a", deleting=True), allowed=MIXED), FALLBACK),  # launched on demand
        (
            cluster_of(managed_node("a", MEDIUM, load("a", BIG), deleting=True)),
            Settings(),
        ),  # the node is not reserved
        (
            cluster_of(managed_node("a", MEDIUM, (), slot="cr-1", deleting=True)),
            Settings(),
        ),  # the node has no pods
    ],
)
def test_slot_is_not_held_if_the_pods_do_not_need_it(found: DisruptionInput, settings: Settings) -> None:
    assert replacement_for(found, settings=settings) is None


def test_with_fallback_a_slot_is_held_if_the_pods_fit_nowhere_else() -> None:
    assert replacement_for(cluster_of(reserved_node("a", deleting=True)), settings=FALLBACK) is not None


def test_with_fallback_a_drifted_node_is_terminated_first_if_its_pods_fit_nowhere_else() -> None:
    found = decide(cluster_of(reserved_node("a"), facts={"a": DRIFTED}), FALLBACK).command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST


def with_a_pod_on_demand(**more: Any) -> DisruptionInput:
    """A node in a slot of a full reservation. One of its pods selects on-demand capacity."""
    selects = shape(500, node_selector=of(is_in(names.CAPACITY_TYPE, names.ON_DEMAND)))
    node = managed_node("a", MEDIUM, (*load("a", BIG), *load("selects", selects)), slot="cr-1", **more)
    return cluster_of(node, allowed=MIXED, facts={"a": DRIFTED})


def test_slot_is_not_held_if_the_pods_also_need_an_on_demand_node() -> None:
    assert replacement_for(with_a_pod_on_demand(deleting=True)) is None


def test_drifted_node_is_not_terminated_first_if_its_pods_also_need_an_on_demand_node() -> None:
    decided = command(with_a_pod_on_demand())
    assert decided.action is Action.REPLACE
    assert [one.claim.reservation_id for one in decided.replacements] == [None]


FREE_SLOT = reservation("cr-3", MEDIUM, available=1, total=1)


def test_replacement_in_a_free_slot_of_another_reservation_does_not_wait() -> None:
    """One pod needs the slot of its node, the other a free slot elsewhere."""
    selects = shape(3000, node_selector=of(is_in(RESERVATION_ID, "cr-3")))
    node = managed_node("a", LARGE, (*load("a", BIG), *load("selects", selects)), slot="cr-1", deleting=True)
    found = cluster_of(node, other_reservations=[FREE_SLOT])
    held = replacement_for(found)
    assert held is not None
    assert (held.claim.reservation_id, held.waits_for_instance) == ("cr-1", "id-a")
    drifted = decide(
        cluster_of(replace(node, deleting=False), other_reservations=[FREE_SLOT], facts={"a": DRIFTED})
    )
    assert drifted.command is not None
    waits = {one.claim.reservation_id: one.waits_for_instance for one in drifted.command.replacements}
    assert waits == {"cr-1": "id-a", "cr-3": None}


@pytest.mark.parametrize("allowed", [RESERVED_ONLY, MIXED])
def test_drifted_node_of_a_full_reservation_is_replaced_in_a_free_slot_of_another(allowed: Any) -> None:
    found = command(
        cluster_of(reserved_node("a"), allowed=allowed, other_reservations=[FREE_SLOT], facts={"a": DRIFTED})
    )
    assert found.action is Action.REPLACE
    assert [(one.claim.reservation_id, one.waits_for_instance) for one in found.replacements] == [
        ("cr-3", None)
    ]


def test_drifted_node_is_terminated_first_if_its_pods_fit_only_on_a_drifted_node() -> None:
    facts = {"a": DRIFTED, "b": replace(DRIFTED, do_not_disrupt=True)}
    found = command(cluster_of(reserved_node("a"), managed_node("b", LARGE), facts=facts))
    assert (found.action, found.candidates) == (Action.TERMINATE_FIRST, ("a",))


def test_slot_of_a_node_whose_reboot_failed_is_held_for_a_pending_pod() -> None:
    """The pods of the node were evicted for the reboot, so they are pending. One of the two gets the slot."""
    failed = NodeFacts(reboot_failed=True, ready=False, rebooted_s=NOW_S, reboots_s=(NOW_S,))
    node = managed_node("a", MEDIUM, (), slot="cr-1")
    for reboot_failed, action in ((True, Action.TERMINATE_FIRST), (False, Action.DELETE)):
        found = cluster_of(
            node,
            allowed=MIXED,
            pending=pods(2, BIG),
            facts={"a": replace(failed, reboot_failed=reboot_failed, drifted=DRIFTED.drifted)},
        )
        candidate_set, settings = CandidateSet(found), Settings()
        need = Need(Method.REPAIR, DisruptionReason.UNHEALTHY, "unhealthy", NOW_S, terminate_first=True)
        rolled = Rolling(candidate_set, Simulator(found, settings), settings).replace(
            candidate_set.candidate(node), need
        )
        assert isinstance(rolled, DisruptionCommand)
        assert rolled.action is action
        held = [(one.claim.reservation_id, one.waits_for_instance) for one in rolled.replacements]
        assert held == ([("cr-1", "id-a")] if reboot_failed else [])


def test_reason_of_a_node_whose_pods_fit_nowhere_names_the_pod() -> None:
    decision = decide(
        cluster_of(reserved_node("a"), facts={"a": DRIFTED}), Settings(terminate_first_drift=False)
    )
    (text,) = {
        why.reason.text for one in decision.undisrupted for why in one.blockers if why.method is Method.DRIFT
    }
    assert "default/a-0 =>" in text


def test_nodes_without_pods_to_reschedule_are_rolled_first() -> None:
    daemon = load("daemon", shape(100))[0]._replace(from_daemon_set=True, reschedulable=False)
    busy = managed_node("a", MEDIUM, (daemon, *load("a", BIG)), slot="cr-1")
    idle = managed_node("b", MEDIUM, (daemon._replace(uid="other"),), slot="cr-1")
    facts = {"a": NodeFacts(drifted=Drifted("AMI", NOW_S - 2 * HOUR_S)), "b": DRIFTED}
    not_consolidated = [
        pool("default", catalog(), consolidate_after_s=None)
    ]  # else node b is deleted as empty
    assert command(cluster_of(busy, idle, facts=facts, pools=not_consolidated)).candidates == ("b",)


def test_slot_is_held_although_another_pod_of_the_node_gets_a_free_slot() -> None:
    """Without the slot of the node, one of its two pods would get the free slot and the other an on-demand node."""
    node = managed_node("a", LARGE, load("a", BIG, 2), slot="cr-1", deleting=True)
    held = replacement_for(cluster_of(node, allowed=MIXED, other_reservations=[FREE_SLOT]))
    assert held is not None
    assert (held.claim.reservation_id, held.waits_for_instance) == ("cr-1", "id-a")


def test_drain_with_a_bound_does_not_need_the_pod_disruption_budget() -> None:
    node = reserved_node("a")
    found = cluster_of(node, facts={"a": DRIFTED}, budgets=(pdb(allowed=0),))
    candidate_set, settings = CandidateSet(found), Settings()
    rolling = Rolling(candidate_set, Simulator(found, settings), settings)
    need = Need(
        Method.REPAIR, DisruptionReason.UNHEALTHY, "unhealthy", NOW_S, terminate_first=True, forced=True
    )
    unbounded = rolling.replace(candidate_set.candidate(node), need)
    assert isinstance(unbounded, Reason)
    assert unbounded.code is BlockedCode.DRAIN_NEVER_ENDS
    bounded = rolling.replace(candidate_set.candidate(node), replace(need, drain_bound_s=300))
    assert isinstance(bounded, DisruptionCommand)
    assert (bounded.action, bounded.drain_bound_s) == (Action.TERMINATE_FIRST, 300)


def with_a_blocked_pod(*others: NodeView, grace_period_s: int | None = 600, **more: Any) -> DisruptionInput:
    """Node a is drifted, and its pod may not be evicted."""
    (pod,) = load("a", BIG)
    node = managed_node("a", MEDIUM, (pod._replace(do_not_disrupt=True),), slot="cr-1")
    facts = {"a": replace(DRIFTED, grace_period_s=grace_period_s)}
    return cluster_of(node, *others, facts=facts, **{"allowed": MIXED} | more)


def test_slot_of_a_drifted_node_is_held_for_a_pod_that_stays_until_the_grace_period_ends() -> None:
    found = decide(with_a_blocked_pod(), Settings()).command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST
    assert [one.waits_for_instance for one in found.replacements] == ["id-a"]


@pytest.mark.parametrize(
    ("found", "settings"),
    [
        (with_a_blocked_pod(available=1), Settings()),  # a slot is free when the pod is pending
        (with_a_blocked_pod(), FALLBACK),
        (
            with_a_blocked_pod(managed_node("b", LARGE, load("b", shape(500)))),
            Settings(),
        ),  # the pod fits on b
    ],
)
def test_nothing_is_launched_for_a_pod_that_stays_until_the_grace_period_ends(
    found: DisruptionInput, settings: Settings
) -> None:
    command = decide(found, settings).command
    assert command is not None
    assert (command.action, command.candidates, command.replacements) == (Action.DELETE, ("a",), ())


def test_drifted_node_with_a_blocked_pod_waits_while_another_replacement_waits_for_its_slot() -> None:
    decision = decide(with_a_blocked_pod(claims=(waiting(),)), Settings())
    assert decision.command is None
    assert BlockedCode.WAITS_FOR_SLOT in codes(decision, "a")


def test_drifted_nodes_that_the_pass_does_not_reach_have_a_reason() -> None:
    few = Settings(nodes_simulated_max=1, terminate_first_drift=False)
    cluster = cluster_of(reserved_node("a"), reserved_node("b"), facts={"a": DRIFTED, "b": DRIFTED})
    decision = decide(cluster, few)
    assert decision.command is None
    assert BlockedCode.PODS_WITHOUT_PLACE in codes(decision, "a")
    assert BlockedCode.NOT_REACHED not in codes(decision, "a")
    assert BlockedCode.NOT_REACHED in codes(decision, "b")


def test_reason_of_a_drifted_node_is_not_replaced_by_the_end_of_the_pass() -> None:
    few = Settings(nodes_simulated_max=0)
    decision = decide(cluster_of(reserved_node("a"), facts={"a": DRIFTED}, rules=at_most("0")), few)
    assert BlockedCode.BUDGET in codes(decision, "a")


# --- Budgets -----------------------------------------------------------------------------------------


def waiting(reservation_id: str = "cr-1", node_pool: str = "default", **more: Any) -> ClaimView:
    """A replacement that waits for an instance that is still running."""
    known = {"reservation_id": reservation_id, "waits_for_instance": "id-b"} | more
    return ClaimView("new", node_pool, NO_REQUIREMENTS, NOW_S, **known)


def starting(reservation_id: str = "cr-1", *, initialized: bool = False, **more: Any) -> NodeView:
    return replace(managed_node("new", MEDIUM, slot=reservation_id, **more), initialized=initialized)


def decision_for_a(*others: NodeView, claims: tuple[ClaimView, ...] = (), limit: str = "1") -> Decision:
    """The decision for the drifted node a while the instance of node b terminates."""
    two = (reserved_node("a"), reserved_node("b", deleting=True))
    pods_block = {"new": NodeFacts(do_not_disrupt=True)}
    facts = {"a": DRIFTED, "b": NodeFacts(ending=True), **pods_block}
    return decide(cluster_of(*two, *others, claims=claims, facts=facts, rules=at_most(limit)))


@pytest.mark.parametrize(
    ("others", "claims"), [((), (waiting(),)), ((starting(),), ()), ((starting(claim="new"),), (waiting(),))]
)
def test_uninitialized_replacement_consumes_the_budget_once(
    others: tuple[NodeView, ...], claims: tuple[ClaimView, ...]
) -> None:
    decision = decision_for_a(*others, claims=claims)
    assert decision.command is None
    (why,) = [
        why for one in decision.undisrupted for why in one.blockers if why.reason.code is BlockedCode.BUDGET
    ]
    assert (why.method, why.reason.subject) == (Method.DRIFT, "default")
    found = decision_for_a(*others, claims=claims, limit="2").command
    assert found is not None
    assert (found.action, found.candidates) == (Action.TERMINATE_FIRST, ("a",))


@pytest.mark.parametrize(
    ("others", "claims"),
    [
        ((), ()),
        ((), (waiting(reservation_id="cr-2"),)),
        ((), (waiting(node_pool="other"),)),
        ((), (waiting(deleting=True),)),
        ((starting("cr-2"),), ()),
        ((replace(starting(), node_pool="other"),), ()),
    ],
)
def test_replacements_of_other_reservations_and_nodepools_do_not_consume_the_budget(
    others: tuple[NodeView, ...], claims: tuple[ClaimView, ...]
) -> None:
    found = decision_for_a(*others, claims=claims).command
    assert found is not None
    assert found.candidates == ("a",)


def test_drifted_node_of_a_nodepool_without_budget_is_not_disrupted() -> None:
    decision = decide(cluster_of(reserved_node("a"), facts={"a": DRIFTED}, rules=at_most("0")))
    assert decision.command is None
    assert BlockedCode.BUDGET in {why.reason.code for one in decision.undisrupted for why in one.blockers}


# --- Drains and PodDisruptionBudgets -----------------------------------------------------------------


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
def test_drain_starts_only_if_the_pod_disruption_budget_allows_all_pods_to_be_evicted(
    allowed: int, of_budget: dict[str, Any], *, ready: bool, rolled: bool
) -> None:
    two = load("a", shape(1500), 2, ready=ready)
    node = managed_node("a", MEDIUM, two, slot="cr-1")
    budgets = (pdb(allowed=allowed, **of_budget),)
    found = decide(cluster_of(node, facts={"a": DRIFTED}, budgets=budgets)).command
    assert (found is not None) is rolled


def test_only_evicted_pods_without_another_node_count_against_the_budget() -> None:
    """One of the two pods fits on node b, so only the other one waits for the slot."""
    node = managed_node("a", MEDIUM, load("a", shape(1500), 2), slot="cr-1")
    other = managed_node("b", MEDIUM, load("b", shape(2000)))
    facts = {"a": DRIFTED, "b": NodeFacts(do_not_disrupt=True)}
    found = command(cluster_of(node, other, facts=facts, budgets=(pdb(allowed=1),)))
    assert found.action is Action.TERMINATE_FIRST


# --- Reasons of commands -----------------------------------------------------------------------------


def command(found: DisruptionInput, settings: Settings | None = None) -> DisruptionCommand:
    decided = decide(found, settings or Settings()).command
    assert decided is not None
    return decided


def test_reason_of_a_drift_command_names_the_replacement() -> None:
    on_demand = [pool("default", catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND))]
    replaced = command(
        cluster_of(managed_node("a", MEDIUM, load("a", BIG)), facts={"a": DRIFTED}, pools=on_demand)
    )
    assert replaced.why == "AMI; replaced by a medium on-demand"
    assert (replaced.reason, replaced.action) == (DisruptionReason.DRIFTED, Action.REPLACE)
    into_slot = command(cluster_of(reserved_node("a"), available=1, facts={"a": DRIFTED}))
    assert into_slot.why == "AMI; replaced by a medium in cr-1"
    elsewhere = command(
        cluster_of(reserved_node("a"), managed_node("b", LARGE, load("b", BIG)), facts={"a": DRIFTED})
    )
    assert (elsewhere.why, elsewhere.action) == ("AMI; its pods fit on other nodes", Action.DELETE)


def test_without_terminate_first_a_node_in_a_full_reservation_is_not_disrupted() -> None:
    decision = decide(
        cluster_of(reserved_node("a"), facts={"a": DRIFTED}), Settings(terminate_first_drift=False)
    )
    assert decision.command is None
    assert BlockedCode.PODS_WITHOUT_PLACE in {
        why.reason.code for one in decision.undisrupted for why in one.blockers
    }
