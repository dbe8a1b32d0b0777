"""Inputs for disruption: nodes of known types and prices with their pods, pools with their rules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from holdfast import names
from holdfast.core.disruption.commands import Decision
from holdfast.core.disruption.inputs import Budget, DisruptionInput, NodeFacts, PoolRules
from holdfast.model.instances import Instance, InstanceState
from holdfast.model.offerings import InstanceType
from holdfast.model.pods import PodShape, PodView
from holdfast.model.reservations import Reservation
from holdfast.model.snapshot import BudgetView, NodePoolView, NodeView
from planner_builders import (
    RESERVATION_ID,
    instance_type,
    node,
    pool,
    request,
    running,
    selector,
)

NOW_S = 1_000_000
HOUR_S = 3600
SMALL, MEDIUM, LARGE = "small", "medium", "large"
FREE = PoolRules(budgets=())  # no budget limits disruption
_SIZES = {SMALL: 2, MEDIUM: 4, LARGE: 8}


def catalog(reservations: Iterable[Reservation] = (), **more: Any) -> tuple[InstanceType, ...]:
    """Three types in three zones: 2, 4 and 8 cores at 0.1, 0.2 and 0.4 an hour on demand."""
    all_reservations = tuple(reservations)
    return tuple(
        instance_type(name, cpu, 4 * cpu, 0.05 * cpu, all_reservations, **more)
        for name, cpu in _SIZES.items()
    )


def managed_node(
    name: str,
    type_: str = MEDIUM,
    pods: Sequence[PodView] = (),
    capacity_type: str = names.ON_DEMAND,
    slot: str | None = None,
    **more: Any,
) -> NodeView:
    """A node with a NodeClaim; `slot` is the id of its reservation. It has the allocatable of its instance type."""
    reserved = {names.CAPACITY_TYPE: names.RESERVED, RESERVATION_ID: slot} if slot else {}
    default_labels = {names.INSTANCE_TYPE: type_, names.CAPACITY_TYPE: capacity_type} | reserved
    view = node(
        name,
        _SIZES.get(type_, 4),
        4 * _SIZES.get(type_, 4),
        labels=default_labels | more.pop("labels", {}),
        pods=tuple(pod._replace(node_name=name) for pod in pods),
        claim=more.pop("claim", f"claim-{name}"),
        provider_id=more.pop("provider_id", f"id-{name}"),
        **more,
    )
    allocatable = dict(view.allocatable.amounts)
    allocatable["cpu"] -= 100
    allocatable["memory"] -= 10 * 2**20
    return replace(view, allocatable=type(view.allocatable)(tuple(sorted(allocatable.items()))))


def load(name: str, of: PodShape, count: int = 1, **more: Any) -> tuple[PodView, ...]:
    """Running pods whose uids begin with the name."""
    return running(count, of, name, **more)


def instances(*nodes: NodeView) -> tuple[Instance, ...]:
    """The instances of these nodes, as the Cloud port lists them."""
    return tuple(
        Instance(
            provider_id=one.provider_id or "",
            instance_type=labels.get(names.INSTANCE_TYPE, ""),
            zone=labels.get(names.ZONE, ""),
            capacity_type=labels.get(names.CAPACITY_TYPE, ""),
            state=InstanceState.RUNNING,
            launched_s=0,
            reservation_id=labels.get(RESERVATION_ID),
            claim=one.claim,
        )
        for one in nodes
        for labels in [dict(one.labels)]
    )


def disruption_input(
    *nodes: NodeView,
    reservations: Sequence[Reservation] = (),
    pools: Sequence[NodePoolView] | None = None,
    rules: PoolRules | Mapping[str, PoolRules] = FREE,
    facts: Mapping[str, NodeFacts] | None = None,
    **more: Any,
) -> DisruptionInput:
    """Initialized nodes of the pool `default`. Without `rules` no budget applies."""
    node_pools = pools if pools is not None else [pool("default", catalog(reservations))]
    solve_request = request(
        node_pools,
        more.pop("pending", ()),
        reservations,
        nodes=tuple(sorted(nodes, key=lambda one: one.name)),
        taken_s=more.pop("now_s", NOW_S),
        instances=more.pop("instances", instances(*nodes)),
        counts_read_s=more.pop("counts_read_s", NOW_S),
        **more,
    )
    by_pool = {one.name: rules for one in node_pools} if isinstance(rules, PoolRules) else dict(rules)
    return DisruptionInput(solve_request.snapshot, by_pool, facts or {})


def codes(decision: Decision, node: str) -> set[str]:
    """The reason codes why a node is not disrupted."""
    return {one.reason.code for entry in decision.undisrupted if entry.node == node for one in entry.blockers}


def at_most(nodes: str, **more: Any) -> PoolRules:
    return PoolRules(budgets=(Budget(nodes, **more),))


def pdb(app: str = "web", allowed: int = 0, **more: Any) -> BudgetView:
    return BudgetView(
        "default",
        more.pop("name", f"pdb-{app}"),
        selector(app=app),
        more.pop("fully", False),
        allowed,
        **more,
    )
