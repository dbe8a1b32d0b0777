"""Reservations of the simulated EC2: counts, windows, ends, matching instances, and sharing between accounts."""

from typing import Any

import pytest

from ec2_region import HOUR_S, MINUTE_S, OTHER, START_S, ZONES, Region, config, errors
from holdfast.sim.ec2 import control
from holdfast.sim.ec2.entities import Instance, Reservation
from holdfast.sim.ec2.setup import ACCOUNT

DAY_S = 24 * HOUR_S
NONE = {"CapacityReservationPreference": "none"}


def detail_types(region: Region) -> list[str]:
    return [e["detail-type"] for e in region.events if "State-change" not in e["detail-type"]]


def launch_into(region: Region, reservation: Reservation, count: int = 1, market: str = "") -> list[Instance]:
    template = region.targeting(reservation, market=market)
    pool = f"{reservation.instance_type}/{zone_letter(reservation)}"
    kind = {"": "on-demand", "capacity-block": "capacity-block"}.get(market, "reserved-capacity")
    options: dict[str, Any] = (
        {"ReservedCapacityOptions": {"ReservationTypes": [market]}} if kind == "reserved-capacity" else {}
    )
    return region.launched(region.fleet(config(template, pool), count=count, kind=kind, **options))


def zone_letter(reservation: Reservation) -> str:
    return next(letter for letter, zone_id in ZONES.items() if zone_id == reservation.zone_id)


def block(region: Region, *, starts_in_s: int = 0, lasts_s: int = DAY_S, **fields: Any) -> Reservation:
    start_s = region.clock.now_s() + starts_in_s
    return region.reserve(
        "p5.48xlarge", "b", kind="capacity-block", criteria="targeted", start_s=start_s, end_s=start_s + lasts_s, **fields
    )  # fmt: skip


# --- Counts -----------------------------------------------------------------------------------------


@pytest.mark.fact("aws-15.3")
def test_a_slot_is_used_at_launch_and_free_only_after_termination_and_the_release_lag() -> None:
    region = Region(boot_s=10, shutdown_s=40, release_lag_s=25)
    reservation = region.reserve(criteria="targeted")
    (instance,) = launch_into(region, reservation)
    assert region.available(reservation) == 1
    region.wait(60)
    region.call("TerminateInstances", InstanceIds=[instance.id])
    assert region.available(reservation) == 1
    region.wait(40)
    assert region.state.instances[instance.id].state == "terminated"
    assert region.available(reservation) == 1
    region.wait(24)
    assert region.available(reservation) == 1
    region.wait(1)
    assert region.available(reservation) == 2


def test_slots_used_elsewhere_are_not_available() -> None:
    region = Region()
    reservation = region.reserve(total=5, elsewhere=2)
    assert region.available(reservation) == 3
    control.take(region.state, reservation.id, 9)
    assert region.available(reservation) == 0
    control.give(region.state, reservation.id, 1)
    assert region.available(reservation) == 1


@pytest.mark.fact("aws-15.2")
def test_a_stale_read_returns_an_earlier_count() -> None:
    region = Region(stale_s=30)
    reservation = region.reserve(criteria="targeted")
    region.wait(100)
    launch_into(region, reservation)
    assert region.available(reservation) == 2
    region.wait(29)
    assert region.available(reservation) == 2
    region.wait(1)
    assert region.available(reservation) == 1


def test_a_new_reservation_is_pending_and_then_active() -> None:
    region = Region(reservation_pending_s=120)
    made = region.call(
        "CreateCapacityReservation",
        InstanceType="m5.large",
        InstancePlatform="Linux/UNIX",
        AvailabilityZone="us-west-2a",
        InstanceCount=3,
    )["CapacityReservation"]
    assert (made["State"], made["InstanceMatchCriteria"], made["EndDateType"]) == (
        "pending",
        "open",
        "unlimited",
    )
    region.wait(120)
    reservation = region.state.reservations[made["CapacityReservationId"]]
    assert region.described(reservation)["State"] == "active"


def test_a_reservation_cannot_shrink_below_its_used_slots() -> None:
    region = Region()
    reservation = region.reserve(total=3)
    region.launch(2)
    refused = region.refusal(
        "ModifyCapacityReservation", CapacityReservationId=reservation.id, InstanceCount=1
    )
    assert refused.code == "InvalidParameterValue"
    region.call("ModifyCapacityReservation", CapacityReservationId=reservation.id, InstanceCount=2)
    assert region.available(reservation) == 0


# --- Ends -------------------------------------------------------------------------------------------


@pytest.mark.fact("Q-38", "aws-15.2")
def test_instances_of_an_expired_reservation_continue_as_on_demand() -> None:
    region = Region(expiry_lag_s=300)
    reservation = region.reserve(criteria="targeted", end_s=START_S + HOUR_S)
    (instance,) = launch_into(region, reservation)
    region.wait(HOUR_S + 299)
    assert region.state.instances[instance.id].reservation_id == reservation.id
    region.wait(1)
    assert region.described(reservation)["State"] == "expired"
    assert region.described(reservation)["AvailableInstanceCount"] == 0
    now = region.state.instances[instance.id]
    assert (now.state, now.reservation_id) == ("running", "")
    assert "EC2 Capacity Reservation Expired" in detail_types(region)
    charge = region.state.ledger.open[instance.id]
    assert (charge.kind, charge.from_s) == ("on-demand", START_S + HOUR_S + 300)


def test_a_cancelled_reservation_releases_its_instances_and_accepts_no_launch() -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted")
    (instance,) = launch_into(region, reservation)
    region.call("CancelCapacityReservation", CapacityReservationId=reservation.id)
    (answer,) = region.call("DescribeInstances", InstanceIds=[instance.id])["Reservations"]
    assert "CapacityReservationId" not in answer["Instances"][0]
    again = region.fleet(config(region.targeting(reservation), "m5.large/a"))
    assert errors(again) == [("m5.large/a", "InvalidCapacityReservationState")]


def test_a_releasing_slot_is_not_freed_in_a_cancelled_reservation() -> None:
    region = Region(release_lag_s=100)
    reservation = region.reserve(criteria="targeted")
    (instance,) = launch_into(region, reservation)
    region.call("TerminateInstances", InstanceIds=[instance.id])
    region.call("CancelCapacityReservation", CapacityReservationId=reservation.id)
    region.wait(HOUR_S)
    assert region.available(reservation) == 0


@pytest.mark.fact("Q-38", "aws-15.2")
@pytest.mark.parametrize(("ultraserver", "lead_minutes"), [(False, 30), (True, 60)])
def test_ec2_reclaims_a_capacity_block_before_its_end(ultraserver: bool, lead_minutes: int) -> None:  # noqa: FBT001
    region = Region()
    reservation = block(region, ultraserver=ultraserver)
    (instance,) = launch_into(region, reservation, market="capacity-block")
    assert instance.lifecycle == "capacity-block"
    region.wait(DAY_S - lead_minutes * MINUTE_S - 1)
    assert region.state.instances[instance.id].state == "running"
    region.wait(1)
    assert region.state.instances[instance.id].state == "shutting-down"
    late = region.fleet(
        config(region.targeting(reservation, market="capacity-block"), "p5.48xlarge/b"), kind="capacity-block"
    )
    assert errors(late) == [("p5.48xlarge/b", "InsufficientInstanceCapacity")]
    region.wait(lead_minutes * MINUTE_S)
    assert region.described(reservation)["State"] == "expired"


def test_the_expiration_warning_of_a_capacity_block_is_sent_40_minutes_before_its_end() -> None:
    region = Region()
    reservation = block(region)
    region.wait(DAY_S - 40 * MINUTE_S - 1)
    assert "Capacity Block Expiration Warning" not in detail_types(region)
    region.wait(1)
    warning = region.events[-1]
    assert warning["detail-type"] == "Capacity Block Expiration Warning"
    assert warning["source"] == "aws.ec2"
    assert warning["account"] == ACCOUNT
    assert warning["detail"]["capacity-reservation-id"] == reservation.id


def test_an_extended_capacity_block_is_reclaimed_only_before_its_new_end() -> None:
    region = Region()
    reservation = block(region)
    (instance,) = launch_into(region, reservation, market="capacity-block")
    region.wait(DAY_S - HOUR_S)
    control.set_end(region.state, reservation.id, reservation.end_s + DAY_S)
    region.wait(DAY_S)
    assert region.state.instances[instance.id].state == "running"
    region.wait(30 * MINUTE_S)
    assert region.state.instances[instance.id].state == "shutting-down"


def test_a_capacity_block_cannot_be_launched_into_before_it_starts() -> None:
    region = Region()
    reservation = block(region, starts_in_s=HOUR_S)
    template = region.targeting(reservation, market="capacity-block")
    early = region.fleet(config(template, "p5.48xlarge/b"), kind="capacity-block")
    assert region.described(reservation)["State"] == "scheduled"
    assert errors(early) == [("p5.48xlarge/b", "InsufficientInstanceCapacity")]
    region.wait(HOUR_S)
    assert "Capacity Block Delivered" in detail_types(region)
    assert len(region.launched(region.fleet(config(template, "p5.48xlarge/b"), kind="capacity-block"))) == 1


def test_a_capacity_block_cannot_be_cancelled_or_modified() -> None:
    region = Region()
    reservation = block(region)
    by_id: dict[str, Any] = {"CapacityReservationId": reservation.id}
    assert region.refusal("CancelCapacityReservation", **by_id).code == "UnsupportedOperation"
    assert (
        region.refusal("ModifyCapacityReservation", InstanceCount=9, **by_id).code == "UnsupportedOperation"
    )


def test_a_clock_jump_of_a_week_emits_all_events_in_order_with_their_own_times() -> None:
    region = Region()
    reservation = block(region, starts_in_s=HOUR_S)
    region.wait(7 * DAY_S)
    stamps = [(e["time"], e["detail-type"]) for e in region.events]
    assert [name for _, name in stamps] == [
        "Capacity Block Delivered",
        "Capacity Block Expiration Warning",
        "EC2 Capacity Reservation Expired",
    ]
    assert stamps == sorted(stamps)
    assert stamps[0][0] == "2027-01-15T09:00:00Z"
    assert region.described(reservation)["State"] == "expired"


def test_a_clock_that_jumps_back_reverts_no_state() -> None:
    region = Region()
    reservation = region.reserve(end_s=START_S + HOUR_S)
    region.wait(2 * HOUR_S)
    region.wait(-2 * HOUR_S)
    assert region.described(reservation)["State"] == "expired"
    assert region.state.now_s == START_S + 2 * HOUR_S


@pytest.mark.parametrize(
    "state", ["assessing", "delayed", "payment-pending", "payment-failed", "unavailable", "failed"]
)
def test_nothing_is_launched_into_a_reservation_that_is_not_active(state: str) -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted", state=state)
    answer = region.fleet(config(region.targeting(reservation), "m5.large/a"))
    assert errors(answer) == [("m5.large/a", "InvalidCapacityReservationState")]
    assert region.described(reservation)["State"] == state


def test_a_change_of_state_emits_an_event() -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted", state="assessing")
    for state in ("scheduled", "delayed", "active"):
        control.set_state(region.state, reservation.id, state)
    assert detail_types(region) == [
        "EC2 Capacity Reservation Scheduled",
        "EC2 Capacity Reservation Delayed",
        "EC2 Capacity Reservation Active",
    ]


# --- Interruptible ----------------------------------------------------------------------------------


def allocate_interruptible(region: Region, total: int, count: int) -> tuple[Reservation, Reservation]:
    source = region.reserve(criteria="targeted", total=total)
    region.call(
        "CreateInterruptibleCapacityReservationAllocation",
        CapacityReservationId=source.id,
        InstanceCount=count,
    )
    allocation = region.described(source)["InterruptibleCapacityAllocation"]
    return source, region.state.reservations[allocation["InterruptibleCapacityReservationId"]]


def test_an_interruptible_allocation_moves_slots_from_the_source_to_a_new_reservation() -> None:
    region = Region()
    source, interruptible = allocate_interruptible(region, total=5, count=3)
    assert (region.available(source), region.available(interruptible)) == (2, 3)
    shown = region.described(interruptible)
    assert shown["Interruptible"] is True
    assert shown["InterruptionInfo"]["SourceCapacityReservationId"] == source.id


@pytest.mark.fact("aws-15.4")
def test_source_and_interruptible_reservation_cannot_be_cancelled_during_an_allocation() -> None:
    region = Region()
    source, interruptible = allocate_interruptible(region, total=2, count=1)
    assert (
        region.refusal("CancelCapacityReservation", CapacityReservationId=interruptible.id).code
        == "UnsupportedOperation"
    )
    for operation in ("CancelCapacityReservation", "ModifyCapacityReservation"):
        refused = region.refusal(operation, CapacityReservationId=source.id)
        assert refused.code == "InvalidCapacityReservationState"
    region.call(
        "UpdateInterruptibleCapacityReservationAllocation",
        CapacityReservationId=source.id,
        TargetInstanceCount=0,
    )
    region.call("CancelCapacityReservation", CapacityReservationId=source.id)
    assert region.described(source)["State"] == "cancelled"


def test_the_newest_interruptible_instance_is_reclaimed_first() -> None:
    region = Region()
    source, interruptible = allocate_interruptible(region, total=2, count=2)
    market = "interruptible-capacity-reservation"
    (old,) = launch_into(region, interruptible, market=market)
    region.wait(60)
    (new,) = launch_into(region, interruptible, market=market)
    region.call(
        "UpdateInterruptibleCapacityReservationAllocation",
        CapacityReservationId=source.id,
        TargetInstanceCount=1,
    )
    region.wait(121)
    states = [region.state.instances[i.id].state for i in (old, new)]
    assert states == ["running", "shutting-down"]


def test_an_interruptible_allocation_can_grow_up_to_the_total_of_its_source() -> None:
    region = Region()
    source, interruptible = allocate_interruptible(region, total=5, count=1)
    more: dict[str, Any] = {"CapacityReservationId": source.id, "TargetInstanceCount": 4}
    region.call("UpdateInterruptibleCapacityReservationAllocation", **more)
    assert (region.available(source), region.available(interruptible)) == (1, 4)
    more["TargetInstanceCount"] = 6
    refused = region.refusal("UpdateInterruptibleCapacityReservationAllocation", **more)
    assert refused.code == "InvalidParameterValue"


@pytest.mark.fact("aws-15.2", "aws-15.4")
def test_interruptible_slots_are_reclaimed_two_minutes_after_a_warning() -> None:
    region = Region(shutdown_s=10, release_lag_s=5)
    source, interruptible = allocate_interruptible(region, total=2, count=2)
    (instance,) = launch_into(region, interruptible, market="interruptible-capacity-reservation")
    assert instance.lifecycle == "interruptible-capacity-reservation"
    region.wait(MINUTE_S)
    region.call(
        "UpdateInterruptibleCapacityReservationAllocation",
        CapacityReservationId=source.id,
        TargetInstanceCount=0,
    )
    # The free slot is returned at once.
    assert (region.available(source), region.available(interruptible)) == (1, 0)
    warning = next(e for e in region.events if "Interruption Warning" in e["detail-type"])
    assert warning["detail-type"] == "EC2 Capacity Reservation Instance Interruption Warning"
    assert warning["detail"]["instance-id"] == instance.id
    assert warning["detail"]["instance-termination-time"] == "2027-01-15T08:03:00Z"
    region.wait(119)
    assert region.state.instances[instance.id].state == "running"
    region.wait(1)
    assert region.state.instances[instance.id].state == "shutting-down"
    region.wait(15)
    assert region.available(source) == 2
    assert region.described(interruptible)["State"] == "cancelled"
    assert (
        detail_types(region)[-1] == "EC2 Interruptible Capacity Reservation Allocation Reclamation Completed"
    )


# --- Matching instances -----------------------------------------------------------------------------


def test_a_running_instance_joins_an_open_reservation_that_is_created_later() -> None:
    region = Region()
    matching, opted_out = region.launch()[0], region.launch(CapacityReservationSpecification=NONE)[0]
    region.wait(MINUTE_S)
    reservation = region.reserve(total=5)
    targeted = region.reserve(total=5, criteria="targeted")
    assert region.state.instances[matching.id].reservation_id == reservation.id
    assert region.state.instances[opted_out.id].reservation_id == ""
    assert (region.available(reservation), region.available(targeted)) == (4, 5)


def test_a_running_spot_instance_joins_no_reservation() -> None:
    region = Region()
    (spot,) = region.launched(region.fleet(config(region.template(), "m5.large/a"), kind="spot"))
    region.wait(MINUTE_S)
    reservation = region.reserve()
    assert region.state.instances[spot.id].reservation_id == ""
    assert region.available(reservation) == 2


@pytest.mark.parametrize(
    "different",
    [
        {"instance_type": "m5.xlarge"},
        {"zone": "b"},
        {"platform": "Windows"},
        {"tenancy": "dedicated"},
        {"owner": OTHER},
        {"state": "pending", "start_s": START_S + HOUR_S},
    ],
)
def test_an_instance_joins_only_a_reservation_that_matches_in_every_attribute(
    different: dict[str, Any],
) -> None:
    region = Region()
    reservation = region.reserve(**different)
    (instance,) = region.launch()
    assert instance.reservation_id == ""
    assert region.state.reservations[reservation.id].available == 2


def test_an_instance_of_a_full_resource_group_moves_into_a_reservation_added_to_the_group() -> None:
    region = Region()
    full = region.reserve(criteria="targeted", total=1, elsewhere=1)
    group = control.add_group(region.state, account=ACCOUNT, name="web", members=(full.id,))
    target = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": group.id}}
    (instance,) = region.launch(CapacityReservationSpecification=target)
    assert instance.reservation_id == ""  # overflow runs on-demand
    more = region.reserve(criteria="targeted")
    assert region.state.instances[instance.id].reservation_id == ""
    control.add_to_group(region.state, group.id, more.id)
    assert region.state.instances[instance.id].reservation_id == more.id
    listed = region.call("GetGroupsForCapacityReservation", CapacityReservationId=more.id)
    assert listed["CapacityReservationGroups"] == [{"GroupArn": group.id, "OwnerId": ACCOUNT}]


def test_instances_of_a_cancelled_reservation_move_to_another_one_of_their_resource_group() -> None:
    region = Region()
    one, two = region.reserve(criteria="targeted"), region.reserve(criteria="targeted")
    group = control.add_group(region.state, account=ACCOUNT, name="web", members=(one.id, two.id))
    target = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": group.id}}
    (instance,) = region.launch(CapacityReservationSpecification=target)
    assert instance.reservation_id == one.id
    region.call("CancelCapacityReservation", CapacityReservationId=one.id)
    assert region.state.instances[instance.id].reservation_id == two.id


def test_a_resource_group_with_reservations_only_never_overflows_to_on_demand() -> None:
    region = Region()
    full = region.reserve(criteria="targeted", total=1, elsewhere=1)
    group = control.add_group(region.state, account=ACCOUNT, name="web", members=(full.id,))
    only = {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationResourceGroupArn": group.id},
    }
    template = region.template(CapacityReservationSpecification=only)
    answer = region.fleet(config(template, "m5.large/a"))
    assert errors(answer) == [("m5.large/a", "ReservationCapacityExceeded")]


def test_a_reservation_becomes_open_only_when_empty_and_then_gets_matching_instances() -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted")
    (inside,) = launch_into(region, reservation)
    (outside,) = region.launch()
    params = {"CapacityReservationId": reservation.id, "InstanceMatchCriteria": "open"}
    assert region.refusal("ModifyCapacityReservation", **params).code == "InvalidCapacityReservationState"
    region.call("TerminateInstances", InstanceIds=[inside.id])
    region.wait(HOUR_S)
    region.call("ModifyCapacityReservation", **params)
    assert region.state.instances[outside.id].reservation_id == reservation.id


# --- Sharing between accounts -----------------------------------------------------------------------


def test_another_account_describes_a_shared_reservation_with_its_own_zone_name() -> None:
    region = Region()
    reservation = region.reserve(tags={"team": "ml"})
    params = {"CapacityReservationIds": [reservation.id]}
    missing = region.refusal("DescribeCapacityReservations", OTHER, **params)
    assert missing.code == "InvalidCapacityReservationId.NotFound"
    control.share(region.state, reservation.id, OTHER)
    ours, theirs = region.described(reservation), region.described(reservation, OTHER)
    assert ours["AvailabilityZoneId"] == theirs["AvailabilityZoneId"] == "usw2-az2"
    assert (ours["AvailabilityZone"], theirs["AvailabilityZone"]) == ("us-west-2a", "us-west-2d")
    assert theirs["OwnerId"] == ACCOUNT
    assert (ours["Tags"], theirs["Tags"]) == ([{"Key": "team", "Value": "ml"}], [])


def test_accounts_that_share_a_reservation_share_its_slots_and_read_their_own_usage() -> None:
    region = Region()
    reservation = region.reserve(criteria="targeted", total=3, shared_with=(OTHER,))
    launch_into(region, reservation)
    template = region.targeting(reservation, account=OTHER)
    (theirs,) = region.launched(region.fleet(config(template, "m5.large/d"), account=OTHER))
    assert region.available(reservation) == 1
    owner_usage = region.call("GetCapacityReservationUsage", CapacityReservationId=reservation.id)
    other_usage = region.call("GetCapacityReservationUsage", OTHER, CapacityReservationId=reservation.id)
    assert [u["AccountId"] for u in owner_usage["InstanceUsages"]] == [ACCOUNT, OTHER]
    assert other_usage["InstanceUsages"] == [{"AccountId": OTHER, "UsedInstanceCount": 1}]
    control.share(region.state, reservation.id)
    assert region.state.instances[theirs.id].reservation_id == ""
    assert region.available(reservation) == 2


def test_only_the_owner_can_cancel_a_reservation() -> None:
    region = Region()
    reservation = region.reserve(shared_with=(OTHER,))
    refused = region.refusal("CancelCapacityReservation", OTHER, CapacityReservationId=reservation.id)
    assert (refused.code, refused.status) == ("UnauthorizedOperation", 403)
    assert region.described(reservation)["State"] == "active"
