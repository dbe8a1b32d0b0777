"""Sets the conditions Drifted and Consolidatable of a NodeClaim.

Runs last, so that a claim that becomes initialized and consolidatable in one reconcile is written once. As in
Karpenter, a condition that no longer holds is removed, not set to False (NC-40 to NC-42). If the cloud does not answer
or the NodePool cannot be parsed, the condition does not change.
"""

from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.controllers.claim_draft import Draft
from holdfast.controllers.nodeclaim import pool_drift
from holdfast.controllers.nodeclaim.class_versions import ClassVersions
from holdfast.controllers.nodeclaim.pool_drift import PoolDrift
from holdfast.model.offerings import InstanceType
from holdfast.ports import Ports
from holdfast.runtime.cache import Caches
from holdfast.runtime.results import RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import times

_TYPES_KEPT_S: Final = 5.0
_AGAIN_S: Final = 300.0  # between two checks for drift while nothing changes


@dataclass(frozen=True, slots=True)
class _Looked:
    """The input and the result of a check for drift."""

    at_s: float
    stamp: tuple[Any, ...]
    drifted: str | None


@dataclass(frozen=True, slots=True)
class _Types:
    """The instance types of a node class, and when they were read."""

    at_s: float
    node_class: Object
    types: tuple[InstanceType, ...]


class Disruption:
    def __init__(
        self, *, cluster_state: ClusterState, caches: Caches, ports: Ports, class_versions: ClassVersions
    ) -> None:
        self._cluster_state = cluster_state
        self._class_versions = class_versions
        self._claims = caches.of(NodeClaim)
        self._pools = caches.of(NodePool)
        self._cloud = ports.cloud
        self._clock = ports.clock
        self._looked: dict[str, _Looked] = {}  # by uid
        self._types: dict[str, _Types] = {}  # by name of class
        self._pool_drift = PoolDrift(ports.cloud.labels)

    async def run(self, draft: Draft) -> RequeueAfter | None:
        pool = self._pools.get(("", draft.labels.get(names.NODEPOOL, "")))
        if pool is None:
            return None
        left_s = min(self._consolidatable(draft, pool), await self._drift(draft, pool))
        return RequeueAfter(left_s, "until drift and consolidation are checked again")

    # --- Drift ----------------------------------------------------------------------------------------

    async def _drift(self, draft: Draft, pool: NodePool) -> float:
        """Returns the seconds until the next check. A claim that was just launched is checked in the next reconcile."""
        claim = draft.claim
        node_class = self._cluster_state.node_class(claim.spec.node_class_ref)
        if not conditions.holds(claim.status.conditions, claim_conditions.LAUNCHED):
            draft.conditions.drop(claim_conditions.DRIFTED)
            return _AGAIN_S
        if node_class is None:
            return _AGAIN_S
        now_s = self._clock.monotonic_s()
        looked = self._looked.get(claim.metadata.uid)
        stamp = (*pool_drift.fields(claim, pool), *self._class_versions.of(node_class))
        if looked is None or looked.stamp != stamp or now_s >= looked.at_s + _AGAIN_S:
            try:
                looked = _Looked(now_s, stamp, await self._reason(claim, pool, node_class))
            except (errors.NotReady, errors.NotFound, errors.InvalidInput):
                return _AGAIN_S
            self._remember(claim.metadata.uid, looked)
        if looked.drifted is None:
            draft.conditions.drop(claim_conditions.DRIFTED)
        else:
            draft.conditions.put(claim_conditions.DRIFTED, conditions.TRUE, looked.drifted, looked.drifted)
        return looked.at_s + _AGAIN_S - now_s

    async def _reason(self, claim: NodeClaim, pool: NodePool, node_class: Object) -> str | None:
        types, created = await self._types_of(node_class), claim.metadata.creation_timestamp
        age_s = self._clock.now_s() - times.epoch_s(created) if created is not None else 0
        found = self._pool_drift.reason(claim, pool, types, age_s)
        return found or await self._cloud.drift(claim, node_class)

    async def _types_of(self, node_class: Object) -> tuple[InstanceType, ...]:
        """The instance types of a class, read once for the claims that are checked within a few seconds: hundreds were
        launched together. Drift depends on no price and no count."""
        now_s, meta = self._clock.monotonic_s(), node_class.metadata
        known = self._types.get(meta.name)
        if known is None or known.node_class is not node_class or now_s >= known.at_s + _TYPES_KEPT_S:
            known = _Types(now_s, node_class, await self._cloud.instance_types(node_class))
            self._types = {
                name: one for name, one in self._types.items() if now_s < one.at_s + _TYPES_KEPT_S
            } | {meta.name: known}
        return known.types

    def _remember(self, uid: str, looked: _Looked) -> None:
        if len(self._looked) > 2 * len(self._claims):
            there = {claim.metadata.uid for claim in self._claims}
            self._looked = {uid: one for uid, one in self._looked.items() if uid in there}
            self._pool_drift.keep(there)
        self._looked[uid] = looked

    # --- Consolidation --------------------------------------------------------------------------------

    def _consolidatable(self, draft: Draft, pool: NodePool) -> float:
        if pool.spec.replicas is not None:
            return _AGAIN_S
        after = pool.spec.disruption.consolidate_after
        after_s = None if after == times.NEVER else times.duration_s(after)
        initialized = draft.conditions.find(claim_conditions.INITIALIZED)
        if after_s is None or initialized is None or initialized.status != conditions.TRUE:
            draft.conditions.drop(claim_conditions.CONSOLIDATABLE)
            return _AGAIN_S
        since = draft.status.last_pod_event_time or initialized.last_transition_time
        left_s = times.epoch_s(since) + after_s - times.epoch_s(draft.now)
        if left_s > 0:
            draft.conditions.drop(claim_conditions.CONSOLIDATABLE)
            return min(left_s, _AGAIN_S)
        draft.conditions.put(claim_conditions.CONSOLIDATABLE, conditions.TRUE)
        return _AGAIN_S
