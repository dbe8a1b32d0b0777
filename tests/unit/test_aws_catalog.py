"""The catalog: which offerings a class has, with which labels, at what price, and which can be launched."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest

from aws_builders import (
    build_catalog,
    invented,
    offerings_of,
    real,
    reservation,
    shipped_supply,
    status_entry,
    supply,
)
from builders import ec2nodeclass
from holdfast import names
from holdfast.api import aws
from holdfast.api.ec2nodeclass import EC2NodeClass
from holdfast.cloud.aws.catalog import builder, labels
from holdfast.cloud.aws.catalog.builder import BuiltTypes
from holdfast.cloud.aws.catalog.capacity import Settings
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.data import ec2
from holdfast.model import prices, requirements
from holdfast.model.offerings import UNLIMITED, InstanceType, Offering
from holdfast.model.requirement import Operator

NOW = 1_000_000
ALL = [{"ownerID": "111122223333"}]
SUBNET_A = {"subnets": [{"id": "subnet-a", "zone": "us-west-2a", "zoneID": "usw2-az9"}]}


def selecting(**spec: Any) -> EC2NodeClass:
    """A class that selects every reservation of the builders."""
    return ec2nodeclass(capacityReservationSelectorTerms=ALL, **spec)


def m5(*seen: CapacityReservation, node_class: EC2NodeClass | None = None, **fields: Any) -> InstanceType:
    """m5.large for a class that selects everything seen."""
    (built,) = build_catalog(supply(real("m5.large"), **fields), node_class or selecting(), seen, now_s=NOW)
    return built


def reserved(*seen: CapacityReservation, node_class: EC2NodeClass | None = None) -> list[Offering]:
    return offerings_of(m5(*seen, node_class=node_class), names.RESERVED)


@pytest.mark.fact("R-1", "R-2", "S-48", "Q-16", "aws-4.2.2", "aws-10.5.6")
def test_what_is_bought_says_that_it_is_in_no_reservation() -> None:
    found = m5().offerings
    assert [(o.capacity_type, o.zone) for o in found] == [
        (capacity_type, zone)
        for zone in ("us-west-2a", "us-west-2b")
        for capacity_type in (names.ON_DEMAND, names.SPOT)
    ]
    for offering in found:
        stated = offering.requirements
        assert stated.get(names.CAPACITY_TYPE).values == {offering.capacity_type}
        assert stated.get(names.ZONE).values == {offering.zone}
        assert stated.get(aws.ZONE_ID).values == {"usw2-az2" if offering.zone[-1] == "a" else "usw2-az1"}
        for key in aws.RESERVED_CAPACITY_LABELS:
            assert key in stated
            assert stated.get(key).operator is Operator.DOES_NOT_EXIST
        assert offering.launchable
        assert offering.count == UNLIMITED


@pytest.mark.fact("R-1", "R-2", "S-48", "Q-16", "aws-4.3.2", "aws-4.3.4")
def test_a_reserved_offering_names_its_reservation() -> None:
    (offering,) = reserved(reservation("cr-9", kind="capacity-block", interruptible=True, available=3))
    values = {r.key: set(r.values) for r in offering.requirements}
    assert values == {
        names.CAPACITY_TYPE: {"reserved"},
        names.ZONE: {"us-west-2a"},
        aws.ZONE_ID: {"usw2-az2"},
        aws.CAPACITY_RESERVATION_ID: {"cr-9"},
        aws.CAPACITY_RESERVATION_TYPE: {"capacity-block"},
        aws.CAPACITY_RESERVATION_INTERRUPTIBLE: {"true"},
        aws.INSTANCE_TENANCY: {"default"},
    }
    assert (offering.reservation_id, offering.count) == ("cr-9", 3)


@pytest.mark.fact("AW-06", "aws-4.3.6")
def test_a_slot_has_the_tenancy_of_its_reservation() -> None:
    shared, dedicated = reserved(reservation("cr-1"), reservation("cr-2", tenancy="dedicated"))
    for tenancy, slot, other in (("default", shared, dedicated), ("dedicated", dedicated, shared)):
        wanted = requirements.from_labels({aws.INSTANCE_TENANCY: tenancy})
        assert wanted.compatible(slot.requirements, labels.WELL_KNOWN_LABELS)
        assert not wanted.compatible(other.requirements, labels.WELL_KNOWN_LABELS)


@pytest.mark.fact("aws-7.5.6")
def test_windows_and_dedicated_tenancy_cost_what_linux_does() -> None:
    windows = selecting(amiSelectorTerms=[{"alias": "windows2022@latest"}])
    assert {o.price_nano_usd_per_hour for o in m5(node_class=windows).offerings} == {10**9}


@pytest.mark.fact("aws-4.1.2", "aws-4.4.2")
def test_a_type_is_built_again_only_when_something_it_is_made_of_has_changed() -> None:
    kept, types = BuiltTypes(), (real("m5.large"), real("c5.large"))
    slots = reservation(), reservation("cr-c", instance_type="c5.large")

    def build(*seen: CapacityReservation, node_class: EC2NodeClass | None = None, **fields: Any) -> list[int]:
        built = build_catalog(
            supply(*types, **fields), node_class or selecting(), seen, now_s=NOW, built=kept
        )
        assert built == build_catalog(supply(*types, **fields), node_class or selecting(), seen, now_s=NOW)
        return [id(it) for it in built]

    m5_type, c5_type = build(*slots)
    assert build(*slots) == [m5_type, c5_type]
    assert build(*slots, node_class=selecting(status={"instanceProfile": "new"})) == [m5_type, c5_type]
    fewer = build(reservation(available=1), slots[1])
    assert (fewer[0] != m5_type, fewer[1]) == (True, c5_type)
    sold_out = build(reservation(available=1), slots[1], exhausted={("c5.large", "us-west-2a", "spot")})
    assert (sold_out[0], sold_out[1] != c5_type) == (fewer[0], True)
    dearer = build(reservation(available=1), slots[1], on_demand={"m5.large": 2, "c5.large": 2})
    assert dearer[0] != fewer[0]
    other = build(*slots, node_class=selecting(kubelet={"maxPods": 9}))
    assert other[0] not in (m5_type, fewer[0], dearer[0])


def test_the_order_of_reservations_does_not_change_the_catalog() -> None:
    seen = [reservation("cr-1"), reservation("cr-2")]
    assert m5(*reversed(seen), *seen) == m5(*seen)


@pytest.mark.fact("S-48")
def test_who_selects_a_reservation_gets_nothing_else() -> None:
    wanted = requirements.from_labels({aws.CAPACITY_RESERVATION_ID: "cr-1"})
    found = m5(reservation("cr-1"), reservation("cr-2")).offerings
    fitting = [o for o in found if wanted.compatible(o.requirements, labels.WELL_KNOWN_LABELS)]
    assert [o.reservation_id for o in fitting] == ["cr-1"]


@pytest.mark.fact("aws-4.3.1", "Q-6")
def test_every_reservation_is_one_offering_of_its_type_in_its_zone() -> None:
    types = supply(real("m5.large"), real("c5.xlarge"))
    seen = (
        reservation("cr-1"),
        reservation("cr-2"),
        reservation("cr-3", zone="us-west-2b"),
        reservation("cr-4", instance_type="c5.xlarge", zone="us-west-2b"),
        reservation("cr-5", instance_type="p5.48xlarge"),
    )
    of_m5, of_c5 = build_catalog(types, selecting(), seen, now_s=NOW)
    assert [(o.reservation_id, o.zone) for o in offerings_of(of_m5, names.RESERVED)] == [
        ("cr-1", "us-west-2a"),
        ("cr-2", "us-west-2a"),
        ("cr-3", "us-west-2b"),
    ]
    assert [o.reservation_id for o in offerings_of(of_c5, names.RESERVED)] == ["cr-4"]


@pytest.mark.fact("aws-4.3.1")
def test_with_the_gate_off_there_are_none() -> None:
    off = Settings(reserved_capacity=False)
    (built,) = build_catalog(supply(real("m5.large")), selecting(), [reservation()], now_s=NOW, settings=off)
    assert not offerings_of(built, names.RESERVED)
    assert not built.requirements.get(names.CAPACITY_TYPE).has(names.RESERVED)


@pytest.mark.fact("aws-4.4.1")
def test_the_type_says_which_reservations_it_may_come_from() -> None:
    stated = m5(reservation("cr-1"), reservation("cr-2", kind="capacity-block", end_s=2 * NOW)).requirements
    assert stated.get(names.CAPACITY_TYPE).values == {"on-demand", "spot", "reserved"}
    assert stated.get(aws.CAPACITY_RESERVATION_ID).values == {"cr-1", "cr-2"}
    assert stated.get(aws.CAPACITY_RESERVATION_TYPE).values == {"default", "capacity-block"}
    assert stated.get(aws.CAPACITY_RESERVATION_INTERRUPTIBLE).values == {"false"}
    without = m5().requirements
    assert without.get(names.CAPACITY_TYPE).values == {"on-demand", "spot"}
    for key in aws.RESERVED_CAPACITY_LABELS:
        assert without.get(key).operator is Operator.DOES_NOT_EXIST


@pytest.mark.fact("aws-4.4.1a")
def test_a_type_sold_as_capacity_block_alone_is_had_by_reservation_alone() -> None:
    alone = supply(msgspec.structs.replace(real("m5.large"), usage_classes=("capacity-block",)))
    (without,) = build_catalog(alone, selecting(), now_s=NOW)
    assert without.offerings == ()
    (having,) = build_catalog(alone, selecting(), [reservation()], now_s=NOW)
    assert [o.capacity_type for o in having.offerings] == [names.RESERVED]
    assert having.requirements.get(names.CAPACITY_TYPE).values == {names.RESERVED}


def test_a_type_that_is_not_sold_as_spot_has_no_spot_offering() -> None:
    (built,) = build_catalog(supply(invented(usage_classes=("on-demand",))), None, now_s=NOW)
    assert {o.capacity_type for o in built.offerings} == {names.ON_DEMAND}


@pytest.mark.fact("Q-40")
def test_a_target_in_direct_mode_leaves_no_spot() -> None:
    target = {"capacityReservationTarget": {"capacityReservationId": "cr-1"}}
    built = m5(node_class=ec2nodeclass(capacityReservationSpec=target))
    assert {o.capacity_type for o in built.offerings} == {names.ON_DEMAND}
    assert built.requirements.get(names.CAPACITY_TYPE).values == {names.ON_DEMAND}
    open_matching = ec2nodeclass(capacityReservationSpec={"capacityReservationPreference": "open"})
    assert offerings_of(m5(node_class=open_matching), names.SPOT)


# --- Health and count ---------------------------------------------------------------------------------


@pytest.mark.fact("R-5", "aws-14.1")
@pytest.mark.parametrize(
    ("fields", "healthy"),
    [
        ({}, True),
        ({"available": 0}, True),
        ({"state": "scheduled"}, False),
        ({"state": "expired"}, False),
        ({"start_s": NOW + 1}, False),
        ({"end_s": NOW + 1}, True),
        ({"end_s": NOW}, False),
        ({"kind": "capacity-block", "end_s": NOW + 2401}, True),
        ({"kind": "capacity-block", "end_s": NOW + 2400}, False),
        ({"kind": "capacity-block", "end_s": NOW + 4200, "ultraserver": True}, False),
    ],
)
def test_health_follows_from_state_and_dates_and_the_count_stays(
    fields: dict[str, Any], *, healthy: bool
) -> None:
    seen = reservation(**fields)
    (offering,) = reserved(seen)
    assert (offering.healthy, offering.count) == (healthy, seen.available)


@pytest.mark.fact("R-5", "aws-14.1")
def test_a_reservation_is_not_healthy_where_the_class_has_no_subnet() -> None:
    found = reserved(
        reservation("cr-1"),
        reservation("cr-2", zone="us-west-2b"),
        node_class=selecting(status=SUBNET_A),
    )
    assert [(o.reservation_id, o.healthy) for o in found] == [("cr-1", True), ("cr-2", False)]


def test_a_reservation_that_the_status_says_is_expiring_is_not_healthy() -> None:
    status = {"capacityReservations": [status_entry("cr-1", state="expiring"), status_entry("cr-2")]}
    found = reserved(reservation("cr-1"), reservation("cr-2"), node_class=ec2nodeclass(status=status))
    assert [o.healthy for o in found] == [False, True]


def test_a_reservation_proves_that_its_zone_offers_the_type() -> None:
    built = m5(reservation(zone="us-west-2c"))
    (offering,) = offerings_of(built, names.RESERVED)
    assert offering.launchable
    assert built.requirements.get(names.ZONE).has("us-west-2c")
    assert aws.ZONE_ID not in offering.requirements  # nobody knows its id


def test_what_is_bought_is_healthy_with_a_subnet_a_price_and_nothing_against_it() -> None:
    subnets = m5(node_class=selecting(status=SUBNET_A))
    assert [(o.zone[-1], o.healthy) for o in subnets.offerings] == [
        ("a", True),
        ("a", True),
        ("b", False),
        ("b", False),
    ]
    assert subnets.requirements.get(names.ZONE).values == {"us-west-2a"}
    assert subnets.requirements.get(aws.ZONE_ID).values == {"usw2-az9"}  # as the subnet says
    assert not any(o.healthy for o in m5(on_demand={}).offerings)
    gone = frozenset({("m5.large", "us-west-2a", "spot")})
    assert [o.healthy for o in m5(exhausted=gone).offerings] == [True, False, True, True]


@pytest.mark.fact("aws-4.2.1")
def test_type_has_offerings_only_in_zones_that_offer_it() -> None:
    built = m5(zones_by_type={"m5.large": ("us-west-2b",)})
    assert {offering.zone for offering in built.offerings} == {"us-west-2b"}
    assert built.requirements.get(names.ZONE).values == {"us-west-2b"}
    without_subnet = m5(zones_by_type={"m5.large": ("us-west-2b",)}, node_class=selecting(status=SUBNET_A))
    assert [(o.zone, o.healthy) for o in without_subnet.offerings] == [("us-west-2b", False)] * 2


def test_a_full_market_or_an_unknown_price_does_not_touch_a_reservation() -> None:
    gone = frozenset({("m5.large", "us-west-2a", kind) for kind in ("spot", "on-demand", "reserved")})
    (offering,) = offerings_of(m5(reservation(), on_demand={}, exhausted=gone), names.RESERVED)
    assert offering.launchable
    assert offering.price_nano_usd_per_hour is None


@pytest.mark.fact("aws-7.1.3", "R-5")
@pytest.mark.parametrize(
    ("spec", "name", "healthy"),
    [
        ({}, "a1.large", False),  # AL2023 does not run there
        ({"amiFamily": "Custom"}, "a1.large", True),
        ({"connectionTracking": {"udpTimeout": 30}}, "m5.large", True),
        ({"connectionTracking": {"udpTimeout": 30}}, "m4.large", False),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, "m5.large", False),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, "m8i.large", True),
    ],
)
def test_a_type_that_the_class_rules_out_is_shown_and_not_launched(
    spec: dict[str, Any], name: str, *, healthy: bool
) -> None:
    seen = [reservation(instance_type=name)]
    (built,) = build_catalog(supply(real(name)), selecting(**spec), seen, now_s=NOW)
    assert {o.healthy for o in built.offerings} == {healthy}


@pytest.mark.fact("aws-7.1.3")
def test_interfaces_that_do_not_fit_rule_a_type_out() -> None:
    ordinary = {"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}
    types = supply(real("m5.large"), real("p5.48xlarge"), invented(ena=False))
    for nic, fits in (
        ({"networkCardIndex": 0, "deviceIndex": 2, "interfaceType": "interface"}, [True, False, False]),
        ({"networkCardIndex": 31, "deviceIndex": 1, "interfaceType": "efa-only"}, [False, True, False]),
        ({"networkCardIndex": 0, "deviceIndex": 1, "interfaceType": "efa-only"}, [False, True, False]),
    ):
        built = build_catalog(types, ec2nodeclass(networkInterfaces=[ordinary, nic]), now_s=NOW)
        assert [it.offerings[0].healthy for it in built] == fits


# --- Prices -------------------------------------------------------------------------------------------


def test_without_a_price_history_spot_costs_what_on_demand_does() -> None:
    assert {o.price_nano_usd_per_hour for o in m5().offerings} == {10**9}


def test_with_a_price_history_a_zone_without_a_price_is_not_healthy() -> None:
    spot = offerings_of(m5(spot={("m5.large", "us-west-2a"): 4}), names.SPOT)
    assert [(o.price_nano_usd_per_hour, o.healthy) for o in spot] == [(4, True), (None, False)]


@pytest.mark.fact("Q-17", "aws-4.3.3", "aws-4.3.3a")
def test_reserved_prices_are_near_zero_below_all_others_in_the_order_of_on_demand() -> None:
    held = ("t3.nano", "m5.large", "p5.48xlarge", "p6-b300.48xlarge")
    seen = [reservation(f"cr-{n}", instance_type=name) for n, name in enumerate(held)]
    built = {it.name: it for it in build_catalog(shipped_supply(), selecting(), seen, now_s=NOW)}
    bought = [o for it in built.values() for o in it.offerings if o.capacity_type != names.RESERVED]
    paid = [o.price_nano_usd_per_hour for o in bought if o.price_nano_usd_per_hour]
    known = prices.price_range(paid, paid)
    near: list[Fraction] = []
    for name in held:
        (offering,) = offerings_of(built[name], names.RESERVED)
        on_demand = offerings_of(built[name], names.ON_DEMAND)[0]
        assert offering.price_nano_usd_per_hour == on_demand.price_nano_usd_per_hour
        assert built[name].order_key(offering) < min(built[name].order_key(o) for o in bought)
        near.append(prices.near_zero(offering.price_nano_usd_per_hour, 0, 0, known))
    assert near == sorted(near)
    assert len(set(near)) == len(near)
    assert 0 < near[0] <= near[-1] < min(paid)


@pytest.mark.fact("aws-4.3.3", "aws-4.3.3a")
def test_slots_without_a_list_price_come_last_in_the_order_of_their_size() -> None:
    held = ("m5.xlarge", "m5.large", "c5.large")
    seen = [reservation(f"cr-{name}", instance_type=name) for name in held]
    types = supply(*map(real, held), on_demand={"m5.xlarge": 10**9})
    built = build_catalog(types, selecting(), seen, now_s=NOW)
    keys = {it.name: it.order_key(offerings_of(it, names.RESERVED)[0]) for it in built}
    assert sorted(keys, key=keys.__getitem__) == ["m5.xlarge", "c5.large", "m5.large"]
    assert len(set(keys.values())) == len(held)


# --- Everything that is shipped -----------------------------------------------------------------------


@pytest.mark.parametrize("region", ec2.region_names())
def test_every_shipped_type_makes_a_usable_node(region: str) -> None:
    built = build_catalog(builder.shipped(ec2.region(region)), None, now_s=NOW)
    assert [it.name for it in built] == [info.name for info in ec2.region(region).types]
    for it in built:
        for name in ("cpu", "memory", "ephemeral-storage"):
            assert 0 < it.allocatable[name] < it.capacity[name], (it.name, name)
        assert 0 < it.allocatable["pods"] == it.capacity["pods"], it.name
        assert it.offerings, it.name
        assert all(it.requirements.compatible(o.requirements) for o in it.offerings), it.name
        priced = it.name in ec2.region(region).on_demand_nano_usd
        assert all(o.launchable == priced for o in it.offerings), it.name


def test_the_price_of_m5_large_is_the_published_one() -> None:
    built = build_catalog(shipped_supply(), None, now_s=NOW)
    m5_large = next(it for it in built if it.name == "m5.large")
    assert {prices.text(o.price_nano_usd_per_hour or 0) for o in m5_large.offerings} == {"0.096"}


def test_core_is_told_which_labels_are_the_clouds() -> None:
    told = labels.CLOUD_LABELS
    assert told.reservation_id == aws.CAPACITY_RESERVATION_ID
    assert told.reserved == set(aws.RESERVED_CAPACITY_LABELS)
    assert told.reserved | {aws.ZONE_ID, names.ZONE} <= told.well_known
