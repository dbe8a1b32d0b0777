"""The planner assigns slots to as many nodes as a maximum matching does, and uses no slot twice.

Every pod needs its own node, so a plan is a matching of pods to slots, and the test can compute a maximum matching.
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
class PodCase:
    """One pod: the instance types and zones it may use, and its size."""

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
        pod_cases = shape(1000 * self.cores, 64, labels=labels, node_selector=selected, anti_affinity=APART)
        return pods(1, pod_cases, name)[0]


ZONES = st.sets(st.sampled_from(["z1", "z2"]), min_size=1).map(frozenset)
POD_CASES = st.builds(
    PodCase,
    types=st.sets(st.integers(1, TYPES), min_size=1, max_size=4).map(frozenset),
    cores=st.integers(1, 4),
    zones=ZONES,
)
SLOTS = st.lists(
    st.tuples(st.integers(1, TYPES), st.sampled_from(["z1", "z2"]), st.integers(0, 2)), min_size=1, max_size=5
)


def maximum_matching(pod_cases: list[PodCase], slots: list[tuple[int, str]]) -> int:
    """The size of a maximum matching of pods to slots (augmenting paths)."""
    pod_of_slot: dict[int, int] = {}

    def augment(one: int, visited: set[int]) -> bool:
        for slot, (type_, zone) in enumerate(slots):
            if slot not in visited and pod_cases[one].fits(type_, zone):
                visited.add(slot)
                if slot not in pod_of_slot or augment(pod_of_slot[slot], visited):
                    pod_of_slot[slot] = one
                    return True
        return False

    return sum(augment(one, set()) for one in range(len(pod_cases)))


@settings(max_examples=60)
@given(pod_cases=st.lists(POD_CASES, min_size=1, max_size=6), slots=SLOTS, packing=st.sampled_from(Packing))
def test_as_many_nodes_get_a_slot_as_in_a_maximum_matching(
    pod_cases: list[PodCase], slots: list[tuple[int, str, int]], packing: Packing
) -> None:
    reservations = [reservation(f"cr-{i}", f"fake-it-{t}", zone, n) for i, (t, zone, n) in enumerate(slots)]
    pending = tuple(one.pod(f"p{i}") for i, one in enumerate(pod_cases))
    reserved_only = pool(
        "default", fake_types(TYPES + 1, reservations), is_in(names.CAPACITY_TYPE, names.RESERVED)
    )
    plan = solve(request([reserved_only], pending, reservations, packing))
    used = Counter(claim.reservation_id for claim in plan.claims)
    assert all(used[one.id] <= one.available for one in reservations)
    by_uid = {pod.uid: one for pod, one in zip(pending, pod_cases, strict=True)}
    offering_of = {f"cr-{i}": (t, zone) for i, (t, zone, _) in enumerate(slots)}
    for claim in plan.claims:
        assert claim.reservation_id is not None
        assert by_uid[claim.pods[0]].fits(*offering_of[claim.reservation_id])
    single_slots = [(t, zone) for t, zone, count in slots for _ in range(count)]
    assert len(plan.claims) == maximum_matching(pod_cases, single_slots)
