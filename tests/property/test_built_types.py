"""Instance types that are built from what changed are those that are built from scratch, after any sequence of changes."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from aws_builders import build_catalog, real, reservation, supply
from builders import ec2nodeclass
from holdfast.cloud.aws.catalog.builder import BuiltTypes

NAMES = ("m5.large", "c5.large", "r5.large")
TYPES = tuple(map(real, NAMES))
RESERVED = tuple(f"cr-{name}" for name in NAMES)
HOUR_S = 3600

names = st.sampled_from(NAMES)
# Few of them, so that most steps change one thing only.
supplies = st.sampled_from(
    [
        {"on_demand": {"m5.large": 1, "c5.large": 2}},
        {"on_demand": {"m5.large": 3, "r5.large": 2}},
        {"on_demand": {"m5.large": 1}, "exhausted": frozenset({("m5.large", "us-west-2a", "spot")})},
        {"on_demand": {"m5.large": 1}, "observed_memory": {"c5.large": 2**32}},
    ]
)
held_down = st.frozensets(st.sampled_from(RESERVED))
reservations = st.dictionaries(names, st.tuples(st.integers(0, 2), st.integers(0, 3)))
classes = st.sampled_from([{}, {"kubelet": {"maxPods": 9}}])
steps = st.tuples(supplies, held_down, reservations, classes, st.integers(0, 4))


@settings(max_examples=150)
@given(some=st.lists(steps, min_size=2, max_size=6))
def test_types_from_the_cache_are_those_from_scratch(some: list[tuple[Any, ...]]) -> None:
    cache = BuiltTypes()
    for fields, held, found, spec, hour in some:
        terms = [{"ownerID": "111122223333"}]
        node_class = ec2nodeclass(capacityReservationSelectorTerms=terms, **spec)
        selected = [
            reservation(f"cr-{name}", instance_type=name, available=free, total=2, end_s=(1 + ends) * HOUR_S)
            for name, (free, ends) in found.items()
        ]
        given_ = (supply(*TYPES, held_down=held, **fields), node_class, selected)
        cached = build_catalog(*given_, now_s=hour * HOUR_S, built=cache)
        assert cached == build_catalog(*given_, now_s=hour * HOUR_S)
