"""Gangs in random small requests, with and without held slots: whole or none, every pod once, higher ranks first, and no
order of the input matters."""

import dataclasses
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.core.scheduling import gangs
from holdfast.core.scheduling import solve as single
from holdfast.core.scheduling.input.request import SolveRequest
from holdfast.core.scheduling.output.plan import Plan
from holdfast.model.gangs import Gang
from holdfast.model.pods import PodTerm, PodView, RunTime
from holdfast.model.snapshot import NodeView
from planner_builders import (
    RESERVATION_ID,
    gang,
    instance_type,
    is_in,
    node,
    one_per_node,
    pods,
    pool,
    request,
    reservation,
    running,
    selector,
    shape,
)

SIZES = (400, 900, 1500, 3000)
TYPES = ("m5.large", "m5.xlarge")
SEEDS = st.integers(0, 10**6)


def constraint(dice: random.Random, app: str) -> dict[str, Any]:
    """One pod a node, all pods in one zone, or none."""
    near = {"affinity": (PodTerm(names.ZONE, selector(app=app), ("default",)),)}
    return dice.choice(({}, {}, one_per_node(app), near))


def random_request(seed: int) -> SolveRequest:
    """A NodePool with a few reserved slots, gangs, single pods and perhaps a node."""
    dice = random.Random(seed)
    found = []
    for i in range(dice.randint(1, 3)):
        free = dice.randint(0, 3)
        where = dice.choice(("z1", "z2"))
        total = free + dice.choice((0, 0, 2))
        found.append(reservation(f"cr-{i}", dice.choice(TYPES), where, available=free, total=total))
    types = [instance_type(name, 2 * i, 8 * i, 0.1 * i, found) for i, name in enumerate(TYPES, start=1)]
    groups: list[Gang] = []
    pending: list[PodView] = []
    for i in range(dice.randint(1, 4)):
        app = f"gang-{i}"
        of = shape(dice.choice(SIZES), app=app, **constraint(dice, app))
        members = pods(dice.randint(1, 4), of, app)
        ranks = {"priority": dice.randint(0, 1), "since_s": dice.randint(0, 2)}
        groups.append(gang(app, members, dice.randint(1, 5), **ranks))
        pending += members
    for i in range(dice.randint(0, 3)):
        single_pods = pods(dice.randint(1, 3), shape(dice.choice(SIZES), app=f"web-{i}"), f"web-{i}")
        pending += [pod._replace(priority=dice.randint(0, 1)) for pod in single_pods]
    pending = [pod._replace(run_time=dice.choice((None, RunTime(dice.choice((60, 900)))))) for pod in pending]
    nodes = tuple(node(f"n{i}") for i in range(dice.randint(0, 1)))
    nodes += tuple(in_slot(dice, f"s{i}") for i in range(dice.randint(0, 2)))
    more: dict[str, Any] = {"gang_candidates": dice.choice((0, 1, 16)), "gang_hold_s": dice.choice((0, 3600))}
    slots = pool("slots", types, is_in(names.CAPACITY_TYPE, "reserved"))
    return request([slots], pending, found, gangs=tuple(groups), nodes=nodes, **more)


def in_slot(dice: random.Random, name: str) -> NodeView:
    """A node in a slot of the first reservation. Its pod, if it has one, may have a known end."""
    there = running(dice.randint(0, 1), shape(1500), name, run_time=dice.choice((None, RunTime(600))))
    labels = {names.CAPACITY_TYPE: "reserved", names.NODEPOOL: "slots", RESERVATION_ID: "cr-0"}
    return node(name, cpu=2, labels=labels, pods=there)


def pods_with_node(plan: Plan) -> list[str]:
    on_claims = [pod for claim in plan.claims for pod in claim.pods]
    return on_claims + [pod for one in plan.placed for pod in one.pods]


@given(SEEDS)
@settings(max_examples=150)
def test_of_each_gang_enough_members_have_a_node_or_none(seed: int) -> None:
    of = random_request(seed)
    plan = gangs.solve(of)
    placed = set(pods_with_node(plan))
    for one in of.snapshot.gangs:
        assert one.least is not None
        assert len(one.unbound & placed) == 0 or len(one.unbound & placed) >= one.least


@given(SEEDS)
@settings(max_examples=50)
def test_every_pod_is_in_the_plan_once(seed: int) -> None:
    of = random_request(seed)
    plan = gangs.solve(of)
    listed = [*pods_with_node(plan), *(one.pod for one in plan.unplaced)]
    assert sorted(listed) == sorted(pod.uid for pod in of.snapshot.pending)
    assert all(one.reasons for one in plan.unplaced)


@given(SEEDS)
@settings(max_examples=100)
def test_the_order_of_the_input_does_not_matter(seed: int) -> None:
    of = random_request(seed)
    dice = random.Random(seed)
    shuffled: dict[str, Any] = {}
    for name in ("pending", "gangs", "reservations", "nodes"):
        values = list(getattr(of.snapshot, name))
        dice.shuffle(values)
        shuffled[name] = tuple(values)
    other = dataclasses.replace(of, snapshot=dataclasses.replace(of.snapshot, **shuffled))
    assert gangs.solve(of) == gangs.solve(other)


@given(SEEDS)
@settings(max_examples=100)
def test_the_gang_of_the_highest_rank_has_nodes_if_it_fits_alone(seed: int) -> None:
    """With 16 tries and at most four gangs, every gang is tried."""
    of = random_request(seed)
    of = dataclasses.replace(of, settings=dataclasses.replace(of.settings, gang_candidates=16))
    first = min(of.snapshot.gangs, key=lambda one: one.rank)
    pending = tuple(
        pod for pod in of.snapshot.pending if pod.uid in first.unbound or pod.priority > first.priority
    )
    members = {uid for one in of.snapshot.gangs for uid in one.unbound if one is not first}
    pending = tuple(pod for pod in pending if pod.uid not in members)
    # A plan keeps pods of higher priority in front, as the tries with ranks do.
    raised = tuple(pod._replace(priority=5 if pod.priority else 0) for pod in pending)
    alone = dataclasses.replace(of, snapshot=dataclasses.replace(of.snapshot, pending=raised, gangs=()))
    fits = first.unbound.isdisjoint(one.pod for one in single.solve(alone).unplaced)
    if fits and len(first.unbound) >= (first.least or 0):
        assert len(first.unbound.intersection(pods_with_node(gangs.solve(of)))) >= (first.least or 0)
