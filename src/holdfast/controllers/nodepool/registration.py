"""NodeRegistrationHealthy: whether the recently launched instances of a NodePool registered (P-17).

It watches NodeClaims and caches a few outcomes for each NodePool. After a restart they are restored from the condition.
A new spec of the NodePool or of its class clears them.
"""

from collections.abc import Callable
from typing import Final

from holdfast.api import conditions
from holdfast.api.conditions import FALSE, TRUE, UNKNOWN, Condition, ConditionSet
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.core.lifecycle import registration_health
from holdfast.core.lifecycle.registration_health import NO_LAUNCHES, History
from holdfast.runtime import indexes
from holdfast.runtime.cache import Cache, key_of
from holdfast.runtime.results import Key
from holdfast.state.conversion import registrations

CONDITION: Final = "NodeRegistrationHealthy"
_WAITING: Final = "AwaitingReconciliation"


class RegistrationHealth:
    def __init__(self, *, pools: Cache[NodePool], claims: Cache[NodeClaim]) -> None:
        self._pools = pools
        self._claims = claims
        self._histories: dict[Key, History] = {}

    def subscribe(self, wake: Callable[[Key], None]) -> None:
        def changed(before: NodeClaim | None, after: NodeClaim | None) -> None:
            outcome = registrations.outcome(before, after)
            if outcome is None or after is None:
                return
            for name in indexes.by_node_pool(after):
                pool = self._pools.get(("", name))
                if pool is not None:
                    self._histories[key_of(pool)] = self._history(pool).with_outcome(outcome)
                    wake(key_of(pool))

        self._claims.subscribe(changed)

    def set_condition(self, found: ConditionSet, pool: NodePool, node_class: Object | None) -> None:
        known = found.find(CONDITION)
        if known is None or (node_class is not None and _is_outdated(known, pool, node_class)):
            self._histories[key_of(pool)] = NO_LAUNCHES
            found.put(CONDITION, UNKNOWN, _WAITING)
            return
        verdict = self._history(pool).verdict
        if verdict is not None:
            found.put(CONDITION, TRUE if verdict.registered else FALSE, verdict.reason, verdict.message)

    def discard(self, key: Key) -> None:
        self._histories.pop(key, None)

    def _history(self, pool: NodePool) -> History:
        known = conditions.find(pool.status.conditions, CONDITION)
        return self._histories.get(key_of(pool)) or _recalled(known)


def _is_outdated(known: Condition, pool: NodePool, node_class: Object) -> bool:
    """Whether the condition was set for another generation of the NodePool or its class."""
    observed = (known.observed_generation, pool.status.node_class_observed_generation)
    return observed != (pool.metadata.generation, node_class.metadata.generation)


def _recalled(known: Condition | None) -> History:
    if known is None or known.status == UNKNOWN:
        return NO_LAUNCHES
    return registration_health.from_condition(
        healthy=known.status == TRUE, reason=known.reason or "", message=known.message or ""
    )
