"""Drift: which nodes are no longer what they should be, and how they are replaced, full reservations included."""

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
    instances,
    load,
    machine,
    pdb,
    world,
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
    return machine(name, MEDIUM, load(name, BIG), **more), facts


def drifting(*pairs: tuple[NodeView, NodeFacts], **more: Any) -> DisruptionInput:
    on_demand = pool("default", catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND))
    return world(
        *(node for node, _ in pairs),
        facts={node.name: facts for node, facts in pairs},
        pools=more.pop("pools", [on_demand]),
        **more,
    )


# --- Replace first ---------------------------------------------------------------------------------------


@pytest.mark.fact("D-17", "D-18", "D-3")
def test_the_oldest_drift_is_replaced_first_one_node_a_pass_whatever_it_costs() -> None:
    found = decide(drifting(paid("a", 500), paid("b", 100), paid("c"))).command
    assert found is not None
    assert (found.method, found.reason, found.action) == (
        Method.DRIFT,
        DisruptionReason.DRIFTED,
        Action.REPLACE,
    )
    assert found.candidates == ("b",)
    assert [one.claim.instance_type for one in found.replacements] == [MEDIUM]


@pytest.mark.fact("D-17")
def test_nodes_that_nobody_has_to_leave_go_before_the_others() -> None:
    lone = machine("z", pods=load("logs", BIG, from_daemon_set=True, reschedulable=False))
    fresh = replace(lone, last_pod_event_s=NOW_S)  # not settled: emptiness leaves it alone
    never = pool("default", catalog(), consolidate_after_s=None)
    found = decide(drifting(paid("a", 100), (fresh, DRIFTED), pools=[never])).command
    assert found is not None
    assert (found.candidates, found.action) == (("z",), Action.DELETE)


@pytest.mark.fact("D-17", "D-10")
def test_a_pool_without_budget_is_skipped() -> None:
    decision = decide(drifting(paid("a", 100), paid("b", 200), rules=at_most("0")))
    assert decision.command is None
    assert BlockedCode.BUDGET in codes(decision, "a") & codes(decision, "b")


@pytest.mark.fact("D-18")
def test_a_node_whose_pods_fit_nowhere_stays_and_the_next_is_looked_at() -> None:
    stuck = machine(
        "a", LARGE, load("a", shape(7000, node_selector=requirements.of(is_in(names.ZONE, "z9"))))
    )
    old = NodeFacts(drifted=Drifted("AMI", 1))
    decision = decide(drifting((stuck, old), paid("b", 100)))
    assert decision.command is not None
    assert decision.command.candidates == ("b",)
    assert codes(decision, "a") == {BlockedCode.PODS_WITHOUT_PLACE}


@pytest.mark.fact("D-5", "D-3")
def test_a_drift_may_begin_on_a_node_with_pods_that_block_only_if_the_drain_has_a_bound() -> None:
    node, _ = paid("a", 100)
    decision = decide(drifting((node, DRIFTED), budgets=(pdb(allowed=0),)))
    assert decision.command is None
    assert BlockedCode.BUDGET_OF_PODS in codes(decision, "a")
    bounded = replace(DRIFTED, grace_period_s=600)
    found = decide(drifting((node, bounded), budgets=(pdb(allowed=0),))).command
    assert found is not None
    assert found.candidates == ("a",)


@pytest.mark.fact("D-9")
def test_a_node_of_unknown_type_drifts_as_others_do() -> None:
    node = machine("a", MEDIUM, load("a", BIG), labels={names.INSTANCE_TYPE: "unheard-of"})
    assert decide(drifting((node, DRIFTED))).command is not None


# --- A full reservation: terminate first -------------------------------------------------------------------


def full(
    *slots: str, since_s: int = 100, available: int = 0, sizes: int = 3000, **more: Any
) -> DisruptionInput:
    """Nodes that fill cr-1, all drifted, in a pool of slots only."""
    kept = [replace(FULL, available=available, total=max(2, len(slots) + available))]
    nodes = [machine(name, MEDIUM, load(name, shape(sizes)), slot="cr-1") for name in slots]
    return world(
        *(*nodes, *more.pop("others", ())),
        facts={
            name: replace(DRIFTED, drifted=Drifted("AMI", since_s), **more.pop("of", {})) for name in slots
        },
        reservations=more.pop("reservations", kept),
        pools=more.pop("pools", [pool("default", catalog(kept), RESERVED_ONLY)]),
        **more,
    )


@pytest.mark.fact("D-19a", "R-58", "D-19")
def test_a_node_whose_own_slot_is_the_only_home_of_its_replacement_goes_first() -> None:
    found = decide(full("a", "b")).command
    assert found is not None
    assert (found.action, found.candidates) == (Action.TERMINATE_FIRST, ("a",))
    assert "no-reserved-capacity" in found.why
    (one,) = found.replacements
    assert (one.claim.reservation_id, one.waits_for_instance) == ("cr-1", "id-a")
    assert one.claim.annotations[names.RESERVATION_ID] == "cr-1"
    assert one.claim.reservation_ids == ("cr-1",)


@pytest.mark.fact("D-19b")
def test_the_slot_stays_held_from_the_first_write_on_and_after_a_restart() -> None:
    """The hold is the replacement NodeClaim: nobody else is planned into the slot when the machine is gone."""
    asked = full("a", "b")
    found = decide(asked).command
    assert found is not None
    (one,) = found.replacements
    written = ClaimView(
        "new",
        "default",
        one.claim.requirements,
        NOW_S,
        reservation_id=one.claim.reservation_id,
        waits_for_instance="id-a",
    )
    during = replace(asked.snapshot, claims=(written,))
    assert ledger.ledger(during, 120)["cr-1"].free == 0
    gone = replace(
        during,
        instances=instances(asked.snapshot.nodes[1]),
        reservations=(replace(FULL, available=1),),
        counts_read_s=NOW_S + 60,
    )
    assert ledger.ledger(gone, 120)["cr-1"].free == 0
    assert ledger.ledger(replace(gone, claims=()), 120)["cr-1"].free == 1


@pytest.mark.fact("D-19", "D-19a")
def test_a_free_slot_or_a_shut_gate_means_replace_first() -> None:
    found = decide(full("a", available=1)).command
    assert found is not None
    assert found.action is Action.REPLACE
    shut = decide(full("a", "b"), Settings(terminate_first_drift=False))
    assert shut.command is None
    assert codes(shut, "a") >= {BlockedCode.PODS_WITHOUT_PLACE}


@pytest.mark.fact("D-19a")
@pytest.mark.parametrize("state", [State.GONE, State.PENDING])
def test_a_reservation_that_nobody_can_launch_into_never_qualifies(state: State) -> None:
    kept = [replace(FULL, state=state)]
    decision = decide(full("a", "b", reservations=kept))
    assert decision.command is None


def test_a_node_whose_machine_ends_is_within_its_budget_until_its_replacement_is_up() -> None:
    asked = full("a", "b", "c", rules=at_most("1"))
    ending = replace(asked.snapshot.nodes[0], deleting=True)
    starting = replace(machine("new", MEDIUM, slot="cr-1"), initialized=False)
    facts = {**asked.facts, "a": replace(asked.facts["a"], ending=True)}
    for written, node in (
        ([ClaimView("new", "default", requirements.NO_REQUIREMENTS, NOW_S, "cr-1", "id-a")], ()),
        ([], (starting,)),
    ):
        nodes = (ending, *asked.snapshot.nodes[1:], *node)
        snapshot = replace(asked.snapshot, nodes=nodes, claims=tuple(written))
        found = decide(replace(asked, snapshot=snapshot, facts=facts))
        assert found.command is None
        assert BlockedCode.BUDGET in codes(found, "b")


@pytest.mark.fact("D-19c")
def test_a_bigger_pending_pod_does_not_take_the_slot() -> None:
    found = decide(full("a", "b", pending=pods(1, shape(3800)))).command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST
    assert found.replacements[0].claim.pods == ("a-000000",)


def test_a_slot_is_not_given_up_for_pods_that_only_a_pending_pod_keeps_from_other_nodes() -> None:
    asked = full("a", sizes=2000, others=[machine("b", MEDIUM, load("b", shape(1000)), slot="cr-1")])
    asked = replace(asked, facts={**asked.facts, "b": NodeFacts(do_not_disrupt=True)})
    crowded = replace(asked.snapshot, pending=pods(1, shape(2500)))
    assert decide(replace(asked, snapshot=crowded)).command is None
    found = decide(asked).command
    assert found is not None
    assert found.action is Action.DELETE


@pytest.mark.fact("D-19c")
def test_a_second_node_of_the_reservation_rolls_while_the_first_drains_as_far_as_budgets_allow() -> None:
    asked = full("a", "b", rules=at_most("2"))
    draining = replace(asked.snapshot.nodes[0], deleting=True)
    written = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id="cr-1",
        waits_for_instance="id-a",
    )
    snapshot = replace(asked.snapshot, nodes=(draining, asked.snapshot.nodes[1]), claims=(written,))
    found = decide(replace(asked, snapshot=snapshot)).command
    assert found is not None
    assert (found.action, found.candidates) == (Action.TERMINATE_FIRST, ("b",))
    one = replace(asked, snapshot=snapshot, pools={"default": at_most("1")})
    assert decide(one).command is None


@pytest.mark.fact("D-19c")
def test_nothing_else_stalls_while_a_node_drains_whose_pods_fit_nowhere_yet() -> None:
    asked = full("a", "b", others=[machine("c", LARGE, load("c", shape(1900)))], of={})
    mixed = pool("default", catalog([FULL]), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    nodes = tuple(replace(n, deleting=True) if n.name == "a" else n for n in asked.snapshot.nodes)
    nailed = shape(3000, node_selector=requirements.of(is_in(RESERVATION_ID, "cr-1")))
    nodes = (replace(nodes[0], pods=load("a", nailed)), *nodes[1:])
    found = decide(
        replace(asked, snapshot=replace(asked.snapshot, nodes=nodes, node_pools=(mixed,)), facts={})
    ).command
    assert found is not None
    assert found.candidates == ("c",)


@pytest.mark.fact("D-19b")
def test_a_drain_that_a_disruption_budget_can_never_allow_is_refused_beforehand() -> None:
    """Pods that are away come back only when the slot is free, and the slot is free only when all of them left."""
    two = [*load("a", shape(1500)), *load("b", shape(1500))]
    node = machine("a", MEDIUM, two, slot="cr-1")
    kept = [replace(FULL, total=1)]

    def asked(allowed: int, **of: Any) -> DisruptionInput:
        return world(
            node,
            facts={"a": replace(DRIFTED, **of)},
            reservations=kept,
            pools=[pool("default", catalog(kept), RESERVED_ONLY)],
            budgets=(pdb(allowed=allowed),),
        )

    refused = decide(asked(1))
    assert refused.command is None
    whys = [
        why
        for one in refused.undisrupted
        for why in one.blockers
        if why.reason.code is BlockedCode.DRAIN_NEVER_ENDS
    ]
    assert [why.reason.subject for why in whys] == ["pdb-web"]
    assert "PodDisruptionBudget=default/pdb-web" in whys[0].reason.text
    assert decide(asked(2)).command is not None
    assert decide(asked(1, grace_period_s=600)).command is not None  # the drain has a bound


def test_no_second_node_is_given_up_while_somebody_else_has_the_first_ones_slot() -> None:
    asked = full("b", others=())
    stolen = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id="cr-1",
        waits_for_instance="id-a",
        instance_gone_s=NOW_S,
    )
    waiting = replace(asked, snapshot=replace(asked.snapshot, claims=(stolen,)))
    decision = decide(waiting)
    assert decision.command is None
    assert BlockedCode.WAITS_FOR_SLOT in codes(decision, "b")
    bound_s = Settings().slot_wait_s
    assert waiting_replacements.overdue(waiting, bound_s, LAG_S) == ()
    later = replace(waiting, snapshot=replace(waiting.snapshot, taken_s=NOW_S + bound_s))
    (given_up,) = waiting_replacements.overdue(later, bound_s, LAG_S)
    assert (given_up.claim, given_up.reservation) == ("new", "cr-1")
    unknown = replace(later.snapshot, claims=(replace(stolen, instance_gone_s=None),))
    assert waiting_replacements.overdue(replace(later, snapshot=unknown), bound_s, LAG_S) == ()
    free = replace(later.snapshot, reservations=(replace(FULL, available=1),))
    assert waiting_replacements.overdue(replace(later, snapshot=free), bound_s, LAG_S) == ()
    in_vain = replace(later, snapshot=replace(free, taken_s=NOW_S + 2 * bound_s))
    assert [one.claim for one in waiting_replacements.overdue(in_vain, bound_s, LAG_S)] == ["new"]


def test_a_machine_that_is_still_there_keeps_the_wait_from_running() -> None:
    asked = full("a", "b")
    waits = ClaimView(
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
        for one in asked.snapshot.instances
    )
    there = replace(asked, snapshot=replace(asked.snapshot, claims=(waits,), instances=ending))
    assert waiting_replacements.overdue(there, 600, LAG_S) == ()


# --- Mixed pools -------------------------------------------------------------------------------------------


def mixed(settings: Settings, **more: Any) -> Decision:
    kept = [replace(FULL, total=1)]
    both = pool("default", catalog(kept), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    node = machine("a", MEDIUM, load("a", BIG), slot="cr-1")
    return decide(
        world(node, facts={"a": DRIFTED}, reservations=kept, pools=[both], rules=FREE, **more), settings
    )


@pytest.mark.fact("R-54")
def test_a_setting_chooses_between_one_move_and_two_where_the_pool_could_also_buy() -> None:
    one = mixed(Settings()).command
    assert one is not None
    assert one.action is Action.TERMINATE_FIRST
    two = mixed(Settings(roll_mixed_pools=MixedPools.FALLBACK)).command
    assert two is not None
    assert two.action is Action.REPLACE
    assert [r.claim.capacity_type for r in two.replacements] == [names.ON_DEMAND]


def test_a_mixed_pool_waits_for_its_budget_rather_than_leave_a_slot_for_what_is_bought() -> None:
    """One node is away, its slot is held for its replacement, and the budget allows one."""
    both = pool("default", catalog([FULL]), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    node, gone = (machine(name, MEDIUM, load(name, BIG), slot="cr-1") for name in ("a", "b"))
    replacement = ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id="cr-1",
        waits_for_instance="id-b",
    )
    ending = (*instances(node), *(replace(one, state=InstanceState.ENDING) for one in instances(gone)))

    def asked(nodes: str) -> Decision:
        return decide(
            world(
                node,
                facts={"a": DRIFTED},
                reservations=[FULL],
                pools=[both],
                rules=at_most(nodes),
                claims=(replacement,),
                instances=ending,
            )
        )

    waiting = asked("1")
    assert waiting.command is None
    assert BlockedCode.BUDGET in codes(waiting, "a")
    found = asked("2").command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST


def test_where_the_drain_could_never_end_a_mixed_pool_buys() -> None:
    found = mixed(Settings(), budgets=(pdb(allowed=1), pdb("other", allowed=0))).command
    assert found is not None
    assert found.action is Action.TERMINATE_FIRST
    tight = [*load("a", shape(1400)), *load("b", shape(1400))]
    kept = [replace(FULL, total=1)]
    both = pool("default", catalog(kept), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    node = machine("a", MEDIUM, tight, slot="cr-1")
    asked = world(node, facts={"a": DRIFTED}, reservations=kept, pools=[both], budgets=(pdb(allowed=1),))
    bought = decide(asked).command
    assert bought is not None
    assert bought.action is Action.REPLACE


def released(
    wait_s: int,
    *,
    of_pool_s: int | None = None,
    claims: tuple[ClaimView, ...] = (),
    state: InstanceState = InstanceState.ENDING,
    reservation_state: State = State.ACTIVE,
) -> Decision:
    """A node that drifted an hour ago in a reservation whose other slot is being released."""
    kept = [replace(FULL, state=reservation_state)]
    both = pool("default", catalog(kept), is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    node, going = (
        machine("a", MEDIUM, load("a", BIG), slot="cr-1"),
        machine("b", MEDIUM, slot="cr-1", deleting=True),
    )
    found = world(
        node,
        going,
        facts={"a": DRIFTED},
        reservations=kept,
        pools=[replace(both, reservation_wait_s=of_pool_s)],
        instances=(*instances(node), *(replace(i, state=state) for i in instances(going))),
        claims=claims,
    )
    patient = Settings(
        solving=Solving(packing=Packing.KARPENTER, reservation_wait_s=wait_s),
        roll_mixed_pools=MixedPools.FALLBACK,
    )
    return decide(found, patient)


def waits_for(provider_id: str, slot: str = "cr-1") -> ClaimView:
    return ClaimView(
        "new",
        "default",
        requirements.NO_REQUIREMENTS,
        NOW_S,
        reservation_id=slot,
        waits_for_instance=provider_id,
    )


def test_a_slot_that_is_being_released_is_waited_for_within_bounds() -> None:
    waiting = released(2 * HOUR_S)
    assert waiting.command is None
    assert BlockedCode.WAITS_FOR_SLOT in codes(waiting, "a")
    assert released(HOUR_S + 1).command is None
    assert released(HOUR_S).command is not None


def test_the_wait_of_the_nodepool_comes_before_the_setting() -> None:
    assert released(2 * HOUR_S, of_pool_s=0).command is not None
    assert released(0, of_pool_s=2 * HOUR_S).command is None


def test_only_a_slot_that_no_claim_waits_for_and_that_can_be_used_is_waited_for() -> None:
    assert released(2 * HOUR_S, claims=(waits_for("id-b"),)).command is not None
    assert released(2 * HOUR_S, claims=(waits_for("id-b", "cr-2"),)).command is None
    assert released(2 * HOUR_S, state=InstanceState.RUNNING).command is not None
    assert released(2 * HOUR_S, reservation_state=State.PENDING).command is not None


def test_a_static_pool_is_left_alone() -> None:
    decision = decide(drifting(paid("a", 100), rules=PoolRules(static=True, budgets=())))
    assert decision.command is None
    assert BlockedCode.STATIC in codes(decision, "a")


# --- What drift is -----------------------------------------------------------------------------------------

LAG_S = 60
LABELS = CloudLabels(WELL_KNOWN, RESERVATION_ID, frozenset({RESERVATION_ID, "example.com/interruptible"}))


def subject(**more: Any) -> Subject:
    kept = [reservation("cr-1", MEDIUM)]
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
            made_from=Hash("1", "v1"),
            pool=Hash("1", "v1"),
            wanted=requirements.of(is_in(names.NODEPOOL, "default")),
            instance_types=catalog(kept),
            cloud=LABELS,
        ),
        **more,
    )


@pytest.mark.fact("NC-40")
def test_the_first_difference_is_the_reason() -> None:
    wanted = requirements.of(is_in(names.ZONE, "z2"))
    assert drift.reason(subject()) is None
    assert drift.reason(subject(cloud_says="AMIDrift")) == "AMIDrift"
    assert drift.reason(subject(instance_types=(), cloud_says="AMIDrift")) == drift.INSTANCE_TYPE
    assert drift.reason(subject(wanted=wanted, instance_types=())) == drift.REQUIREMENTS
    assert drift.reason(subject(made_from=Hash("0", "v1"), wanted=wanted)) == drift.NODE_POOL
    assert drift.reason(subject(made_from=Hash("0", "v1"), launched=False)) is None


@pytest.mark.fact("NC-40")
def test_fingerprints_of_two_versions_are_not_compared_and_a_young_node_may_have_any_type() -> None:
    assert drift.reason(subject(made_from=Hash("0", "v0"))) is None
    assert drift.reason(subject(made_from=Hash(None, None))) is None
    assert drift.reason(subject(instance_types=(), age_s=HOUR_S - 1)) is None


@pytest.mark.fact("NC-41", "Q-13", "Q-29", "aws-6.1.7", "R-30")
def test_a_node_that_left_its_reservation_drifts_only_where_the_pool_allows_nothing_else() -> None:
    assert drift.reason(subject(wanted=requirements.of(RESERVED_ONLY))) == drift.REQUIREMENTS
    either = requirements.of(is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND))
    assert drift.reason(subject(wanted=either)) is None


@pytest.mark.fact("NC-41")
def test_a_label_that_the_pool_wants_and_the_node_lacks_is_drift_unless_it_is_to_be_ignored() -> None:
    wanted = requirements.of(is_in("team", "web"))
    assert drift.reason(subject(wanted=wanted)) == drift.REQUIREMENTS
    assert drift.reason(subject(wanted=wanted, ignored=frozenset({"team"}))) is None


@pytest.mark.fact("R-38", "aws-6.3.6")
def test_a_reserved_node_is_offered_as_long_as_its_type_can_be_had_reserved_or_on_demand() -> None:
    labels = {names.INSTANCE_TYPE: MEDIUM, names.ZONE: "z1", names.CAPACITY_TYPE: names.RESERVED}
    gone = {RESERVATION_ID: "cr-gone", "example.com/interruptible": "true"}
    anything = requirements.NO_REQUIREMENTS
    assert drift.reason(subject(labels=labels | gone, wanted=anything)) is None
    spot_only = catalog(capacity_types=(names.SPOT,))
    assert drift.reason(subject(labels=labels | gone, wanted=anything, instance_types=spot_only)) == (
        drift.INSTANCE_TYPE
    )
    left_behind = labels | gone | {names.CAPACITY_TYPE: names.ON_DEMAND}
    assert drift.reason(subject(labels=left_behind, wanted=anything)) == drift.INSTANCE_TYPE
    elsewhere = labels | {names.ZONE: "z9"}
    assert drift.reason(subject(labels=elsewhere, wanted=anything)) == drift.INSTANCE_TYPE


@pytest.mark.fact("D-18")
@pytest.mark.parametrize("packing", list(Packing))
def test_pods_of_a_drifted_node_are_not_placed_on_drifted_nodes(packing: Packing) -> None:
    nodes = [(machine(name, LARGE, load(name, shape(1000))), DRIFTED) for name in ("a", "b", "c", "d")]
    settings = Settings(solving=Solving(packing=packing))
    found = decide(drifting(*nodes), settings).command
    assert found is not None
    assert found.method is Method.DRIFT
    assert len(found.replacements) == 1
    assert found.placed == ()
    fresh = machine("e", LARGE, load("e", shape(1000))), NodeFacts()
    found = decide(drifting(*nodes, fresh), settings).command
    assert found is not None
    assert [one.node for one in found.placed] == ["e"]


def test_consolidation_places_no_pods_on_a_drifted_node() -> None:
    drifted, _ = machine("a", LARGE, load("a", shape(1000))), DRIFTED
    idle = machine("b", LARGE, load("b", shape(1000)))
    facts = {"a": DRIFTED}
    pools = [pool("default", catalog(), is_in(names.CAPACITY_TYPE, names.ON_DEMAND))]
    no_drift = PoolRules(budgets=(Budget("0", frozenset({"Drifted"})),))
    found = decide(world(drifted, idle, facts=facts, pools=pools, rules=no_drift)).command
    assert found is not None
    assert "a" in found.candidates
    assert "a" not in {one.node for one in found.placed}


def test_many_drifted_nodes_do_not_hide_the_one_that_did_not_drift() -> None:
    """The simulator looks at a part of the nodes where there are many."""
    nodes = [(machine(f"a{i:03}", LARGE, load(f"a{i}", shape(1000))), DRIFTED) for i in range(100)]
    fresh = machine("z", LARGE, load("z", shape(1000))), NodeFacts()
    found = decide(drifting(*nodes, fresh)).command
    assert found is not None
    assert [one.node for one in found.placed] == ["z"]
