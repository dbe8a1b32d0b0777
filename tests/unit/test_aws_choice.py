"""Which offerings a launch requests: reservations first, one market per launch, each type and zone once."""

from typing import Any

import pytest

from aws_builders import build_catalog, invented, real, reservation, supply
from builders import ec2nodeclass
from holdfast import errors, names
from holdfast.api import aws
from holdfast.cloud.aws.launch import choice
from holdfast.cloud.aws.launch.choice import Choice, Market
from holdfast.cloud.aws.reservations.capacity_reservation import CapacityReservation
from holdfast.model import requirement, requirements, resources
from holdfast.model.offerings import InstanceType
from holdfast.model.requirement import Operator, Requirement
from holdfast.model.snapshot import ClaimView

DOLLAR = 10**9
BLOCK = {"kind": "capacity-block", "match_criteria": "targeted"}


def types(
    *reservations: CapacityReservation, infos: tuple[str, ...] = ("m5.large", "m5.xlarge"), **fields: Any
) -> tuple[InstanceType, ...]:
    """m5.large at one dollar and m5.xlarge at two, spot at half of that, plus these reservations."""
    prices = {name: DOLLAR * (1 + index) for index, name in enumerate(infos)}
    zones = ("us-west-2a", "us-west-2b")
    plain: dict[str, Any] = {
        "on_demand": prices,
        "spot": {(name, zone): price // 2 for name, price in prices.items() for zone in zones},
    }
    node_class = ec2nodeclass(capacityReservationSelectorTerms=[{"ownerID": "111122223333"}])
    return build_catalog(supply(*map(real, infos), **(plain | fields)), node_class, reservations, now_s=1000)


def capacity_types(*values: str) -> Requirement:
    return requirement.of(names.CAPACITY_TYPE, Operator.IN, values)


def choose(offered: tuple[InstanceType, ...], *wanted: Requirement, **fields: Any) -> Choice:
    spot = fields.pop("spot", True)
    free = fields.pop("free", None)
    claim = ClaimView("c", None, requirements.of(*wanted), **fields)
    return choice.choose(offered, claim, free=free, spot=spot)


def ids(chosen: Choice) -> tuple[str, ...]:
    return chosen.reservation_ids


def pools(chosen: Choice) -> list[tuple[str, str]]:
    return [(option.instance_type.name, option.offering.zone[-1]) for option in chosen.options]


@pytest.mark.fact("Q-20", "Q-8", "aws-5.3.1", "aws-14.5")
@pytest.mark.parametrize(
    ("allowed", "market"),
    [
        ((), Market.RESERVATION),
        (("reserved",), Market.RESERVATION),
        (("reserved", "on-demand"), Market.RESERVATION),
        (("reserved", "spot", "on-demand"), Market.RESERVATION),
        (("spot", "on-demand"), Market.SPOT),
        (("on-demand",), Market.ON_DEMAND),
    ],
)
def test_reserved_comes_before_spot_and_spot_before_on_demand(
    allowed: tuple[str, ...], market: Market
) -> None:
    wanted = [capacity_types(*allowed)] if allowed else []
    assert choose(types(reservation("cr-1")), *wanted).market is market


@pytest.mark.fact("Q-12", "aws-5.11.1")
def test_full_reservations_fall_back_to_spot_then_on_demand() -> None:
    full = types(reservation("cr-1", available=0))
    assert choose(full).market is Market.SPOT
    assert choose(full, capacity_types("reserved", "on-demand")).market is Market.ON_DEMAND


@pytest.mark.fact("Q-11", "aws-5.11.3")
def test_reserved_only_claim_without_free_slots_gets_insufficient_capacity() -> None:
    with pytest.raises(errors.InsufficientCapacity):
        choose(types(reservation("cr-1", available=0)), capacity_types("reserved"))


@pytest.mark.fact("Q-21", "aws-5.7.5")
def test_reserved_launch_picks_only_reserved_offerings() -> None:
    chosen = choose(types(reservation("cr-1"), reservation("cr-2", zone="us-west-2b")))
    assert ids(chosen) == ("cr-1", "cr-2")
    assert {option.offering.capacity_type for option in chosen.options} == {"reserved"}
    assert chosen.capacity_type == "reserved"


@pytest.mark.fact("Q-22", "aws-5.2.4")
def test_reservation_with_most_free_slots_is_picked_per_type_and_zone() -> None:
    offered = types(
        reservation("cr-1", available=2, total=9),
        reservation("cr-2", available=5, total=9),
        reservation("cr-3", available=5, total=9),
        reservation("cr-4", available=1, zone="us-west-2b"),
    )
    assert ids(choose(offered)) == ("cr-2", "cr-4")
    assert ids(choose(offered, free={"cr-2": 0})) == ("cr-3", "cr-4")


@pytest.mark.fact("Q-36", "aws-5.2.2")
def test_odcrs_and_capacity_blocks_never_mix_and_the_cheapest_offering_decides() -> None:
    small, large = reservation("cr-small"), {"instance_type": "m5.xlarge", **BLOCK}
    chosen = choose(types(small, reservation("cr-block", **large)))
    assert (chosen.market, ids(chosen)) == (Market.RESERVATION, ("cr-small",))
    cheap_block = types(reservation("cr-large", instance_type="m5.xlarge"), reservation("cr-block", **BLOCK))
    chosen = choose(cheap_block)
    assert (chosen.market, ids(chosen)) == (Market.BLOCK, ("cr-block",))


@pytest.mark.fact("Q-36")
def test_capacity_block_is_picked_at_equal_price() -> None:
    chosen = choose(types(reservation("cr-1"), reservation("cr-block", **BLOCK)))
    assert (chosen.market, ids(chosen)) == (Market.BLOCK, ("cr-block",))


def test_interruptible_reservations_are_a_separate_market_and_last_at_equal_price() -> None:
    interruptible = reservation("cr-loose", interruptible=True)
    assert choose(types(interruptible)).market is Market.INTERRUPTIBLE
    assert choose(types(interruptible, reservation("cr-1"))).market is Market.RESERVATION
    cheaper = types(interruptible, reservation("cr-1", instance_type="m5.xlarge"))
    assert choose(cheaper).market is Market.INTERRUPTIBLE


@pytest.mark.fact("aws-5.2.3", "AW-09")
def test_one_launch_picks_one_capacity_block() -> None:
    blocks = types(
        reservation("cr-b2", available=1, zone="us-west-2b", **BLOCK), reservation("cr-b1", **BLOCK)
    )
    assert ids(choose(blocks)) == ("cr-b2",)


def test_claim_with_a_reservation_id_uses_that_reservation_even_if_full() -> None:
    offered = types(reservation("cr-1"), reservation("cr-2", available=0), reservation("cr-b", **BLOCK))
    assert ids(choose(offered, reservation_id="cr-2")) == ("cr-2",)
    assert ids(choose(offered, reservation_id="cr-b")) == ("cr-b",)
    with pytest.raises(errors.InsufficientCapacity):
        choose(offered, reservation_id="cr-unknown")


@pytest.mark.fact("Q-35")
def test_claim_uses_only_the_reservations_it_lists() -> None:
    offered = types(
        reservation("cr-1"),
        reservation("cr-2", zone="us-west-2b"),
        reservation("cr-3", available=4),
    )
    listed = requirement.of(aws.CAPACITY_RESERVATION_ID, Operator.IN, ("cr-1", "cr-2"))
    assert ids(choose(offered, listed)) == ("cr-1", "cr-2")


@pytest.mark.fact("Q-34")
def test_claim_can_require_a_reservation_type() -> None:
    offered = types(reservation("cr-1"), reservation("cr-b", instance_type="m5.xlarge", **BLOCK))
    kind = requirement.of(aws.CAPACITY_RESERVATION_TYPE, Operator.IN, ("capacity-block",))
    assert ids(choose(offered, kind)) == ("cr-b",)


@pytest.mark.fact("aws-5.2.1")
def test_offerings_too_small_or_in_another_zone_are_not_picked() -> None:
    large = choose(types(), capacity_types("on-demand"), requests=resources.parse({"cpu": "3"}))
    assert pools(large) == [("m5.xlarge", "a"), ("m5.xlarge", "b")]
    zone = requirement.of(names.ZONE, Operator.IN, ("us-west-2b",))
    assert pools(choose(types(), capacity_types("on-demand"), zone)) == [
        ("m5.large", "b"),
        ("m5.xlarge", "b"),
    ]


@pytest.mark.fact("aws-5.2.5")
def test_metal_and_accelerated_types_are_picked_only_if_no_other_type_fits() -> None:
    offered = types(infos=("g4dn.xlarge", "m5.metal", "m5.large"))
    assert {name for name, _ in pools(choose(offered))} == {"m5.large"}
    gpu = resources.parse({"nvidia.com/gpu": "1"})
    assert {name for name, _ in pools(choose(offered, requests=gpu))} == {"g4dn.xlarge"}


@pytest.mark.fact("AW-25")
def test_reserved_accelerated_type_is_picked_beside_other_types() -> None:
    offered = types(
        reservation("cr-gpu", instance_type="g4dn.xlarge"),
        reservation("cr-1"),
        infos=("g4dn.xlarge", "m5.large"),
    )
    assert ids(choose(offered)) == ("cr-1", "cr-gpu")


@pytest.mark.fact("aws-5.2.6")
def test_spot_dearer_than_on_demand_is_not_picked() -> None:
    spot = {
        ("m5.large", "us-west-2a"): DOLLAR // 2,
        ("m5.large", "us-west-2b"): DOLLAR * 3,
        ("m5.xlarge", "us-west-2a"): DOLLAR * 3 // 2,
    }
    assert pools(choose(types(spot=spot))) == [("m5.large", "a")]
    assert len(pools(choose(types(spot=spot), capacity_types("spot")))) == 3


def test_spot_at_the_on_demand_price_is_picked() -> None:
    spot = {("m5.large", "us-west-2a"): DOLLAR, ("m5.large", "us-west-2b"): DOLLAR + 1}
    chosen = choose(types(spot=spot))
    assert (chosen.market, pools(chosen)) == (Market.SPOT, [("m5.large", "a")])


def test_no_spot_is_picked_if_the_ec2nodeclass_excludes_it() -> None:
    assert choose(types(), spot=False).market is Market.ON_DEMAND
    with pytest.raises(errors.InsufficientCapacity):
        choose(types(), capacity_types("spot"), spot=False)


@pytest.mark.fact("aws-5.2.7")
def test_sixty_cheapest_types_are_picked_and_must_satisfy_min_values() -> None:
    infos = [invented(name=f"x1.{index}large") for index in range(70)]
    prices = {info.name: DOLLAR * (100 - index) for index, info in enumerate(infos)}
    offered = build_catalog(supply(*infos, on_demand=prices), ec2nodeclass(), now_s=1000)
    chosen = choose(offered, capacity_types("on-demand"))
    found = list(dict.fromkeys(name for name, _ in pools(chosen)))
    assert found == [f"x1.{index}large" for index in range(69, 9, -1)]
    many = requirement.of(names.INSTANCE_TYPE, Operator.EXISTS, min_values=61)
    with pytest.raises(errors.InsufficientCapacity, match="too few different"):
        choose(offered, many)
    relaxed = choice.choose(offered, ClaimView("c", None, requirements.of(many)), best_effort=True)
    assert len({name for name, _ in pools(relaxed)}) == 60


def test_preferred_zone_comes_first_at_equal_price() -> None:
    chosen = choose(types(), capacity_types("on-demand"), preferred_zone="us-west-2b")
    assert [(option.instance_type.name, option.offering.zone) for option in chosen.options] == [
        ("m5.large", "us-west-2b"),
        ("m5.large", "us-west-2a"),
        ("m5.xlarge", "us-west-2b"),
        ("m5.xlarge", "us-west-2a"),
    ]


def test_cheaper_zone_comes_before_the_preferred_zone() -> None:
    spot = {("m5.large", "us-west-2a"): 1, ("m5.large", "us-west-2b"): 2}
    chosen = choose(
        types(infos=("m5.large",), spot=spot), capacity_types("spot"), preferred_zone="us-west-2b"
    )
    assert [option.offering.zone for option in chosen.options] == ["us-west-2a", "us-west-2b"]
