"""Offerings: health and count are separate, and only launchable offerings are compared by price."""

import pytest

from holdfast import errors, names
from holdfast.model import offerings, requirement, requirements
from holdfast.model.offerings import UNLIMITED, InstanceType, Offering
from holdfast.model.requirement import Operator
from holdfast.model.requirements import NO_REQUIREMENTS, Requirements
from holdfast.model.resources import NOTHING, Resources, of

ID = "example.com/reservation-id"
WELL_KNOWN = names.WELL_KNOWN_LABELS | {ID}


def offering(
    capacity_type: str = names.ON_DEMAND,
    price: int | None = 100,
    *,
    zone: str = "a",
    healthy: bool = True,
    count: int = UNLIMITED,
    reservation_id: str | None = None,
    capacity_override: Resources = NOTHING,
    overhead_override: Resources = NOTHING,
) -> Offering:
    if capacity_type == names.RESERVED:
        reservation_id = reservation_id or "slot-1"
    labels = {names.CAPACITY_TYPE: capacity_type, names.ZONE: zone}
    has_id = requirement.of(ID, Operator.IN, [reservation_id]) if reservation_id else None
    return Offering(
        requirements.from_labels(labels).add(has_id or requirement.of(ID, Operator.DOES_NOT_EXIST)),
        capacity_type,
        zone,
        price,
        healthy=healthy,
        count=count,
        reservation_id=reservation_id,
        capacity_override=capacity_override,
        overhead_override=overhead_override,
    )


def instance_type(
    *of_type: Offering, capacity: Resources | None = None, overhead: Resources = NOTHING
) -> InstanceType:
    capacity = of({"cpu": 4000, "memory": 100, "pods": 10}) if capacity is None else capacity
    return InstanceType("m.large", NO_REQUIREMENTS, capacity, overhead, of_type)


def capacity_types(*values: str) -> Requirements:
    return requirements.of(requirement.of(names.CAPACITY_TYPE, Operator.IN, values))


@pytest.mark.fact("R-4")
def test_launchable_is_healthy_with_a_count_above_zero() -> None:
    assert offering().launchable
    assert offering(names.RESERVED, count=1).launchable
    assert not offering(names.RESERVED, count=0).launchable
    assert not offering(names.RESERVED, count=1, healthy=False).launchable
    assert offering(names.RESERVED, count=0).healthy, "full is not unhealthy"


@pytest.mark.fact("Q-18")
def test_availability_on_the_wire_is_a_count() -> None:
    assert offering().available == 4294967295
    assert offering(healthy=False).available == 0
    assert offering(names.RESERVED, count=3).available == 3
    assert offering(names.RESERVED, count=3, healthy=False).available == 0


@pytest.mark.fact("Q-18")
@pytest.mark.parametrize(
    ("wire", "count"),
    [(0, 0), (7, 7), ("7", 7), ("unlimited", UNLIMITED), (4294967295, UNLIMITED), (2**40, UNLIMITED)],
)
def test_counts_are_read_from_the_wire(wire: str | int, count: int) -> None:
    assert offerings.parse_count(wire) == count


@pytest.mark.parametrize("bad", [-1, "-1", "many", "", "\u0663", True, "1.5"])
def test_invalid_count_is_refused(bad: str | int) -> None:
    with pytest.raises(errors.InvalidInput, match="neither 'unlimited' nor a number"):
        offerings.parse_count(bad)


def test_fields_of_an_offering_must_match_its_requirements_and_its_capacity_type() -> None:
    labels = requirements.from_labels({names.CAPACITY_TYPE: names.SPOT, names.ZONE: "a"})
    for capacity_type, zone, reservation_id in (
        (names.ON_DEMAND, "a", None),
        (names.SPOT, "b", None),
        (names.SPOT, "a", "x"),
    ):
        with pytest.raises(AssertionError):
            Offering(labels, capacity_type, zone, 1, reservation_id=reservation_id)
    with pytest.raises(AssertionError, match="name capacity type and zone"):
        Offering(labels.without({names.ZONE}), names.SPOT, "a", 1)


@pytest.mark.fact("S-48")
def test_requirement_of_a_reservation_id_matches_only_that_reservation() -> None:
    wanted = requirements.of(requirement.of(ID, Operator.IN, ["slot-1"]))
    free = offering(names.RESERVED, count=1)
    other = offering(names.RESERVED, 1, count=1, reservation_id="slot-2")
    on_demand, spot = offering(), offering(names.SPOT, 1)
    assert instance_type(spot, on_demand, other, free).cheapest(wanted, WELL_KNOWN) is free
    assert instance_type(spot, on_demand, other).cheapest(wanted, WELL_KNOWN) is None


def test_offering_with_a_custom_label_needs_a_requirement_for_it() -> None:
    wanted = requirements.from_labels({names.ARCH: "arm64", "team": "x"})
    assert instance_type(offering()).cheapest(wanted, WELL_KNOWN) is not None
    custom = requirements.from_labels({names.CAPACITY_TYPE: names.SPOT, names.ZONE: "a", "rack": "1"})
    only = Offering(custom, names.SPOT, "a", 1)
    assert instance_type(only).cheapest(NO_REQUIREMENTS, WELL_KNOWN) is None


@pytest.mark.fact("S-55")
def test_allocatable_is_capacity_without_overhead_and_huge_pages() -> None:
    capacity = of({"cpu": 4000, "memory": 100, "hugepages-2Mi": 30, "hugepages-1Gi": 20})
    kind = instance_type(capacity=capacity, overhead=of({"cpu": 100, "memory": 10, "gpu": 1}))
    assert kind.allocatable == of({"cpu": 3900, "memory": 40, "hugepages-2Mi": 30, "hugepages-1Gi": 20})
    tiny = instance_type(capacity=of({"memory": 10, "hugepages-2Mi": 30}))
    assert tiny.allocatable["memory"] == 0


@pytest.mark.fact("S-55")
def test_an_offering_may_override_capacity_and_overhead() -> None:
    plain = offering()
    other = offering(
        capacity_override=of({"memory": 200, "example.com/disk": 1}), overhead_override=of({"memory": 50})
    )
    kind = instance_type(plain, other, overhead=of({"cpu": 100, "memory": 10}))
    assert kind.allocatable_of(plain) is kind.allocatable
    assert kind.allocatable_of(other) == of({"cpu": 3900, "memory": 150, "pods": 10, "example.com/disk": 1})


@pytest.mark.fact("R-33")
def test_cheapest_offering_is_reserved_if_a_reserved_one_is_launchable() -> None:
    slot, spot = offering(names.RESERVED, 100, count=1), offering(names.SPOT, 1)
    assert instance_type(spot, slot).cheapest(NO_REQUIREMENTS, WELL_KNOWN) is slot
    full = offering(names.RESERVED, 100, count=0)
    assert instance_type(spot, full).cheapest(NO_REQUIREMENTS, WELL_KNOWN) is spot
    assert instance_type(full).cheapest(NO_REQUIREMENTS, WELL_KNOWN) is None
    assert instance_type(spot, slot).cheapest(capacity_types(names.SPOT), WELL_KNOWN) is spot


@pytest.mark.fact("R-34")
def test_first_of_two_offerings_with_equal_price_is_chosen() -> None:
    first, second = offering(zone="a"), offering(zone="b")
    kind = instance_type(first, second)
    assert kind.cheapest(NO_REQUIREMENTS, WELL_KNOWN) is first
    assert kind.worst_launch(NO_REQUIREMENTS, WELL_KNOWN) is first


@pytest.mark.fact("R-35", "aws-4.6.5")
def test_worst_launch_is_the_most_expensive_offering_of_the_preferred_capacity_type() -> None:
    cheap, expensive = offering(names.SPOT, 1, zone="a"), offering(names.SPOT, 5, zone="b")
    on_demand, slot = offering(price=100), offering(names.RESERVED, 100, count=1)
    kind = instance_type(on_demand, cheap, expensive, slot)
    assert kind.worst_launch(NO_REQUIREMENTS, WELL_KNOWN) is slot
    paid = capacity_types(names.SPOT, names.ON_DEMAND)
    assert kind.worst_launch(paid, WELL_KNOWN) is expensive
    assert kind.worst_launch(capacity_types(names.ON_DEMAND), WELL_KNOWN) is on_demand
    assert instance_type().worst_launch(paid, WELL_KNOWN) is None
