"""With `gang_hold_s`, the first gang that does not fit holds free slots, so that smaller gangs and single pods do not take
them one by one."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling import gangs
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output.plan import Plan
from holdfast.model.gangs import Gang
from holdfast.model.pods import PodView, RunTime
from holdfast.model.reasons import ReasonCode, sentences
from holdfast.model.snapshot import NodeView
from planner_builders import (
    RESERVATION_ID,
    gang,
    instance_type,
    is_in,
    node,
    pods,
    pool,
    request,
    reservation,
    shape,
)

RESERVED = is_in(names.CAPACITY_TYPE, "reserved")
HOUR_S = 3600
NOW_S = 10 * HOUR_S
HOLD_S = 2 * HOUR_S


def members(count: int, name: str, **more: Any) -> tuple[PodView, ...]:
    """Pods that fill a node of the NodePool each."""
    made = {"created_s": NOW_S} | more
    return tuple(pod._replace(**made) for pod in pods(count, shape(1500, app=name), name))


def waiting(name: str, of: Sequence[PodView], **more: Any) -> Gang:
    return gang(name, of, len(of), since_s=more.pop("since_s", NOW_S - HOUR_S), **more)


def in_slot(name: str, ends_s: int | None, **more: Any) -> NodeView:
    """A node in a slot with one pod that fills it; `ends_s`: when the pod ends at the latest."""
    (pod,) = members(1, f"on-{name}")
    known = None if ends_s is None else RunTime(ends_s=ends_s)
    labels = {names.CAPACITY_TYPE: names.RESERVED, names.NODEPOOL: "slots", RESERVATION_ID: "cr-1"}
    running = (pod._replace(node_name=name, run_time=known),)
    return node(name, cpu=2, labels=labels, pods=more.pop("pods", running), **more)


def slots(
    free: int, total: int, pending: Sequence[PodView], *found: Gang, wanted: Any = RESERVED, **more: Any
) -> SolveRequest:
    """A NodePool with `free` of `total` slots, each for one pod."""
    one = reservation("cr-1", "m5.large", available=free, total=total)
    types = [instance_type("m5.large", 2, 8, 0.1, [one])]
    of_pool = pool("slots", types, *([wanted] if wanted else []))
    settings = {"gang_hold_s": HOLD_S, "taken_s": NOW_S} | more
    return request([of_pool], pending, [one], gangs=found, **settings)


def with_node(plan: Plan) -> dict[str, int]:
    """How many pods have a node, by the prefix of their names."""
    found: dict[str, int] = {}
    planned = [pod for claim in plan.claims for pod in claim.pods]
    planned += [pod for one in plan.placed for pod in one.pods]
    for pod in planned:
        found[pod.rpartition("-")[0]] = found.get(pod.rpartition("-")[0], 0) + 1
    return found


def why(plan: Plan, prefix: str) -> str:
    (text,) = {sentences(one.reasons) for one in plan.unplaced if one.pod.startswith(prefix)}
    return text


LARGE, SMALL = members(5, "large"), members(2, "small")
BOTH = (*LARGE, *SMALL)
OLDER, YOUNGER = waiting("large", LARGE), waiting("small", SMALL, since_s=NOW_S)


def test_the_first_gang_that_does_not_fit_holds_the_free_slots() -> None:
    plan = gangs.solve(slots(3, 8, BOTH, OLDER, YOUNGER))
    assert not plan.claims
    assert plan.slots_left == (("cr-1", 3),)
    until = "until 11:00 (UTC)"
    assert why(plan, "large") == (
        "PodGroup default/large: only 3 of the 5 pods that it needs would have a node (3 in cr-1); "
        "reservation cr-1 has no free slot left for the other pods; one becomes free when an instance in it terminates; "
        f"PodGroup default/large: slots that are free or become free are held for it {until}"
    )
    assert why(plan, "small") == (
        "PodGroup default/small: none of the 2 pods that it needs would have a node; "
        f"reservation cr-1 keeps its free slots for PodGroup default/large {until}"
    )


def test_the_gang_gets_the_slots_as_soon_as_it_fits() -> None:
    assert with_node(gangs.solve(slots(5, 8, BOTH, OLDER, YOUNGER))) == {"large": 5}


def test_without_the_setting_nothing_is_held() -> None:
    assert with_node(gangs.solve(slots(3, 8, BOTH, OLDER, YOUNGER, gang_hold_s=0))) == {"small": 2}


@pytest.mark.parametrize(("age_s", "placed"), [(HOLD_S - 1, {}), (HOLD_S, {"small": 2})])
def test_the_hold_ends(age_s: int, placed: dict[str, int]) -> None:
    old = waiting("large", LARGE, since_s=NOW_S - age_s)
    assert with_node(gangs.solve(slots(3, 8, BOTH, old, YOUNGER))) == placed


def test_the_next_gang_holds_slots_when_the_hold_of_the_first_is_over() -> None:
    last = members(2, "last")
    old, middle = waiting("large", LARGE, since_s=NOW_S - HOLD_S), waiting("middle", members(4, "middle"))
    pending = (*LARGE, *members(4, "middle"), *last)
    plan = gangs.solve(slots(3, 8, pending, old, middle, waiting("last", last, since_s=NOW_S)))
    assert not plan.claims
    assert "keeps its free slots for PodGroup default/middle" in why(plan, "last")


def test_a_gang_that_is_larger_than_the_reservation_holds_nothing() -> None:
    plan = gangs.solve(slots(3, 4, BOTH, OLDER, YOUNGER))
    assert with_node(plan) == {"small": 2}
    assert "held" not in why(plan, "large")


def test_a_gang_that_fits_once_nodes_in_slots_are_gone_holds_slots() -> None:
    busy = tuple(in_slot(f"n{i}", None) for i in range(2))
    assert not gangs.solve(slots(3, 5, BOTH, OLDER, YOUNGER, nodes=busy)).claims


def test_limits_of_the_nodepool_count_without_the_nodes_that_end() -> None:
    busy = tuple(in_slot(f"n{i}", None) for i in range(2))
    of = slots(3, 5, BOTH, OLDER, YOUNGER, nodes=busy)
    (slots_pool,) = of.snapshot.node_pools

    def limited(nodes: int) -> SolveRequest:
        limits = slots_pool.limits.__class__((("nodes", nodes),))
        used = slots_pool.used.__class__((("nodes", 2),))
        found = (dataclasses.replace(slots_pool, limits=limits, used=used),)
        return dataclasses.replace(of, snapshot=dataclasses.replace(of.snapshot, node_pools=found))

    assert not gangs.solve(limited(5)).claims
    assert with_node(gangs.solve(limited(4))) == {"small": 2}


def test_single_pods_launch_on_demand_beside_held_slots() -> None:
    web = members(2, "web")
    only_slots = tuple(
        pod._replace(shape=pod.shape._replace(node_selector=pod.shape.node_selector.add(RESERVED)))
        for pod in LARGE
    )
    of = slots(3, 8, (*only_slots, *web), waiting("large", only_slots), wanted=None)
    plan = gangs.solve(dataclasses.replace(of, explain_slots=True))
    assert with_node(plan) == {"web": 2}
    assert all(claim.reservation_id is None for claim in plan.claims)
    (text,) = {sentences(one.reasons) for one in plan.not_reserved}
    assert text == "reservation cr-1 keeps its free slots for PodGroup default/large until 11:00 (UTC)"


def test_pods_of_higher_priority_use_held_slots() -> None:
    urgent = members(2, "urgent", priority=1)
    assert with_node(gangs.solve(slots(3, 8, (*LARGE, *urgent), OLDER))) == {"urgent": 2}


def test_a_pod_that_replaces_one_of_a_running_gang_uses_a_held_slot() -> None:
    """Otherwise a whole job would wait for the hold of another one."""
    busy = in_slot("n1", None)
    (new,) = members(1, "new")
    running = gang("running", (*busy.pods, new), 1, since_s=NOW_S - 1)
    assert with_node(gangs.solve(slots(3, 8, (*LARGE, new), OLDER, running, nodes=(busy,)))) == {"new": 1}


def test_empty_nodes_in_slots_are_held_too() -> None:
    empty = in_slot("n1", None, pods=())
    plan = gangs.solve(slots(0, 5, BOTH, OLDER, waiting("one", SMALL, since_s=NOW_S), nodes=(empty,)))
    assert not plan.placed
    web = gangs.solve(slots(0, 5, (*LARGE, *members(1, "web")), OLDER, nodes=(empty,)))
    assert not web.placed
    assert "keeps its free slots for PodGroup default/large" in why(web, "web")


def test_slots_that_the_gang_does_not_need_are_used() -> None:
    """The gang needs large nodes, of which one is missing; the other reservation has small ones."""
    large = tuple(pod._replace(shape=shape(3500, app="large")) for pod in members(3, "large"))
    found = [
        reservation("cr-1", "m5.large", available=2),
        reservation("cr-2", "m5.xlarge", available=2, total=3),
    ]
    types = [
        instance_type("m5.large", 2, 8, 0.1, found),
        instance_type("m5.xlarge", 4, 16, 0.2, found),
    ]
    groups = (waiting("large", large), waiting("small", SMALL, since_s=NOW_S))
    of = request(
        [pool("slots", types, RESERVED)],
        (*large, *SMALL),
        found,
        gangs=groups,
        gang_hold_s=HOLD_S,
        taken_s=NOW_S,
    )
    plan = gangs.solve(of)
    assert with_node(plan) == {"small": 2}
    assert {claim.reservation_id for claim in plan.claims} == {"cr-1"}


# --- Pods that end before the gang can start ----------------------------------------------------------


def backfill(run_time: RunTime | None, *ends_s: int | None) -> dict[str, int]:
    """What is placed of a small gang with a run time, beside a gang that needs five nodes. Three slots are free, and there
    is a node for each of `ends_s`."""
    busy = tuple(in_slot(f"n{i}", end) for i, end in enumerate(ends_s))
    short = tuple(pod._replace(run_time=run_time) for pod in SMALL)
    total = 3 + len(ends_s)
    return with_node(
        gangs.solve(
            slots(3, total, (*LARGE, *short), OLDER, waiting("small", short, since_s=NOW_S), nodes=busy)
        )
    )


@pytest.mark.parametrize(
    ("lasts_s", "placed"), [(55 * 60, {"small": 2}), (55 * 60 + 1, {}), (24 * HOUR_S, {})]
)
def test_a_gang_that_ends_before_the_first_one_can_start_uses_its_slots(
    lasts_s: int, placed: dict[str, int]
) -> None:
    """The nodes that it needs are empty in one hour; a node takes five minutes to start."""
    soon, later = NOW_S + HOUR_S // 2, NOW_S + HOUR_S
    assert backfill(RunTime(lasts_s=lasts_s), soon, later) == placed


def test_the_earlier_of_two_run_times_counts() -> None:
    later = NOW_S + HOUR_S
    assert backfill(RunTime(lasts_s=24 * HOUR_S, ends_s=later), later, later) == {"small": 2}
    assert backfill(RunTime(lasts_s=24 * HOUR_S, ends_s=later + 1), later, later) == {}


def test_without_the_run_times_of_the_running_pods_no_gang_may_use_the_slots() -> None:
    """A slot may become free at any time, so any use of the others may delay the first gang."""
    assert backfill(RunTime(lasts_s=60), NOW_S + HOUR_S, None) == {}


@pytest.mark.parametrize("of_node", [{"from_daemon_set": True}, {"mirror": True}])
def test_pods_that_belong_to_their_nodes_need_no_run_time(of_node: dict[str, Any]) -> None:
    """Pods of DaemonSets, and the mirrors of static pods."""
    (agent,) = pods(1, shape(100, app="agent"), "agent")
    agent = agent._replace(node_name="n0", **of_node)
    ends_s = NOW_S + HOUR_S
    first, second = in_slot("n0", ends_s), in_slot("n1", ends_s)
    first = dataclasses.replace(first, pods=(*first.pods, agent))
    short = tuple(pod._replace(run_time=RunTime(lasts_s=60)) for pod in SMALL)
    groups = OLDER, waiting("small", short, since_s=NOW_S)
    plan = gangs.solve(slots(3, 5, (*LARGE, *short), *groups, nodes=(first, second)))
    assert with_node(plan) == {"small": 2}


def test_a_gang_without_a_run_time_does_not_use_the_slots() -> None:
    assert backfill(None, NOW_S + HOUR_S, NOW_S + HOUR_S) == {}


def test_single_pods_that_end_in_time_use_the_slots() -> None:
    busy = tuple(in_slot(f"n{i}", NOW_S + HOUR_S) for i in range(2))
    short, long_ = members(1, "short", run_time=RunTime(lasts_s=600)), members(1, "long")
    plan = gangs.solve(slots(3, 5, (*LARGE, *short, *long_), OLDER, nodes=busy))
    assert with_node(plan) == {"short": 1}
    assert ReasonCode.HOLDS_SLOTS in {reason.code for one in plan.unplaced for reason in one.reasons}
