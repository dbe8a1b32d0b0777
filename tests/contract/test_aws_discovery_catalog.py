"""Instance types, offerings and prices of an EC2NodeClass, and how often AWS is called for them, over the full wire.

Reading a whole region is slow, so the tests share one.
"""

import functools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from aws_environment import ACCOUNT, OTHER, ZONE_A, ZONE_B, Environment, run
from holdfast import errors, names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.catalog import price_list, type_listing
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.cloud.aws.nodeclass.cluster import Cluster
from holdfast.data import ec2
from holdfast.model import prices
from holdfast.model.offerings import InstanceType, Offering
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import control, faults

MINUTE = 60
HALF_DAY = 12 * 3600
REGION = ec2.region("us-west-2")


@functools.cache
def shared_region() -> Environment:
    """A region whose types, prices and spot history were read. Tests that use it change nothing but the time."""
    env = Environment()
    env.reserve(total=3)
    env.reserve("c5.large", owner=OTHER, shared_with=(ACCOUNT,), zone_id=ZONE_B, criteria="targeted")
    run(env.discovery.schedule.step())
    return env


@functools.cache
def resolved_class() -> EC2NodeClass:
    return shared_region().selecting({"instanceMatchCriteria": "open"}, {"ownerID": OTHER})


def types_by_name(env: Environment, node_class: EC2NodeClass) -> dict[str, InstanceType]:
    return {it.name: it for it in run(env.discovery.instance_types(node_class))}


def reserved_offerings(types: dict[str, InstanceType]) -> list[Offering]:
    return [o for it in types.values() for o in it.offerings if o.reservation_id]


@pytest.mark.fact("aws-7.1.1")
def test_instance_types_are_those_that_ec2_describes() -> None:
    listing = run(type_listing.read(shared_region().calls))
    assert listing.types == REGION.types
    assert listing.zones_by_type == REGION.zones_by_type


@pytest.mark.fact("aws-7.5.1")
def test_list_prices_are_those_of_the_price_list() -> None:
    found = run(price_list.read_on_demand(shared_region().calls))
    assert found == {
        t.name: REGION.on_demand_nano_usd[t.name] for t in REGION.types if t.name in REGION.on_demand_nano_usd
    }
    asked = [call for call in shared_region().endpoint.log if call.operation == "GetProducts"]
    filters = [{f["Field"]: f["Value"] for f in call.params["Filters"]} for call in asked]
    assert {(f["tenancy"], f["productFamily"]) for f in filters} == {
        ("Shared", "Compute Instance"),
        ("Dedicated", "Compute Instance (bare metal)"),
    }


@pytest.mark.fact("aws-7.5.4")
def test_spot_prices_differ_by_zone() -> None:
    env = shared_region()
    m5 = types_by_name(env, resolved_class())["m5.large"]
    spot = {o.zone: o.price_nano_usd_per_hour for o in m5.offerings if o.capacity_type == names.SPOT}
    history = run(price_list.read_spot(env.calls, env.clock.now_s()))
    assert spot == {zone: history["m5.large", zone] for zone in REGION.zones_by_type["m5.large"]}
    assert len(set(spot.values())) > 1
    on_demand = {o.price_nano_usd_per_hour for o in m5.offerings if o.capacity_type == names.ON_DEMAND}
    assert on_demand == {REGION.on_demand_nano_usd["m5.large"]}


@pytest.mark.fact("Q-16", "Q-6", "Q-5", "aws-4.3.1", "aws-4.3.2")
def test_every_offering_requires_its_capacity_type_zone_and_zone_id() -> None:
    types = types_by_name(shared_region(), resolved_class())
    by_name = {zone.name: zone.id for zone in REGION.zones}
    for it in types.values():
        for offering in it.offerings:
            requirements = offering.requirements
            assert requirements.get(names.CAPACITY_TYPE).values == {offering.capacity_type}
            assert requirements.get(names.ZONE).values == {offering.zone}
            assert requirements.get(aws.ZONE_ID).values == {by_name[offering.zone]}
    assert {(o.zone, o.count, o.launchable) for o in reserved_offerings(types)} == {
        ("us-west-2a", 3, True),
        ("us-west-2b", 2, True),
    }


@pytest.mark.fact("AW-06")
def test_reservation_of_another_platform_has_no_offering() -> None:
    env = shared_region()
    windows = env.reserve("c5.xlarge", platform="Windows", criteria="targeted")
    env.clock.advance(MINUTE)
    node_class = env.selecting({"id": windows.id})
    assert reserved_offerings(types_by_name(env, node_class)) == []
    control.set_state(env.ec2.region, windows.id, "cancelled")


@pytest.mark.fact("Q-17")
def test_reserved_offerings_cost_near_zero_in_the_order_of_list_prices() -> None:
    types = types_by_name(shared_region(), resolved_class())
    price_range = run(shared_region().discovery.price_range())
    unreserved_prices = [
        o.price_nano_usd_per_hour
        for it in types.values()
        for o in it.offerings
        if not o.reservation_id and o.price_nano_usd_per_hour
    ]
    near_zero_prices = {
        it.name: prices.near_zero(o.price_nano_usd_per_hour, 0, 0, price_range)
        for it in types.values()
        for o in it.offerings
        if o.reservation_id
    }
    assert Fraction(0) < near_zero_prices["c5.large"] < near_zero_prices["m5.large"] < min(unreserved_prices)
    assert price_range.dearest == max(unreserved_prices)


@pytest.mark.fact("aws-7.1.2")
def test_catalog_of_an_unresolved_class_is_not_ready() -> None:
    with pytest.raises(errors.NotReady, match="default"):
        run(shared_region().discovery.instance_types(shared_region().node_class()))


class EmptyService:
    """A service that answers every call with an empty listing."""

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        del operation, params, caller
        return {}


@pytest.mark.fact("aws-7.1.2")
def test_empty_listing_of_types_or_prices_is_an_error() -> None:
    env = Environment()
    env.endpoint.services = {**env.endpoint.services, "ec2": EmptyService(), "pricing": EmptyService()}
    for read in (
        type_listing.read(env.calls),
        price_list.read_on_demand(env.calls),
        price_list.read_spot(env.calls, env.clock.now_s()),
    ):
        with pytest.raises(errors.Retryable):
            run(read)


@pytest.mark.fact("Q-40")
def test_direct_mode_with_a_target_has_no_spot_offerings() -> None:
    env = shared_region()
    target = {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}
    node_class = env.resolve(env.node_class("direct", capacityReservationSpec=target))
    types = types_by_name(env, node_class)
    assert {o.capacity_type for it in types.values() for o in it.offerings} == {names.ON_DEMAND}


# --- Unavailable offerings --------------------------------------------------------------------------------


@functools.cache
def shared_region_with_reservation() -> tuple[Environment, EC2NodeClass, str]:
    env = Environment()
    made = env.reserve(total=3)
    return env, env.selecting({"id": made.id}), made.id


def launchable_by_offering(env: Environment, node_class: EC2NodeClass) -> dict[tuple[str, str], bool]:
    m5 = types_by_name(env, node_class)["m5.large"]
    return {(o.capacity_type, o.zone): o.launchable for o in m5.offerings if o.zone < "us-west-2c"}


@pytest.mark.fact("Q-43", "aws-4.2.4", "aws-4.3.5")
def test_full_reservation_and_unavailable_on_demand_do_not_affect_each_other() -> None:
    env, node_class, reservation_id = shared_region_with_reservation()
    all_launchable = launchable_by_offering(env, node_class)
    assert all(all_launchable.values())
    now_s = env.clock.monotonic_s()
    env.discovery.hold_downs.full([reservation_id], now_s)
    assert launchable_by_offering(env, node_class) == all_launchable | {("reserved", "us-west-2a"): False}
    env.discovery.hold_downs.succeeded(reservation_id)
    env.discovery.unavailable.pools.add(("m5.large", "us-west-2a", names.ON_DEMAND), now_s)
    assert launchable_by_offering(env, node_class) == all_launchable | {("on-demand", "us-west-2a"): False}
    env.clock.advance(181)
    assert launchable_by_offering(env, node_class) == all_launchable


@pytest.mark.fact("aws-8.4.3")
def test_zone_ids_come_from_every_subnet_of_the_account() -> None:
    """Also from subnets that the class does not select: a reservation may be in their zone."""
    env = Environment()
    subnets = env.ec2.region.setup.subnets
    selected = next(one for one in subnets if one.zone_id == ZONE_A)
    assert any(one.zone_id == ZONE_B for one in subnets)
    node_class = env.resolve(env.node_class(subnetSelectorTerms=[{"id": selected.id}]))
    (instance_type,) = [
        one for one in run(env.discovery.instance_types(node_class)) if one.name == "m5.large"
    ]
    found = {
        value
        for offering in instance_type.offerings
        if aws.ZONE_ID in offering.requirements
        for value in offering.requirements.get(aws.ZONE_ID).values
    }
    assert {ZONE_A, ZONE_B} <= found


@pytest.mark.fact("aws-2.5.1", "aws-2.5.2")
def test_capacity_block_closes_40_minutes_before_its_end_without_another_read() -> None:
    """Launches stop to the second, although the status of the class is unchanged."""
    env = Environment()
    end_s = env.clock.now_s() + 3600
    block = env.reserve(total=1, kind="capacity-block", criteria="targeted", end_s=end_s)
    node_class = env.selecting({"id": block.id})
    asked = env.asked("DescribeCapacityReservations")

    def open_slots() -> list[bool]:
        return [o.launchable for o in reserved_offerings(types_by_name(env, node_class))]

    env.clock.advance(20 * MINUTE - 1)
    assert open_slots() == [True]
    env.clock.advance(1)
    assert open_slots() == [False]
    assert env.asked("DescribeCapacityReservations") == asked


@pytest.mark.fact("aws-5.9.2", "AW-07", "aws-4.3.5")
def test_subnet_without_addresses_makes_all_offerings_of_its_zone_unavailable() -> None:
    env, node_class, _ = shared_region_with_reservation()
    all_launchable = launchable_by_offering(env, node_class)
    in_a = next(s.id for s in node_class.status.subnets if s.zone == "us-west-2a")
    env.discovery.unavailable.subnets.add(in_a, env.clock.monotonic_s())
    assert launchable_by_offering(env, node_class) == {key: key[1] != "us-west-2a" for key in all_launchable}
    env.clock.advance(181)
    assert launchable_by_offering(env, node_class) == all_launchable


def test_account_without_spot_permission_has_no_launchable_spot_offering() -> None:
    env, node_class, _ = shared_region_with_reservation()
    env.discovery.unavailable.capacity_types.add(names.SPOT, env.clock.monotonic_s())
    assert launchable_by_offering(env, node_class) == {
        key: key[0] != names.SPOT for key in launchable_by_offering(env, node_class)
    }
    env.clock.advance(181)


@pytest.mark.fact("aws-2.3.4", "aws-4.1.3", "aws-4.3.4")
def test_counts_follow_the_last_read_and_unchanged_types_are_the_same_objects() -> None:
    env, node_class, reservation_id = shared_region_with_reservation()
    assert [o.count for o in reserved_offerings(types_by_name(env, node_class))] == [3]
    control.take(env.ec2.region, reservation_id, 2)
    env.clock.advance(MINUTE)
    run(env.discovery.schedule.step())
    after = types_by_name(env, node_class)
    assert [o.count for o in reserved_offerings(after)] == [1]
    after.pop("m5.large")
    # The first step also reads prices, so only the calls after it return the same objects.
    again = types_by_name(env, node_class)
    assert all(again[name] is after[name] for name in after)
    control.give(env.ec2.region, reservation_id, 2)
    run(env.discovery.count_again())
    assert [o.count for o in reserved_offerings(types_by_name(env, node_class))] == [3]


# --- The schedule ---------------------------------------------------------------------------------------


def calls_a_minute(env: Environment, classes: list[EC2NodeClass], minutes: int = 10) -> float:
    """The schedule runs, each class is resolved once a minute, and counts are read before every step."""
    before = len(env.endpoint.log)
    for _ in range(minutes):
        classes[:] = [env.resolve(node_class) for node_class in classes]
        until_s = env.clock.monotonic_s() + MINUTE
        while env.clock.monotonic_s() < until_s:
            run(env.discovery.reservations())
            env.clock.advance(run(env.discovery.schedule.step()))
    return (len(env.endpoint.log) - before) / minutes


@pytest.mark.fact("AW-01", "aws-9.3")
def test_idle_call_rate_does_not_grow_with_reservations_or_classes() -> None:
    env = Environment()
    env.reserve(tags={"team": "ml"})
    terms = [{"tags": {"team": "ml"}}]
    classes = [env.node_class("c0", capacityReservationSelectorTerms=terms)]
    run(env.discovery.schedule.step())
    calls_a_minute(env, classes, 1)  # the start makes more calls
    rates = [calls_a_minute(env, classes)]
    for _ in range(200):
        env.reserve(tags={"team": "ml"})
    rates.append(calls_a_minute(env, classes))
    classes += [env.node_class(f"c{n}", capacityReservationSelectorTerms=terms) for n in range(1, 10)]
    calls_a_minute(env, classes, 1)
    rates.append(calls_a_minute(env, classes))
    assert max(rates) < 4  # half of the eight calls a minute; launches need the rest
    assert max(rates) - min(rates) < 1.5  # each class reads its instance profile every 15 minutes


@pytest.mark.fact("aws-7.1.1", "aws-7.5.5", "aws-9.3")
def test_types_and_prices_are_read_every_twelve_hours_and_survive_a_failed_read() -> None:
    env = Environment(
        rules=[faults.Broken(operation="DescribeInstanceTypes", from_s=Environment().clock.now_s() + 60)]
    )
    node_class = env.resolve(env.node_class())
    run(env.discovery.schedule.step())
    first = types_by_name(env, node_class)
    before = env.asked("DescribeSpotPriceHistory")
    env.clock.advance(HALF_DAY - 1)
    run(env.discovery.schedule.step())
    assert env.asked("DescribeSpotPriceHistory") == before
    env.clock.advance(1)
    run(env.discovery.schedule.step())
    assert env.asked("DescribeSpotPriceHistory") == 2 * before
    assert types_by_name(env, node_class).keys() == first.keys()
    assert env.records.total("holdfast_aws_refresh_failures_total", source="instance-types") == 1


@pytest.mark.fact("aws-7.5.2", "aws-7.5.3", "aws-7.5.4")
def test_shipped_prices_are_used_without_a_price_list() -> None:
    env = Environment()
    setup = Setup(cluster=Cluster(name="c", endpoint=""), kubernetes=lambda: "1.36", isolated_vpc=True)
    env.discovery = Discovery(env.calls, setup, caches=env.caches, clock=env.clock, recorder=env.records)
    node_class = env.resolve(env.node_class())
    before: dict[str, Any] = {
        o.capacity_type: o.price_nano_usd_per_hour
        for o in types_by_name(env, node_class)["m5.large"].offerings
    }
    assert before == {names.ON_DEMAND: 96_000_000, names.SPOT: 96_000_000}  # no history was read yet
    run(env.discovery.schedule.step())
    assert env.asked("GetProducts") == 0
    assert not price_list.has_price_list("us-gov-west-1")
    assert price_list.shipped("mars-north-1") == ec2.region("us-east-1").on_demand_nano_usd
    after = types_by_name(env, node_class)["m5.large"].offerings
    assert {o.price_nano_usd_per_hour for o in after if o.capacity_type == names.ON_DEMAND} == {96_000_000}
    assert all((o.price_nano_usd_per_hour or 0) < 96_000_000 for o in after if o.capacity_type == names.SPOT)
