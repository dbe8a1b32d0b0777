"""What holds of every command, whatever the cluster looks like: budgets, slots, cost, and a home for every pod.

Clusters have pods with volumes and disruption budgets, NodePools whose budgets have schedules, reservations that have
begun, are being drained or are over.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disruption_builders import LARGE, MEDIUM, NOW_S, SMALL, catalog, load, machine, pdb, world
from holdfast import names
from holdfast.core.disruption.commands import Action, Decision, DisruptionCommand
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import (
    Budget,
    DisruptionInput,
    DisruptionReason,
    Drifted,
    NodeFacts,
    PoolRules,
    Settings,
)
from holdfast.core.disruption.validation import still_valid
from holdfast.core.scheduling.input import displaced
from holdfast.model import requirements, resources
from holdfast.model.pods import PodView, Volumes
from holdfast.model.reservations import State
from holdfast.model.snapshot import NodeView
from planner_builders import NANO, ZONES, is_in, one_per_node, pods, pool, reservation, shape

APPS = ("web", "db", "batch")
PRICES = {SMALL: 0.1, MEDIUM: 0.2, LARGE: 0.4}
CORES = {SMALL: 2, MEDIUM: 4, LARGE: 8}
RARELY = st.sampled_from((False,) * 19 + (True,))
SOMETIMES = st.sampled_from((False, False, True))
KINDS = (names.ON_DEMAND, names.SPOT, "cr-small", "cr-medium", "cr-large")
SLOTS = {"cr-small": SMALL, "cr-medium": MEDIUM, "cr-large": LARGE}
USABLE: dict[str, Any] = {}
BLOCK = {"kind": "block", "drain_lead_s": 2400, "reclaim_lead_s": 1800}
TIMES = (  # of reservations: whether one may be launched into, and what makes it so
    *((True, USABLE),) * 6,
    (True, {"end_s": NOW_S + 1}),
    (True, BLOCK | {"end_s": NOW_S + 2401}),
    (False, BLOCK | {"end_s": NOW_S + 2400}),
    (False, {"end_s": NOW_S}),
    (False, {"start_s": NOW_S + 60}),
    (False, {"state": State.GONE}),
)
WINDOWS = (  # of a budget of 0 nodes: whether it counts now, and its schedule
    *((False, None),) * 4,
    (True, ("* * * * *", 60)),
    (True, ("40 13 12 1 *", 6 * 60 + 41)),  # began 400 s ago
    (False, ("40 13 12 1 *", 6 * 60 + 40)),
    (False, ("@yearly", 60)),
)


@st.composite
def clusters(draw: st.DrawFn) -> DisruptionInput:
    """A handful of nodes, some in slots, some drifted; pods of three apps, with disruption budgets and node budgets."""
    nodes, facts = [], {}
    for i in range(draw(st.sampled_from((1, 2, 3, 4, 5, 6)))):
        name = f"n{i}"
        one = _node(draw, name)
        nodes.append(one)
        facts[name] = NodeFacts(
            ready=not draw(RARELY),
            do_not_disrupt=draw(RARELY),
            drifted=Drifted("changed", i) if draw(SOMETIMES) else None,
            grace_period_s=600 if draw(SOMETIMES) else None,
        )
    used = Counter(dict(node.labels).get("cloud.example/reservation-id") for node in nodes)
    kept = []
    for id_, type_ in SLOTS.items():
        free = draw(st.sampled_from((0, 0, 1, 2)))
        _, times = draw(st.sampled_from(TIMES))
        kept.append(reservation(id_, type_, available=free, total=free + used[id_], **times))
    wanted = draw(
        st.sampled_from([(), (names.RESERVED,), (names.RESERVED,), (names.RESERVED, names.ON_DEMAND)])
    )
    only = [is_in(names.CAPACITY_TYPE, *wanted)] if wanted else []
    budgets = tuple(
        pdb(app, allowed=draw(st.sampled_from((0, 1, 1, 2, 3)))) for app in APPS if draw(SOMETIMES)
    )
    return world(
        *nodes,
        facts=facts,
        reservations=kept,
        pools=[pool("default", catalog(kept), *only)],
        rules=_rules(draw),
        budgets=budgets,
        pending=pods(draw(st.integers(0, 1)), shape(draw(st.sampled_from([500, 3000, 7000])), app="new")),
    )


def _rules(draw: st.DrawFn) -> PoolRules:
    plain = Budget(str(draw(st.sampled_from((0, 1, 2, 4, 6)))))
    _, window = draw(st.sampled_from(WINDOWS))
    if window is None:
        return PoolRules(budgets=(plain,))
    schedule, duration_s = window
    return PoolRules(budgets=(plain, Budget("0", schedule=schedule, duration_s=duration_s)))


def _node(draw: st.DrawFn, name: str) -> NodeView:
    kind = draw(st.sampled_from(KINDS))
    zone = "z1" if kind in SLOTS else draw(st.sampled_from(ZONES))
    type_ = SLOTS.get(kind) or draw(st.sampled_from(list(CORES)))
    left = CORES[type_] * 1000 - 100
    found: list[PodView] = []
    for i in range(draw(st.sampled_from((1, 2, 2, 3, 3, 4)))):
        size = draw(st.sampled_from([200, 900, 1800, 3000]))
        if size <= left:
            left -= size
            app = draw(st.sampled_from(APPS))
            more: dict[str, Any] = one_per_node(app) if draw(RARELY) else {}
            if draw(SOMETIMES):
                more["volumes"] = Volumes(alternatives=(requirements.of(is_in(names.ZONE, zone)),))
            of = shape(size, 256, app, **more)
            found += load(f"{name}-{i}", of, do_not_disrupt=draw(RARELY))
    return machine(
        name,
        type_,
        found,
        capacity_type=kind if kind not in SLOTS else names.ON_DEMAND,
        slot=kind if kind in SLOTS else None,
        zone=zone,
        deleting=draw(RARELY),
        nominated=draw(RARELY),
    )


def price_nano(node: NodeView) -> int:
    labels = dict(node.labels)
    of_kind = {names.ON_DEMAND: 1.0, names.SPOT: 0.4, names.RESERVED: 0.0}[labels[names.CAPACITY_TYPE]]
    return round(PRICES[labels[names.INSTANCE_TYPE]] * of_kind * NANO)


def check(asked: DisruptionInput, decision: Decision) -> None:
    nodes = {node.name: node for node in asked.snapshot.nodes}
    command = decision.command
    named = [*(command.candidates if command else ()), *(one.node for one in decision.undisrupted)]
    assert sorted(named) == sorted(nodes)
    assert all(one.blockers for one in decision.undisrupted)
    if command is not None:
        gone = [nodes[name] for name in command.candidates]
        budgets_hold(asked, gone)
        evictions_are_allowed(asked, command, gone)
        slots_are_not_oversold(asked, command, gone)
        everybody_has_a_home(asked, command, gone)
        it_pays(command, gone)


def budgets_hold(asked: DisruptionInput, gone: list[NodeView]) -> None:
    plain, *windows = asked.pools["default"].budgets
    closed = any((True, (one.schedule, one.duration_s)) in WINDOWS for one in windows)
    limit = 0 if closed else int(plain.nodes)
    down = [n for n in asked.snapshot.nodes if n.deleting or not asked.facts[n.name].ready]
    assert len(gone) <= max(0, limit - len(down))
    assert not any(node.deleting or node.nominated or asked.facts[node.name].do_not_disrupt for node in gone)


def evictions_are_allowed(asked: DisruptionInput, command: DisruptionCommand, gone: list[NodeView]) -> None:
    allowed = {one.name: one.disruptions_allowed for one in asked.snapshot.budgets}
    for node in gone:
        if command.reason is DisruptionReason.DRIFTED and asked.facts[node.name].grace_period_s is not None:
            continue  # the drain has a bound: it may go on whatever the pods say
        away: Counter[str] = Counter()
        for pod in node.pods:
            assert not pod.do_not_disrupt
            name = f"pdb-{dict(pod.shape.labels)['app']}"
            assert allowed.get(name, 1) > 0
            away[name] += 1
        if command.action is Action.TERMINATE_FIRST:
            homeless = {uid for one in command.replacements for uid in one.claim.pods}
            away = Counter(f"pdb-{dict(p.shape.labels)['app']}" for p in node.pods if p.uid in homeless)
            assert all(count <= allowed.get(name, count) for name, count in away.items())


def slots_are_not_oversold(asked: DisruptionInput, command: DisruptionCommand, gone: list[NodeView]) -> None:
    over = [times for usable, times in TIMES if not usable]
    free = {
        one.id: 0
        if any(all(getattr(one, k) == v for k, v in times.items()) for times in over)
        else one.available
        for one in asked.snapshot.reservations
    }
    taken = Counter(
        one.claim.reservation_id for one in command.replacements if one.waits_for_instance is None
    )
    assert all(count <= free[id_] for id_, count in taken.items() if id_ is not None)
    waits = [one for one in command.replacements if one.waits_for_instance is not None]
    assert bool(waits) is (command.action is Action.TERMINATE_FIRST)
    assert all(one.claim.reservation_id in free for one in waits)
    left = {node.provider_id: dict(node.labels).get("cloud.example/reservation-id") for node in gone}
    for one in waits:
        assert left.pop(one.waits_for_instance) == one.claim.reservation_id  # each slot is given to one


def everybody_has_a_home(asked: DisruptionInput, command: DisruptionCommand, gone: list[NodeView]) -> None:
    homes = Counter(uid for one in command.placed for uid in one.pods)
    homes += Counter(uid for one in command.replacements for uid in one.claim.pods)
    movers = {
        pod.uid for node in gone for pod in node.pods if displaced.needs_new_node(pod, asked.snapshot.budgets)
    }
    if command.reason is not DisruptionReason.EMPTY:
        assert all(homes[uid] == 1 for uid in movers)
    by_uid = {pod.uid: pod for node in asked.snapshot.nodes for pod in node.pods}
    nodes = {node.name: node for node in asked.snapshot.nodes}
    for one in command.placed:
        assert one.node not in command.candidates
        assert not nodes[one.node].deleting
        added = resources.add(*(by_uid[uid].shape.requests for uid in one.pods))
        assert added.fits(nodes[one.node].free)
        volumes_are_near(dict(nodes[one.node].labels)[names.ZONE], [by_uid[uid] for uid in one.pods])
    for new in command.replacements:
        volumes_are_near(new.claim.zone, [by_uid[uid] for uid in new.claim.pods if uid in by_uid])


def volumes_are_near(zone: str, pods: list[PodView]) -> None:
    for pod in pods:
        places = pod.shape.volumes.alternatives
        assert not places or any(one.get(names.ZONE).has(zone) for one in places)


def it_pays(command: DisruptionCommand, gone: list[NodeView]) -> None:
    if command.reason is not DisruptionReason.UNDERUTILIZED:
        return
    before = sum(price_nano(node) for node in gone)
    after = sum(one.claim.price_nano_usd_per_hour or 0 for one in command.replacements)
    assert after < before or (after == before == 0)
    assert command.saves_nano_usd_per_hour == before - after
    assert sum(one.claim.reservation_id is None for one in command.replacements) <= 1
    if before == 0 and command.replacements:
        assert command.frees_nano_usd_per_hour > 0


@pytest.mark.fact("D-5", "D-10", "D-25", "D-31", "D-32")
@settings(max_examples=300, deadline=None)
@given(clusters())
def test_no_command_breaks_a_budget_oversells_a_slot_costs_more_or_leaves_a_pod_without_a_home(
    asked: DisruptionInput,
) -> None:
    check(asked, decide(asked))


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_the_same_world_gives_the_same_decision_and_its_command_is_valid_at_once(
    asked: DisruptionInput,
) -> None:
    decision = decide(asked)
    assert decide(asked) == decision
    if decision.command is not None:
        assert still_valid(decision.command, asked, Settings()) == decision.command


@settings(max_examples=40, deadline=None)
@given(clusters(), st.integers(1, 10))
def test_a_settled_cluster_comes_to_rest(asked: DisruptionInput, seconds: int) -> None:
    """With the memory of the passes before, an unchanged world gives nothing new for ever."""
    always = PoolRules(budgets=asked.pools["default"].budgets[:1])  # windows open and close by themselves
    calm = replace(
        asked,
        facts={name: replace(f, drifted=None) for name, f in asked.facts.items()},
        pools={"default": always},
    )
    first = decide(calm)
    if first.command is None:
        later = replace(calm, snapshot=replace(calm.snapshot, taken_s=NOW_S + seconds))
        assert decide(later, Settings(), first.memory).command is None
