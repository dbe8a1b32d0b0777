"""Gangs in a plan: enough members of each gang have a node, or none; higher ranks come first; reasons have counts."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling import gangs
from holdfast.core.scheduling import solve as single
from holdfast.core.scheduling.input.request import ReservedMode, SolveRequest
from holdfast.core.scheduling.output.plan import Plan
from holdfast.model.gangs import Gang
from holdfast.model.pods import PodTerm, PodView
from holdfast.model.reasons import ReasonCode, sentences
from planner_builders import (
    gang,
    instance_type,
    is_in,
    node,
    one_per_node,
    placed,
    pods,
    pool,
    reasons,
    request,
    reservation,
    running,
    selector,
    shape,
)

RESERVED = is_in(names.CAPACITY_TYPE, "reserved")
INCOMPLETE, DOES_NOT_FIT = ReasonCode.GANG_INCOMPLETE, ReasonCode.GANG_DOES_NOT_FIT


def members(count: int, name: str, **more: Any) -> tuple[PodView, ...]:
    """Pods that fill a node of the NodePool each."""
    return tuple(pod._replace(**more) for pod in pods(count, shape(1500, app=name), name))


def slots(free: int, pending: Sequence[PodView], *found: Gang, **more: Any) -> SolveRequest:
    """A NodePool with only `free` reserved slots, each for one pod."""
    reservations = [reservation("cr-1", "m5.large", available=free, total=free)]
    types = [instance_type("m5.large", 2, 8, 0.1, reservations)]
    return request([pool("slots", types, RESERVED)], pending, reservations, gangs=found, **more)


def pods_with_node(plan: Plan) -> list[str]:
    return [
        *(pod for claim in plan.claims for pod in claim.pods),
        *(pod for one in plan.placed for pod in one.pods),
    ]


def with_node(plan: Plan) -> dict[str, int]:
    """How many pods have a node, by the prefix of their names."""
    found: dict[str, int] = {}
    for pod in pods_with_node(plan):
        found[pod.rpartition("-")[0]] = found.get(pod.rpartition("-")[0], 0) + 1
    return found


def only_text(plan: Plan) -> str:
    (text,) = {sentences(one.reasons) for one in plan.unplaced}
    return text


# --- Whole or none ------------------------------------------------------------------------------------


def test_without_gangs_the_plan_is_that_of_solve() -> None:
    one = slots(2, members(3, "web"))
    assert gangs.solve(one) == single.solve(one)


def test_a_gang_that_fits_is_placed_in_the_same_plan_as_other_pods() -> None:
    train = members(3, "train")
    one = slots(4, (*train, *members(1, "web")), gang("train", train, 3))
    plan = gangs.solve(one)
    assert with_node(plan) == {"train": 3, "web": 1}
    assert plan == single.solve(one)


def test_a_gang_that_does_not_fit_has_no_node() -> None:
    train = members(3, "train")
    plan = gangs.solve(slots(2, train, gang("train", train, 3)))
    assert not plan.claims
    assert reasons(plan) == {pod.uid: [DOES_NOT_FIT, ReasonCode.WAITS_FOR_SLOT] for pod in train}
    assert only_text(plan).startswith(
        "PodGroup default/train: only 2 of the 3 pods that it needs would have a node (2 in cr-1); "
    )


def test_a_reservation_that_members_of_the_gang_would_use_is_not_called_full() -> None:
    train = members(3, "train")
    used, full = "cr-1", "cr-2"
    reservations = [
        reservation(used, "m5.large", available=2, total=2),
        reservation(full, "m5.large", available=0, total=2),
    ]
    types = [instance_type("m5.large", 2, 8, 0.1, reservations)]
    found = [pool("slots", types, RESERVED)]
    plan = gangs.solve(request(found, train, reservations, gangs=(gang("train", train, 3),)))
    after = "one becomes free when an instance in it terminates"
    assert only_text(plan) == (
        "PodGroup default/train: only 2 of the 3 pods that it needs would have a node (2 in cr-1); "
        f"reservation {used} has no free slot left for the other pods; {after}; "
        f"reservation {full} has no free slot; {after}"
    )


def test_members_beyond_the_least_are_optional() -> None:
    train = members(5, "train")
    plan = gangs.solve(slots(4, train, gang("train", train, 3)))
    assert with_node(plan) == {"train": 4}
    assert reasons(plan) == {"train-000004": [ReasonCode.WAITS_FOR_SLOT]}


@pytest.mark.parametrize(
    ("least", "text"), [(4, "has 3 of the 4 pods that it needs"), (None, "does not exist")]
)
def test_an_incomplete_gang_has_no_node(least: int | None, text: str) -> None:
    train = members(3, "train")
    plan = gangs.solve(slots(5, (*train, *members(1, "web")), gang("train", train, least)))
    assert with_node(plan) == {"web": 1}
    assert text in only_text(plan)
    assert {code for codes in reasons(plan).values() for code in codes} == {INCOMPLETE}


def test_members_that_cannot_be_planned_are_missing() -> None:
    """A pod that kube-scheduler has not tried yet, or that is rejected, is not in the snapshot."""
    train = members(3, "train")
    plan = gangs.solve(slots(5, train[:2], gang("train", train, 3)))
    assert not plan.claims
    assert "only 2 of the 3 pods that it needs have a node or can be planned now" in only_text(plan)


@pytest.mark.parametrize(
    ("free", "least", "planned", "text"),
    [
        (0, 1, 1, "PodGroup default/train: the pod that it needs would have no node; reservation"),
        (0, 2, 2, "PodGroup default/train: none of the 2 pods that it needs would have a node; reservation"),
        (1, 2, 2, "PodGroup default/train: only 1 of the 2 pods that it needs would have a node (1 in cr-1)"),
        (5, 3, 1, "PodGroup default/train: only 1 of the 3 pods that it needs has a node or can be planned"),
        (5, 2, 1, "PodGroup default/train: only 1 of the 2 pods that it needs has a node or can be planned"),
    ],
)
def test_texts_about_one_pod(free: int, least: int, planned: int, text: str) -> None:
    train = members(least, "train")
    assert only_text(gangs.solve(slots(free, train[:planned], gang("train", train, least)))).startswith(text)


@pytest.mark.parametrize(
    ("least", "exist", "text"),
    [
        (1, 0, "lacks the pod that it needs"),
        (2, 0, "has none of the 2 pods that it needs"),
        (2, 1, "has 1 of the 2 pods that it needs"),
        (1, 1, "the pod that it needs has no node and cannot be planned now"),
        (2, 2, "none of the 2 pods that it needs have a node or can be planned now"),
    ],
)
def test_incomplete_gangs_of_one_pod_and_of_two(least: int, exist: int, text: str) -> None:
    assert gangs.incomplete(gang("train", members(exist, "train"), least), 0).text == text


def test_running_members_count() -> None:
    """A new pod of a running gang needs one node, not three (PG-8)."""
    old = running(2, shape(app="train"), "old")
    new = members(1, "train")
    plan = gangs.solve(slots(1, new, gang("train", (*old, *new), 3)))
    assert with_node(plan) == {"train": 1}


def test_members_of_a_node_that_is_being_deleted_need_another_node() -> None:
    old = running(2, shape(1500, app="train"), "old")
    leaving = node("n1", pods=old, deleting=True)
    fits = slots(2, (), gang("train", old, 2), nodes=(leaving,))
    assert with_node(gangs.solve(fits)) == {"old": 2}
    full = gangs.solve(slots(1, (), gang("train", old, 2), nodes=(leaving,)))
    assert not full.claims
    assert set(reasons(full)) == {"old-000000", "old-000001"}


def test_members_use_existing_nodes_and_new_nodes() -> None:
    train = members(3, "train")
    free = node("n1", cpu=2)
    plan = gangs.solve(slots(2, train, gang("train", train, 3), nodes=(free,)))
    assert placed(plan) == {"n1": ("train-000000",)}
    assert len(plan.claims) == 2


def test_an_incomplete_gang_leaves_existing_nodes_to_other_pods() -> None:
    train, web = members(3, "train"), members(2, "web", created_s=100)
    free = [node(f"n{i}", cpu=2) for i in range(2)]
    plan = gangs.solve(slots(0, (*train, *web), gang("train", train, 3), nodes=tuple(free)))
    assert with_node(plan) == {"web": 2}


def test_every_pod_is_in_the_plan_once() -> None:
    train, web, big = members(3, "train"), members(2, "web"), members(9, "big")
    found = [gang("train", train, 3), gang("big", big, 9)]
    plan = gangs.solve(slots(4, (*train, *web, *big), *found))
    everything = sorted([*pods_with_node(plan), *(one.pod for one in plan.unplaced)])
    assert everything == sorted(pod.uid for pod in (*train, *web, *big))


# --- Launching ----------------------------------------------------------------------------------------


def test_claims_of_a_gang_are_created_together_or_not_at_all() -> None:
    train, eval_, web = members(3, "train"), members(2, "eval"), members(1, "web")
    everything = frozenset(pod.uid for pod in (*train, *eval_, *web))
    found = [gang("train", train, 3), gang("eval", eval_, 2)]
    one = slots(6, (*train, *eval_, *web), *found)
    plan = gangs.solve(one)

    def created(without: str, present: frozenset[str]) -> list[str]:
        allowed = [claim for claim in plan.claims if without not in claim.pods]
        claims = gangs.whole_claims(one.snapshot, plan, allowed, present)
        return sorted({pod.rpartition("-")[0] for claim in claims for pod in claim.pods})

    assert created("", everything) == ["eval", "train", "web"]
    assert created("train-000001", everything) == ["eval", "web"]
    assert created("web-000000", everything) == ["eval", "train"]
    assert created("", everything - {"eval-000000"}) == ["train", "web"]


def test_claims_that_two_gangs_share_are_created_with_both_or_not_at_all() -> None:
    """Each node has a pod of each gang."""
    a, b = pods(2, shape(1000, app="a"), "a"), pods(2, shape(850, app="b"), "b")
    one = slots(2, (*a, *b), gang("a", a, 2), gang("b", b, 2))
    plan = gangs.solve(one)
    everything = frozenset(pod.uid for pod in (*a, *b))
    assert len(plan.claims) == 2
    assert gangs.whole_claims(one.snapshot, plan, plan.claims, everything) == plan.claims
    assert not gangs.whole_claims(one.snapshot, plan, plan.claims[:1], everything)


def launched_together(one: SolveRequest) -> list[list[str]]:
    """The pods of each group of NodeClaims that are launched all or none."""
    plan = gangs.solve(one)
    found = gangs.launched_together(one.snapshot, plan, plan.claims)
    return sorted(sorted(pod for claim in group for pod in claim.pods) for group in found)


def test_claims_of_each_gang_are_launched_together_and_those_of_no_gang_alone() -> None:
    train, eval_, web = members(3, "train"), members(2, "eval"), members(1, "web")
    one = slots(6, (*train, *eval_, *web), gang("train", train, 3), gang("eval", eval_, 2))
    assert launched_together(one) == [[pod.uid for pod in eval_], [pod.uid for pod in train]]


def test_claims_of_gangs_that_share_a_node_are_launched_together() -> None:
    a, b = pods(2, shape(1000, app="a"), "a"), pods(2, shape(850, app="b"), "b")
    one = slots(2, (*a, *b), gang("a", a, 2), gang("b", b, 2))
    assert launched_together(one) == [sorted(pod.uid for pod in (*a, *b))]


def test_single_claim_of_a_gang_is_launched_like_any_other() -> None:
    train = members(1, "train")
    assert launched_together(slots(1, train, gang("train", train, 1))) == []


# --- Ranks --------------------------------------------------------------------------------------------


def test_of_two_gangs_the_one_of_higher_priority_gets_the_slots() -> None:
    old, urgent = members(3, "old"), members(3, "urgent", priority=10, created_s=900)
    found = [gang("old", old, 3, since_s=1), gang("urgent", urgent, 3, priority=10, since_s=900)]
    plan = gangs.solve(slots(4, (*old, *urgent), *found))
    assert with_node(plan) == {"urgent": 3}


def test_of_two_gangs_of_equal_priority_the_older_one_gets_the_slots() -> None:
    young, old = members(3, "a"), members(3, "b", created_s=900)
    found = [gang("a", young, 3, since_s=5), gang("b", old, 3, since_s=4)]
    assert with_node(gangs.solve(slots(4, (*young, *old), *found))) == {"b": 3}


def test_small_gangs_take_nothing_that_a_large_gang_of_higher_rank_needs() -> None:
    large = members(4, "large")
    small = [members(2, f"small{i}") for i in range(6)]
    found = [gang("large", large, 4, since_s=1)]
    found += [gang(f"small{i}", one, 2, since_s=10 + i) for i, one in enumerate(small)]
    pending = (*(pod for one in small for pod in one), *large)
    assert with_node(gangs.solve(slots(5, pending, *found))) == {"large": 4}
    assert with_node(gangs.solve(slots(6, pending, *found))) == {"large": 4, "small0": 2}


def test_single_pods_take_nothing_that_a_gang_of_their_priority_needs() -> None:
    train, web = members(3, "train", created_s=900), members(3, "web")
    plan = gangs.solve(slots(3, (*train, *web), gang("train", train, 3, since_s=900)))
    assert with_node(plan) == {"train": 3}


def test_single_pods_of_higher_priority_come_first() -> None:
    train, web = members(3, "train"), members(2, "web", priority=1)
    plan = gangs.solve(slots(4, (*train, *web), gang("train", train, 3)))
    assert with_node(plan) == {"web": 2}


def test_a_gang_that_does_not_fit_leaves_its_slots_to_gangs_of_lower_rank() -> None:
    large, small = members(5, "large"), members(2, "small")
    found = [gang("large", large, 5, priority=1), gang("small", small, 2)]
    plan = gangs.solve(slots(3, (*large, *small), *found))
    assert with_node(plan) == {"small": 2}


@pytest.mark.parametrize("tries", [0, 1, 3, 16])
def test_gangs_that_were_not_tried_are_placed_if_they_fit_into_what_is_left(tries: int) -> None:
    many = [members(2, f"g{i:02}") for i in range(40)]
    found = [gang(f"g{i:02}", one, 2, since_s=i) for i, one in enumerate(many)]
    one = slots(9, [pod for of_gang in many for pod in of_gang], *found, gang_candidates=tries)
    plan = gangs.solve(one)
    assert with_node(plan) == {f"g{i:02}": 2 for i in range(4)}
    assert len(plan.unplaced) == 72


def test_every_slot_is_used_if_there_are_more_gangs_than_tries() -> None:
    """Pods of equal age: the plan with all gangs has a node for some members of each."""
    many = [members(4, f"g{i:02}") for i in range(60)]
    found = [gang(f"g{i:02}", one, 4, since_s=i, priority=i % 3) for i, one in enumerate(many)]
    plan = gangs.solve(slots(102, [pod for of_gang in many for pod in of_gang], *found))
    highest, next_ = [f"g{i:02}" for i in range(2, 60, 3)], [f"g{i:02}" for i in range(1, 15, 3)]
    assert with_node(plan) == dict.fromkeys(sorted([*highest, *next_]), 4)


def test_the_number_of_solves_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    solves = 0
    plain = single.solve

    def counted(*args: Any) -> Plan:
        nonlocal solves
        solves += 1
        return plain(*args)

    monkeypatch.setattr(single, "solve", counted)
    many = [members(3, f"g{i:02}") for i in range(60)]
    found = [gang(f"g{i:02}", one, 3, since_s=i) for i, one in enumerate(many)]
    gangs.solve(slots(2, [pod for of_gang in many for pod in of_gang], *found, gang_candidates=5))
    assert 5 < solves <= 10


# --- What the reasons and the rest of the plan say ----------------------------------------------------


def test_single_pods_wait_if_the_planner_finds_no_packing_with_them_beside_a_gang() -> None:
    """The bounded search for packings does not find one of a single pod and the gangs, although there is one."""
    reservations = [
        reservation("cr-0", "m5.large", available=2),
        reservation("cr-2", "m5.xlarge", "z2", available=2),
    ]
    types = [
        instance_type("m5.large", 2, 8, 0.1, reservations),
        instance_type("m5.xlarge", 4, 16, 0.2, reservations),
    ]
    large = tuple(pod._replace(created_s=1 + 3 * i) for i, pod in enumerate(members(3, "gang-1")))
    (small,) = pods(1, shape(900, app="small", **one_per_node("small")), "gang-3")
    small = small._replace(created_s=9)
    not_in_its_zone: dict[str, Any] = {
        "anti_affinity": (PodTerm(names.ZONE, selector(app="small"), ("default",)),)
    }
    web = pods(1, shape(900, app="1", **one_per_node("1")), "web-1")
    web += pods(2, shape(900, app="2"), "web-2")
    web += tuple(
        pod._replace(priority=1) for pod in pods(2, shape(1500, app="3", **not_in_its_zone), "web-3")
    )
    first, second = pods(2, shape(1500, app="4", **one_per_node("4")), "web-4")
    pending = (*large, small, *web, first._replace(priority=1), second)
    groups = (gang("large", large, 3, since_s=2), gang("small", [small], 1, priority=1))
    plan = gangs.solve(request([pool("slots", types, RESERVED)], pending, reservations, gangs=groups))
    assert with_node(plan)["gang-1"] == 3
    behind = [one for one in plan.unplaced if one.reasons[0].code is ReasonCode.BEHIND_GANG]
    assert {one.pod for one in behind} == {"web-1-000000", "web-2-000000", "web-2-000001", "web-4-000001"}
    assert {sentences(one.reasons) for one in behind} == {
        "PodGroups default/large, default/small: its pods are placed first; this pod is planned again once they have nodes"
    }


def test_a_waiting_member_keeps_the_reservation_that_it_waits_for() -> None:
    one_slot = reservation("cr-1", "m5.large", available=1)
    types = [instance_type("m5.large", 2, 8, 0.1, [one_slot])]
    train = members(2, "train")
    group = gang("train", train, 2)
    plan = gangs.solve(
        request([pool("any", types)], train, [one_slot], gangs=(group,), reserved_mode=ReservedMode.STRICT)
    )
    assert [found.waits_for for found in plan.unplaced] == [None, "cr-1"]
    assert not plan.claims


def test_the_order_of_the_input_does_not_matter() -> None:
    many = [members(2 + i % 3, f"g{i}", priority=i % 2) for i in range(8)]
    found = tuple(gang(f"g{i}", one, len(one), priority=i % 2, since_s=i // 3) for i, one in enumerate(many))
    pending = [pod for of_gang in many for pod in of_gang]
    one = slots(9, pending, *found)
    turned = dataclasses.replace(
        one,
        snapshot=dataclasses.replace(
            one.snapshot, pending=tuple(reversed(pending)), gangs=tuple(reversed(found))
        ),
    )
    assert gangs.solve(one) == gangs.solve(turned)


def test_explanations_are_those_of_the_last_solve() -> None:
    big, train = members(9, "big"), members(2, "train")
    found = [gang("big", big, 9), gang("train", train, 2)]
    one = dataclasses.replace(slots(3, (*big, *train), *found), explain_slots=True, explain_claims=True)
    plan = gangs.solve(one)
    assert with_node(plan) == {"train": 2}
    assert {found.pod for found in plan.not_reserved}.isdisjoint(pod.uid for pod in train)


def test_pods_of_deleting_nodes_that_a_plan_leaves_out_are_no_neighbours() -> None:
    """Single pods are left out while gangs are tried. One of them runs on a node that is being deleted, and its slot is
    full: affinity to it must not put a gang into its zone."""
    front = running(1, shape(1500, app="front"), "front")
    leaving = node("n1", pods=front, deleting=True)
    near: dict[str, Any] = {"affinity": (PodTerm(names.ZONE, selector(app="front"), ("default",)),)}
    back = pods(1, shape(1500, app="back", **near), "back")
    big = members(3, "big")
    found = [gang("back", back, 1), gang("big", big, 3, since_s=9)]
    plan = gangs.solve(slots(1, (*back, *big), *found, nodes=(leaving,)))
    assert not {"back-000000"} & set(pods_with_node(plan)) or "front-000000" in pods_with_node(plan)
