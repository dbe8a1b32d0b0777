"""Slots are matched to nodes: as many nodes get a slot as any assignment could give one, and no slot is used twice.

Every pod has a node of its own, so a plan is a matching of pods to slots, and the best one can be computed beside it.
"""

from collections import Counter
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.solve import solve
from holdfast.model.pods import PodTerm, PodView
from holdfast.model.requirements import of
from planner_builders import fake_types, is_in, pods, pool, request, reservation, selector, shape

TYPES = 6  # fake-it-1 to fake-it-6, of two to seven cores
APART = (PodTerm(names.HOSTNAME, selector(group="all"), ("default",)),)


@dataclass(frozen=True)
class Wanted:
    """One pod: the types it may run on, and its size."""

    types: frozenset[int]
    cores: int
    zones: frozenset[str]

    def fits(self, type_: int, zone: str) -> bool:
        return type_ in self.types and self.cores <= type_ and zone in self.zones

    def pod(self, name: str) -> PodView:
        selected = of(
            is_in(names.INSTANCE_TYPE, *(f"fake-it-{i}" for i in sorted(self.types))),
            is_in(names.ZONE, *sorted(self.zones)),
        )
        labels = (("app", name), ("group", "all"))
        wanted = shape(1000 * self.cores, 64, labels=labels, node_selector=selected, anti_affinity=APART)
        return pods(1, wanted, name)[0]


ZONES = st.sets(st.sampled_from(["z1", "z2"]), min_size=1).map(frozenset)
WANTED = st.builds(
    Wanted,
    types=st.sets(st.integers(1, TYPES), min_size=1, max_size=4).map(frozenset),
    cores=st.integers(1, 4),
    zones=ZONES,
)
SLOTS = st.lists(
    st.tuples(st.integers(1, TYPES), st.sampled_from(["z1", "z2"]), st.integers(0, 2)), min_size=1, max_size=5
)


def most(wanted: list[Wanted], slots: list[tuple[int, str]]) -> int:
    """How many of these can have a slot each."""
    holder: dict[int, int] = {}

    def place(one: int, seen: set[int]) -> bool:
        for slot, (type_, zone) in enumerate(slots):
            if slot not in seen and wanted[one].fits(type_, zone):
                seen.add(slot)
                if slot not in holder or place(holder[slot], seen):
                    holder[slot] = one
                    return True
        return False

    return sum(place(one, set()) for one in range(len(wanted)))


@settings(max_examples=60)
@given(wanted=st.lists(WANTED, min_size=1, max_size=6), slots=SLOTS, packing=st.sampled_from(Packing))
def test_as_many_nodes_have_a_slot_as_any_assignment_allows(
    wanted: list[Wanted], slots: list[tuple[int, str, int]], packing: Packing
) -> None:
    kept = [reservation(f"cr-{i}", f"fake-it-{t}", zone, n) for i, (t, zone, n) in enumerate(slots)]
    pending = tuple(one.pod(f"p{i}") for i, one in enumerate(wanted))
    reserved_only = pool("default", fake_types(TYPES + 1, kept), is_in(names.CAPACITY_TYPE, names.RESERVED))
    plan = solve(request([reserved_only], pending, kept, packing))
    used = Counter(claim.reservation_id for claim in plan.claims)
    assert all(used[one.id] <= one.available for one in kept)
    by_uid = {pod.uid: one for pod, one in zip(pending, wanted, strict=True)}
    where = {f"cr-{i}": (t, zone) for i, (t, zone, _) in enumerate(slots)}
    for claim in plan.claims:
        assert claim.reservation_id is not None
        assert by_uid[claim.pods[0]].fits(*where[claim.reservation_id])
    single = [(t, zone) for t, zone, count in slots for _ in range(count)]
    assert len(plan.claims) == most(wanted, single)
