"""nodeclaim.disruption: whether a claim's node drifted, and whether it may be consolidated, as conditions on the claim.

Run by the engine, a key a claim, woken by the claim, its pool and its class. The rules are Karpenter's (NC-40 to NC-42):
what no longer holds is removed, not set to False; what the cloud cannot say now changes nothing.
"""

from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, names
from holdfast.api import claim_conditions, conditions
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.controllers import conditions as verdicts
from holdfast.controllers.conditions import Verdicts
from holdfast.controllers.doors import Doors
from holdfast.core.disruption import drift
from holdfast.core.disruption.drift import Hash, Subject
from holdfast.model.offerings import InstanceType
from holdfast.runtime import indexes
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.state import nodepools, times
from holdfast.state.live import Live

_AGAIN_S: Final = 300.0  # drift is looked for this often where nothing changes


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was looked at, and what was found."""

    at_s: float
    stamp: tuple[Any, ...]
    drifted: str | None


class Disruption:
    name: Final = "nodeclaim.disruption"

    def __init__(self, *, live: Live, caches: Caches, doors: Doors) -> None:
        self._live = live
        self._claims = caches.of(NodeClaim)
        self._of_pool = self._claims.index(indexes.by_node_pool)
        self._of_class = self._claims.index(lambda claim: (claim.spec.node_class_ref.name,))
        self._pools = caches.of(NodePool)
        self._classes = caches.of(doors.cloud.node_classes.kind)
        self._kube = doors.kube
        self._cloud = doors.cloud
        self._clock = doors.clock
        self._looked: dict[str, _Looked] = {}  # by uid

    def watch(self, controller: Controller) -> None:
        controller.watch(self._claims, lambda claim: (key_of(claim),))
        controller.watch(self._pools, lambda pool: map(key_of, self._of_pool.get(pool.metadata.name)))
        controller.watch(self._classes, lambda one: map(key_of, self._of_class.get(one.metadata.name)))

    async def reconcile(self, key: Key) -> Done | RequeueAfter:
        claim = self._claims.get(key)
        if claim is None or claim.metadata.deletion_timestamp is not None:
            return Done()
        pool = self._pools.get(("", claim.metadata.labels.get(names.NODEPOOL, "")))
        if pool is None or not self._live.is_ours(claim.spec.node_class_ref):
            return Done()
        found = Verdicts(claim, now_s=self._clock.now_s())
        left_s = min(await self._drift(claim, pool, found), self._consolidatable(claim, pool, found))
        try:
            did = await verdicts.write(self._kube, claim, found.changes)
        except errors.NotFound:
            return Done()
        return RequeueAfter(left_s, "whether it drifts, or is left in peace", did)

    # --- Drift ----------------------------------------------------------------------------------------

    async def _drift(self, claim: NodeClaim, pool: NodePool, found: Verdicts) -> float:
        """Until when to look again."""
        node_class = self._live.node_class(claim.spec.node_class_ref)
        launched = found.find(claim_conditions.LAUNCHED)
        if launched is None or launched.status != conditions.TRUE or not claim.status.provider_id:
            found.drop(claim_conditions.DRIFTED)
            return _AGAIN_S
        if node_class is None:
            return _AGAIN_S
        now_s = self._clock.monotonic_s()
        looked = self._looked.get(claim.metadata.uid)
        stamp = _stamp(claim, pool, node_class)
        if looked is None or looked.stamp != stamp or now_s >= looked.at_s + _AGAIN_S:
            try:
                looked = _Looked(now_s, stamp, await self._reason(claim, pool, node_class))
            except (errors.NotReady, errors.NotFound):
                return _AGAIN_S
            self._remember(claim.metadata.uid, looked)
        if looked.drifted is None:
            found.drop(claim_conditions.DRIFTED)
        else:
            found.put(claim_conditions.DRIFTED, conditions.TRUE, looked.drifted)
        return looked.at_s + _AGAIN_S - now_s

    async def _reason(self, claim: NodeClaim, pool: NodePool, node_class: Object) -> str | None:
        types = await self._cloud.instance_types(node_class)
        return drift.reason(self._subject(claim, pool, types)) or await self._cloud.drift(claim, node_class)

    def _subject(self, claim: NodeClaim, pool: NodePool, types: tuple[InstanceType, ...]) -> Subject:
        labels, created = claim.metadata.labels, claim.metadata.creation_timestamp
        reserved = labels.get(names.CAPACITY_TYPE) == names.RESERVED
        return Subject(
            launched=True,
            age_s=self._clock.now_s() - times.epoch_s(created) if created is not None else 0,
            labels=labels,
            made_from=_hash(claim),
            pool=_hash(pool),
            wanted=nodepools.template_requirements(pool),
            instance_types=types,
            cloud=self._cloud.labels,
            # A node that is not reserved and names a reservation all the same was sent there by its class.
            ignored=frozenset() if reserved else self._cloud.labels.reserved & labels.keys(),
        )

    def _remember(self, uid: str, looked: _Looked) -> None:
        if len(self._looked) > 2 * len(self._claims):
            there = {claim.metadata.uid for claim in self._claims}
            self._looked = {uid: one for uid, one in self._looked.items() if uid in there}
        self._looked[uid] = looked

    # --- Consolidation --------------------------------------------------------------------------------

    def _consolidatable(self, claim: NodeClaim, pool: NodePool, found: Verdicts) -> float:
        if pool.spec.replicas is not None:
            return _AGAIN_S
        after = pool.spec.disruption.consolidate_after
        after_s = None if after == times.NEVER else times.duration_s(after)
        initialized = found.find(claim_conditions.INITIALIZED)
        if after_s is None or initialized is None or initialized.status != conditions.TRUE:
            found.drop(claim_conditions.CONSOLIDATABLE)
            return _AGAIN_S
        since = claim.status.last_pod_event_time or initialized.last_transition_time
        left_s = times.epoch_s(since) + after_s - times.epoch_s(found.now)
        if left_s > 0:
            found.drop(claim_conditions.CONSOLIDATABLE)
            return min(left_s, _AGAIN_S)
        found.put(claim_conditions.CONSOLIDATABLE, conditions.TRUE)
        return _AGAIN_S


def _hash(obj: Object) -> Hash:
    stamped = obj.metadata.annotations
    return Hash(stamped.get(names.NODEPOOL_HASH), stamped.get(names.NODEPOOL_HASH_VERSION))


def _stamp(claim: NodeClaim, pool: NodePool, node_class: Object) -> tuple[Any, ...]:
    """Whatever drift is read from, but for the cloud."""
    return (
        claim.metadata.labels,
        claim.metadata.annotations,
        pool.metadata.generation,
        pool.metadata.annotations,
        node_class.metadata.resource_version,
    )
