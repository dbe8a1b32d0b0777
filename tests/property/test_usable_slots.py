"""The slots that a NodePool can use, after random changes, are those that are computed from scratch."""

from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import nodepool, requirement
from holdfast import names
from holdfast.api.nodepool import NodePool
from holdfast.controllers.reservations.usable_slots import UsableSlots
from holdfast.core.reservations import pool_slots
from holdfast.model.offerings import InstanceType
from holdfast.state.conversion import nodepools
from planner_builders import WELL_KNOWN, instance_type, reservation

ZONES = (("z1",), ("z2",), ("z1", "z2"))


def pool_of(name: str, generation: int) -> NodePool:
    pool = nodepool(name, requirements=[requirement(names.ZONE, "In", *ZONES[generation])])
    return msgspec.structs.replace(
        pool, metadata=msgspec.structs.replace(pool.metadata, uid=name, generation=generation)
    )


def types_of(free: int) -> tuple[InstanceType, ...]:
    slots = [
        reservation("cr-1", "small", "z1", available=free),
        reservation("cr-2", "small", "z2", available=1),
    ]
    return instance_type("small", 2, 8, 0.1, slots), instance_type("big", 8, 32, 0.4)


TYPES = tuple(map(types_of, range(3)))
steps = st.tuples(
    st.sampled_from(["a", "b"]), st.integers(0, 2), st.sampled_from(TYPES), st.sampled_from(["", "a", "b"])
)


@settings(max_examples=200)
@given(st.lists(steps, min_size=2, max_size=8))
def test_usable_slots_are_those_from_scratch(some: list[tuple[Any, ...]]) -> None:
    cache = UsableSlots(WELL_KNOWN)
    for name, generation, types, kept in some:
        pool = pool_of(name, generation)
        wanted = nodepools.template_requirements(pool)
        assert cache.of(pool, types) == pool_slots.usable(wanted, types, WELL_KNOWN)
        if kept:
            cache.keep({kept})
