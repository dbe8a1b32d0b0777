"""Launches into reservations, over the wire: the reservation, launch template and labels of the instance."""

import pytest

from aws_environment import ZONE_B, run
from builders import requirement
from holdfast import errors
from holdfast.model.instances import Instance
from holdfast.sim.ec2 import control, faults
from launch_environment import LaunchEnvironment, capacity_type

RESERVED = capacity_type("reserved")
DEDICATED = {"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["dedicated"]}
MINE = {"tags": {"team": "ml"}}
TAGS = {"team": "ml"}
DAY_S = 86_400


@pytest.fixture
def env() -> LaunchEnvironment:
    return LaunchEnvironment()


def labels(instance: Instance) -> dict[str, str]:
    """The labels of capacity type and reservation, without their prefix."""
    wanted = ("karpenter.sh/capacity-type", "karpenter.k8s.aws/capacity-reservation-")
    return {key.rpartition("/")[2]: value for key, value in instance.labels if key.startswith(wanted)}


def reservation_labels(
    reservation_id: str, kind: str = "default", interruptible: str = "false"
) -> dict[str, str]:
    return {
        "capacity-type": "reserved",
        "capacity-reservation-id": reservation_id,
        "capacity-reservation-type": kind,
        "capacity-reservation-interruptible": interruptible,
    }


def open_slots(env: LaunchEnvironment, reservation_id: str) -> int:
    """How many slots of a reservation the catalog offers now."""
    (instance_type,) = env.types(env.selecting(MINE), "m5.large")
    return sum(
        o.count for o in instance_type.offerings if o.reservation_id == reservation_id and o.launchable
    )


def targeted_reservations(env: LaunchEnvironment) -> list[str]:
    """The reservations that the last CreateFleet targets. Checks that it has each pair of type and zone once."""
    configs = env.fleets()[-1]["LaunchTemplateConfigs"]
    pairs = [
        (one["InstanceType"], one.get("AvailabilityZone") or one["SubnetId"])
        for config in configs
        for one in config["Overrides"]
    ]
    assert len(pairs) == len(set(pairs))
    by_name = {template.name: template.versions[0] for template in env.ec2.region.templates}
    names = [config["LaunchTemplateSpecification"]["LaunchTemplateName"] for config in configs]
    wanted = [by_name[name]["CapacityReservationSpecification"] for name in names]
    return sorted(one["CapacityReservationTarget"]["CapacityReservationId"] for one in wanted)


@pytest.mark.fact("Q-35", "Q-21")
def test_every_reservation_that_a_claim_lists_has_a_launch_template(env: LaunchEnvironment) -> None:
    listed = [env.reserve(total=1, tags=TAGS), env.reserve(total=1, tags=TAGS, zone_id=ZONE_B)]
    env.reserve("m5.xlarge", total=1, tags=TAGS)  # not listed
    ids = requirement("karpenter.k8s.aws/capacity-reservation-id", "In", *(one.id for one in listed))
    instance = env.one(env.selecting(MINE), RESERVED, ids)
    assert targeted_reservations(env) == sorted(one.id for one in listed)
    assert env.ec2_instance(instance).reservation_id in {one.id for one in listed}


@pytest.mark.fact("Q-23")
@pytest.mark.parametrize(("kind", "strategy"), [("reserved", "lowest-price"), ("on-demand", "prioritized")])
def test_fleets_have_no_usage_strategy(env: LaunchEnvironment, kind: str, strategy: str) -> None:
    env.reserve(total=1, tags=TAGS)
    env.one(env.selecting(MINE), capacity_type(kind))
    (fleet,) = env.fleets()
    assert fleet["OnDemandOptions"] == {"AllocationStrategy": strategy}
    assert "UsageStrategy" not in str(fleet)


# --- The six ways a claim can be launched -------------------------------------------------------------


@pytest.mark.fact("Q-11", "Q-20", "Q-21", "Q-34", "aws-5.10.1", "aws-5.10.2")
@pytest.mark.parametrize(
    "allowed", [("reserved",), ("reserved", "on-demand"), ("reserved", "spot", "on-demand")]
)
def test_claim_that_allows_reserved_is_launched_into_the_reservation(
    env: LaunchEnvironment, allowed: tuple[str, ...]
) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    instance = env.one(env.selecting(MINE), capacity_type(*allowed))
    ec2_instance = env.ec2_instance(instance)
    assert (ec2_instance.reservation_id, ec2_instance.lifecycle) == (slots.id, "")
    assert env.free(slots) == 1
    assert env.template(instance)["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": slots.id},
    }
    assert labels(instance) == reservation_labels(slots.id)
    assert (instance.reservation_id, instance.capacity_type) == (slots.id, "reserved")
    (described,) = env.described()
    assert labels(described) == labels(instance)


@pytest.mark.fact("aws-4.4.3", "aws-5.11.4", "Q-25", "Q-31")
def test_on_demand_claim_does_not_join_a_matching_open_reservation(env: LaunchEnvironment) -> None:
    """Row 5 of the appendix."""
    reservation = env.reserve(total=2, tags=TAGS, criteria="open")
    instance = env.one(env.selecting(MINE), capacity_type("on-demand"))
    assert env.ec2_instance(instance).reservation_id == ""
    assert env.free(reservation) == 2
    assert env.template(instance)["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "none"
    }
    assert labels(instance) == {"capacity-type": "on-demand"}
    assert [labels(each) for each in env.described()] == [{"capacity-type": "on-demand"}]


@pytest.mark.fact("Q-34", "aws-5.6.2")
def test_launch_into_a_capacity_block_has_its_market_type_and_labels(env: LaunchEnvironment) -> None:
    now_s = env.clock.now_s()
    block = env.reserve(
        "p5.48xlarge", total=1, tags=TAGS, kind="capacity-block", criteria="targeted", end_s=now_s + DAY_S
    )
    instance = env.one(env.selecting(MINE), RESERVED, types=("p5.48xlarge",))
    ec2_instance = env.ec2_instance(instance)
    assert (ec2_instance.reservation_id, ec2_instance.lifecycle) == (block.id, "capacity-block")
    assert env.template(instance)["InstanceMarketOptions"] == {"MarketType": "capacity-block"}
    assert labels(instance) == reservation_labels(block.id, "capacity-block")
    assert [labels(each) for each in env.described()] == [labels(instance)]


@pytest.mark.fact("Q-36", "Q-35")
def test_capacity_block_is_preferred_on_a_tie(env: LaunchEnvironment) -> None:
    now_s = env.clock.now_s()
    ordinary = env.reserve("p5.48xlarge", total=4, tags=TAGS)
    block = env.reserve(
        "p5.48xlarge",
        total=1,
        zone_id=ZONE_B,
        tags=TAGS,
        kind="capacity-block",
        criteria="targeted",
        end_s=now_s + DAY_S,
    )
    ids = requirement("karpenter.k8s.aws/capacity-reservation-id", "In", ordinary.id, block.id)
    instance = env.one(env.selecting(MINE), RESERVED, ids, types=("p5.48xlarge",))
    assert env.ec2_instance(instance).reservation_id == block.id
    assert targeted_reservations(env) == [block.id]  # reservations of different kinds never share a request
    assert (env.free(ordinary), env.free(block)) == (4, 0)


def test_launch_into_an_interruptible_reservation_has_its_lifecycle_and_labels(
    env: LaunchEnvironment,
) -> None:
    reservation = env.reserve(total=1, tags=TAGS, interruptible=True)
    instance = env.one(env.selecting(MINE), RESERVED)
    ec2_instance = env.ec2_instance(instance)
    assert (ec2_instance.reservation_id, ec2_instance.lifecycle) == (
        reservation.id,
        "interruptible-capacity-reservation",
    )
    assert labels(instance) == reservation_labels(reservation.id, interruptible="true")
    assert [labels(each) for each in env.described()] == [labels(instance)]


# --- The appendix, with the requests that Holdfast sends ----------------------------------------------


@pytest.mark.fact("Q-31", "Q-6", "Q-35")
def test_full_reservation_is_skipped_for_another_with_free_slots(env: LaunchEnvironment) -> None:
    """Row 3: both reservations have a template, and EC2 uses the one with a free slot."""
    small = env.reserve("m5.large", total=1, tags=TAGS)
    large = env.reserve("m5.xlarge", total=1, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, count=2)
    found = env.launch(requests)
    assert sorted(ec2_instance.reservation_id for ec2_instance in env.ec2_instances) == sorted(
        [small.id, large.id]
    )
    assert all(isinstance(each, Instance) for each in found)
    (fleet,) = env.fleets()
    assert len(fleet["LaunchTemplateConfigs"]) == 2


@pytest.mark.fact("Q-31", "Q-24", "Q-11")
def test_full_reservations_never_cause_an_on_demand_launch(env: LaunchEnvironment) -> None:
    """Row 3: the second claim gets an error."""
    slots = env.reserve(total=1, tags=TAGS)
    requests = env.requests(env.selecting(MINE), capacity_type("reserved", "on-demand"), count=2)
    first, second = env.launch(requests)
    assert isinstance(first, Instance)
    assert isinstance(second, errors.ReservationExhausted)
    assert second.reservation_ids == (slots.id,)
    assert [ec2_instance.reservation_id for ec2_instance in env.ec2_instances] == [slots.id]


@pytest.mark.fact("Q-31", "aws-14.4", "W-18", "aws-10.5.3")
def test_instance_of_a_class_without_terms_in_an_open_reservation_is_on_demand(
    env: LaunchEnvironment,
) -> None:
    """Row 4: EC2 puts the instance there, and the class does not select the reservation."""
    slots = env.reserve(total=2, criteria="open")
    instance = env.one(env.resolve(env.node_class()), capacity_type("on-demand"))
    assert env.ec2_instance(instance).reservation_id == slots.id
    (described,) = env.described()
    assert (described.capacity_type, described.reservation_id) == ("on-demand", slots.id)
    assert labels(described) == {"capacity-type": "on-demand"}


@pytest.mark.fact("Q-22", "Q-31")
def test_two_reservations_of_one_type_and_zone_do_not_fail_the_call(env: LaunchEnvironment) -> None:
    env.reserve(total=2, tags=TAGS)
    larger = env.reserve(total=5, tags=TAGS)
    instance = env.one(env.selecting(MINE), RESERVED)
    assert env.ec2_instance(instance).reservation_id == larger.id
    assert targeted_reservations(env) == [larger.id]


@pytest.mark.fact("AW-06")
def test_launch_into_a_reservation_of_dedicated_tenancy_is_dedicated(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, tags=TAGS, tenancy="dedicated")
    instance = env.one(env.selecting(MINE), RESERVED, DEDICATED)
    ec2_instance = env.ec2_instance(instance)
    assert (ec2_instance.reservation_id, ec2_instance.spec.tenancy) == (slots.id, "dedicated")
    assert dict(instance.labels)["karpenter.k8s.aws/instance-tenancy"] == "dedicated"


def test_claim_without_dedicated_tenancy_is_not_launched_into_a_dedicated_reservation(
    env: LaunchEnvironment,
) -> None:
    env.reserve(total=1, tags=TAGS, tenancy="dedicated")
    (found,) = env.launch(env.requests(env.selecting(MINE), RESERVED))
    assert type(found) is errors.InsufficientCapacity
    assert env.one(env.selecting(MINE), capacity_type("reserved", "on-demand")).reservation_id is None


# --- Slots ------------------------------------------------------------------------------------------


def test_a_claim_that_holds_a_slot_is_launched_into_it(env: LaunchEnvironment) -> None:
    cheap = env.reserve("m5.large", total=4, tags=TAGS)
    held = env.reserve("m5.xlarge", total=1, tags=TAGS)
    listed = requirement("karpenter.k8s.aws/capacity-reservation-id", "In", cheap.id, held.id)
    instance = env.one(env.selecting(MINE), RESERVED, listed, slot=held.id)
    assert env.ec2_instance(instance).reservation_id == held.id


@pytest.mark.fact("Q-24", "AW-04")
def test_launch_refused_once_while_slots_are_free_is_retried_immediately(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    node_class = env.selecting(MINE)
    requests = env.requests(node_class, capacity_type("reserved", "on-demand"), slot=slots.id)
    env.refuses()
    began_s = env.clock.monotonic_s()
    (found,) = env.launch(requests)
    assert isinstance(found, Instance)
    assert env.clock.monotonic_s() - began_s < 2
    assert [ec2_instance.reservation_id for ec2_instance in env.ec2_instances] == [slots.id]
    assert not env.discovery.hold_downs.held(env.clock.monotonic_s())


def test_reservation_that_refuses_in_spite_of_free_slots_is_held_down_for_a_minute(
    env: LaunchEnvironment,
) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, slot=slots.id)
    env.refuses(times=99)
    (found,) = env.launch(requests)
    assert type(found) is errors.Retryable
    assert len(env.fleets()) == 4
    assert env.ec2_instances == []
    assert not open_slots(env, slots.id)
    env.clock.advance(59)
    run(env.discovery.count_again())
    assert not open_slots(env, slots.id)
    env.clock.advance(1)
    assert open_slots(env, slots.id)


@pytest.mark.fact("AW-04", "aws-3.7")
def test_hold_down_ends_when_the_next_read_shows_a_free_slot(env: LaunchEnvironment) -> None:
    """A longer hold-down would leave a paid slot idle."""
    slots = env.reserve(total=2, tags=TAGS)
    node_class = env.selecting(MINE)
    requests = env.requests(node_class, RESERVED, slot=slots.id)
    control.take(env.ec2.region, slots.id, 2)
    assert isinstance(env.launch(requests)[0], errors.ReservationExhausted)
    assert not open_slots(env, slots.id)
    control.give(env.ec2.region, slots.id, 1)
    env.clock.advance(60)
    run(env.discovery.schedule.step())
    assert open_slots(env, slots.id)
    instance = env.one(node_class, RESERVED)
    assert env.ec2_instance(instance).reservation_id == slots.id


@pytest.mark.fact("Q-35")
def test_launch_immediately_falls_back_to_another_listed_reservation(env: LaunchEnvironment) -> None:
    """For a claim without a hold: of one type and zone, the first call targets only the one with the most free slots."""
    larger = env.reserve(total=3, tags=TAGS)
    other = env.reserve(total=1, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED)
    control.take(env.ec2.region, larger.id, 3)
    (found,) = env.launch(requests)
    assert isinstance(found, Instance)
    assert env.ec2_instance(found).reservation_id == other.id
    assert env.discovery.hold_downs.held(env.clock.monotonic_s()) == {larger.id}


@pytest.mark.fact("aws-3.6", "aws-5.11.2", "Q-24", "Q-43", "aws-14.6", "aws-2.5.3", "aws-5.8.6")
def test_full_reservation_is_held_down_and_does_not_make_on_demand_unavailable(
    env: LaunchEnvironment,
) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, slot=slots.id)
    control.take(env.ec2.region, slots.id, 2)
    (found,) = env.launch(requests)
    assert isinstance(found, errors.ReservationExhausted)
    assert found.reservation_ids == (slots.id,)
    now_s = env.clock.monotonic_s()
    assert env.discovery.hold_downs.held(now_s) == {slots.id}
    assert not env.discovery.unavailable.pools.members(now_s)


@pytest.mark.fact("M-7", "M-8")
def test_launches_and_refusals_are_counted_by_reservation_and_errors_by_method(
    env: LaunchEnvironment,
) -> None:
    full, free = env.reserve(total=1, tags=TAGS), env.reserve(total=1, tags=TAGS, zone_id=ZONE_B)
    node_class = env.selecting(MINE)
    requests = env.requests(node_class, RESERVED, slot=full.id)
    control.take(env.ec2.region, full.id, 1)
    assert isinstance(env.launch(requests)[0], errors.ReservationExhausted)
    env.one(node_class, RESERVED)
    count = env.records.total
    assert count("holdfast_reservation_launches_total", reservation=free.id) == 1
    assert count("holdfast_reservation_launches_total", reservation=full.id) == 0
    code = "ReservationCapacityExceeded"
    assert count("holdfast_reservation_launch_refusals_total", reservation=full.id, reason=code) >= 1
    failed = {"method": "Create", "provider": "aws", "error": "InsufficientCapacityError"}
    assert count("karpenter_cloudprovider_errors_total", **failed) == 1


@pytest.mark.fact("AW-07", "aws-14.6", "aws-5.8.6", "aws-5.8.7")
@pytest.mark.parametrize(
    "code", ["VcpuLimitExceeded", "InsufficientFreeAddressesInSubnet", "MaxFleetCountExceeded"]
)
def test_quota_and_subnet_errors_do_not_hold_down_the_reservation(env: LaunchEnvironment, code: str) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, slot=slots.id)
    env.refuses(code=code)
    (found,) = env.launch(requests)
    assert type(found) is errors.InsufficientCapacity
    assert not env.discovery.hold_downs.held(env.clock.monotonic_s())


def test_count_that_does_not_include_this_launch_yet_causes_no_retry(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, count=2, slot=slots.id)
    env.clock.advance(120)
    env.ec2.region.faults.add(faults.Stale(operation="DescribeCapacityReservations", lag_s=60))
    first, second = env.launch(requests)
    assert isinstance(first, Instance)
    assert isinstance(second, errors.ReservationExhausted)
    assert len(env.fleets()) == 1
    assert env.discovery.hold_downs.held(env.clock.monotonic_s()) == {slots.id}


def test_no_count_is_read_when_every_claim_has_its_instance(env: LaunchEnvironment) -> None:
    small = env.reserve("m5.large", total=1, tags=TAGS)
    env.reserve("m5.xlarge", total=2, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, count=2)
    control.take(env.ec2.region, small.id, 1)
    before = sum(call.operation == "DescribeCapacityReservations" for call in env.endpoint.log)
    assert all(isinstance(each, Instance) for each in env.launch(requests))
    after = sum(call.operation == "DescribeCapacityReservations" for call in env.endpoint.log)
    assert (after - before, len(env.fleets())) == (0, 1)


def test_launch_into_a_draining_capacity_block_is_not_retried(env: LaunchEnvironment) -> None:
    block = env.reserve(
        "p5.48xlarge",
        total=2,
        tags=TAGS,
        kind="capacity-block",
        criteria="targeted",
        end_s=env.clock.now_s() + 41 * 60,
    )
    requests = env.requests(env.selecting(MINE), RESERVED, slot=block.id, types=("p5.48xlarge",))
    env.clock.advance(90)
    env.refuses(times=99)
    (found,) = env.launch(requests)
    assert isinstance(found, errors.ReservationExhausted)
    assert len(env.fleets()) == 1


def test_refused_launch_is_not_retried_when_counts_cannot_be_read(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, slot=slots.id)
    env.refuses()
    env.ec2.region.faults.add(faults.Denied(operation="DescribeCapacityReservations"))
    (found,) = env.launch(requests)
    assert isinstance(found, errors.ReservationExhausted)
    assert env.ec2_instances == []


@pytest.mark.fact("aws-5.8.2")
def test_subnet_without_addresses_is_unavailable_for_three_minutes(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=2, tags=TAGS)
    node_class = env.selecting(MINE)
    requests = env.requests(node_class, RESERVED, slot=slots.id)
    env.refuses(code="InsufficientFreeAddressesInSubnet")
    env.launch(requests)
    (full,) = (subnet.id for subnet in node_class.status.subnets if subnet.zone == "us-west-2a")
    assert env.discovery.unavailable.subnets.members(env.clock.monotonic_s()) == {full}
    env.clock.advance(180)
    assert not env.discovery.unavailable.subnets.members(env.clock.monotonic_s())


def test_refusal_of_the_whole_request_is_retried_while_slots_are_free(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=1, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, slot=slots.id)
    env.refuses(whole=True)
    (found,) = env.launch(requests)
    assert isinstance(found, Instance)
    assert env.ec2_instance(found).reservation_id == slots.id


@pytest.mark.fact("Q-24")
def test_fifty_claims_for_ten_slots_launch_ten_instances_and_none_on_demand(env: LaunchEnvironment) -> None:
    slots = env.reserve(total=10, tags=TAGS)
    requests = env.requests(
        env.selecting(MINE), capacity_type("reserved", "on-demand"), count=50, slot=slots.id
    )
    found = env.launch(requests)
    assert sum(isinstance(each, Instance) for each in found) == 10
    refused = [each for each in found if isinstance(each, errors.ReservationExhausted)]
    assert len(refused) == 40
    assert len({id(each) for each in refused}) == 40
    assert [ec2_instance.reservation_id for ec2_instance in env.ec2_instances] == [slots.id] * 10
    assert env.free(slots) == 0


@pytest.mark.fact("Q-24")
def test_slots_taken_elsewhere_during_the_launch_are_not_oversold() -> None:
    env = LaunchEnvironment()
    slots = env.reserve(total=10, tags=TAGS)
    requests = env.requests(env.selecting(MINE), RESERVED, count=10, slot=slots.id)
    env.ec2.region.faults.add(faults.Taken(reservation_id=slots.id, count=4, times=1))
    found = env.launch(requests)
    assert sum(isinstance(each, Instance) for each in found) == 6
    assert sum(isinstance(each, errors.ReservationExhausted) for each in found) == 4
    assert len(env.ec2_instances) == 6
