"""Invariants of every DisruptionCommand on random clusters: budgets, slots, cost, and a node for every evicted pod.

Clusters have pods with volumes and disruption budgets, NodePools whose budgets have schedules, and reservations that
are open, draining or ended.
"""

import itertools
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disruption_builders import (
    LARGE,
    MEDIUM,
    NOW_S,
    SMALL,
    catalog,
    disruption_input,
    load,
    managed_node,
    pdb,
)
from holdfast import names
from holdfast.core.disruption.balanced import Balance
from holdfast.core.disruption.candidates import CandidateCache, CandidateSet
from holdfast.core.disruption.commands import Action, Blockers, Decision, DisruptionCommand, Method
from holdfast.core.disruption.consolidation import ConsolidationPass
from holdfast.core.disruption.cooldown import RecentMoves
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
from holdfast.core.disruption.simulation import Simulator
from holdfast.core.disruption.slot_release import SlotRelease
from holdfast.core.disruption.validation import still_valid
from holdfast.core.scheduling.input import displaced
from holdfast.model import requirements, resources
from holdfast.model.pods import PodView, Volumes
from holdfast.model.reasons import Reason
from holdfast.model.reservations import State
from holdfast.model.snapshot import NodeView
from planner_builders import NANO, ZONES, is_in, one_per_node, pods, pool, reservation, shape

APPS = ("web", "db", "batch")
PRICES = {SMALL: 0.1, MEDIUM: 0.2, LARGE: 0.4}
CORES = {SMALL: 2, MEDIUM: 4, LARGE: 8}
RARELY = st.sampled_from((False,) * 19 + (True,))
SOME = st.lists(st.booleans(), min_size=6, max_size=6)
SOMETIMES = st.sampled_from((False, False, True))
KINDS = (names.ON_DEMAND, names.SPOT, "cr-small", "cr-medium", "cr-large")
SLOTS = {"cr-small": SMALL, "cr-medium": MEDIUM, "cr-large": LARGE}
USABLE: dict[str, Any] = {}
BLOCK = {"kind": "block", "drain_lead_s": 2400, "reclaim_lead_s": 1800}
TIMES = (  # of reservations: whether it is launchable, and its fields
    *((True, USABLE),) * 6,
    (True, {"end_s": NOW_S + 1}),
    (True, BLOCK | {"end_s": NOW_S + 2401}),
    (False, BLOCK | {"end_s": NOW_S + 2400}),
    (False, {"end_s": NOW_S}),
    (False, {"start_s": NOW_S + 60}),
    (False, {"state": State.GONE}),
)
WINDOWS = (  # of a budget of 0 nodes: whether it is active now, and its schedule
    *((False, None),) * 4,
    (True, ("* * * * *", 60)),
    (True, ("40 13 12 1 *", 6 * 60 + 41)),  # began 400 s ago
    (False, ("40 13 12 1 *", 6 * 60 + 40)),
    (False, ("@yearly", 60)),
)


@st.composite
def clusters(draw: st.DrawFn, *, starting: bool = False) -> DisruptionInput:
    """One to six nodes, some reserved, some drifted; pods of three apps, with PodDisruptionBudgets and budgets."""
    nodes, facts = [], {}
    for i in range(draw(st.sampled_from((1, 2, 3, 4, 5, 6)))):
        name = f"n{i}"
        one = _node(draw, name, starting=starting)
        nodes.append(one)
        facts[name] = NodeFacts(
            ready=not draw(RARELY),
            do_not_disrupt=draw(RARELY),
            drifted=Drifted("changed", i) if draw(SOMETIMES) else None,
            grace_period_s=600 if draw(SOMETIMES) else None,
        )
    used = Counter(dict(node.labels).get("cloud.example/reservation-id") for node in nodes)
    reservations = []
    for id_, type_ in SLOTS.items():
        free = draw(st.sampled_from((0, 0, 1, 2)))
        _, times = draw(st.sampled_from(TIMES))
        reservations.append(reservation(id_, type_, available=free, total=free + used[id_], **times))
    wanted = draw(
        st.sampled_from([(), (names.RESERVED,), (names.RESERVED,), (names.RESERVED, names.ON_DEMAND)])
    )
    only = [is_in(names.CAPACITY_TYPE, *wanted)] if wanted else []
    budgets = tuple(
        pdb(app, allowed=draw(st.sampled_from((0, 1, 1, 2, 3)))) for app in APPS if draw(SOMETIMES)
    )
    return disruption_input(
        *nodes,
        facts=facts,
        reservations=reservations,
        pools=[pool("default", catalog(reservations), *only)],
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


def _node(draw: st.DrawFn, name: str, *, starting: bool) -> NodeView:
    kind = draw(st.sampled_from(KINDS))
    zone = "z1" if kind in SLOTS else draw(st.sampled_from(ZONES))
    type_ = SLOTS.get(kind) or draw(st.sampled_from(list(CORES)))
    freed = CORES[type_] * 1000 - 100
    found: list[PodView] = []
    for i in range(draw(st.sampled_from((1, 2, 2, 3, 3, 4)))):
        size = draw(st.sampled_from([200, 900, 1800, 3000]))
        if size <= freed:
            freed -= size
            app = draw(st.sampled_from(APPS))
            more: dict[str, Any] = one_per_node(app) if draw(RARELY) else {}
            if draw(SOMETIMES):
                more["volumes"] = Volumes(alternatives=(requirements.of(is_in(names.ZONE, zone)),))
            of = shape(size, 256, app, **more)
            found += load(f"{name}-{i}", of, do_not_disrupt=draw(RARELY))
    return managed_node(
        name,
        type_,
        found,
        capacity_type=kind if kind not in SLOTS else names.ON_DEMAND,
        slot=kind if kind in SLOTS else None,
        zone=zone,
        deleting=draw(RARELY),
        nominated=draw(RARELY),
        initialized=not (starting and draw(SOMETIMES)),
    )


def price_nano(node: NodeView) -> int:
    labels = dict(node.labels)
    of_kind = {names.ON_DEMAND: 1.0, names.SPOT: 0.4, names.RESERVED: 0.0}[labels[names.CAPACITY_TYPE]]
    return round(PRICES[labels[names.INSTANCE_TYPE]] * of_kind * NANO)


def check(disruption_input: DisruptionInput, decision: Decision) -> None:
    nodes = {node.name: node for node in disruption_input.snapshot.nodes}
    command = decision.command
    named = [*(command.candidates if command else ()), *(one.node for one in decision.undisrupted)]
    assert sorted(named) == sorted(nodes)
    assert all(one.blockers for one in decision.undisrupted)
    if command is not None:
        candidates = [nodes[name] for name in command.candidates]
        budgets_hold(disruption_input, candidates)
        evictions_are_allowed(disruption_input, command, candidates)
        slots_are_not_oversold(disruption_input, command, candidates)
        evicted_pods_have_a_node(disruption_input, command, candidates)
        command_saves_money(command, candidates)


def budgets_hold(disruption_input: DisruptionInput, candidates: list[NodeView]) -> None:
    plain, *windows = disruption_input.pools["default"].budgets
    closed = any((True, (one.schedule, one.duration_s)) in WINDOWS for one in windows)
    limit = 0 if closed else int(plain.nodes)
    down = [
        n for n in disruption_input.snapshot.nodes if n.deleting or not disruption_input.facts[n.name].ready
    ]
    assert len(candidates) <= max(0, limit - len(down))
    assert not any(
        node.deleting or node.nominated or disruption_input.facts[node.name].do_not_disrupt
        for node in candidates
    )


def evictions_are_allowed(
    disruption_input: DisruptionInput, command: DisruptionCommand, candidates: list[NodeView]
) -> None:
    allowed = {one.name: one.disruptions_allowed for one in disruption_input.snapshot.budgets}
    for node in candidates:
        if (
            command.reason is DisruptionReason.DRIFTED
            and disruption_input.facts[node.name].grace_period_s is not None
        ):
            continue  # terminationGracePeriod bounds the drain, so pods cannot block it
        evicted: Counter[str] = Counter()
        for pod in node.pods:
            assert not pod.do_not_disrupt
            name = f"pdb-{dict(pod.shape.labels)['app']}"
            assert allowed.get(name, 1) > 0
            evicted[name] += 1
        if command.action is Action.TERMINATE_FIRST:
            uids_on_replacements = {uid for one in command.replacements for uid in one.claim.pods}
            evicted = Counter(
                f"pdb-{dict(p.shape.labels)['app']}" for p in node.pods if p.uid in uids_on_replacements
            )
            assert all(count <= allowed.get(name, count) for name, count in evicted.items())


def slots_are_not_oversold(
    disruption_input: DisruptionInput, command: DisruptionCommand, candidates: list[NodeView]
) -> None:
    not_launchable = [times for usable, times in TIMES if not usable]
    free = {
        one.id: 0
        if any(all(getattr(one, k) == v for k, v in times.items()) for times in not_launchable)
        else one.available
        for one in disruption_input.snapshot.reservations
    }
    used = Counter(one.claim.reservation_id for one in command.replacements if one.waits_for_instance is None)
    assert all(count <= free[id_] for id_, count in used.items() if id_ is not None)
    waits = [one for one in command.replacements if one.waits_for_instance is not None]
    assert bool(waits) is (command.action is Action.TERMINATE_FIRST)
    assert all(one.claim.reservation_id in free for one in waits)
    freed = {node.provider_id: dict(node.labels).get("cloud.example/reservation-id") for node in candidates}
    for one in waits:
        assert freed.pop(one.waits_for_instance) == one.claim.reservation_id  # one replacement per slot


def evicted_pods_have_a_node(
    disruption_input: DisruptionInput, command: DisruptionCommand, candidates: list[NodeView]
) -> None:
    targets = Counter(uid for one in command.placed for uid in one.pods)
    targets += Counter(uid for one in command.replacements for uid in one.claim.pods)
    pods_to_move = {
        pod.uid
        for node in candidates
        for pod in node.pods
        if displaced.needs_new_node(pod, disruption_input.snapshot.budgets)
    }
    if command.reason is not DisruptionReason.EMPTY:
        assert all(targets[uid] == 1 for uid in pods_to_move)
    by_uid = {pod.uid: pod for node in disruption_input.snapshot.nodes for pod in node.pods}
    nodes = {node.name: node for node in disruption_input.snapshot.nodes}
    for one in command.placed:
        assert one.node not in command.candidates
        assert not nodes[one.node].deleting
        added = resources.add(*(by_uid[uid].shape.requests for uid in one.pods))
        assert added.fits(nodes[one.node].free)
        volumes_are_reachable(dict(nodes[one.node].labels)[names.ZONE], [by_uid[uid] for uid in one.pods])
    for new in command.replacements:
        volumes_are_reachable(new.claim.zone, [by_uid[uid] for uid in new.claim.pods if uid in by_uid])


def volumes_are_reachable(zone: str, pods: list[PodView]) -> None:
    for pod in pods:
        volume_zones = pod.shape.volumes.alternatives
        assert not volume_zones or any(one.get(names.ZONE).has(zone) for one in volume_zones)


def command_saves_money(command: DisruptionCommand, candidates: list[NodeView]) -> None:
    if command.reason is not DisruptionReason.UNDERUTILIZED:
        return
    before = sum(price_nano(node) for node in candidates)
    after = sum(one.claim.price_nano_usd_per_hour or 0 for one in command.replacements)
    assert after < before or (after == before == 0)
    assert command.saves_nano_usd_per_hour == before - after
    assert sum(one.claim.reservation_id is None for one in command.replacements) <= 1
    if before == 0 and command.replacements:
        assert command.frees_nano_usd_per_hour > 0


@pytest.mark.fact("D-5", "D-10", "D-25", "D-31", "D-32")
@settings(max_examples=300)
@given(clusters())
def test_no_command_breaks_a_budget_oversells_a_reservation_costs_more_or_evicts_a_pod_without_a_node(
    disruption_input: DisruptionInput,
) -> None:
    check(disruption_input, decide(disruption_input))


@settings(max_examples=60)
@given(clusters())
def test_equal_input_gives_an_equal_decision_and_a_valid_command(
    disruption_input: DisruptionInput,
) -> None:
    decision = decide(disruption_input)
    assert decide(disruption_input) == decision
    if decision.command is not None:
        assert still_valid(decision.command, disruption_input, Settings()) == decision.command


@settings(max_examples=40)
@given(clusters(), st.integers(1, 10))
def test_unchanged_cluster_gives_no_further_command(disruption_input: DisruptionInput, seconds: int) -> None:
    """With the cache of the previous pass, an unchanged cluster gives no command."""
    always = PoolRules(
        budgets=disruption_input.pools["default"].budgets[:1]
    )  # a budget with a schedule changes with the time
    without_drift = replace(
        disruption_input,
        facts={name: replace(f, drifted=None) for name, f in disruption_input.facts.items()},
        pools={"default": always},
    )
    first = decide(without_drift)
    if first.command is None:
        later = replace(without_drift, snapshot=replace(without_drift.snapshot, taken_s=NOW_S + seconds))
        assert decide(later, Settings(), first.cache).command is None


@settings(max_examples=200)
@given(clusters(starting=True), SOME)
def test_no_plan_saves_anything_for_nodes_that_are_left_out(
    disruption_input: DisruptionInput, some: list[bool]
) -> None:
    """The prefilter of consolidation leaves out only what the planner would find no command for."""
    c = consolidation_pass(disruption_input)
    chosen = list(itertools.compress(c.eligible(), some))
    if chosen and c.filter.why_not(chosen) is not None:
        method = Method.MULTI_NODE if len(chosen) > 1 else Method.SINGLE_NODE
        assert isinstance(c.attempt(method, chosen), Reason)


def consolidation_pass(cluster: DisruptionInput) -> ConsolidationPass:
    rules = Settings()
    candidate_set, simulator = CandidateSet(cluster), Simulator(cluster, rules)
    return ConsolidationPass(
        candidate_set,
        simulator,
        rules,
        RecentMoves((), 0, cluster.now_s),
        Blockers(),
        Balance(candidate_set),
        SlotRelease(candidate_set, simulator, rules),
    )


@settings(max_examples=100)
@given(clusters(), clusters(), SOME, st.tuples(st.booleans(), st.booleans()))
def test_candidates_of_the_last_pass_change_no_decision(
    first: DisruptionInput, second: DisruptionInput, some: list[bool], same: tuple[bool, bool]
) -> None:
    """Some nodes, the PodDisruptionBudgets or the NodePools of the second pass are those of the first."""
    there = {one.name: one for one in first.snapshot.nodes}
    kept = set(itertools.compress(sorted(there), some))
    nodes = tuple(there[one.name] if one.name in kept else one for one in second.snapshot.nodes)
    fields = {
        name: getattr(first.snapshot, name) for name in itertools.compress(("budgets", "node_pools"), same)
    }
    later = replace(
        second,
        snapshot=replace(second.snapshot, nodes=nodes, **fields),
        facts={**second.facts, **{name: first.facts[name] for name in kept}},
    )
    cache = CandidateCache()
    decide(first, candidates=cache)
    assert decide(later, candidates=cache) == decide(later)


@settings(max_examples=100)
@given(clusters(starting=True), st.integers(0, 5), st.integers(1, 3))
def test_nodes_that_differ_in_their_names_get_the_same_answer(
    disruption_input: DisruptionInput, number: int, more: int
) -> None:
    """Consolidation simulates only the first of several equal nodes."""
    there = {one.name: one for one in disruption_input.snapshot.nodes}
    model = disruption_input.snapshot.nodes[number % len(there)]
    copies = tuple(renamed(model, f"copy-{n}") for n in range(more))
    facts = {one.name: disruption_input.facts[model.name] for one in copies}
    cluster = replace(
        disruption_input,
        snapshot=replace(disruption_input.snapshot, nodes=(*there.values(), *copies)),
        facts={**disruption_input.facts, **facts},
    )
    c = consolidation_pass(cluster)
    alike = [one for one in c.eligible() if one.name in {model.name, *facts}]
    answers = [consolidation_pass(cluster).attempt(Method.SINGLE_NODE, [one]) for one in alike]
    remembered = [c.attempt_one(one) for one in alike]
    assert list(map(is_command, answers)) == list(map(is_command, remembered))
    filtered = [consolidation_pass(cluster).filter.why_not([one]) for one in alike]
    assert [c.filter.why_not([one]) for one in alike] == filtered


@settings(max_examples=100)
@given(clusters(starting=True), st.integers(0, 5), SOME)
def test_nodes_whose_pods_differ_in_labels_get_the_same_answer_unless_a_pod_selects_them(
    disruption_input: DisruptionInput, number: int, some: list[bool]
) -> None:
    """Consolidation simulates only the first of them."""
    there = disruption_input.snapshot.nodes
    model = there[number % len(there)]
    copy = relabelled(renamed(model, "copy"), some)
    cluster = replace(
        disruption_input,
        snapshot=replace(disruption_input.snapshot, nodes=(*there, copy), budgets=()),
        facts={**disruption_input.facts, "copy": disruption_input.facts[model.name]},
    )
    c = consolidation_pass(cluster)
    both = [one for one in c.eligible() if one.name in {model.name, "copy"}]
    answers = [consolidation_pass(cluster).attempt(Method.SINGLE_NODE, [one]) for one in both]
    assert list(map(is_command, answers)) == [is_command(c.attempt_one(one)) for one in both]
    filtered = [consolidation_pass(cluster).filter.why_not([one]) is None for one in both]
    assert [c.filter.why_not([one]) is None for one in both] == filtered


@settings(max_examples=60)
@given(clusters(starting=True))
def test_single_node_consolidation_refuses_what_multi_node_consolidation_refused_for_one_node(
    disruption_input: DisruptionInput,
) -> None:
    """The node is not simulated twice."""
    for one in consolidation_pass(disruption_input).eligible():
        answer = consolidation_pass(disruption_input).attempt(Method.MULTI_NODE, [one])
        if isinstance(answer, Reason):
            assert consolidation_pass(disruption_input).attempt(Method.SINGLE_NODE, [one]) == answer


def relabelled(node: NodeView, some: list[bool]) -> NodeView:
    """The node with other labels on some of its pods."""
    other = tuple(
        pod._replace(shape=pod.shape._replace(labels=(("app", "other"),))) if is_other else pod
        for pod, is_other in zip(node.pods, itertools.chain(some, itertools.repeat(True)), strict=False)
    )
    return replace(node, pods=other)


def is_command(answer: DisruptionCommand | Reason) -> bool:
    return isinstance(answer, DisruptionCommand)


def renamed(node: NodeView, name: str) -> NodeView:
    labels = tuple((key, name if key == names.HOSTNAME else value) for key, value in node.labels)
    own = tuple(pod._replace(uid=f"{name}-{pod.uid}", node_name=name) for pod in node.pods)
    return replace(node, name=name, labels=labels, pods=own, claim=f"claim-{name}", provider_id=f"id-{name}")
