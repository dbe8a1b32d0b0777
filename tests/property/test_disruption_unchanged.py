"""A disruption pass that is left out would have found nothing: `core/disruption/unchanged`.

Random clusters: pods of several ages, consolidateAfter, a cool-down, budgets with schedules, reservations with dates,
nodes that start or drain. Whenever the first pass finds nothing, the passes until `holds_until_s` find nothing either.
"""

from collections.abc import Sequence
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
    instances,
    load,
    managed_node,
)
from holdfast import names
from holdfast.core.disruption import unchanged
from holdfast.core.disruption.commands import DecisionCache, Move
from holdfast.core.disruption.decide import decide
from holdfast.core.disruption.inputs import Budget, DisruptionInput, Drifted, NodeFacts, PoolRules, Settings
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.snapshot import NodePoolView
from planner_builders import is_in, pods, pool, reservation, shape

RULES = Settings()
PAID = is_in(names.CAPACITY_TYPE, names.RESERVED, names.ON_DEMAND)  # spot would always be cheaper
AGES_S = (0, 1, 30, 59, 60, 61, 200, 599, 600, 5000)
DATES: Sequence[dict[str, Any]] = ({}, {}, {"end_s": NOW_S + 90}, {"start_s": NOW_S + 45})
SCHEDULES = (None, None, "* * * * *", "@hourly", "47 13 12 1 *")


STATES: Sequence[dict[str, Any]] = (
    *({},) * 6,
    {"deleting": True},
    {"nominated": True},
    {"initialized": False},
)
SELDOM = st.sampled_from((*(False,) * 9, True))


@st.composite
def clusters(draw: st.DrawFn) -> DisruptionInput:
    nodes, facts = [], {}
    for i in range(draw(st.integers(1, 5))):
        type_ = draw(st.sampled_from((SMALL, MEDIUM, LARGE)))
        slot = "cr-medium" if type_ == MEDIUM and draw(st.booleans()) else None
        sizes = draw(st.lists(st.sampled_from((200, 900, 1500)), max_size=1 if type_ == SMALL else 2))
        ages_s = [draw(st.sampled_from(AGES_S)) for _ in sizes]
        found = [
            pod
            for n, (size, age_s) in enumerate(zip(sizes, ages_s, strict=True))
            for pod in load(f"n{i}-{n}", shape(size, 256, "web"), created_s=NOW_S - age_s)
        ]
        changed_s = draw(st.sampled_from((None, *(NOW_S - age_s for age_s in AGES_S))))
        state = draw(st.sampled_from(STATES))
        nodes.append(managed_node(f"n{i}", type_, found, slot=slot, last_pod_event_s=changed_s, **state))
        facts[f"n{i}"] = NodeFacts(
            initialized_s=NOW_S - draw(st.sampled_from(AGES_S)),
            queued=draw(SELDOM),
            ending=draw(SELDOM),
            ready=not draw(SELDOM),
        )
    slots = reservation(
        "cr-medium",
        MEDIUM,
        available=draw(st.integers(0, 1)),
        total=6,
        **draw(st.sampled_from(DATES)),
    )
    schedule = draw(st.sampled_from(SCHEDULES))
    zero = (Budget("0", schedule=schedule, duration_s=90),) if schedule else ()
    after_s = draw(st.sampled_from((0, 60, 300)))
    one = replace(pool("default", catalog([slots]), PAID), consolidate_after_s=after_s)
    rules = PoolRules(budgets=(Budget("3"), *zero))
    return disruption_input(*nodes, facts=facts, reservations=[slots], pools=[one], rules=rules)


def at(cluster: DisruptionInput, now_s: int) -> DisruptionInput:
    return replace(cluster, snapshot=replace(cluster.snapshot, taken_s=now_s))


def moved(cluster: DisruptionInput, age_s: int) -> DecisionCache:
    """After a move of pods of all shapes."""
    shapes = frozenset(pod.shape for node in cluster.snapshot.nodes for pod in node.pods)
    return DecisionCache(moves=(Move(NOW_S - age_s, shapes, frozenset(["n0"]), NOW_S - age_s),))


def with_other_times(cluster: DisruptionInput, age_s: int) -> DisruptionInput:
    """A pod of each draining node changed at another time, and the instances were listed again: other instances of
    other reservations are running."""
    changed_s = cluster.now_s - age_s
    nodes = [
        replace(one, last_pod_event_s=changed_s) if one.deleting else one for one in cluster.snapshot.nodes
    ]
    other = Instance(f"i-{age_s}", MEDIUM, "z1", names.ON_DEMAND, InstanceState.RUNNING, changed_s)
    listed = (*instances(*nodes), other)
    return replace(cluster, snapshot=replace(cluster.snapshot, nodes=tuple(nodes), instances=listed))


@settings(max_examples=100)
@given(clusters(), st.sampled_from((None, *AGES_S)), st.sampled_from(AGES_S))
def test_passes_over_draining_nodes_and_new_lists_find_nothing(
    cluster: DisruptionInput, moved_age_s: int | None, age_s: int
) -> None:
    before = DecisionCache(moves=()) if moved_age_s is None else moved(cluster, moved_age_s)
    first = decide(cluster, RULES, before)
    until_s = unchanged.holds_until_s(cluster, RULES, first)
    for now_s in range(NOW_S + 1, until_s, 41):
        later = with_other_times(at(cluster, now_s), age_s)
        if unchanged.is_same(cluster, later, RULES.solving.ledger_lag_s):
            assert decide(later, RULES, first.cache).command is None


@settings(max_examples=100)
@given(clusters(), st.sampled_from((None, *AGES_S)))
def test_passes_that_are_left_out_find_nothing(cluster: DisruptionInput, moved_age_s: int | None) -> None:
    before = DecisionCache(moves=()) if moved_age_s is None else moved(cluster, moved_age_s)
    first = decide(cluster, RULES, before)
    until_s = unchanged.holds_until_s(cluster, RULES, first)
    cache = first.cache
    for now_s in sorted({*range(NOW_S + 1, until_s, 37), until_s - 1} - set(range(NOW_S + 1))):
        later = decide(at(cluster, now_s), RULES, cache)
        assert later.command is None
        assert later.cache.moves == unchanged.cache_after(at(cluster, now_s), cache).moves
        cache = later.cache


def test_cluster_at_rest_holds_until_the_next_retry() -> None:
    cluster = at_rest()
    first = decide(cluster, RULES)
    assert first.command is None
    assert unchanged.holds_until_s(cluster, RULES, first) == NOW_S + RULES.retry_s


@pytest.mark.parametrize("state", [{"deleting": True}, {"nominated": True}, {"initialized": False}])
def test_passes_are_left_out_while_a_node_starts_or_drains(state: dict[str, Any]) -> None:
    cluster = at_rest(**state)
    assert unchanged.holds_until_s(cluster, RULES, decide(cluster, RULES)) == NOW_S + RULES.retry_s


def test_no_pass_is_left_out_while_a_pod_is_pending_or_a_node_is_drifted() -> None:
    rest = at_rest()
    pending = replace(rest, snapshot=replace(rest.snapshot, pending=pods(1, shape(64_000))))
    static = {"default": PoolRules(static=True)}
    drifted = replace(rest, facts={"n": NodeFacts(drifted=Drifted("changed", 0))}, pools=static)
    for cluster in (pending, drifted):
        first = decide(cluster, RULES)
        assert first.command is None
        assert unchanged.holds_until_s(cluster, RULES, first) == NOW_S


def test_drain_extends_a_move_also_while_passes_are_left_out() -> None:
    cluster = at(at_rest(deleting=True), NOW_S + 50)
    of_the_node, of_another = (Move(NOW_S, frozenset(), frozenset([name]), NOW_S) for name in ("n", "m"))
    found = unchanged.cache_after(cluster, DecisionCache(moves=(of_the_node, of_another)))
    assert found.moves == (replace(of_the_node, until_s=NOW_S + 50), of_another)


def test_consolidate_after_ends_before() -> None:
    cluster = at_rest(
        replace(pool("default", catalog(), PAID), consolidate_after_s=90), last_pod_event_s=NOW_S - 50
    )
    assert unchanged.holds_until_s(cluster, RULES, decide(cluster, RULES)) == NOW_S + 40


def test_cooldown_ends_before() -> None:
    of = shape(200, 256, "web")
    node = managed_node("n", LARGE, load("n", of, created_s=NOW_S - RULES.cooldown_s + 70))
    cluster = disruption_input(node, pools=[pool("default", catalog(), PAID)])
    before = DecisionCache(moves=(Move(NOW_S - RULES.cooldown_s, frozenset([of]), frozenset(), NOW_S),))
    first = decide(cluster, RULES, before)
    assert first.command is None
    assert unchanged.holds_until_s(cluster, RULES, first) == NOW_S + 70
    assert decide(at(cluster, NOW_S + 70), RULES, first.cache).command is not None


def test_equal_clusters_at_different_times_are_the_same() -> None:
    assert unchanged.is_same(at_rest(), at(at_rest(), NOW_S + 10), lag_s=60)


def test_every_change_is_noticed() -> None:
    before = at_rest()
    snapshot = before.snapshot
    later = replace(snapshot, taken_s=NOW_S + 10)
    changed: list[DisruptionInput] = [
        replace(before, changed=1),
        replace(before, pools={"default": PoolRules(budgets=(Budget("7"),))}),
        replace(before, facts={"n": NodeFacts(ready=False)}),
        replace(before, snapshot=replace(later, nodes=())),
        replace(before, snapshot=replace(later, node_pools=(pool("other", catalog()),))),
        replace(before, snapshot=replace(later, pending=load("new", shape(100)))),
        replace(before, snapshot=replace(later, reservations=(reservation("cr-1", MEDIUM, available=1),))),
    ]
    assert not any(unchanged.is_same(before, one, lag_s=60) for one in changed)


def test_newer_count_with_the_same_slots_is_no_change() -> None:
    def counted(available: int, read_s: int) -> DisruptionInput:
        one = reservation("cr-1", MEDIUM, available=available, total=3)
        return replace(before, snapshot=replace(before.snapshot, reservations=(one,), counts_read_s=read_s))

    before = at_rest()
    assert unchanged.is_same(counted(1, NOW_S - 60), counted(1, NOW_S), lag_s=60)
    assert not unchanged.is_same(counted(1, NOW_S - 60), counted(2, NOW_S), lag_s=60)


def test_pods_of_draining_nodes_and_instances_that_change_no_slot_are_no_change() -> None:
    draining = at_rest(deleting=True)
    assert unchanged.is_same(draining, with_other_times(at(draining, NOW_S + 10), 5), lag_s=60)
    nodes = tuple(replace(one, last_pod_event_s=NOW_S) for one in at_rest().snapshot.nodes)
    assert not unchanged.is_same(
        at_rest(), replace(at_rest(), snapshot=replace(at_rest().snapshot, nodes=nodes)), lag_s=60
    )


def test_instance_that_leaves_a_slot_is_a_change() -> None:
    slots = reservation("cr-1", MEDIUM, available=1, total=3)
    node = managed_node("n", MEDIUM, load("n", shape(1800, 256, "web")), slot="cr-1")
    before = disruption_input(node, reservations=[slots])
    (instance,) = instances(node)
    ending = replace(instance, state=InstanceState.ENDING)
    one, other = (
        replace(before, snapshot=replace(before.snapshot, instances=(found,))) for found in (instance, ending)
    )
    assert unchanged.is_same(one, one, lag_s=60)
    assert not unchanged.is_same(one, other, lag_s=60)


def at_rest(pool_view: NodePoolView | None = None, **more: Any) -> DisruptionInput:
    node = managed_node("n", SMALL, load("n", shape(1800, 256, "web")), **more)
    return disruption_input(
        node, facts={"n": NodeFacts()}, pools=[pool_view or pool("default", catalog(), PAID)]
    )
