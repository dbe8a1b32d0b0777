"""The ledger: a slot is free only if EC2's count shows it as free, and a stale count never oversells."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from holdfast.core.reservations.ledger import Entry, count_before, ledger
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.requirements import NO_REQUIREMENTS
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import ClaimView, CloudLabels, CountBefore, Snapshot
from planner_builders import WELL_KNOWN, reservation

LAG_S = 120


def claim(name: str, **more: object) -> ClaimView:
    return ClaimView(name, "default", NO_REQUIREMENTS, 0, reservation_id="cr-1", **more)  # type: ignore[arg-type]


def instance(provider_id: str, state: InstanceState = InstanceState.RUNNING) -> Instance:
    return Instance(provider_id, "m5.large", "z1", "reserved", state, 0, reservation_id="cr-1")


def entry(
    of: Reservation,
    *claims: ClaimView,
    instances: tuple[Instance, ...] = (),
    now_s: int = 1000,
    read_s: int = 1000,
) -> Entry:
    snapshot = Snapshot(
        now_s,
        CloudLabels(WELL_KNOWN),
        claims=claims,
        reservations=(of,),
        instances=instances,
        counts_read_s=read_s,
    )
    return ledger(snapshot, LAG_S)["cr-1"]


@pytest.mark.fact("aws-3.9")
def test_slots_used_elsewhere_are_computed_from_the_count() -> None:
    found = entry(reservation("cr-1", "m5.large", available=3, total=10), instances=(instance("i-1"),))
    assert (found.used_here, found.used_elsewhere, found.held, found.free) == (1, 6, 0, 3)


@pytest.mark.fact("R-11")
def test_a_claim_that_is_not_launched_holds_its_slot() -> None:
    assert entry(reservation("cr-1", "m5.large", available=3, total=3), claim("a"), claim("b")).free == 1


@pytest.mark.fact("aws-3.2", "aws-3.4", "R-11", "AW-24", "aws-14.7")
@pytest.mark.parametrize(("launched_s", "free"), [(1001, 2), (1000, 2), (881, 2), (880, 3), (500, 3)])
def test_launch_is_subtracted_from_every_count_that_may_not_include_it(launched_s: int, free: int) -> None:
    of = reservation("cr-1", "m5.large", available=3, total=4)
    assert entry(of, claim("a", launched_s=launched_s, provider_id="i-1")).free == free


def test_launch_time_is_that_of_the_claim_if_ec2_reports_an_earlier_one() -> None:
    """EC2's clock may be behind ours. With its time the count would seem to be old enough to include the launch."""
    of = reservation("cr-1", "m5.large", available=3, total=4)
    listed = replace(instance("i-1"), launched_s=870)
    assert entry(of, claim("a", launched_s=890, provider_id="i-1"), instances=(listed,)).free == 2


def test_free_slots_are_never_negative() -> None:
    assert entry(reservation("cr-1", "m5.large", available=1, total=4), claim("a"), claim("b")).free == 0


@pytest.mark.fact("aws-3.5")
@pytest.mark.parametrize("state", [InstanceState.ENDING, InstanceState.GONE])
def test_slot_of_a_terminating_instance_is_releasing_and_not_free(state: InstanceState) -> None:
    found = entry(reservation("cr-1", "m5.large", available=0, total=1), instances=(instance("i-1", state),))
    assert (found.used_here, found.used_elsewhere, found.releasing, found.free) == (0, 0, 1, 0)


@pytest.mark.fact("R-14a")
def test_waiting_replacement_holds_the_slot_once_its_instance_is_terminated() -> None:
    of = reservation("cr-1", "m5.large", available=1, total=2)
    waiting = claim("replacement", waits_for_instance="i-1")
    assert entry(of, waiting, instances=(instance("i-1", InstanceState.ENDING),)).free == 1
    assert entry(of, waiting).free == 0


def test_deleting_claim_uses_its_slot_until_a_count_includes_its_launch() -> None:
    of = reservation("cr-1", "m5.large", available=1, total=1)
    deleting = claim("a", launched_s=950, provider_id="i-1", deleting=True)
    assert entry(of, deleting).free == 0
    assert entry(of, deleting, read_s=950 + LAG_S).free == 1


def test_deleting_claim_that_was_not_launched_holds_no_slot() -> None:
    assert entry(reservation("cr-1", "m5.large", available=1, total=2), claim("a", deleting=True)).free == 1


def test_upcoming_or_draining_reservation_has_no_free_slots() -> None:
    early = entry(reservation("cr-1", "m5.large", available=4, start_s=2000))
    assert (early.usable, early.free, early.upcoming) == (False, 0, 4)
    late = entry(reservation("cr-1", "m5.large", available=4, end_s=2000, drain_lead_s=1500))
    assert (late.usable, late.free, late.upcoming) == (False, 0, 0)


# --- The count before --------------------------------------------------------------------------------


def after(before: Mapping[str, CountBefore], available: int, *claims: ClaimView, read_s: int = 1010) -> Entry:
    """The entry for a count of `available` that was read after another count."""
    of = reservation("cr-1", "m5.large", available=available, total=6)
    snapshot = Snapshot(
        read_s,
        CloudLabels(WELL_KNOWN),
        claims=claims,
        reservations=(of,),
        counts_read_s=read_s,
        count_before=before,
    )
    return ledger(snapshot, LAG_S)["cr-1"]


def counted(free: dict[str, int]) -> dict[str, CountBefore]:
    """A count before that may have shown every slot as used by other accounts."""
    return {id_: CountBefore(1000, slots, 6) for id_, slots in free.items()}


def test_slot_of_a_launched_claim_is_not_subtracted_from_the_next_count() -> None:
    of = reservation("cr-1", "m5.large", available=2, total=6)
    launched = claim("a", launched_s=500, provider_id="i-1")
    snapshot = Snapshot(
        1000, CloudLabels(WELL_KNOWN), claims=(launched,), reservations=(of,), counts_read_s=1000
    )
    assert count_before(snapshot, LAG_S)["cr-1"].free == 2


def test_slot_of_a_claim_that_may_be_launching_is_not_free_in_the_next_count() -> None:
    of = reservation("cr-1", "m5.large", available=2, total=6)
    launching, other = claim("a"), replace(claim("b"), reservation_id="cr-2")
    snapshot = Snapshot(
        1000, CloudLabels(WELL_KNOWN), claims=(launching, other), reservations=(of,), counts_read_s=1000
    )
    before = count_before(snapshot, LAG_S)
    assert (before["cr-1"].read_s, before["cr-1"].free) == (1000, 1)
    launched = claim("a", launched_s=999, provider_id="i-1")  # neither count has to include this launch
    assert after(before, 2, launched).free == 1


def test_launch_is_not_subtracted_from_a_count_that_is_lower_than_the_one_before() -> None:
    launched = claim("a", launched_s=1000, provider_id="i-1")
    assert after(counted({"cr-1": 3}), 2, launched).free == 2  # 3 minus our launch: the count includes it
    assert after(counted({"cr-1": 3}), 3, launched).free == 2  # the count may not include it yet
    assert after(counted({"cr-2": 3}), 2, launched).free == 1  # the count before lacks this reservation
    since = claim("a", launched_s=1010, provider_id="i-1")
    assert after(counted({"cr-1": 3}), 2, since).free == 1  # launched after both counts


def test_new_leader_uses_the_count_of_the_claims() -> None:
    """Three slots were free, and two claims were launched into them. The count of 1 includes both."""
    launched = [claim(name, launched_s=1001, provider_id=f"i-{name}") for name in "ab"]
    assert after({}, 1, *launched).free == 0, "without a count before, both launches are in doubt"
    with_count = [replace(one, counted=CountBefore(1000, 3, 3)) for one in launched]
    assert after({}, 1, *with_count).free == 1
    assert after({}, 3, *with_count).free == 1, "the count includes neither"


def test_instance_without_a_claim_may_still_use_its_slot() -> None:
    """Its claim is deleted, and the count may be older than its launch."""
    launched = replace(claim("a", launched_s=1001, provider_id="i-a"), counted=CountBefore(1000, 3, 3))
    of = reservation("cr-1", "m5.large", available=3, total=6)
    ended = replace(instance("i-b", InstanceState.GONE), launched_s=1002)
    snapshot = Snapshot(
        1010,
        CloudLabels(WELL_KNOWN),
        claims=(launched,),
        reservations=(of,),
        counts_read_s=1010,
        instances=(ended,),
    )
    assert ledger(snapshot, LAG_S)["cr-1"].free == 2
    assert ledger(replace(snapshot, count_before=counted({"cr-1": 3})), LAG_S)["cr-1"].free == 2


@pytest.mark.parametrize(("here", "launched_s", "elsewhere"), [(2, 1001, 0), (0, 1001, 2), (2, 890, 2)])
def test_slots_that_our_instances_left_are_not_of_other_clusters(
    here: int, launched_s: int, elsewhere: int
) -> None:
    """Four slots were free, and two had our instances. A claim was launched, and both instances terminated. A new
    leader reads a count of 3, which includes the launch and still counts the two slots as used."""
    counted = CountBefore(889, 4, 0, here)
    launched = replace(claim("a", launched_s=launched_s, provider_id="i-a"), counted=counted)
    snapshot = Snapshot(
        1010,
        CloudLabels(WELL_KNOWN),
        claims=(launched,),
        reservations=(reservation("cr-1", "m5.large", available=3, total=6),),
        counts_read_s=1010,
    )
    assert count_before(snapshot, LAG_S)["cr-1"].elsewhere == elsewhere


def test_newest_count_of_the_claims_is_used_and_memory_before_it() -> None:
    older = replace(claim("a", launched_s=1001, provider_id="i-a"), counted=CountBefore(990, 3, 3))
    newer = replace(claim("b", launched_s=1006, provider_id="i-b"), counted=CountBefore(1005, 1, 5))
    assert after({}, 1, older, newer).free == 0
    assert after(counted({"cr-1": 3}), 1, older, newer).free == 1


@pytest.mark.parametrize("read_s", [1010 - 2 * LAG_S, 1010, 1020])
def test_count_of_a_claim_that_is_old_or_newer_than_the_current_one_is_not_used(read_s: int) -> None:
    launched = replace(claim("a", launched_s=1001, provider_id="i-a"), counted=CountBefore(read_s, 6, 0))
    assert after({}, 1, launched).free == 0


def test_slots_used_by_other_accounts_since_the_count_before_are_not_free() -> None:
    found = after(counted({"cr-1": 5}), 2)
    assert (found.held, found.free) == (0, 2)


def test_claims_and_instances_of_other_reservations_are_not_counted() -> None:
    of = reservation("cr-1", "m5.large", available=2, total=4)
    elsewhere = replace(instance("i-2"), reservation_id="cr-2")
    found = entry(of, replace(claim("b"), reservation_id="cr-2"), instances=(instance("i-1"), elsewhere))
    assert (found.used_here, found.used_elsewhere, found.held, found.free) == (1, 1, 0, 2)


def test_a_replacement_waits_only_for_its_own_instance() -> None:
    of = reservation("cr-1", "m5.large", available=1, total=3)
    waiting = claim("replacement", waits_for_instance="i-1")
    assert entry(of, waiting, instances=(instance("i-2"),)).free == 0
    assert entry(of, waiting, instances=(instance("i-1"), instance("i-2"))).free == 1
    assert entry(of, waiting, instances=(instance("i-1", InstanceState.GONE),)).free == 0


def test_slots_used_elsewhere_are_never_negative() -> None:
    of = reservation("cr-1", "m5.large", available=2, total=2)
    assert entry(of, instances=(instance("i-1"),)).used_elsewhere == 0


def test_ledger_is_computed_once_per_snapshot() -> None:
    one = Snapshot(
        taken_s=1000, cloud_labels=CloudLabels(WELL_KNOWN), reservations=(reservation("cr-1", "m5"),)
    )
    assert ledger(one, 30) is ledger(one, 30)
    held = replace(one, claims=(claim("new"),))
    assert (ledger(one, 30)["cr-1"].held, ledger(held, 30)["cr-1"].held) == (0, 1)


def test_slots_that_our_instances_released_recently_are_not_used_elsewhere() -> None:
    of = reservation("cr-1", "m5.large", available=0, total=3)
    gone = instance("i-1", InstanceState.GONE)
    found = entry(of, instances=(gone, instance("i-2")))
    assert (found.used_here, found.used_elsewhere, found.releasing, found.free) == (1, 1, 1, 0)


def test_launched_claim_uses_its_slot_before_its_instance_is_listed() -> None:
    of = reservation("cr-1", "m5.large", available=2, total=2)
    found = entry(of, claim("a", launched_s=1005, provider_id="i-a"), claim("b"))
    assert (found.used_here, found.waiting, found.held, found.free) == (1, 1, 2, 0)


def test_launched_claim_that_the_count_includes_is_not_used_elsewhere() -> None:
    of = reservation("cr-1", "m5.large", available=1, total=2)
    found = entry(of, claim("a", launched_s=1, provider_id="i-a"))
    assert (found.used_here, found.used_elsewhere, found.waiting, found.free) == (1, 0, 0, 1)
