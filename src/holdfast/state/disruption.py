"""What disruption wants to know of nodes and NodePools, from their wire objects.

Called when a world is taken for `core.disruption`. The rule: what cannot be read forbids rather than allows; so a budget
is handed on as it is written, and it is the decision that lets nobody go by one that makes no sense.
"""

from collections.abc import Container, Iterable
from typing import Final

from holdfast import names
from holdfast.api import conditions, reboots
from holdfast.api.claim_conditions import DRIFTED, INITIALIZED, INSTANCE_TERMINATING, REBOOTING
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import Budget, NodePool
from holdfast.core.disruption import inputs
from holdfast.core.disruption.inputs import Drifted, NodeCondition, NodeFacts, Policy, PoolRules
from holdfast.state import nodes, times
from holdfast.state.nodes import NodeAndClaim

_TRUE: Final = "true"
_NOTHING_ALLOWED: Final = (inputs.Budget("0"),)


def rules(pool: NodePool) -> PoolRules:
    disruption = pool.spec.disruption
    readable = disruption.consolidation_policy in tuple(Policy)
    return PoolRules(
        policy=Policy(disruption.consolidation_policy) if readable else Policy.WHEN_EMPTY,
        budgets=tuple(map(_budget, disruption.budgets)) if readable else _NOTHING_ALLOWED,
        static=pool.spec.replicas is not None,
        consolidated_s=times.moment_s(pool.metadata.annotations.get(names.CONSOLIDATED)),
    )


def facts(
    pair: NodeAndClaim,
    *,
    queued: Container[str] = (),
    reboots_s: Iterable[int] = (),
    unreadable: bool = False,
) -> NodeFacts:
    """`queued` are nodes that a command is being carried out on; `reboots_s` is when this one was rebooted."""
    node, claim = pair.node, pair.claim
    return NodeFacts(
        ready=node is not None and nodes.is_ready(node),
        registered=pair.registered,
        rebooting=_holds(claim, REBOOTING),
        ending=_holds(claim, INSTANCE_TERMINATING),
        queued=pair.name in queued,
        unreadable=unreadable,
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
        reboots_s=tuple(reboots_s),
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
    """On the Node or the NodeClaim: a claim has the annotation before its node exists."""
    return any(one is not None and one.metadata.annotations.get(key) == _TRUE for one in pair)


def _holds(claim: NodeClaim | None, type_: str) -> bool:
    return _since_s(claim, type_) is not None


def _since_s(claim: NodeClaim | None, type_: str, status: str = conditions.TRUE) -> int | None:
    """Since when a condition of the claim is True, or that; None: it is not."""
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
