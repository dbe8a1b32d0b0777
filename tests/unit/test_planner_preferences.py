"""Preferences with `preferencePolicy: Respect`: free slots and existing nodes do not relax them."""

from typing import Any

import pytest

from holdfast import names
from holdfast.core.scheduling.input.request import Packing
from holdfast.core.scheduling.output.plan import Plan
from holdfast.core.scheduling.solve import solve
from holdfast.model import requirements
from holdfast.model.pods import PodTerm, PreferredNodeTerm, PreferredPodTerm, TopologySpread
from holdfast.model.snapshot import NodePoolView, NodeView
from holdfast.model.taints import Effect, Taint
from planner_builders import (
    WELL_KNOWN,
    instance_type,
    is_in,
    node,
    pods,
    pool,
    request,
    reservation,
    selector,
    shape,
)

BOTH_PACKINGS = pytest.mark.parametrize("packing", list(Packing))
SLOT = reservation("cr-1", "m5.4xlarge", "z1")
TYPES = [instance_type("m5.large", 2, 8, 0.1), instance_type("m5.4xlarge", 16, 64, 0.8, [SLOT])]
BOTH = is_in(names.CAPACITY_TYPE, "reserved", "on-demand")


def prefers(key: str, value: str) -> dict[str, Any]:
    return {"preferred_terms": (PreferredNodeTerm(1, requirements.of(is_in(key, value))),)}


APART: dict[str, Any] = {
    "preferred_anti_affinity": (
        PreferredPodTerm(1, PodTerm(names.HOSTNAME, selector(app="web"), ("default",))),
    )
}
SPREAD: dict[str, Any] = {
    "spreads": (TopologySpread(names.ZONE, 1, required=False, selector=selector(app="web")),)
}
TAINTED = (Taint("example.com/other", Effect.PREFER_NO_SCHEDULE),)


def pool_of(plan: Plan) -> list[str]:
    return [claim.node_pool for claim in plan.claims for _ in claim.pods]


def plan_for(
    packing: Packing, *pools: NodePoolView, nodes: tuple[NodeView, ...] = (), **preferences: Any
) -> Plan:
    waiting = pods(3, shape(1000, **preferences))
    plan = solve(request(pools, waiting, [SLOT], packing, nodes=nodes))
    assert not plan.unplaced
    return plan


EXISTING_NODE = node("n1", cpu=16, memory_gib=64)


@BOTH_PACKINGS
@pytest.mark.parametrize("nodes", [(), (EXISTING_NODE,)], ids=["a free slot", "a node with capacity"])
def test_preferred_anti_affinity_is_respected(packing: Packing, nodes: tuple[NodeView, ...]) -> None:
    plan = plan_for(packing, pool("default", TYPES, BOTH), nodes=nodes, **APART)
    assert len(plan.claims) + len(plan.placed) == 3


@BOTH_PACKINGS
@pytest.mark.parametrize("nodes", [(), (EXISTING_NODE,)], ids=["a free slot", "a node with capacity"])
def test_a_preferred_zone_is_respected(packing: Packing, nodes: tuple[NodeView, ...]) -> None:
    plan = plan_for(packing, pool("default", TYPES, BOTH), nodes=nodes, **prefers(names.ZONE, "z2"))
    assert not plan.placed
    assert {claim.zone for claim in plan.claims} == {"z2"}


@BOTH_PACKINGS
def test_a_preferred_capacity_type_is_respected(packing: Packing) -> None:
    plan = plan_for(packing, pool("default", TYPES, BOTH), **prefers(names.CAPACITY_TYPE, "on-demand"))
    assert {claim.capacity_type for claim in plan.claims} == {"on-demand"}


@BOTH_PACKINGS
def test_a_preferred_nodepool_is_respected(packing: Packing) -> None:
    pools = (pool("slots", TYPES, BOTH), pool("other", TYPES[:1]))
    assert pool_of(plan_for(packing, *pools, **prefers(names.NODEPOOL, "other"))) == ["other"] * 3


@BOTH_PACKINGS
def test_a_preferred_spread_over_zones_is_respected(packing: Packing) -> None:
    plan = plan_for(packing, pool("default", TYPES, BOTH), **SPREAD)
    assert sorted(claim.zone for claim in plan.claims for _ in claim.pods) == ["z1", "z2", "z3"]


@BOTH_PACKINGS
def test_a_prefer_no_schedule_taint_is_respected(packing: Packing) -> None:
    pools = (pool("slots", TYPES, BOTH, taints=TAINTED), pool("other", TYPES[:1]))
    assert pool_of(plan_for(packing, *pools)) == ["other"] * 3


@BOTH_PACKINGS
def test_an_unsatisfiable_preference_does_not_prevent_the_use_of_a_slot(packing: Packing) -> None:
    plan = plan_for(packing, pool("default", TYPES, BOTH), **prefers(names.ZONE, "z9"))
    assert [claim.reservation_id for claim in plan.claims] == ["cr-1"]


@BOTH_PACKINGS
def test_a_relaxed_preference_is_satisfied_as_often_as_by_first_fit(
    packing: Packing,
) -> None:
    """The full node in z2 makes the spread impossible after one pod, and the preference for c5 is relaxed before the
    spread. First fit places all pods on the c5.4xlarge of the first pod; m5.large would be cheaper."""
    types = [
        instance_type("m5.large", 2, 8, 0.1, zones=("z1",), labels={"example.com/family": "m5"}),
        instance_type("c5.large", 2, 8, 0.2, zones=("z1",), labels={"example.com/family": "c5"}),
        instance_type("c5.4xlarge", 16, 64, 1.6, zones=("z1",), labels={"example.com/family": "c5"}),
    ]
    full = node("n2", cpu=0, zone="z2")
    waiting = pods(8, shape(1000, **prefers("example.com/family", "c5"), **SPREAD))
    well_known = WELL_KNOWN | {"example.com/family"}
    plan = solve(
        request([pool("default", types)], waiting, (), packing, nodes=(full,), well_known=well_known)
    )
    assert [(claim.instance_type, len(claim.pods)) for claim in plan.claims] == [("c5.4xlarge", 8)]
