"""A plan does not depend on what earlier solves left in the cache of catalogs."""

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.core.scheduling.input.columns import CatalogCache
from holdfast.core.scheduling.input.request import Packing, SolveRequest
from holdfast.core.scheduling.solve import solve
from holdfast.model import resources
from holdfast.model.host_ports import HostPort
from holdfast.model.pods import PodShape, TopologySpread
from holdfast.model.taints import Effect, Taint
from planner_builders import (
    ZONES,
    daemon,
    fake_types,
    is_in,
    node,
    pods,
    pool,
    request,
    reservation,
    selector,
    shape,
)

SLOTS = [reservation("cr-1", "fake-it-3", available=1, total=2)]
CATALOGS = (fake_types(12), fake_types(12, SLOTS), fake_types(3))
REQUIREMENTS = (
    (),
    (is_in(names.ZONE, *ZONES[:1]),),
    (is_in(names.CAPACITY_TYPE, names.ON_DEMAND), is_in("team", "ml", "web")),
)
DAEMONS = (
    daemon(PodShape("kube-system", resources.of({"cpu": 10}))),
    daemon(PodShape("kube-system", resources.of({"cpu": 700}), host_ports=(HostPort(80),)), "large"),
)
TAINT = Taint("team", Effect.NO_SCHEDULE, "ml")
SHAPES = (
    shape(1000),
    shape(2500, 512, host_ports=(HostPort(80),)),
    shape(500, spreads=(TopologySpread(names.ZONE, 1, True, selector(app="web")),)),
    shape(700, 4096, app="db"),
)


@st.composite
def requests(draw: st.DrawFn) -> SolveRequest:
    found = [
        pool(
            name,
            draw(st.sampled_from(CATALOGS)),
            *draw(st.sampled_from(REQUIREMENTS)),
            taints=draw(st.sampled_from(((), (TAINT,)))),
            limits=draw(st.sampled_from((resources.NOTHING, resources.of({"cpu": 20_000})))),
        )
        for name in draw(st.sampled_from((("default",), ("default", "other"))))
    ]
    wanted = draw(st.lists(st.tuples(st.sampled_from(SHAPES), st.integers(1, 3)), min_size=1, max_size=3))
    pending = [pod for i, (of, count) in enumerate(wanted) for pod in pods(count, of, f"pod-{i}")]
    return request(
        found,
        pending,
        packing=draw(st.sampled_from(tuple(Packing))),
        nodes=draw(st.sampled_from(((), (node("n1", cpu=2, zone=ZONES[1]),)))),
        reservations=SLOTS,
        daemon_sets=draw(st.sampled_from(((), DAEMONS[:1], DAEMONS))),
    )


@settings(max_examples=100)
@given(st.lists(requests(), min_size=2, max_size=5))
def test_plans_with_a_shared_cache_equal_plans_of_each_request_alone(asked: Sequence[SolveRequest]) -> None:
    shared = CatalogCache()
    for one in asked:
        assert solve(one, shared) == solve(one, CatalogCache())
