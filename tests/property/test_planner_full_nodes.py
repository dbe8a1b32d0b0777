"""A plan does not depend on whether the planner leaves out a node without capacity before it places pods.

It leaves out nodes that have less of some resource than every pod requests. The other nodes of these tests have enough of
each resource for one of the pods, and of all resources for none: nothing can be placed on them either, so the plans must be
equal. Their pods count for topology constraints, and their host ports and volumes matter on no other node.
"""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import names
from holdfast.core.scheduling.input.columns import CatalogCache
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import resources
from holdfast.model.host_ports import HostPort
from holdfast.model.pods import PodShape, PodTerm, TopologySpread, Volumes
from holdfast.model.snapshot import NodeView
from holdfast.model.taints import Effect, Taint
from planner_builders import (
    ZONES,
    daemon,
    fake_types,
    node,
    placed,
    pods,
    pool,
    request,
    running,
    selector,
    shape,
)

MUCH_CPU = {"cpu_millis": 3000, "memory_mib": 1024}
MUCH_MEMORY = {"cpu_millis": 500, "memory_mib": 12 * 1024}
NOTHING_LEFT = {"cpu": 0, "memory": 0, "pods": 110}
ENOUGH_OF_EACH = {"cpu": 1000, "memory": 2 * 2**30, "pods": 110}  # for one of the two, never for both
OTHER_ZONE = "z9"  # no instance type is offered there
APPS = st.sampled_from(("web", "db"))
KEYS = st.sampled_from((names.ZONE, names.HOSTNAME))
TERMS = st.builds(lambda key, app: PodTerm(key, selector(app=app), ("default",)), KEYS, APPS)
SPREADS = st.builds(
    lambda key, app, skew, taints: TopologySpread(
        key, skew, True, selector(app=app), honors_node_taints=taints
    ),
    KEYS, APPS, st.integers(1, 2), st.booleans(),
)  # fmt: skip
TOPOLOGY = st.fixed_dictionaries(
    {},
    optional={
        "spreads": st.tuples(SPREADS),
        "affinity": st.tuples(TERMS),
        "anti_affinity": st.tuples(TERMS),
        "host_ports": st.just((HostPort(80),)),
        "volumes": st.just(Volumes(claims=(("ebs", "default/shared"),))),
    },
)
DAEMON = daemon(PodShape("kube-system", resources.of({"cpu": 10})))
TAINTS = st.sampled_from(((), (Taint("team", Effect.NO_SCHEDULE, "ml"),)))


@st.composite
def nodes(draw: st.DrawFn) -> tuple[NodeView, ...]:
    """Nodes with pods; those named `full-…` have nothing left."""
    found = []
    for number in range(draw(st.integers(1, 4))):
        is_full = draw(st.booleans())
        of_node = shape(0, 0, app=draw(APPS), **draw(TOPOLOGY))
        terminating = draw(st.booleans())
        there = running(draw(st.integers(0, 2)), of_node, f"old-{number}", terminating=terminating)
        # A pod without requests that needs another node could be placed on a full one.
        there = tuple(pod._replace(reschedulable=False) for pod in there)
        more: dict[str, Any] = {"extra": NOTHING_LEFT} if is_full else {"cpu": 8}
        found.append(
            node(
                f"{'full' if is_full else 'open'}-{number}",
                zone=draw(st.sampled_from((*ZONES, OTHER_ZONE))),
                pods=there,
                taints=draw(TAINTS),
                deleting=draw(st.integers(0, 4)) == 0,
                volume_limits=(("ebs", 1),) if draw(st.booleans()) else (),
                **more,
            )
        )
    return tuple(found)


@settings(max_examples=100)
@given(
    there=nodes(),
    topology=st.tuples(TOPOLOGY, TOPOLOGY),
    counts=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    packing=st.sampled_from(tuple(Packing)),
    with_daemons=st.booleans(),
)
def test_full_nodes_that_are_left_out_change_no_plan(
    *,
    there: tuple[NodeView, ...],
    topology: tuple[dict[str, Any], dict[str, Any]],
    counts: tuple[int, int],
    packing: Packing,
    with_daemons: bool,
) -> None:
    pending = (
        *pods(counts[0], shape(app="web", **MUCH_CPU, **topology[0]), "cpu"),
        *pods(counts[1], shape(app="db", **MUCH_MEMORY, **topology[1]), "memory"),
    )
    more: dict[str, Any] = {"daemon_sets": (DAEMON,)} if with_daemons else {}

    def plan_of(some: tuple[NodeView, ...]) -> Plan:
        asked = request([pool("default", fake_types(12))], pending, packing=packing, nodes=some, **more)
        return solve(asked, CatalogCache())

    found = plan_of(there)
    assert found == plan_of(tuple(map(with_enough_of_each, there)))
    assert not any(name.startswith("full") for name in placed(found))


def with_enough_of_each(one: NodeView) -> NodeView:
    if not one.name.startswith("full"):
        return one
    return NodeView(
        one.name, one.labels, resources.of(ENOUGH_OF_EACH), one.capacity, one.taints, one.pods,
        node_pool=one.node_pool, deleting=one.deleting, volume_limits=one.volume_limits,
    )  # fmt: skip
