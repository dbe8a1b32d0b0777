"""The catalog of an EC2NodeClass: its offerings, their labels and prices, and which can be launched."""

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


def m5(
    *reservations: CapacityReservation, node_class: EC2NodeClass | None = None, **fields: Any
) -> InstanceType:
    """m5.large for a class that selects all of these reservations."""
    (built,) = build_catalog(
        supply(real("m5.large"), **fields), node_class or selecting(), reservations, now_s=NOW
    )
    return built


def reserved(*reservations: CapacityReservation, node_class: EC2NodeClass | None = None) -> list[Offering]:
    return offerings_of(m5(*reservations, node_class=node_class), names.RESERVED)


@pytest.mark.fact("R-1", "R-2", "S-48", "Q-16", "aws-4.2.2", "aws-10.5.6")
def test_on_demand_and_spot_offerings_exclude_reservation_labels() -> None:
    found = m5().offerings
    assert [(o.capacity_type, o.zone) for o in found] == [
        (capacity_type, zone)
        for zone in ("us-west-2a", "us-west-2b")
        for capacity_type in (names.ON_DEMAND, names.SPOT)
    ]
    for offering in found:
        reqs = offering.requirements
        assert reqs.get(names.CAPACITY_TYPE).values == {offering.capacity_type}
        assert reqs.get(names.ZONE).values == {offering.zone}
        assert reqs.get(aws.ZONE_ID).values == {"usw2-az2" if offering.zone[-1] == "a" else "usw2-az1"}
        for key in aws.RESERVED_CAPACITY_LABELS:
            assert key in reqs
            assert reqs.get(key).operator is Operator.DOES_NOT_EXIST
        assert offering.launchable
        assert offering.count == UNLIMITED


@pytest.mark.fact("R-1", "R-2", "S-48", "Q-16", "aws-4.3.2", "aws-4.3.4")
def test_reserved_offering_has_the_labels_of_its_reservation() -> None:
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
def test_reserved_offering_has_the_tenancy_of_its_reservation() -> None:
    shared, dedicated = reserved(reservation("cr-1"), reservation("cr-2", tenancy="dedicated"))
    for tenancy, offering, other in (("default", shared, dedicated), ("dedicated", dedicated, shared)):
        wanted = requirements.from_labels({aws.INSTANCE_TENANCY: tenancy})
        assert wanted.compatible(offering.requirements, labels.WELL_KNOWN_LABELS)
        assert not wanted.compatible(other.requirements, labels.WELL_KNOWN_LABELS)


@pytest.mark.fact("aws-7.5.6")
def test_windows_offerings_have_the_linux_price() -> None:
    windows = selecting(amiSelectorTerms=[{"alias": "windows2022@latest"}])
    assert {o.price_nano_usd_per_hour for o in m5(node_class=windows).offerings} == {10**9}


@pytest.mark.fact("aws-4.1.2", "aws-4.4.2")
def test_instance_type_is_rebuilt_only_if_its_inputs_change() -> None:
    cache, types = BuiltTypes(), (real("m5.large"), real("c5.large"))
    both_reservations = reservation(), reservation("cr-c", instance_type="c5.large")
    all_built: list[
        InstanceType
    ] = []  # keeps them, since Python gives the id of a freed object to another one

    def build(
        *reservations: CapacityReservation, node_class: EC2NodeClass | None = None, **fields: Any
    ) -> list[int]:
        built = build_catalog(
            supply(*types, **fields), node_class or selecting(), reservations, now_s=NOW, built=cache
        )
        assert built == build_catalog(
            supply(*types, **fields), node_class or selecting(), reservations, now_s=NOW
        )
        all_built.extend(built)
        return [id(it) for it in built]

    m5_type, c5_type = build(*both_reservations)
    assert build(*both_reservations) == [m5_type, c5_type]
    assert build(*both_reservations, node_class=selecting(status={"instanceProfile": "new"})) == [
        m5_type,
        c5_type,
    ]
    fewer = build(reservation(available=1), both_reservations[1])
    assert (fewer[0] != m5_type, fewer[1]) == (True, c5_type)
    sold_out = build(
        reservation(available=1), both_reservations[1], exhausted={("c5.large", "us-west-2a", "spot")}
    )
    assert (sold_out[0], sold_out[1] != c5_type) == (fewer[0], True)
    dearer = build(reservation(available=1), both_reservations[1], on_demand={"m5.large": 2, "c5.large": 2})
    assert dearer[0] != fewer[0]
    other = build(*both_reservations, node_class=selecting(kubelet={"maxPods": 9}))
    assert other[0] not in (m5_type, fewer[0], dearer[0])


def test_the_order_of_reservations_does_not_change_the_catalog() -> None:
    reservations = [reservation("cr-1"), reservation("cr-2")]
    assert m5(*reversed(reservations), *reservations) == m5(*reservations)


@pytest.mark.fact("S-48")
def test_reservation_id_requirement_matches_only_that_reservation() -> None:
    wanted = requirements.from_labels({aws.CAPACITY_RESERVATION_ID: "cr-1"})
    found = m5(reservation("cr-1"), reservation("cr-2")).offerings
    fitting = [o for o in found if wanted.compatible(o.requirements, labels.WELL_KNOWN_LABELS)]
    assert [o.reservation_id for o in fitting] == ["cr-1"]


@pytest.mark.fact("aws-4.3.1", "Q-6")
def test_every_reservation_is_one_offering_of_its_type_in_its_zone() -> None:
    types = supply(real("m5.large"), real("c5.xlarge"))
    reservations = (
        reservation("cr-1"),
        reservation("cr-2"),
        reservation("cr-3", zone="us-west-2b"),
        reservation("cr-4", instance_type="c5.xlarge", zone="us-west-2b"),
        reservation("cr-5", instance_type="p5.48xlarge"),
    )
    of_m5, of_c5 = build_catalog(types, selecting(), reservations, now_s=NOW)
    assert [(o.reservation_id, o.zone) for o in offerings_of(of_m5, names.RESERVED)] == [
        ("cr-1", "us-west-2a"),
        ("cr-2", "us-west-2a"),
        ("cr-3", "us-west-2b"),
    ]
    assert [o.reservation_id for o in offerings_of(of_c5, names.RESERVED)] == ["cr-4"]


@pytest.mark.fact("aws-4.3.1")
def test_disabled_gate_removes_reserved_offerings() -> None:
    off = Settings(reserved_capacity=False)
    (built,) = build_catalog(supply(real("m5.large")), selecting(), [reservation()], now_s=NOW, settings=off)
    assert not offerings_of(built, names.RESERVED)
    assert not built.requirements.get(names.CAPACITY_TYPE).has(names.RESERVED)


@pytest.mark.fact("aws-4.4.1")
def test_instance_type_requirements_list_its_reservations() -> None:
    reqs = m5(reservation("cr-1"), reservation("cr-2", kind="capacity-block", end_s=2 * NOW)).requirements
    assert reqs.get(names.CAPACITY_TYPE).values == {"on-demand", "spot", "reserved"}
    assert reqs.get(aws.CAPACITY_RESERVATION_ID).values == {"cr-1", "cr-2"}
    assert reqs.get(aws.CAPACITY_RESERVATION_TYPE).values == {"default", "capacity-block"}
    assert reqs.get(aws.CAPACITY_RESERVATION_INTERRUPTIBLE).values == {"false"}
    without = m5().requirements
    assert without.get(names.CAPACITY_TYPE).values == {"on-demand", "spot"}
    for key in aws.RESERVED_CAPACITY_LABELS:
        assert without.get(key).operator is Operator.DOES_NOT_EXIST


@pytest.mark.fact("aws-4.4.1a")
def test_capacity_block_only_type_has_only_reserved_offerings() -> None:
    alone = supply(msgspec.structs.replace(real("m5.large"), usage_classes=("capacity-block",)))
    (without,) = build_catalog(alone, selecting(), now_s=NOW)
    assert without.offerings == ()
    (with_reservation,) = build_catalog(alone, selecting(), [reservation()], now_s=NOW)
    assert [o.capacity_type for o in with_reservation.offerings] == [names.RESERVED]
    assert with_reservation.requirements.get(names.CAPACITY_TYPE).values == {names.RESERVED}


def test_type_without_usage_class_spot_has_no_spot_offering() -> None:
    (built,) = build_catalog(supply(invented(usage_classes=("on-demand",))), None, now_s=NOW)
    assert {o.capacity_type for o in built.offerings} == {names.ON_DEMAND}


@pytest.mark.fact("Q-40")
def test_reservation_target_in_direct_mode_removes_spot_offerings() -> None:
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
def test_reservation_state_and_dates_affect_health_but_not_count(
    fields: dict[str, Any], *, healthy: bool
) -> None:
    capacity_reservation = reservation(**fields)
    (offering,) = reserved(capacity_reservation)
    assert (offering.healthy, offering.count) == (healthy, capacity_reservation.available)


@pytest.mark.fact("R-5", "aws-14.1")
def test_a_reservation_is_not_healthy_where_the_class_has_no_subnet() -> None:
    found = reserved(
        reservation("cr-1"),
        reservation("cr-2", zone="us-west-2b"),
        node_class=selecting(status=SUBNET_A),
    )
    assert [(o.reservation_id, o.healthy) for o in found] == [("cr-1", True), ("cr-2", False)]


def test_reservation_with_status_expiring_is_not_healthy() -> None:
    status = {"capacityReservations": [status_entry("cr-1", state="expiring"), status_entry("cr-2")]}
    found = reserved(reservation("cr-1"), reservation("cr-2"), node_class=ec2nodeclass(status=status))
    assert [o.healthy for o in found] == [False, True]


def test_reservation_adds_its_zone_to_the_instance_type() -> None:
    built = m5(reservation(zone="us-west-2c"))
    (offering,) = offerings_of(built, names.RESERVED)
    assert offering.launchable
    assert built.requirements.get(names.ZONE).has("us-west-2c")
    assert aws.ZONE_ID not in offering.requirements  # no subnet or zone list has its id


def test_on_demand_and_spot_need_a_subnet_a_price_and_capacity_to_be_healthy() -> None:
    subnets = m5(node_class=selecting(status=SUBNET_A))
    assert [(o.zone[-1], o.healthy) for o in subnets.offerings] == [
        ("a", True),
        ("a", True),
        ("b", False),
        ("b", False),
    ]
    assert subnets.requirements.get(names.ZONE).values == {"us-west-2a"}
    assert subnets.requirements.get(aws.ZONE_ID).values == {"usw2-az9"}  # the zone id of the subnet
    assert not any(o.healthy for o in m5(on_demand={}).offerings)
    exhausted = frozenset({("m5.large", "us-west-2a", "spot")})
    assert [o.healthy for o in m5(exhausted=exhausted).offerings] == [True, False, True, True]


@pytest.mark.fact("aws-4.2.1")
def test_type_has_offerings_only_in_zones_that_offer_it() -> None:
    built = m5(zones_by_type={"m5.large": ("us-west-2b",)})
    assert {offering.zone for offering in built.offerings} == {"us-west-2b"}
    assert built.requirements.get(names.ZONE).values == {"us-west-2b"}
    without_subnet = m5(zones_by_type={"m5.large": ("us-west-2b",)}, node_class=selecting(status=SUBNET_A))
    assert [(o.zone, o.healthy) for o in without_subnet.offerings] == [("us-west-2b", False)] * 2


def test_exhausted_capacity_or_unknown_price_does_not_affect_reserved_offerings() -> None:
    exhausted = frozenset({("m5.large", "us-west-2a", kind) for kind in ("spot", "on-demand", "reserved")})
    (offering,) = offerings_of(m5(reservation(), on_demand={}, exhausted=exhausted), names.RESERVED)
    assert offering.launchable
    assert offering.price_nano_usd_per_hour is None


@pytest.mark.fact("aws-7.1.3", "R-5")
@pytest.mark.parametrize(
    ("spec", "name", "healthy"),
    [
        ({}, "a1.large", False),  # AL2023 does not support a1
        ({"amiFamily": "Custom"}, "a1.large", True),
        ({"connectionTracking": {"udpTimeout": 30}}, "m5.large", True),
        ({"connectionTracking": {"udpTimeout": 30}}, "m4.large", False),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, "m5.large", False),
        ({"cpuOptions": {"nestedVirtualization": "enabled"}}, "m8i.large", True),
    ],
)
def test_type_incompatible_with_the_ec2nodeclass_is_listed_as_unhealthy(
    spec: dict[str, Any], name: str, *, healthy: bool
) -> None:
    reservations = [reservation(instance_type=name)]
    (built,) = build_catalog(supply(real(name)), selecting(**spec), reservations, now_s=NOW)
    assert {o.healthy for o in built.offerings} == {healthy}


@pytest.mark.fact("aws-7.1.3")
def test_type_that_cannot_attach_the_network_interfaces_is_unhealthy() -> None:
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


def test_without_price_history_spot_has_the_on_demand_price() -> None:
    assert {o.price_nano_usd_per_hour for o in m5().offerings} == {10**9}


def test_spot_is_unhealthy_in_a_zone_missing_from_the_price_history() -> None:
    spot = offerings_of(m5(spot={("m5.large", "us-west-2a"): 4}), names.SPOT)
    assert [(o.price_nano_usd_per_hour, o.healthy) for o in spot] == [(4, True), (None, False)]


@pytest.mark.fact("Q-17", "aws-4.3.3", "aws-4.3.3a")
def test_reserved_prices_are_near_zero_and_ordered_by_on_demand_price() -> None:
    type_names = ("t3.nano", "m5.large", "p5.48xlarge", "p6-b300.48xlarge")
    reservations = [reservation(f"cr-{n}", instance_type=name) for n, name in enumerate(type_names)]
    built = {it.name: it for it in build_catalog(shipped_supply(), selecting(), reservations, now_s=NOW)}
    market_offerings = [o for it in built.values() for o in it.offerings if o.capacity_type != names.RESERVED]
    market_prices = [o.price_nano_usd_per_hour for o in market_offerings if o.price_nano_usd_per_hour]
    price_range = prices.price_range(market_prices, market_prices)
    near_zero_prices: list[Fraction] = []
    for name in type_names:
        (offering,) = offerings_of(built[name], names.RESERVED)
        on_demand = offerings_of(built[name], names.ON_DEMAND)[0]
        assert offering.price_nano_usd_per_hour == on_demand.price_nano_usd_per_hour
        assert built[name].order_key(offering) < min(built[name].order_key(o) for o in market_offerings)
        near_zero_prices.append(prices.near_zero(offering.price_nano_usd_per_hour, 0, 0, price_range))
    assert near_zero_prices == sorted(near_zero_prices)
    assert len(set(near_zero_prices)) == len(near_zero_prices)
    assert 0 < near_zero_prices[0] <= near_zero_prices[-1] < min(market_prices)


@pytest.mark.fact("aws-4.3.3", "aws-4.3.3a")
def test_reserved_offerings_without_list_price_sort_last_by_size() -> None:
    type_names = ("m5.xlarge", "m5.large", "c5.large")
    reservations = [reservation(f"cr-{name}", instance_type=name) for name in type_names]
    types = supply(*map(real, type_names), on_demand={"m5.xlarge": 10**9})
    built = build_catalog(types, selecting(), reservations, now_s=NOW)
    keys = {it.name: it.order_key(offerings_of(it, names.RESERVED)[0]) for it in built}
    assert sorted(keys, key=keys.__getitem__) == ["m5.xlarge", "c5.large", "m5.large"]
    assert len(set(keys.values())) == len(type_names)


# --- Shipped regions --------------------------------------------------------------------------------


@pytest.mark.parametrize("region", ec2.region_names())
def test_every_shipped_type_has_allocatable_resources_and_offerings(region: str) -> None:
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


def test_cloud_labels_include_the_reservation_and_zone_labels() -> None:
    cloud_labels = labels.CLOUD_LABELS
    assert cloud_labels.reservation_id == aws.CAPACITY_RESERVATION_ID
    assert cloud_labels.reserved == set(aws.RESERVED_CAPACITY_LABELS)
    assert cloud_labels.reserved | {aws.ZONE_ID, names.ZONE} <= cloud_labels.well_known
