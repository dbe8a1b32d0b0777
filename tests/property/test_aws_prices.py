"""The price of a slot for any list of prices: near zero, below all other prices, and ordered by the on-demand prices."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws_builders import build_catalog, real, reservation, supply
from builders import ec2nodeclass
from holdfast import names
from holdfast.cloud.aws.catalog.builder import BuiltTypes, Supply
from holdfast.model import prices, resources
from holdfast.model.offerings import InstanceType

SELECTING = ec2nodeclass(capacityReservationSelectorTerms=[{"ownerID": "111122223333"}])
SIZES = (1, 2, 4, 8)
TYPES = tuple(
    msgspec.structs.replace(real("m5.large"), name=f"m5.{n}", vcpus=2 * n, memory_mib=8192 * n) for n in SIZES
)
RESERVATIONS = tuple(reservation(f"cr-{info.name}", instance_type=info.name) for info in TYPES)

price = st.integers(min_value=1, max_value=10**12)
on_demand_lists = st.dictionaries(st.sampled_from([info.name for info in TYPES]), price)
spot_lists = st.none() | st.dictionaries(
    st.tuples(st.sampled_from([info.name for info in TYPES]), st.sampled_from(["us-west-2a", "us-west-2b"])),
    price,
)


def near_zero(supplied: Supply, built: dict[str, InstanceType]) -> dict[str, Any]:
    """The near-zero price of the reserved offering of each instance type."""
    return {
        name: prices.near_zero(
            offering.price_nano_usd_per_hour,
            it.capacity[resources.CPU],
            it.capacity[resources.MEMORY],
            supplied.price_range,
        )
        for name, it in built.items()
        for offering in it.offerings
        if offering.reservation_id
    }


def build(supplied: Supply, cache: BuiltTypes) -> dict[str, InstanceType]:
    return {it.name: it for it in build_catalog(supplied, SELECTING, RESERVATIONS, now_s=0, built=cache)}


@pytest.mark.fact("Q-17", "AW-26")
@settings(max_examples=60)
@given(lists=st.lists(st.tuples(on_demand_lists, spot_lists), min_size=1, max_size=3))
def test_reserved_prices_are_near_zero_and_ordered_by_on_demand_price_after_every_price_change(
    lists: list[tuple[dict[str, int], dict[tuple[str, str], int] | None]],
) -> None:
    cache = BuiltTypes()
    for on_demand, spot in lists:
        supplied = supply(*TYPES, on_demand=on_demand, spot=spot)
        built = build(supplied, cache)
        near_zero_prices = near_zero(supplied, built)
        other_prices = [
            o.price_nano_usd_per_hour
            for it in built.values()
            for o in it.offerings
            if o.capacity_type != names.RESERVED and o.price_nano_usd_per_hour
        ]
        assert all(0 < each < min(other_prices, default=1) for each in near_zero_prices.values())
        # Types with a list price come first, by price; types without one follow, by size.
        by_list_price = sorted(
            near_zero_prices, key=lambda name: (name not in on_demand, on_demand.get(name, 0))
        )
        by_size = [info.name for info in TYPES if info.name not in on_demand]
        assert [near_zero_prices[name] for name in by_list_price] == sorted(near_zero_prices.values())
        assert [near_zero_prices[name] for name in by_size] == sorted(
            {near_zero_prices[name] for name in by_size}
        )
        keys = {name: it.order_key(reserved_offering(it)) for name, it in built.items()}
        assert sorted(keys, key=keys.__getitem__) == sorted(
            near_zero_prices, key=lambda name: (near_zero_prices[name], keys[name])
        )
        assert build(supplied, BuiltTypes()) == built  # a build without the cache gives the same types


def reserved_offering(it: InstanceType) -> Any:
    return next(o for o in it.offerings if o.reservation_id)
