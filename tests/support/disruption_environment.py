"""Helpers of the disruption scenarios: a NodePool that allows disruption, and reads of its nodes."""

from typing import Any

import msgspec

from app_environment import AppEnvironment, capacity_types, instance_types
from holdfast import names
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.sim.ec2.entities import Reservation
from holdfast.state.conversion import times

ONE_PER_NODE = {"cpu": "1500m"}
ANY_NUMBER: list[dict[str, Any]] = [{"nodes": "100%"}]


async def pool(
    env: AppEnvironment,
    *slots: Reservation,
    types: tuple[str, ...] = ("m5.large",),
    kinds: tuple[str, ...] = ("reserved", "on-demand"),
    budgets: list[dict[str, Any]] = ANY_NUMBER,
    consolidate_after: str = "30s",
    **template: Any,
) -> None:
    fields: dict[str, Any] = {"capacityReservationSelectorTerms": [{"id": one.id} for one in slots]}
    await env.node_class(**(fields if slots else {}))
    await env.node_pool(
        requirements=[instance_types(*types), capacity_types(*kinds)],
        disruption={"budgets": budgets, "consolidateAfter": consolidate_after},
        **template,
    )


async def kernel_is(env: AppEnvironment, status: str) -> None:
    """Sets the condition KernelReady of the node, as an agent on the node does."""
    (node,) = await env.nodes()
    now = times.text(env.clock.now_s())
    condition = {"type": "KernelReady", "status": status, "reason": "Seen", "lastTransitionTime": now}
    others = [one for one in msgspec.to_builtins(node.status.conditions) if one["type"] != condition["type"]]
    change = {"status": {"conditions": [*others, condition]}}
    await env.kube.patch(node, change, status=True, only_if_unchanged=True)


async def kinds_of_nodes(env: AppEnvironment) -> list[str]:
    return sorted(node.metadata.labels[names.CAPACITY_TYPE] for node in await env.nodes())


def tainted(node: Node) -> bool:
    return any(taint.key == names.DISRUPTED_TAINT for taint in node.spec.taints)


def condition_of(claim: NodeClaim, condition: str) -> tuple[str, str | None] | None:
    matching = [one for one in claim.status.conditions if one.type == condition]
    return (matching[0].status, matching[0].reason) if matching else None


async def drift_all(env: AppEnvironment) -> None:
    """Changes the template of the pool, so that every node drifts."""
    node_pool = await env.kube.get(NodePool, "default")
    change = {"spec": {"template": {"metadata": {"labels": {"example.com/generation": "2"}}}}}
    await env.kube.patch(node_pool, change)


def is_new(node: Node) -> bool:
    return node.metadata.labels.get("example.com/generation") == "2"
