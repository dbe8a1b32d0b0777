"""What a class could launch, at what price, and how often AWS is asked for it, over the full wire.

Reading a whole region takes long, so tests that look at one share it.
"""

import functools
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import pytest

from aws_world import ACCOUNT, OTHER, ZONE_A, ZONE_B, World, run
from holdfast import errors, names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.catalog import price_list, type_listing
from holdfast.cloud.aws.discovery import Discovery, Setup
from holdfast.data import ec2
from holdfast.model import prices
from holdfast.model.offerings import InstanceType, Offering
from holdfast.sim.aws.service import Caller
from holdfast.sim.ec2 import control, faults

MINUTE = 60
HALF_DAY = 12 * 3600
REGION = ec2.region("us-west-2")


@functools.cache
def seen() -> World:
    """A world whose types, prices and spot history were read. Tests that use it leave it as it was but for time."""
    world = World()
    world.reserve(total=3)
    world.reserve("c5.large", owner=OTHER, shared_with=(ACCOUNT,), zone_id=ZONE_B, criteria="targeted")
    run(world.discovery.schedule.step())
    return world


@functools.cache
def resolved() -> EC2NodeClass:
    return seen().selecting({"instanceMatchCriteria": "open"}, {"ownerID": OTHER})


def offered(world: World, node_class: EC2NodeClass) -> dict[str, InstanceType]:
    return {it.name: it for it in run(world.discovery.instance_types(node_class))}


def slots_of(types: dict[str, InstanceType]) -> list[Offering]:
    return [o for it in types.values() for o in it.offerings if o.reservation_id]


@pytest.mark.fact("aws-7.1.1")
def test_a_type_is_what_ec2_says_of_it() -> None:
    listing = run(type_listing.read(seen().calls))
    assert listing.types == REGION.types
    assert listing.zones_by_type == REGION.zones_by_type


@pytest.mark.fact("aws-7.5.1")
def test_list_prices_are_those_of_the_price_list() -> None:
    found = run(price_list.read_on_demand(seen().calls))
    assert found == {
        t.name: REGION.on_demand_nano_usd[t.name] for t in REGION.types if t.name in REGION.on_demand_nano_usd
    }
    asked = [call for call in seen().endpoint.log if call.operation == "GetProducts"]
    filters = [{f["Field"]: f["Value"] for f in call.params["Filters"]} for call in asked]
    assert {(f["tenancy"], f["productFamily"]) for f in filters} == {
        ("Shared", "Compute Instance"),
        ("Dedicated", "Compute Instance (bare metal)"),
    }


@pytest.mark.fact("aws-7.5.4")
def test_spot_prices_are_the_zones_own() -> None:
    world = seen()
    m5 = offered(world, resolved())["m5.large"]
    spot = {o.zone: o.price_nano_usd_per_hour for o in m5.offerings if o.capacity_type == names.SPOT}
    history = run(price_list.read_spot(world.calls, world.clock.now_s()))
    assert spot == {zone: history["m5.large", zone] for zone in REGION.zones_by_type["m5.large"]}
    assert len(set(spot.values())) > 1
    on_demand = {o.price_nano_usd_per_hour for o in m5.offerings if o.capacity_type == names.ON_DEMAND}
    assert on_demand == {REGION.on_demand_nano_usd["m5.large"]}


@pytest.mark.fact("Q-16", "Q-6", "Q-5", "aws-4.3.1", "aws-4.3.2")
def test_every_offering_says_capacity_type_zone_and_zone_id() -> None:
    types = offered(seen(), resolved())
    by_name = {zone.name: zone.id for zone in REGION.zones}
    for it in types.values():
        for offering in it.offerings:
            stated = offering.requirements
            assert stated.get(names.CAPACITY_TYPE).values == {offering.capacity_type}
            assert stated.get(names.ZONE).values == {offering.zone}
            assert stated.get(aws.ZONE_ID).values == {by_name[offering.zone]}
    assert {(o.zone, o.count, o.launchable) for o in slots_of(types)} == {
        ("us-west-2a", 3, True),
        ("us-west-2b", 2, True),
    }


@pytest.mark.fact("AW-06")
def test_a_reservation_that_does_not_fit_the_class_is_not_offered() -> None:
    world = seen()
    windows = world.reserve("c5.xlarge", platform="Windows", criteria="targeted")
    world.clock.advance(MINUTE)
    node_class = world.selecting({"id": windows.id})
    assert slots_of(offered(world, node_class)) == []
    control.set_state(world.ec2.world, windows.id, "cancelled")


@pytest.mark.fact("Q-17")
def test_slots_are_the_cheapest_of_all_in_the_order_of_list_prices() -> None:
    types = offered(seen(), resolved())
    known = run(seen().discovery.price_range())
    bought = [
        o.price_nano_usd_per_hour
        for it in types.values()
        for o in it.offerings
        if not o.reservation_id and o.price_nano_usd_per_hour
    ]
    near = {
        it.name: prices.near_zero(o.price_nano_usd_per_hour, 0, 0, known)
        for it in types.values()
        for o in it.offerings
        if o.reservation_id
    }
    assert Fraction(0) < near["c5.large"] < near["m5.large"] < min(bought)
    assert known.dearest == max(bought)


@pytest.mark.fact("aws-7.1.2")
def test_before_a_class_is_resolved_its_catalog_is_not_ready() -> None:
    with pytest.raises(errors.NotReady, match="default"):
        run(seen().discovery.instance_types(seen().node_class()))


class NothingThere:
    """An EC2 that lists nothing, whatever is asked."""

    def call(self, operation: str, params: Mapping[str, Any], caller: Caller) -> dict[str, Any]:
        del operation, params, caller
        return {}


@pytest.mark.fact("aws-7.1.2")
def test_a_region_without_types_or_prices_is_not_believed() -> None:
    world = World()
    world.endpoint.services = {**world.endpoint.services, "ec2": NothingThere(), "pricing": NothingThere()}
    for read in (
        type_listing.read(world.calls),
        price_list.read_on_demand(world.calls),
        price_list.read_spot(world.calls, world.clock.now_s()),
    ):
        with pytest.raises(errors.Retryable):
            run(read)


@pytest.mark.fact("Q-40")
def test_a_target_in_direct_mode_leaves_no_spot_in_the_catalog() -> None:
    world = seen()
    target = {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}
    node_class = world.resolve(world.node_class("direct", capacityReservationSpec=target))
    types = offered(world, node_class)
    assert {o.capacity_type for it in types.values() for o in it.offerings} == {names.ON_DEMAND}


# --- Unavailable offerings --------------------------------------------------------------------------------


@functools.cache
def marked_world() -> tuple[World, EC2NodeClass, str]:
    world = World()
    made = world.reserve(total=3)
    return world, world.selecting({"id": made.id}), made.id


def health(world: World, node_class: EC2NodeClass) -> dict[tuple[str, str], bool]:
    m5 = offered(world, node_class)["m5.large"]
    return {(o.capacity_type, o.zone): o.launchable for o in m5.offerings if o.zone < "us-west-2c"}


@pytest.mark.fact("Q-43", "aws-4.2.4", "aws-4.3.5")
def test_a_full_reservation_leaves_on_demand_alone_and_the_other_way_round() -> None:
    world, node_class, reservation_id = marked_world()
    everything = health(world, node_class)
    assert all(everything.values())
    now_s = world.clock.monotonic_s()
    world.discovery.hold_downs.full([reservation_id], now_s)
    assert health(world, node_class) == everything | {("reserved", "us-west-2a"): False}
    world.discovery.hold_downs.succeeded(reservation_id)
    world.discovery.unavailable.pools.add(("m5.large", "us-west-2a", names.ON_DEMAND), now_s)
    assert health(world, node_class) == everything | {("on-demand", "us-west-2a"): False}
    world.clock.advance(181)
    assert health(world, node_class) == everything


@pytest.mark.fact("aws-8.4.3")
def test_zone_ids_come_from_every_subnet_of_the_account() -> None:
    """Also those that the class does not select: a reservation may be in their zone."""
    world = World()
    subnets = world.ec2.world.setup.subnets
    selected = next(one for one in subnets if one.zone_id == ZONE_A)
    assert any(one.zone_id == ZONE_B for one in subnets)
    node_class = world.resolve(world.node_class(subnetSelectorTerms=[{"id": selected.id}]))
    (known,) = [one for one in run(world.discovery.instance_types(node_class)) if one.name == "m5.large"]
    found = {
        value
        for offering in known.offerings
        if aws.ZONE_ID in offering.requirements
        for value in offering.requirements.get(aws.ZONE_ID).values
    }
    assert {ZONE_A, ZONE_B} <= found


@pytest.mark.fact("aws-2.5.1", "aws-2.5.2")
def test_time_alone_closes_a_block_without_another_look_at_ec2() -> None:
    """Drained from 40 minutes before its end, to the second, whatever the status still says."""
    world = World()
    end_s = world.clock.now_s() + 3600
    block = world.reserve(total=1, kind="capacity-block", criteria="targeted", end_s=end_s)
    node_class = world.selecting({"id": block.id})
    asked = world.asked("DescribeCapacityReservations")

    def open_slots() -> list[bool]:
        return [o.launchable for o in slots_of(offered(world, node_class))]

    world.clock.advance(20 * MINUTE - 1)
    assert open_slots() == [True]
    world.clock.advance(1)
    assert open_slots() == [False]
    assert world.asked("DescribeCapacityReservations") == asked


@pytest.mark.fact("aws-5.9.2", "AW-07", "aws-4.3.5")
def test_a_subnet_without_addresses_closes_its_zone_for_everything() -> None:
    world, node_class, _ = marked_world()
    everything = health(world, node_class)
    in_a = next(s.id for s in node_class.status.subnets if s.zone == "us-west-2a")
    world.discovery.unavailable.subnets.add(in_a, world.clock.monotonic_s())
    assert health(world, node_class) == {key: key[1] != "us-west-2a" for key in everything}
    world.clock.advance(181)
    assert health(world, node_class) == everything


def test_an_account_that_may_not_use_spot_is_offered_none() -> None:
    world, node_class, _ = marked_world()
    world.discovery.unavailable.capacity_types.add(names.SPOT, world.clock.monotonic_s())
    assert health(world, node_class) == {key: key[0] != names.SPOT for key in health(world, node_class)}
    world.clock.advance(181)


@pytest.mark.fact("aws-2.3.4", "aws-4.1.3", "aws-4.3.4")
def test_counts_are_those_of_the_last_reading_and_types_without_news_are_the_same_objects() -> None:
    world, node_class, reservation_id = marked_world()
    before = offered(world, node_class)
    control.take(world.ec2.world, reservation_id, 2)
    world.clock.advance(MINUTE)
    run(world.discovery.schedule.step())
    after = offered(world, node_class)
    assert [o.count for o in slots_of(after)] == [1]
    before.pop("m5.large")
    after.pop("m5.large")
    # The first step also read prices, which leave types that are not sold here as they were.
    again = offered(world, node_class)
    assert all(again[name] is after[name] for name in after)
    control.give(world.ec2.world, reservation_id, 2)
    run(world.discovery.count_again())
    assert [o.count for o in slots_of(offered(world, node_class))] == [3]


# --- The schedule ---------------------------------------------------------------------------------------


def calls_a_minute(world: World, classes: list[EC2NodeClass], minutes: int = 10) -> float:
    """While one loop refreshes, each class is resolved once a minute, and counts are asked for all the time."""
    before = len(world.endpoint.log)
    for _ in range(minutes):
        classes[:] = [world.resolve(node_class) for node_class in classes]
        until_s = world.clock.monotonic_s() + MINUTE
        while world.clock.monotonic_s() < until_s:
            run(world.discovery.reservations())
            world.clock.advance(run(world.discovery.schedule.step()))
    return (len(world.endpoint.log) - before) / minutes


@pytest.mark.fact("AW-01", "aws-9.3")
def test_idle_calls_grow_neither_with_reservations_nor_with_classes() -> None:
    world = World()
    world.reserve(tags={"team": "ml"})
    terms = [{"tags": {"team": "ml"}}]
    classes = [world.node_class("c0", capacityReservationSelectorTerms=terms)]
    run(world.discovery.schedule.step())
    calls_a_minute(world, classes, 1)  # the start costs more
    rates = [calls_a_minute(world, classes)]
    for _ in range(200):
        world.reserve(tags={"team": "ml"})
    rates.append(calls_a_minute(world, classes))
    classes += [world.node_class(f"c{n}", capacityReservationSelectorTerms=terms) for n in range(1, 10)]
    calls_a_minute(world, classes, 1)
    rates.append(calls_a_minute(world, classes))
    assert max(rates) < 4  # of eight: the half that launches has the rest
    assert max(rates) - min(rates) < 1.5  # a profile each, every quarter of an hour


@pytest.mark.fact("aws-7.1.1", "aws-7.5.5", "aws-9.3")
def test_types_and_prices_are_read_every_twelve_hours_and_kept_when_that_fails() -> None:
    world = World(rules=[faults.Broken(operation="DescribeInstanceTypes", from_s=World().clock.now_s() + 60)])
    node_class = world.resolve(world.node_class())
    run(world.discovery.schedule.step())
    first = offered(world, node_class)
    before = world.asked("DescribeSpotPriceHistory")
    world.clock.advance(HALF_DAY - 1)
    run(world.discovery.schedule.step())
    assert world.asked("DescribeSpotPriceHistory") == before
    world.clock.advance(1)
    run(world.discovery.schedule.step())
    assert world.asked("DescribeSpotPriceHistory") == 2 * before
    assert offered(world, node_class).keys() == first.keys()
    assert world.records.total("holdfast_aws_refresh_failures_total", source="instance-types") == 1


@pytest.mark.fact("aws-7.5.2", "aws-7.5.3", "aws-7.5.4")
def test_without_a_price_list_shipped_prices_stand_in() -> None:
    world = World()
    told = Setup(cluster="c", tags={}, kubernetes=lambda: "1.36", isolated_vpc=True)
    world.discovery = Discovery(
        world.calls, told, caches=world.caches, clock=world.clock, recorder=world.records
    )
    node_class = world.resolve(world.node_class())
    before: dict[str, Any] = {
        o.capacity_type: o.price_nano_usd_per_hour for o in offered(world, node_class)["m5.large"].offerings
    }
    assert before == {names.ON_DEMAND: 96_000_000, names.SPOT: 96_000_000}  # no history was read yet
    run(world.discovery.schedule.step())
    assert world.asked("GetProducts") == 0
    assert not price_list.has_price_list("us-gov-west-1")
    assert price_list.shipped("mars-north-1") == ec2.region("us-east-1").on_demand_nano_usd
    after = offered(world, node_class)["m5.large"].offerings
    assert {o.price_nano_usd_per_hour for o in after if o.capacity_type == names.ON_DEMAND} == {96_000_000}
    assert all((o.price_nano_usd_per_hour or 0) < 96_000_000 for o in after if o.capacity_type == names.SPOT)
