"""nodeclaim.drift: checks every five minutes whether NodeClaims have drifted, without a reconcile for each of them.

Most of the thousands of NodeClaims of a cluster do not drift for hours. So one key looks at all NodeClaims whose last check
is nearly five minutes old, in one loop and without a call. It reconciles a NodeClaim again unless it is certain that
the NodeClaim has not drifted: something of it may have changed, the cloud's responses may be too old, or a value cannot be
read. Only that reconcile decides, and only it writes the condition. `disruption` calls `check` in it.
"""

import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast import errors, names
from holdfast.api.meta import Object
from holdfast.api.nodeclaim import NodeClaim
from holdfast.api.nodepool import NodePool
from holdfast.controllers.nodeclaim.class_versions import ClassVersions
from holdfast.controllers.nodeclaim.pool_drift import PoolDrift
from holdfast.model.offerings import InstanceType
from holdfast.ports import Ports
from holdfast.runtime.cache import Caches, key_of
from holdfast.runtime.controller import Controller
from holdfast.runtime.results import Key, RequeueAfter
from holdfast.state.cluster.cluster_state import ClusterState
from holdfast.state.conversion import times

KEY: Final[Key] = ("", "drift")
AGAIN_S: Final = 300.0  # between two checks for drift while nothing changes
_EVERY_S: Final = 10.0
_AT_ONCE: Final = 100  # NodeClaims that are checked before other tasks run
_TYPES_KEPT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Check:
    """The input and the result of a check for drift."""

    at_s: float
    key: Key
    stamp: tuple[Any, ...]
    drifted: str | None


@dataclass(frozen=True, slots=True)
class _Types:
    """The instance types of a node class, and when they were read."""

    at_s: float
    node_class: Object
    types: tuple[InstanceType, ...]


class DriftChecks:
    name: Final = "nodeclaim.drift"

    def __init__(
        self, *, cluster_state: ClusterState, caches: Caches, ports: Ports, class_versions: ClassVersions
    ) -> None:
        self._cluster_state = cluster_state
        self._class_versions = class_versions
        self._claims = caches.of(NodeClaim)
        self._pools = caches.of(NodePool)
        self._cloud = ports.cloud
        self._clock = ports.clock
        self._checks: dict[str, Check] = {}  # by uid, the oldest first
        self._types: dict[str, _Types] = {}  # by name of class
        self._pool_drift = PoolDrift(ports.cloud.labels)
        self._reconcile: Callable[[Key], None] = lambda _: None

    def watch(self, controller: Controller) -> None:
        controller.add(KEY)

    def reconcile_with(self, reconcile: Callable[[Key], None]) -> None:
        """Sets what runs all sub-reconcilers of a NodeClaim again."""
        self._reconcile = reconcile

    # --- One NodeClaim --------------------------------------------------------------------------------

    async def check(self, claim: NodeClaim, pool: NodePool, node_class: Object) -> Check:
        """The last check of a claim, or a new one if it is old or an input changed. Raises NotReady, NotFound or
        InvalidInput if it cannot be found out now."""
        now_s, uid = self._clock.monotonic_s(), claim.metadata.uid
        last, stamp = self._checks.get(uid), self._stamp(claim, pool, self._class_versions.of(node_class))
        if last is None or last.stamp != stamp or now_s >= last.at_s + AGAIN_S:
            last = Check(now_s, key_of(claim), stamp, await self._reason(claim, pool, node_class))
            self._remember(uid, last)
        return last

    def left_s(self, check: Check) -> float:
        """The time until the next check."""
        return check.at_s + AGAIN_S - self._clock.monotonic_s()

    def _stamp(self, claim: NodeClaim, pool: NodePool, class_version: tuple[str, str]) -> tuple[Any, ...]:
        return *self._pool_drift.fields(claim, pool), class_version

    async def _reason(self, claim: NodeClaim, pool: NodePool, node_class: Object) -> str | None:
        types = await self._types_of(node_class)
        found = self._drift_from_pool(claim, pool, types, self._clock.now_s())
        return found or await self._cloud.drift(claim, node_class)

    def _drift_from_pool(
        self, claim: NodeClaim, pool: NodePool, types: tuple[InstanceType, ...], now_s: int
    ) -> str | None:
        created = claim.metadata.creation_timestamp
        age_s = now_s - times.epoch_s(created) if created is not None else 0
        return self._pool_drift.reason(claim, pool, types, age_s)

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

    def _remember(self, uid: str, check: Check) -> None:
        if len(self._checks) > 2 * len(self._claims):
            there = {claim.metadata.uid for claim in self._claims}
            self._checks = {uid: one for uid, one in self._checks.items() if uid in there}
            self._pool_drift.keep(there)
        self._checks.pop(uid, None)  # the newest is the last
        self._checks[uid] = check

    # --- All NodeClaims -------------------------------------------------------------------------------

    async def reconcile(self, _key: Key) -> RequeueAfter:
        due = self._due()
        for start in range(0, len(due), _AT_ONCE):
            await self._check_some(due[start : start + _AT_ONCE])
            await self._clock.sleep(0)
        return RequeueAfter(_EVERY_S, "until the next check for drift")

    def _due(self) -> list[NodeClaim]:
        """The NodeClaims whose last check would be older than AGAIN_S in the next run. Forgets deleted ones. A drifted
        NodeClaim is left to its own reconcile."""
        before_s, found = self._clock.monotonic_s() + _EVERY_S - AGAIN_S, []
        for uid, check in tuple(
            itertools.takewhile(lambda one: one[1].at_s <= before_s, self._checks.items())
        ):
            claim = self._claims.get(check.key)
            if claim is None or claim.metadata.uid != uid:
                del self._checks[uid]
            elif check.drifted is None:
                found.append(claim)
        return found

    async def _check_some(self, claims: Sequence[NodeClaim]) -> None:
        by_class: dict[str, list[NodeClaim]] = {}
        for claim in claims:
            by_class.setdefault(claim.spec.node_class_ref.name, []).append(claim)
        for same_class in by_class.values():
            now_s, undrifted = self._clock.monotonic_s(), await self._undrifted(same_class)
            for claim in same_class:
                last = self._checks.get(claim.metadata.uid)
                if last is None or last.drifted is not None:
                    continue  # it was reconciled meanwhile
                if claim.metadata.uid in undrifted:
                    self._remember(claim.metadata.uid, Check(now_s, last.key, last.stamp, None))
                else:
                    del self._checks[claim.metadata.uid]
                    self._reconcile(last.key)

    async def _undrifted(self, claims: Sequence[NodeClaim]) -> Collection[str]:
        """The uids of those claims of one class that have certainly not drifted."""
        node_class = self._cluster_state.node_class(claims[0].spec.node_class_ref)
        if node_class is None:
            return ()
        try:
            types = await self._types_of(node_class)
            version, now_s = self._class_versions.of(node_class), self._clock.now_s()
            same = [claim for claim in claims if self._is_same(claim, version, types, now_s)]
            return await self._cloud.undrifted(same, node_class)
        except errors.HoldfastError:
            return ()

    def _is_same(
        self, claim: NodeClaim, class_version: tuple[str, str], types: tuple[InstanceType, ...], now_s: int
    ) -> bool:
        """Whether the inputs of the last check are the same, and the claim has not drifted from its NodePool."""
        pool = self._pools.get(("", claim.metadata.labels.get(names.NODEPOOL, "")))
        last = self._checks.get(claim.metadata.uid)
        if pool is None or last is None or last.stamp != self._stamp(claim, pool, class_version):
            return False
        return self._drift_from_pool(claim, pool, types, now_s) is None
