"""Claims that wait for a slot: which of them is launched next, and which has waited long enough."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import MEDIUM, NOW_S, catalog, instances, machine, world
from holdfast import names
from holdfast.core.disruption import waiting_replacements
from holdfast.core.disruption.inputs import DisruptionInput
from holdfast.model.instances import InstanceState
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.snapshot import ClaimView, Snapshot
from planner_builders import is_in, pool, reservation

BOUND_S, LAG_S = 600, 120
RESERVED_ONLY = is_in(names.CAPACITY_TYPE, names.RESERVED)


def waits(name: str, created_s: int = 10, **more: Any) -> ClaimView:
    """A claim that waits for an instance that is gone."""
    known: dict[str, Any] = {"reservation_id": "cr-1", "waits_for_instance": f"i-{name}"} | more
    return ClaimView(name, "default", NO_REQUIREMENTS, created_s, **known)


def seen(available: int, *claims: ClaimView, **more: Any) -> Snapshot:
    kept = (reservation("cr-1", MEDIUM, available=available, total=4), reservation("cr-2", MEDIUM))
    return world(reservations=kept, claims=claims, **more).snapshot


def next_ones(snapshot: Snapshot) -> list[str]:
    return [claim.name for claim in snapshot.claims if waiting_replacements.may_launch(snapshot, claim.name)]


def test_claims_that_wait_are_launched_in_the_order_of_their_age() -> None:
    claims = (waits("b", 20), waits("a", 20), waits("c", 10))
    assert next_ones(seen(0, *claims)) == []
    assert next_ones(seen(1, *claims)) == ["c"]
    assert next_ones(seen(2, *claims)) == ["a", "c"]
    assert next_ones(seen(3, *claims)) == ["b", "a", "c"]


def test_a_claim_whose_instance_is_there_is_not_launched_and_keeps_no_other_waiting() -> None:
    node = machine("old", MEDIUM, slot="cr-1")
    first = waits("first", 1, waits_for_instance="id-old")
    assert next_ones(seen(2, first, waits("second"), instances=instances(node))) == ["second"]
    ending = tuple(replace(one, state=InstanceState.ENDING) for one in instances(node))
    assert next_ones(seen(2, first, instances=ending)) == []
    gone = tuple(replace(one, state=InstanceState.GONE) for one in instances(node))
    assert next_ones(seen(1, first, instances=gone)) == ["first"]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"waits_for_instance": None}, []),  # it is about to be launched
        ({"waits_for_instance": None, "deleting": True}, ["new"]),
        ({"waits_for_instance": None, "reservation_id": "cr-2"}, ["new"]),
        ({"launched_s": NOW_S}, []),  # the count does not show it
        ({"launched_s": NOW_S - 1}, ["new"]),
        ({"created_s": 1, "reservation_id": "cr-2"}, ["new", "other"]),  # each has a slot of its own
        ({"created_s": 1, "deleting": True}, ["new"]),
        ({"created_s": 1, "launched_s": 5}, ["new"]),
    ],
)
def test_slots_of_other_claims_come_off_the_count(other: dict[str, Any], expected: list[str]) -> None:
    assert next_ones(seen(1, waits("new"), waits("other", **other))) == expected


def test_a_slot_is_taken_when_more_claims_wait_than_the_count_has_slots() -> None:
    first, second = waits("a"), waits("b")
    assert waiting_replacements.taken(seen(0, first), "cr-1") == first
    assert waiting_replacements.taken(seen(1, first), "cr-1") is None
    assert waiting_replacements.taken(seen(1, first, second), "cr-1") == first
    assert waiting_replacements.taken(seen(0, first), "cr-2") is None
    assert waiting_replacements.taken(seen(0), "cr-1") is None
    assert (
        waiting_replacements.taken(seen(0, waits("a", reservation_id="cr-9")), "cr-9") is not None
    )  # the cloud lists it no more


def waited(
    waited_s: int, *, available: int = 0, only_reserved: bool = True, read_s: int = NOW_S
) -> DisruptionInput:
    kept = (reservation("cr-1", MEDIUM, available=available, total=4),)
    allowed = (RESERVED_ONLY,) if only_reserved else ()
    return world(
        reservations=kept,
        pools=[pool("default", catalog(kept), *allowed)],
        claims=(waits("a", instance_gone_s=NOW_S - waited_s),),
        counts_read_s=read_s,
    )


@pytest.mark.parametrize(
    ("asked", "ends"),
    [
        (waited(BOUND_S - 1), False),
        (waited(BOUND_S), True),
        (waited(BOUND_S, available=1), False),  # the slot is free: a launch may have failed
        (waited(2 * BOUND_S - 1, available=1), False),
        (waited(2 * BOUND_S, available=1), True),
        (waited(LAG_S - 1, only_reserved=False), False),  # the count may be older than the release
        (waited(LAG_S, only_reserved=False), True),
        (waited(LAG_S, only_reserved=False, read_s=NOW_S - 1), False),
        (waited(LAG_S, only_reserved=False, available=1), False),
    ],
)
def test_a_wait_ends_at_its_bound_or_when_the_slot_is_certainly_taken(
    asked: DisruptionInput, *, ends: bool
) -> None:
    assert [one.claim for one in waiting_replacements.overdue(asked, BOUND_S, LAG_S)] == (
        ["a"] if ends else []
    )


@pytest.mark.parametrize("kind", [names.ON_DEMAND, names.SPOT])
def test_either_capacity_type_beside_reserved_ends_the_wait_early(kind: str) -> None:
    asked = waited(LAG_S)
    (known,) = asked.snapshot.node_pools
    mixed = pool("default", known.instance_types, is_in(names.CAPACITY_TYPE, names.RESERVED, kind))
    of_two = (pool("other", known.instance_types, RESERVED_ONLY), mixed)
    assert waiting_replacements.overdue(
        replace(asked, snapshot=replace(asked.snapshot, node_pools=of_two)), BOUND_S, LAG_S
    )
    deleted = replace(asked, snapshot=replace(asked.snapshot, node_pools=()))
    assert waiting_replacements.overdue(deleted, BOUND_S, LAG_S) == ()
