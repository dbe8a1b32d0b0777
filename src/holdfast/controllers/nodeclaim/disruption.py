"""Sets the conditions Drifted and Consolidatable of a NodeClaim.

Runs last, so that a claim that becomes initialized and consolidatable in one reconcile is written once. As in
Karpenter, a condition that no longer holds is removed, not set to False (NC-40 to NC-42). If the cloud does not answer
or the NodePool cannot be parsed, the condition does not change.
"""

from typing import Final

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.nodepool import NodePool
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim.drift_checks import AGAIN_S, DriftChecks
from holdfast.runtime.cache import Caches
from holdfast.runtime.results import RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import times

# The ends of waits are computed from the time of the API server, which may be stepped.
_LATER_S: Final = 3600.0


class Disruption:
    def __init__(self, *, cluster_state: ClusterState, caches: Caches, drift_checks: DriftChecks) -> None:
        self._cluster_state = cluster_state
        self._pools = caches.of(NodePool)
        self._drift_checks = drift_checks

    async def run(self, draft: Draft) -> RequeueAfter | None:
        pool = self._pools.get(("", draft.labels.get(names.NODEPOOL, "")))
        if pool is None:
            return None
        left_s = min(self._consolidatable(draft, pool), await self._drift(draft, pool))
        return RequeueAfter(left_s, "until drift and consolidation are checked again")

    # --- Drift ----------------------------------------------------------------------------------------

    async def _drift(self, draft: Draft, pool: NodePool) -> float:
        """Returns the seconds until the next check in a reconcile of the claim. A claim that was just launched is checked
        in the next reconcile. `drift_checks` checks a claim that has not drifted."""
        claim = draft.claim
        node_class = self._cluster_state.node_class(claim.spec.node_class_ref)
        if not conditions.holds(claim.status.conditions, claim_conditions.LAUNCHED):
            draft.conditions.drop(claim_conditions.DRIFTED)
            return AGAIN_S
        if node_class is None:
            return AGAIN_S
        try:
            check = await self._drift_checks.check(claim, pool, node_class)
        except (errors.NotReady, errors.NotFound, errors.InvalidInput):
            return AGAIN_S
        if check.drifted is None:
            draft.conditions.drop(claim_conditions.DRIFTED)
            return _LATER_S
        draft.conditions.put(claim_conditions.DRIFTED, conditions.TRUE, check.drifted, check.drifted)
        return self._drift_checks.left_s(check)

    # --- Consolidation --------------------------------------------------------------------------------

    def _consolidatable(self, draft: Draft, pool: NodePool) -> float:
        if pool.spec.replicas is not None:
            return _LATER_S
        after = pool.spec.disruption.consolidate_after
        after_s = None if after == times.NEVER else times.duration_s(after)
        initialized = draft.conditions.find(claim_conditions.INITIALIZED)
        if after_s is None or initialized is None or initialized.status != conditions.TRUE:
            draft.conditions.drop(claim_conditions.CONSOLIDATABLE)
            return AGAIN_S if initialized is None or initialized.status != conditions.TRUE else _LATER_S
        since = draft.status.last_pod_event_time or initialized.last_transition_time
        left_s = times.epoch_s(since) + after_s - times.epoch_s(draft.now)
        if left_s > 0:
            draft.conditions.drop(claim_conditions.CONSOLIDATABLE)
            return min(left_s, AGAIN_S)
        draft.conditions.put(claim_conditions.CONSOLIDATABLE, conditions.TRUE)
        return _LATER_S
