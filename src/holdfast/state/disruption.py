"""The world as disruption is asked about it: a snapshot, and what only disruption wants to know of pools and nodes.

Called by the disruption controller. Pure, but for `Changes`, which counts what it is told by caches. The rule: all of it
is read from objects, so a restart sees the same.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from holdfast import names
from holdfast.api import conditions, orders, reboots
from holdfast.api import nodepool as wire
from holdfast.api.conditions import Condition
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.core.disruption.inputs import (
    Budget,
    Drifted,
    NodeCondition,
    NodeFacts,
    Policy,
    PoolRules,
    World,
)
from holdfast.model.snapshot import Snapshot
from holdfast.runtime.cache import Caches
from holdfast.state import nodes, times
from holdfast.state.nodes import Halves

DRIFTED: Final = "Drifted"
_INITIALIZED: Final = "Initialized"
_INSTANCE_TERMINATING: Final = "InstanceTerminating"


@dataclass(frozen=True, slots=True)
class Objects:
    node_pools: Iterable[NodePool]
    node_claims: Iterable[NodeClaim]
    nodes: Iterable[Node]


def world(snapshot: Snapshot, objects: Objects, changed: int) -> World:
    halves = nodes.pair(filter(nodes.is_known, objects.nodes), objects.node_claims)
    return World(
        snapshot=snapshot,
        pools={pool.metadata.name: rules(pool) for pool in objects.node_pools},
        facts={half.name: facts(half) for half in halves},
        changed=changed,
    )


def rules(pool: NodePool) -> PoolRules:
    spec = pool.spec.disruption
    return PoolRules(
        policy=Policy(spec.consolidation_policy),
        budgets=tuple(map(_budget, spec.budgets)),
        static=pool.spec.replicas is not None,
    )


def facts(halves: Halves) -> NodeFacts:
    """Of a node that is not ours little is asked, and of a claim without a node nothing that only a node can say."""
    node, claim = halves.node, halves.claim
    found = claim.status.conditions if claim is not None else ()
    return NodeFacts(
        ready=node is not None and nodes.is_ready(node),
        registered=halves.registered,
        rebooting=claim is not None and reboots.is_on(claim),
        ending=_holds(found, _INSTANCE_TERMINATING) is not None,
        queued=claim is not None and orders.of(claim) is not None,
        do_not_disrupt=_says(node, names.DO_NOT_DISRUPT),
        do_not_repair=_says(node, names.DO_NOT_REPAIR) or _says(claim, names.DO_NOT_REPAIR),
        created_s=_created_s(claim),
        initialized_s=_since_s(_holds(found, _INITIALIZED)),
        expire_after_s=times.duration_s(claim.spec.expire_after) if claim is not None else None,
        grace_period_s=_grace_period_s(claim),
        drifted=_drifted(_holds(found, DRIFTED)),
        conditions=tuple(map(_condition, node.status.conditions)) if node is not None else (),
        reboots_s=reboots.of(claim) if claim is not None else (),
    )


class Changes:
    """Another number after every change that could make consolidation worth a try (ST-15)."""

    def __init__(self, caches: Caches) -> None:
        self.number = 0
        caches.of(Pod).subscribe(self._on_pod)
        caches.of(Node).subscribe(self._on_node)
        caches.of(NodeClaim).subscribe(self._on_claim)
        caches.of(NodePool).subscribe(self._on_pool)

    def _on_pod(self, before: Pod | None, after: Pod | None) -> None:
        bound = after is not None and after.spec.node_name
        was_bound = before is not None and before.spec.node_name
        self.number += after is None or (bool(bound) and not was_bound)

    def _on_node(self, before: Node | None, after: Node | None) -> None:
        self.number += _differs(before, after, _node_state)

    def _on_claim(self, before: NodeClaim | None, after: NodeClaim | None) -> None:
        self.number += _differs(before, after, _claim_state)

    def _on_pool(self, before: NodePool | None, after: NodePool | None) -> None:
        self.number += _differs(before, after, lambda pool: pool.metadata.generation)


def _differs(before: Any, after: Any, state: Any) -> bool:
    return before is None or after is None or state(before) != state(after)


def _node_state(node: Node) -> tuple[object, ...]:
    return node.metadata.deletion_timestamp is None, node.metadata.labels.get(names.INITIALIZED)


def _claim_state(claim: NodeClaim) -> tuple[object, ...]:
    ending = _holds(claim.status.conditions, _INSTANCE_TERMINATING)
    return claim.metadata.deletion_timestamp is None, ending is None, orders.of(claim) is None


def _budget(one: wire.Budget) -> Budget:
    return Budget(
        nodes=one.nodes,
        reasons=frozenset(one.reasons) if one.reasons is not None else None,
        schedule=one.schedule,
        duration_s=times.duration_s(one.duration or "") or 0,
    )


def _says(obj: Node | NodeClaim | None, annotation: str) -> bool:
    return obj is not None and obj.metadata.annotations.get(annotation) == "true"


def _created_s(claim: NodeClaim | None) -> int:
    created = claim.metadata.creation_timestamp if claim is not None else None
    return times.epoch_s_or_none(created) or 0


def _grace_period_s(claim: NodeClaim | None) -> int | None:
    period = claim.spec.termination_grace_period if claim is not None else None
    return times.duration_s(period) if period is not None else None


def _holds(found: Iterable[Condition], type_: str) -> Condition | None:
    one = conditions.find(found, type_)
    return one if one is not None and one.status == conditions.TRUE else None


def _since_s(one: Condition | None) -> int | None:
    return times.epoch_s(one.last_transition_time) if one is not None else None


def _drifted(one: Condition | None) -> Drifted | None:
    return (
        Drifted(one.reason or DRIFTED, times.epoch_s(one.last_transition_time)) if one is not None else None
    )


def _condition(one: Any) -> NodeCondition:
    since_s = times.epoch_s_or_none(one.last_transition_time) or 0
    return NodeCondition(one.type, one.status, one.reason, since_s)
