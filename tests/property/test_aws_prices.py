"""The price of a slot, whatever prices AWS lists: near zero, below all others, in the order of the list."""

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
SEEN = tuple(reservation(f"cr-{info.name}", instance_type=info.name) for info in TYPES)

price = st.integers(min_value=1, max_value=10**12)
on_demand_lists = st.dictionaries(st.sampled_from([info.name for info in TYPES]), price)
spot_lists = st.none() | st.dictionaries(
    st.tuples(st.sampled_from([info.name for info in TYPES]), st.sampled_from(["us-west-2a", "us-west-2b"])),
    price,
)


def near_zero(supplied: Supply, built: dict[str, InstanceType]) -> dict[str, Any]:
    """The price of each type's slot, as a report or the wire has it."""
    return {
        name: prices.near_zero(
            slot.price_nano_usd_per_hour,
            it.capacity[resources.CPU],
            it.capacity[resources.MEMORY],
            supplied.price_range,
        )
        for name, it in built.items()
        for slot in it.offerings
        if slot.reservation_id
    }


def build(supplied: Supply, kept: BuiltTypes) -> dict[str, InstanceType]:
    return {it.name: it for it in build_catalog(supplied, SELECTING, SEEN, now_s=0, built=kept)}


@pytest.mark.fact("Q-17", "AW-26")
@settings(deadline=None, max_examples=60)
@given(lists=st.lists(st.tuples(on_demand_lists, spot_lists), min_size=1, max_size=3))
def test_slots_are_near_zero_in_the_order_of_the_list_whenever_prices_change(
    lists: list[tuple[dict[str, int], dict[tuple[str, str], int] | None]],
) -> None:
    kept = BuiltTypes()
    for on_demand, spot in lists:
        supplied = supply(*TYPES, on_demand=on_demand, spot=spot)
        built = build(supplied, kept)
        near = near_zero(supplied, built)
        paid = [
            o.price_nano_usd_per_hour
            for it in built.values()
            for o in it.offerings
            if o.capacity_type != names.RESERVED and o.price_nano_usd_per_hour
        ]
        assert all(0 < each < min(paid, default=1) for each in near.values())
        # Known prices in their order, then the unknown by size.
        listed = sorted(near, key=lambda name: (name not in on_demand, on_demand.get(name, 0)))
        by_size = [info.name for info in TYPES if info.name not in on_demand]
        assert [near[name] for name in listed] == sorted(near.values())
        assert [near[name] for name in by_size] == sorted({near[name] for name in by_size})
        keys = {name: it.order_key(slot_of(it)) for name, it in built.items()}
        assert sorted(keys, key=keys.__getitem__) == sorted(near, key=lambda name: (near[name], keys[name]))
        assert build(supplied, BuiltTypes()) == built  # what was kept is what would be built anew


def slot_of(it: InstanceType) -> Any:
    return next(o for o in it.offerings if o.reservation_id)
