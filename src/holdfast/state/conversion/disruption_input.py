"""Converts NodePools, NodeClaims and Nodes into the input of `core/disruption`, and counts changes of the cluster.

Everything is read from objects, so a restart gives the same input. A value that cannot be parsed forbids disruption.
Budgets are passed on as strings: `core/disruption` allows no disruption for a budget that it cannot parse.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from holdfast import names
from holdfast.api import claim_conditions, conditions, reboots
from holdfast.api.claim_conditions import DRIFTED, INITIALIZED, INSTANCE_TERMINATING, REBOOTING
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import Budget, NodePool
from holdfast.api.nodes import Node
from holdfast.api.pods import Pod
from holdfast.core.disruption import inputs
from holdfast.core.disruption.inputs import (
    DisruptionInput,
    Drifted,
    NodeCondition,
    NodeFacts,
    Policy,
    PoolRules,
)
from holdfast.model.snapshot import Snapshot
from holdfast.runtime.cache import Caches
from holdfast.state.conversion import disruption_commands, nodes, times
from holdfast.state.conversion.nodes import NodeAndClaim

_TRUE: Final = "true"
_NOTHING_ALLOWED: Final = (inputs.Budget("0"),)

K = TypeVar("K", bound=Object)


@dataclass(frozen=True, slots=True)
class Objects:
    node_pools: Iterable[NodePool]
    pairs: Mapping[str, NodeAndClaim]  # by name of the node
    unreadable: frozenset[str] | None = frozenset()  # nodes and NodeClaims; None: all of them


class FactsCache:
    """The facts of the last input. Equal facts are the same object, so that what follows from them is not computed
    again."""

    def __init__(self) -> None:
        self._of: Objects | None = None
        self._facts: dict[str, NodeFacts] = {}

    def of(self, objects: Objects) -> dict[str, NodeFacts]:
        last, before, unreadable = self._of, self._facts, objects.unreadable
        if last is None or last.unreadable != unreadable:
            self._facts = {name: facts(pair, unreadable) for name, pair in objects.pairs.items()}
        elif last.pairs is not objects.pairs:
            found, known = {}, last.pairs.get
            for name, pair in objects.pairs.items():
                if known(name) is pair:
                    found[name] = before[name]
                else:
                    new, old = facts(pair, unreadable), before.get(name)
                    found[name] = old if old == new else new
            self._facts = found
        self._of = objects
        return self._facts


def disruption_input(
    snapshot: Snapshot, objects: Objects, changed: int, cache: FactsCache | None = None
) -> DisruptionInput:
    return DisruptionInput(
        snapshot=snapshot,
        pools={pool.metadata.name: rules(pool) for pool in objects.node_pools},
        facts=(cache or FactsCache()).of(objects),
        changed=changed,
    )


def rules(pool: NodePool) -> PoolRules:
    disruption = pool.spec.disruption
    readable = disruption.consolidation_policy in tuple(Policy)
    return PoolRules(
        policy=Policy(disruption.consolidation_policy) if readable else Policy.WHEN_EMPTY,
        budgets=tuple(map(_budget, disruption.budgets)) if readable else _NOTHING_ALLOWED,
        static=pool.spec.replicas is not None,
        consolidated_s=times.moment_s(pool.metadata.annotations.get(names.CONSOLIDATED)),
    )


def facts(pair: NodeAndClaim, unreadable: frozenset[str] | None = frozenset()) -> NodeFacts:
    """`unreadable`: names of Nodes and NodeClaims that cannot be decoded; None: their names are unknown."""
    node, claim = pair.node, pair.claim
    return NodeFacts(
        ready=node is not None and nodes.is_ready(node),
        registered=pair.registered,
        rebooting=_holds(claim, REBOOTING),
        ending=_holds(claim, INSTANCE_TERMINATING),
        queued=claim is not None and disruption_commands.of(claim) is not None,
        unreadable=claim is not None
        and (unreadable is None or not unreadable.isdisjoint((pair.name, claim.metadata.name))),
        do_not_disrupt=_annotated(pair, names.DO_NOT_DISRUPT),
        do_not_repair=_annotated(pair, names.DO_NOT_REPAIR),
        created_s=times.epoch_s_or_none(claim.metadata.creation_timestamp) or 0 if claim is not None else 0,
        initialized_s=_since_s(claim, INITIALIZED),
        expire_after_s=_duration_s(claim.spec.expire_after) if claim is not None else None,
        grace_period_s=_duration_s(claim.spec.termination_grace_period) if claim is not None else None,
        drifted=_drifted(claim),
        conditions=tuple(
            NodeCondition(c.type, c.status, c.reason, times.epoch_s_or_none(c.last_transition_time) or 0)
            for c in (node.status.conditions if node is not None else ())
        ),
        reboots_s=reboots.of(claim) if claim is not None else (),
        rebooted_s=_since_s(claim, REBOOTING, conditions.FALSE),
        reboot_failed=claim is not None and reboots.has_failed(claim),
    )


def _budget(wire: Budget) -> inputs.Budget:
    return inputs.Budget(
        nodes=wire.nodes,
        reasons=None if wire.reasons is None else frozenset(wire.reasons),
        schedule=wire.schedule,
        duration_s=times.duration_s(wire.duration or "") or 0,
    )


def _annotated(pair: NodeAndClaim, key: str) -> bool:
    """Whether the Node or its NodeClaim has the annotation: a NodeClaim may have it before its Node exists."""
    return any(one is not None and one.metadata.annotations.get(key) == _TRUE for one in pair)


def _holds(claim: NodeClaim | None, type_: str) -> bool:
    return _since_s(claim, type_) is not None


def _since_s(claim: NodeClaim | None, type_: str, status: str = conditions.TRUE) -> int | None:
    """Since when a condition of the NodeClaim has this status; None: it has another status or is absent."""
    found = conditions.find(claim.status.conditions, type_) if claim is not None else None
    if found is None or found.status != status:
        return None
    return times.epoch_s(found.last_transition_time)


def _drifted(claim: NodeClaim | None) -> Drifted | None:
    since_s = _since_s(claim, DRIFTED)
    if claim is None or since_s is None:
        return None
    found = conditions.find(claim.status.conditions, DRIFTED)
    return Drifted((found.reason if found is not None else None) or DRIFTED, since_s)


def _duration_s(written: str | None) -> int | None:
    return None if written is None or written == times.NEVER else times.duration_s(written)


class Changes:
    """A number that changes whenever consolidation may give another result (ST-15)."""

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
