"""Drift: which nodes no longer match NodePool or EC2NodeClass, and how they are replaced in full reservations too."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import (
    FREE,
    HOUR_S,
    LARGE,
    MEDIUM,
    NOW_S,
    at_most,
    catalog,
    codes,
    disruption_input,
    instances,
    load,
    managed_node,
    pdb,
)
from holdfast import names
from holdfast.core.disruption import drift, waiting_replacements
from holdfast.core.disruption.commands import Action, Decision, Method
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.drift import Hash, Subject
from holdfast.core.disruption.inputs import (
    Budget,
    DisruptionInput,
    DisruptionReason,
    Drifted,
    MixedPools,
    NodeFacts,
    PoolRules,
    Settings,
)
from holdfast.core.reservations import ledger
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.input.request import Settings as Solving
from holdfast.model import requirements
from holdfast.model.instances import InstanceState
from holdfast.model.reasons import BlockedCode
from holdfast.model.reservations import State
from holdfast.model.snapshot import ClaimView, CloudLabels, NodeView
from planner_builders import RESERVATION_ID, WELL_KNOWN, is_in, pods, pool, reservation, shape

BIG = shape(3000)
DRIFTED = NodeFacts(drifted=Drifted("NodePoolDrifted", NOW_S - HOUR_S))
RESERVED_ONLY = is_in(names.CAPACITY_TYPE, names.RESERVED)
FULL = reservation("cr-1", MEDIUM, available=0, total=2)


def paid(name: str, since_s: int | None = None, **more: Any) -> tuple[NodeView, NodeFacts]:
    facts = NodeFacts(drifted=Drifted("AMI", since_s)) if since_s is not None else NodeFacts()
    return managed_node(name, MEDIUM, load(name, BIG), **more), facts


def cluster_of(*pairs: tuple[NodeView, NodeFacts], **more: Any) -> DisruptionInput:
    on_demand = pool("default", catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND))
    return disruption_input(
        *(node for node, _ in pairs),
        facts={node.name: facts for node, facts in pairs},
        pools=more.pop("pools", [on_demand]),
        **more,
    )


# --- Replace first ---------------------------------------------------------------------------------------


@pytest.mark.fact("D-17", "D-18", "D-3")
def test_node_with_the_oldest_drift_is_replaced_first_and_one_node_per_pass() -> None:
    found = decide(cluster_of(paid("a", 500), paid("b", 100), paid("c"))).command
    assert found is not None
    assert (found.method, found.reason, found.action) == (
        Method.DRIFT,
        DisruptionReason.DRIFTED,
        Action.REPLACE,
    )
    assert found.candidates == ("b",)
    assert [one.claim.instance_type for one in found.replacements] == [MEDIUM]


@pytest.mark.fact("D-17")
def test_drifted_node_without_reschedulable_pods_is_deleted_first() -> None:
    lone = managed_node("z", pods=load("logs", BIG, from_daemon_set=True, reschedulable=False))
    fresh = replace(lone, last_pod_event_s=NOW_S)  # not settled, so emptiness does not delete it
    never = pool("default", catalog(), consolidate_after_s=None)
    found = decide(cluster_of(paid("a", 100), (fresh, DRIFTED), pools=[never])).command
    assert found is not None
    assert (found.candidates, found.action) == (("z",), Action.DELETE)


@pytest.mark.fact("D-17", "D-10")
def test_a_pool_without_budget_is_skipped() -> None:
    decision = decide(cluster_of(paid("a", 100), paid("b", 200), rules=at_most("0")))
    assert decision.command is None
    assert BlockedCode.BUDGET in codes(decision, "a") & codes(decision, "b")


@pytest.mark.fact("D-18")
def test_drifted_node_whose_pods_fit_nowhere_is_skipped() -> None:
    stuck = managed_node(
        "a", LARGE, load("a", shape(7000, node_selector=requirements.of(is_in(names.ZONE, "z9"))))
    )
    old = NodeFacts(drifted=Drifted("AMI", 1))
    decision = decide(cluster_of((stuck, old), paid("b", 100)))
    assert decision.command is not None
    assert decision.command.candidates == ("b",)
    assert codes(decision, "a") == {BlockedCode.PODS_WITHOUT_PLACE}


@pytest.mark.fact("D-5", "D-3")
def test_drifted_node_with_blocking_pods_is_replaced_only_with_a_termination_grace_period() -> None:
    node, _ = paid("a", 100)
    decision = decide(cluster_of((node, DRIFTED), budgets=(pdb(allowed=0),)))
    assert decision.command is None
    assert BlockedCode.BUDGET_OF_PODS in codes(decision, "a")
    bounded = replace(DRIFTED, grace_period_s=600)
    found = decide(cluster_of((node, bounded), budgets=(pdb(allowed=0),))).command
    assert found is not None
    assert found.candidates == ("a",)


@pytest.mark.fact("D-9")
def test_drifted_node_of_an_unknown_instance_type_is_replaced() -> None:
    node = managed_node("a", MEDIUM, load("a", BIG), labels={names.INSTANCE_TYPE: "unheard-of"})
    assert decide(cluster_of((node, DRIFTED))).command is not None


# --- A full reservation: terminate first -------------------------------------------------------------------


def full_reservation(
    *node_names: str, since_s: int = 100, available: int = 0, sizes: int = 3000, **more: Any
) -> DisruptionInput:
    """Drifted nodes that fill cr-1, in a NodePool that allows only reserved capacity."""
    reservations = [replace(FULL, available=available, total=max(2, len(node_names) + available))]
    nodes = [managed_node(name, MEDIUM, load(name, shape(sizes)), slot="cr-1") for name in node_names]
    return disruption_input(
        *(*nodes, *more.pop("others", ())),
        facts={name: replace(DRIFTED, drifted=Drifted("AMI", since_s)) for name in node_names},
        reservations=more.pop("reservations", reservations),
        pools=more.pop("pools", [pool("default", catalog(reservations), RESERVED_ONLY)]),
        **more,
    )


@pytest.mark.fact("D-19a", "R-58", "D-19")
def test_node_is_terminated_first_if_its_replacement_needs_its_slot() -> None:
    found = decide(full_reservation("a", "b")).command
    assert found is not None
    assert (found.action, found.candidates) == (Action.TERMINATE_FIRST, ("a",))
    assert "no-reserved-capacity" in found.why
    (one,) = found.replacements
    assert (one.claim.reservation_id, one.waits_for_instance) == ("cr-1", "id-a")
    assert one.claim.annotations[names.RESERVATION_ID] == "cr-1"
    assert one.claim.reservation_ids == ("cr-1",)


@pytest.mark.fact("D-19b")
def test_replacement_nodeclaim_holds_the_slot_before_and_after_the_instance_is_terminated() -> None:
    """The hold is the replacement NodeClaim: no other pod is planned into the slot after the instance is terminated."""
    cluster = full_reservation("a", "b")
    found = decide(cluster).command
    assert found is not None
    (one,) = found.replacements
    claim = ClaimView(
        "new",
        "default",
        one.claim.requirements,
        NOW_S,
        reservation_id=one.claim.reservation_id,
        waits_for_instance="id-a",
    )
    during = replace(cluster.snapshot, claims=(claim,))
    assert ledger.ledger(during, 120)["cr-1"].free == 0
    after = replace(
        during,
        instances=instances(cluster.snapshot.nodes[1]),
        reservations=(replace(FULL, available=1),),
        counts_read_s=NOW_S + 60,
    )
    assert ledger.ledger(after, 120)["cr-1"].free == 0
    assert ledger.ledger(replace(after, claims=()), 120)["cr-1"].free == 1


@pytest.mark.fact("D-19", "D-19a")
def test_node_is_not_terminated_first_with_a_free_slot_or_the_gate_off() -> None:
    found = decide(full_reservation("a", available=1)).command
    assert found is not None
    assert found.action is Action.REPLACE
    gate_off = decide(full_reservation("a", "b"), Settings(terminate_first_drift=False))
    assert gate_off.command is None
    assert codes(gate_off, "a") >= {BlockedCode.PODS_WITHOUT_PLACE}


@pytest.mark.fact("D-19a")
@pytest.mark.parametrize("state", [State.GONE, State.PENDING])
def test_node_is_not_terminated_first_in_an_inactive_reservation(state: State) -> None:
    reservations = [replace(FULL, state=state)]
    decision = decide(full_reservation("a", "b", reservations=reservations))
    assert decision.command is None


def test_terminating_node_consumes_the_budget_until_its_replacement_is_initialized() -> None:
    cluster = full_reservation("a", "b", "c", rules=at_most("1"))
    ending = replace(cluster.snapshot.nodes[0], deleting=True)
    starting = replace(managed_node("new", MEDIUM, slot="cr-1"), initialized=False)
    facts = {**cluster.facts, "a": replace(cluster.facts["a"], ending=True)}
    for claims, node in (
        ([ClaimView("new", "default", requirements.NO_REQUIREMENTS, NOW_S, "cr-1", "id-a")], ()),
        ([], (starting,)),
    ):
        nodes = (ending, *cluster.snapshot.nodes[1:], *node)
        snapshot = replace(cluster.snapshot, nodes=nodes, claims=tuple(claims))
        found = decide(replace(cluster, snapshot=snapshot, facts=facts))
        assert found.command is None
        assert BlockedCode.BUDGET in codes(found, "b")


@pytest.mark.fact("D-19c")
def test_larger_pending_pod_does_not_get_the_slot_of_the_replacement() -> None:
    found = decide(full_reservation("a", "b", pending=pods(1, shape(3800)))).command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST
    assert found.replacements[0].claim.pods == ("a-000000",)


def test_node_is_not_terminated_first_if_only_a_pending_pod_fills_the_other_node() -> None:
    cluster = full_reservation(
        "a", sizes=2000, others=[managed_node("b", MEDIUM, load("b", shape(1000)), slot="cr-1")]
    )
    cluster = replace(cluster, facts={**cluster.facts, "b": NodeFacts(do_not_disrupt=True)})
    crowded = replace(cluster.snapshot, pending=pods(1, shape(2500)))
    assert decide(replace(cluster, snapshot=crowded)).command is None
    found = decide(cluster).command
    assert found is not None
    assert found.action is Action.DELETE


@pytest.mark.fact("D-19c")
def test_second_node_of_a_reservation_is_rolled_while_the_first_drains_if_the_budget_allows() -> None:
    cluster = full_reservation("a", "b", rules=at_most("2"))
    draining = replace(cluster.snapshot.nodes[0], deleting=True)
    replacement = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id="cr-1",
        waits_for_instance="id-a",
    )
    snapshot = replace(cluster.snapshot, nodes=(draining, cluster.snapshot.nodes[1]), claims=(replacement,))
    found = decide(replace(cluster, snapshot=snapshot)).command
    assert found is not None
    assert (found.action, found.candidates) == (Action.TERMINATE_FIRST, ("b",))
    one = replace(cluster, snapshot=snapshot, pools={"default": at_most("1")})
    assert decide(one).command is None


@pytest.mark.fact("D-19c")
def test_draining_node_whose_pods_fit_nowhere_does_not_block_consolidation() -> None:
    cluster = full_reservation("a", "b", others=[managed_node("c", LARGE, load("c", shape(1900)))])
    mixed = pool("default", catalog([FULL]), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    nodes = tuple(replace(n, deleting=True) if n.name == "a" else n for n in cluster.snapshot.nodes)
    pinned = shape(3000, node_selector=requirements.of(is_in(RESERVATION_ID, "cr-1")))
    nodes = (replace(nodes[0], pods=load("a", pinned)), *nodes[1:])
    found = decide(
        replace(cluster, snapshot=replace(cluster.snapshot, nodes=nodes, node_pools=(mixed,)), facts={})
    ).command
    assert found is not None
    assert found.candidates == ("c",)


@pytest.mark.fact("D-19b")
def test_drain_that_a_pod_disruption_budget_never_allows_is_not_started() -> None:
    """Evicted pods run again only when the slot is free, and the slot is free only when all pods are evicted."""
    two = [*load("a", shape(1500)), *load("b", shape(1500))]
    node = managed_node("a", MEDIUM, two, slot="cr-1")
    reservations = [replace(FULL, total=1)]

    def cluster_with(allowed: int, **of: Any) -> DisruptionInput:
        return disruption_input(
            node,
            facts={"a": replace(DRIFTED, **of)},
            reservations=reservations,
            pools=[pool("default", catalog(reservations), RESERVED_ONLY)],
            budgets=(pdb(allowed=allowed),),
        )

    refused = decide(cluster_with(1))
    assert refused.command is None
    blockers = [
        blocker
        for one in refused.undisrupted
        for blocker in one.blockers
        if blocker.reason.code is BlockedCode.DRAIN_NEVER_ENDS
    ]
    assert [blocker.reason.subject for blocker in blockers] == ["pdb-web"]
    assert "PodDisruptionBudget=default/pdb-web" in blockers[0].reason.text
    assert decide(cluster_with(2)).command is not None
    assert decide(cluster_with(1, grace_period_s=600)).command is not None  # the drain has a bound


def test_no_second_node_is_terminated_first_while_the_slot_of_the_first_is_taken() -> None:
    cluster = full_reservation("b", others=())
    replacement = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id="cr-1",
        waits_for_instance="id-a",
        instance_gone_s=NOW_S,
    )
    waiting = replace(cluster, snapshot=replace(cluster.snapshot, claims=(replacement,)))
    decision = decide(waiting)
    assert decision.command is None
    assert BlockedCode.WAITS_FOR_SLOT in codes(decision, "b")
    bound_s = Settings().slot_wait_s
    assert waiting_replacements.overdue(waiting, bound_s, LAG_S) == ()
    later = replace(waiting, snapshot=replace(waiting.snapshot, taken_s=NOW_S + bound_s))
    (overdue,) = waiting_replacements.overdue(later, bound_s, LAG_S)
    assert (overdue.claim, overdue.reservation) == ("new", "cr-1")
    unknown = replace(later.snapshot, claims=(replace(replacement, instance_gone_s=None),))
    assert waiting_replacements.overdue(replace(later, snapshot=unknown), bound_s, LAG_S) == ()
    free = replace(later.snapshot, reservations=(replace(FULL, available=1),))
    assert waiting_replacements.overdue(replace(later, snapshot=free), bound_s, LAG_S) == ()
    after_double_bound = replace(later, snapshot=replace(free, taken_s=NOW_S + 2 * bound_s))
    assert [one.claim for one in waiting_replacements.overdue(after_double_bound, bound_s, LAG_S)] == ["new"]


def test_wait_for_a_slot_does_not_start_before_the_instance_is_terminated() -> None:
    cluster = full_reservation("a", "b")
    replacement = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id="cr-1",
        waits_for_instance="id-a",
        instance_gone_s=0,
    )
    ending = tuple(
        replace(one, state=InstanceState.ENDING) if one.provider_id == "id-a" else one
        for one in cluster.snapshot.instances
    )
    terminating = replace(
        cluster, snapshot=replace(cluster.snapshot, claims=(replacement,), instances=ending)
    )
    assert waiting_replacements.overdue(terminating, 600, LAG_S) == ()


# --- Mixed pools -------------------------------------------------------------------------------------------


def mixed(settings: Settings, **more: Any) -> Decision:
    reservations = [replace(FULL, total=1)]
    both = pool("default", catalog(reservations), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    node = managed_node("a", MEDIUM, load("a", BIG), slot="cr-1")
    return decide(
        disruption_input(
            node, facts={"a": DRIFTED}, reservations=reservations, pools=[both], rules=FREE, **more
        ),
        settings,
    )


@pytest.mark.fact("R-54")
def test_setting_selects_terminate_first_or_on_demand_fallback_in_a_mixed_nodepool() -> None:
    one = mixed(Settings()).command
    assert one is not None
    assert one.action is Action.TERMINATE_FIRST
    two = mixed(Settings(roll_mixed_pools=MixedPools.FALLBACK)).command
    assert two is not None
    assert two.action is Action.REPLACE
    assert [r.claim.capacity_type for r in two.replacements] == [names.ON_DEMAND]


def test_mixed_nodepool_waits_for_its_budget_instead_of_launching_on_demand() -> None:
    """One node is terminating, its slot is held for its replacement, and the budget allows one."""
    both = pool("default", catalog([FULL]), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    node, terminating = (managed_node(name, MEDIUM, load(name, BIG), slot="cr-1") for name in ("a", "b"))
    replacement = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id="cr-1",
        waits_for_instance="id-b",
    )
    ending = (*instances(node), *(replace(one, state=InstanceState.ENDING) for one in instances(terminating)))

    def decision_with(nodes: str) -> Decision:
        return decide(
            disruption_input(
                node,
                facts={"a": DRIFTED},
                reservations=[FULL],
                pools=[both],
                rules=at_most(nodes),
                claims=(replacement,),
                instances=ending,
            )
        )

    waiting = decision_with("1")
    assert waiting.command is None
    assert BlockedCode.BUDGET in codes(waiting, "a")
    found = decision_with("2").command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST


def test_mixed_nodepool_launches_on_demand_if_the_drain_could_never_end() -> None:
    found = mixed(Settings(), budgets=(pdb(allowed=1), pdb("other", allowed=0))).command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST
    tight = [*load("a", shape(1400)), *load("b", shape(1400))]
    reservations = [replace(FULL, total=1)]
    both = pool("default", catalog(reservations), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    node = managed_node("a", MEDIUM, tight, slot="cr-1")
    cluster = disruption_input(
        node, facts={"a": DRIFTED}, reservations=reservations, pools=[both], budgets=(pdb(allowed=1),)
    )
    on_demand = decide(cluster).command
    assert on_demand is not None
    assert on_demand.action is Action.REPLACE


def decision_while_releasing(
    wait_s: int,
    *,
    of_pool_s: int | None = None,
    claims: tuple[ClaimView, ...] = (),
    state: InstanceState = InstanceState.ENDING,
    reservation_state: State = State.ACTIVE,
) -> Decision:
    """A node that drifted an hour ago in a reservation whose other slot is being released."""
    reservations = [replace(FULL, state=reservation_state)]
    both = pool("default", catalog(reservations), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    node, terminating = (
        managed_node("a", MEDIUM, load("a", BIG), slot="cr-1"),
        managed_node("b", MEDIUM, slot="cr-1", deleting=True),
    )
    found = disruption_input(
        node,
        terminating,
        facts={"a": DRIFTED},
        reservations=reservations,
        pools=[replace(both, reservation_wait_s=of_pool_s)],
        instances=(*instances(node), *(replace(i, state=state) for i in instances(terminating))),
        claims=claims,
    )
    settings = Settings(
        solving=Solving(packing=Packing.KARPENTER, reservation_wait_s=wait_s),
        roll_mixed_pools=MixedPools.FALLBACK,
    )
    return decide(found, settings)


def waits_for(provider_id: str, reservation_id: str = "cr-1") -> ClaimView:
    return ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id=reservation_id,
        waits_for_instance=provider_id,
    )


def test_drifted_node_waits_for_a_releasing_slot_up_to_the_reservation_wait() -> None:
    waiting = decision_while_releasing(2 * HOUR_S)
    assert waiting.command is None
    assert BlockedCode.WAITS_FOR_SLOT in codes(waiting, "a")
    assert decision_while_releasing(HOUR_S + 1).command is None
    assert decision_while_releasing(HOUR_S).command is not None


def test_reservation_wait_of_the_nodepool_overrides_the_setting() -> None:
    assert decision_while_releasing(2 * HOUR_S, of_pool_s=0).command is not None
    assert decision_while_releasing(0, of_pool_s=2 * HOUR_S).command is None


def test_drifted_node_waits_only_for_a_usable_releasing_slot_without_a_waiting_claim() -> None:
    assert decision_while_releasing(2 * HOUR_S, claims=(waits_for("id-b"),)).command is not None
    assert decision_while_releasing(2 * HOUR_S, claims=(waits_for("id-b", "cr-2"),)).command is None
    assert decision_while_releasing(2 * HOUR_S, state=InstanceState.RUNNING).command is not None
    assert decision_while_releasing(2 * HOUR_S, reservation_state=State.PENDING).command is not None


def test_drifted_node_of_a_static_nodepool_is_not_disrupted() -> None:
    decision = decide(cluster_of(paid("a", 100), rules=PoolRules(static=True, budgets=())))
    assert decision.command is None
    assert BlockedCode.STATIC in codes(decision, "a")


# --- Reasons of drift --------------------------------------------------------------------------------------

LAG_S = 60
LABELS = CloudLabels(WELL_KNOWN, RESERVATION_ID, frozenset({RESERVATION_ID, "example.com/interruptible"}))


def subject(**more: Any) -> Subject:
    reservations = [reservation("cr-1", MEDIUM)]
    return replace(
        Subject(
            launched=True,
            age_s=2 * HOUR_S,
            labels={
                names.INSTANCE_TYPE: MEDIUM,
                names.ZONE: "z1",
                names.CAPACITY_TYPE: names.ON_DEMAND,
                names.NODEPOOL: "default",
            },
            claim_hash=Hash("1", "v1"),
            pool_hash=Hash("1", "v1"),
            wanted=requirements.of(is_in(names.NODEPOOL, "default")),
            instance_types=catalog(reservations),
            cloud=LABELS,
        ),
        **more,
    )


@pytest.mark.fact("NC-40")
def test_first_difference_is_the_drift_reason() -> None:
    wanted = requirements.of(is_in(names.ZONE, "z2"))
    assert drift.reason(subject()) is None
    assert drift.reason(subject(instance_types=())) == drift.INSTANCE_TYPE
    assert drift.reason(subject(wanted=wanted, instance_types=())) == drift.REQUIREMENTS
    assert drift.reason(subject(claim_hash=Hash("0", "v1"), wanted=wanted)) == drift.NODE_POOL
    assert drift.reason(subject(claim_hash=Hash("0", "v1"), launched=False)) is None


@pytest.mark.fact("NC-40")
def test_hash_of_another_version_and_unknown_type_of_a_young_node_cause_no_drift() -> None:
    assert drift.reason(subject(claim_hash=Hash("0", "v0"))) is None
    assert drift.reason(subject(claim_hash=Hash(None, None))) is None
    assert drift.reason(subject(instance_types=(), age_s=HOUR_S - 1)) is None


@pytest.mark.fact("NC-41", "Q-13", "Q-29", "aws-6.1.7", "R-30")
def test_on_demand_node_drifts_only_if_its_nodepool_requires_reserved() -> None:
    assert drift.reason(subject(wanted=requirements.of(RESERVED_ONLY))) == drift.REQUIREMENTS
    either = requirements.of(is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    assert drift.reason(subject(wanted=either)) is None


@pytest.mark.fact("NC-41")
def test_missing_required_label_is_drift_unless_it_is_ignored() -> None:
    wanted = requirements.of(is_in("team", "web"))
    assert drift.reason(subject(wanted=wanted)) == drift.REQUIREMENTS
    assert drift.reason(subject(wanted=wanted, ignored=frozenset({"team"}))) is None


@pytest.mark.fact("R-38", "aws-6.3.6")
def test_reserved_node_does_not_drift_while_its_type_is_offered_reserved_or_on_demand() -> None:
    labels = {names.INSTANCE_TYPE: MEDIUM, names.ZONE: "z1", names.CAPACITY_TYPE: names.RESERVED}
    reservation_labels = {RESERVATION_ID: "cr-gone", "example.com/interruptible": "true"}
    anything = requirements.NO_REQUIREMENTS
    assert drift.reason(subject(labels=labels | reservation_labels, wanted=anything)) is None
    spot_only = catalog(capacity_types=(names.SPOT,))
    assert drift.reason(
        subject(labels=labels | reservation_labels, wanted=anything, instance_types=spot_only)
    ) == (drift.INSTANCE_TYPE)
    on_demand = labels | reservation_labels | {names.CAPACITY_TYPE: names.ON_DEMAND}
    assert drift.reason(subject(labels=on_demand, wanted=anything)) == drift.INSTANCE_TYPE
    other_zone = labels | {names.ZONE: "z9"}
    assert drift.reason(subject(labels=other_zone, wanted=anything)) == drift.INSTANCE_TYPE


@pytest.mark.fact("D-18")
@pytest.mark.parametrize("packing", list(Packing))
def test_pods_of_a_drifted_node_are_not_placed_on_drifted_nodes(packing: Packing) -> None:
    nodes = [(managed_node(name, LARGE, load(name, shape(1000))), DRIFTED) for name in ("a", "b", "c", "d")]
    settings = Settings(solving=Solving(packing=packing))
    found = decide(cluster_of(*nodes), settings).command
    assert found is not None
    assert found.method is Method.DRIFT
    assert len(found.replacements) == 1
    assert found.placed == ()
    fresh = managed_node("e", LARGE, load("e", shape(1000))), NodeFacts()
    found = decide(cluster_of(*nodes, fresh), settings).command
    assert found is not None
    assert [one.node for one in found.placed] == ["e"]


def test_consolidation_places_no_pods_on_a_drifted_node() -> None:
    drifted, _ = managed_node("a", LARGE, load("a", shape(1000))), DRIFTED
    idle = managed_node("b", LARGE, load("b", shape(1000)))
    facts = {"a": DRIFTED}
    pools = [pool("default", catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND))]
    no_drift = PoolRules(budgets=(Budget("0", frozenset({"Drifted"})),))
    found = decide(disruption_input(drifted, idle, facts=facts, pools=pools, rules=no_drift)).command
    assert found is not None
    assert "a" in found.candidates
    assert "a" not in {one.node for one in found.placed}


def test_node_without_drift_is_found_among_many_drifted_nodes() -> None:
    """In a large cluster the simulator considers only some of the nodes."""
    nodes = [(managed_node(f"a{i:03}", LARGE, load(f"a{i}", shape(1000))), DRIFTED) for i in range(100)]
    fresh = managed_node("z", LARGE, load("z", shape(1000))), NodeFacts()
    found = decide(cluster_of(*nodes, fresh)).command
    assert found is not None
    assert [one.node for one in found.placed] == ["z"]
