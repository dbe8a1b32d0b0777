"""NodeClaims that wait for a slot: which of them may launch, and which waited too long."""

from dataclasses import replace
from typing import Any

import pytest

from disruption_builders import MEDIUM, NOW_S, catalog, disruption_input, instances, managed_node
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
    """A NodeClaim that waits for the slot of a terminated instance."""
    known: dict[str, Any] = {"reservation_id": "cr-1", "waits_for_instance": f"i-{name}"} | more
    return ClaimView(name, "default", NO_REQUIREMENTS, created_s, **known)


def snapshot_with(available: int, *claims: ClaimView, **more: Any) -> Snapshot:
    reservations = (reservation("cr-1", MEDIUM, available=available, total=4), reservation("cr-2", MEDIUM))
    return disruption_input(reservations=reservations, claims=claims, **more).snapshot


def launchable(snapshot: Snapshot) -> list[str]:
    return [claim.name for claim in snapshot.claims if waiting_replacements.may_launch(snapshot, claim.name)]


def test_waiting_claims_launch_oldest_first() -> None:
    claims = (waits("b", 20), waits("a", 20), waits("c", 10))
    assert launchable(snapshot_with(0, *claims)) == []
    assert launchable(snapshot_with(1, *claims)) == ["c"]
    assert launchable(snapshot_with(2, *claims)) == ["a", "c"]
    assert launchable(snapshot_with(3, *claims)) == ["b", "a", "c"]


def test_only_unlaunched_claims_that_name_an_instance_wait() -> None:
    claims = (
        waits("waits"),
        waits("ordinary", waits_for_instance=None),
        waits("launched", launched_s=20),
        waits("deleting", deleting=True),
    )
    assert [one.name for one in waiting_replacements.waiting(snapshot_with(1, *claims))] == ["waits"]


def test_claim_whose_instance_still_exists_does_not_launch_and_blocks_no_other_claim() -> None:
    node = managed_node("old", MEDIUM, slot="cr-1")
    first = waits("first", 1, waits_for_instance="id-old")
    assert launchable(snapshot_with(2, first, waits("second"), instances=instances(node))) == ["second"]
    ending = tuple(replace(one, state=InstanceState.ENDING) for one in instances(node))
    assert launchable(snapshot_with(2, first, instances=ending)) == []
    terminated = tuple(replace(one, state=InstanceState.GONE) for one in instances(node))
    assert launchable(snapshot_with(1, first, instances=terminated)) == ["first"]


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ({"waits_for_instance": None}, []),  # it does not wait and launches first
        ({"waits_for_instance": None, "deleting": True}, ["new"]),
        ({"waits_for_instance": None, "reservation_id": "cr-2"}, ["new"]),
        ({"launched_s": NOW_S}, []),  # the count does not include this launch
        ({"launched_s": NOW_S - 1}, ["new"]),
        ({"created_s": 1, "reservation_id": "cr-2"}, ["new", "other"]),  # each has its own reservation
        ({"created_s": 1, "deleting": True}, ["new"]),
        ({"created_s": 1, "launched_s": 5}, ["new"]),
    ],
)
def test_slots_of_other_claims_are_subtracted_from_the_count(
    other: dict[str, Any], expected: list[str]
) -> None:
    assert launchable(snapshot_with(1, waits("new"), waits("other", **other))) == expected


def test_slot_is_taken_if_more_claims_wait_than_slots_are_free() -> None:
    first, second = waits("a"), waits("b")
    assert waiting_replacements.taken(snapshot_with(0, first), "cr-1") == first
    assert waiting_replacements.taken(snapshot_with(1, first), "cr-1") is None
    assert waiting_replacements.taken(snapshot_with(1, first, second), "cr-1") == first
    assert waiting_replacements.taken(snapshot_with(0, first), "cr-2") is None
    of_another = waits("z", reservation_id="cr-2")
    assert waiting_replacements.taken(snapshot_with(0, first, of_another), "cr-2") is None
    assert waiting_replacements.taken(snapshot_with(0), "cr-1") is None
    assert (
        waiting_replacements.taken(snapshot_with(0, waits("a", reservation_id="cr-9")), "cr-9") is not None
    )  # EC2 no longer lists the reservation


def cluster_after(
    waited_s: int, *, available: int = 0, only_reserved: bool = True, read_s: int = NOW_S
) -> DisruptionInput:
    reservations = (reservation("cr-1", MEDIUM, available=available, total=4),)
    allowed = (RESERVED_ONLY,) if only_reserved else ()
    return disruption_input(
        reservations=reservations,
        pools=[pool("default", catalog(reservations), *allowed)],
        claims=(waits("a", instance_gone_s=NOW_S - waited_s),),
        counts_read_s=read_s,
    )


@pytest.mark.parametrize(
    ("cluster", "ends"),
    [
        (cluster_after(BOUND_S - 1), False),
        (cluster_after(BOUND_S), True),
        (cluster_after(BOUND_S, available=1), False),  # the slot is free: a launch may have failed
        (cluster_after(2 * BOUND_S - 1, available=1), False),
        (cluster_after(2 * BOUND_S, available=1), True),
        (cluster_after(LAG_S - 1, only_reserved=False), False),  # the count may be older than the release
        (cluster_after(LAG_S, only_reserved=False), True),
        (cluster_after(LAG_S, only_reserved=False, read_s=NOW_S - 1), False),
        (cluster_after(LAG_S, only_reserved=False, available=1), False),
    ],
)
def test_a_wait_ends_at_its_bound_or_when_the_slot_is_certainly_taken(
    cluster: DisruptionInput, *, ends: bool
) -> None:
    assert [one.claim for one in waiting_replacements.overdue(cluster, BOUND_S, LAG_S)] == (
        ["a"] if ends else []
    )


@pytest.mark.parametrize("capacity_type", [names.ON_DEMAND, names.SPOT])
def test_nodepool_that_allows_on_demand_or_spot_ends_the_wait_early(capacity_type: str) -> None:
    cluster = cluster_after(LAG_S)
    (known,) = cluster.snapshot.node_pools
    mixed = pool("default", known.instance_types, is_in(names.CAPACITY_TYPE, names.RESERVED, capacity_type))
    two_pools = (pool("other", known.instance_types, RESERVED_ONLY), mixed)
    assert waiting_replacements.overdue(
        replace(cluster, snapshot=replace(cluster.snapshot, node_pools=two_pools)), BOUND_S, LAG_S
    )
    deleted = replace(cluster, snapshot=replace(cluster.snapshot, node_pools=()))
    assert waiting_replacements.overdue(deleted, BOUND_S, LAG_S) == ()
