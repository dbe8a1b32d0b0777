"""The world as disruption is asked about it: a snapshot, and what only disruption wants to know of pools and nodes.

Called by the disruption controller. Pure, but for `Changes`, which counts what it is told by caches. The rule: all of it
is read from objects, so a restart sees the same.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from holdfast import names
from holdfast.api import claim_conditions, conditions, reboots
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.core.disruption.inputs import NodeFacts, World
from holdfast.model.snapshot import Snapshot
from holdfast.runtime.cache import Caches
from holdfast.state import disruption, disruption_commands, nodes
from holdfast.state.nodes import Halves

K = TypeVar("K", bound=Object)


@dataclass(frozen=True, slots=True)
class Objects:
    node_pools: Iterable[NodePool]
    node_claims: Iterable[NodeClaim]
    nodes: Iterable[Node]
    unreadable: frozenset[str] | None = frozenset()  # nodes and NodeClaims; None: all of them


def world(snapshot: Snapshot, objects: Objects, changed: int) -> World:
    halves = nodes.pair(filter(nodes.is_known, objects.nodes), objects.node_claims)
    return World(
        snapshot=snapshot,
        pools={pool.metadata.name: disruption.rules(pool) for pool in objects.node_pools},
        facts={half.name: _facts(half, objects.unreadable) for half in halves},
        changed=changed,
    )


def _facts(halves: Halves, unreadable: frozenset[str] | None) -> NodeFacts:
    claim = halves.claim
    if claim is None:
        return disruption.facts(halves)
    queued = (halves.name,) if disruption_commands.of(claim) is not None else ()
    hidden = unreadable is None or not unreadable.isdisjoint((halves.name, claim.metadata.name))
    return disruption.facts(halves, queued=queued, reboots_s=reboots.of(claim), unreadable=hidden)


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
        self.number += _differs(before, after, lambda pool: (pool.metadata.generation,))


def _differs(before: K | None, after: K | None, state: Callable[[K], tuple[object, ...]]) -> bool:
    return before is None or after is None or state(before) != state(after)


def _node_state(node: Node) -> tuple[object, ...]:
    return node.metadata.deletion_timestamp is None, node.metadata.labels.get(names.INITIALIZED)


def _claim_state(claim: NodeClaim) -> tuple[object, ...]:
    ending = conditions.find(claim.status.conditions, claim_conditions.INSTANCE_TERMINATING)
    return claim.metadata.deletion_timestamp is None, ending is None, disruption_commands.of(claim) is None
