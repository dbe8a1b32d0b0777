"""Leader election by a Lease: of several replicas, at most one leads at any moment.

Callers: `manager`. Why there are never two: a leader counts its lead from before it asked to renew, for less time than
a rival waits after it saw that renewal; each measures durations on its own steady clock, so clocks on the wall may
say what they like; and a Lease is only ever taken as it was read, so of two rivals one gets a Conflict.
`runtime.writes` asks `leads` before every write, so a leader whose loop stood still stops by itself.
"""

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from holdfast import errors
from holdfast.api.cluster import Lease
from holdfast.api.meta import ObjectMeta
from holdfast.ports import Clock, Ids, Kube

NAME: Final = "holdfast-leader-election"  # not Karpenter's: two programs do not take turns
_MICRO_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"  # the API server takes exactly six digits
_INT32_MAX: Final = 2**31 - 1  # the API server refuses more transitions


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    namespace: str
    name: str = NAME
    duration_s: int = 15  # how long a rival waits after the last renewal it saw
    renew_within_s: float = 10  # how long a leader leads after it began its last renewal
    retry_s: float = 2


class Election:
    def __init__(self, *, kube: Kube, clock: Clock, ids: Ids, settings: LeaseSettings, identity: str) -> None:
        assert settings.renew_within_s < settings.duration_s, settings
        self._kube = kube
        self._clock = clock
        self._ids = ids
        self._settings = settings
        self._identity = identity
        self._leads_until_s = float("-inf")
        self._ours: Lease | None = None  # as we last wrote it
        self._seen_version = ""
        self._seen_s = 0.0
        self._log = structlog.get_logger().bind(lease=settings.name, identity=identity)

    def leads(self) -> bool:
        return self._clock.monotonic_s() < self._leads_until_s

    async def acquire(self) -> None:
        """Returns when this replica leads."""
        while not self.leads():
            await self._try()
            if not self.leads():
                await self._clock.sleep(self._settings.retry_s + self._ids.jitter(self._settings.retry_s))
        self._log.info("leading")

    async def hold(self) -> None:
        """Renews the lease; returns when the lead was lost."""
        while self.leads():
            await self._clock.sleep(self._settings.retry_s)
            await self._try()
        self._log.error("lead lost")

    async def release(self) -> None:
        """Gives the lease back, so that the next one need not wait for it to run out."""
        ours, self._ours, self._leads_until_s = self._ours, None, float("-inf")
        if ours is None:
            return
        try:
            await self._kube.patch(
                ours, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}, only_if_unchanged=True
            )
        except errors.HoldfastError as error:
            self._log.warning("lease not released", error=str(error))

    async def _try(self) -> None:
        """Takes or renews the lease if it is to be had. An attempt that takes longer than it could be worth is
        given up: the answer would come too late to count."""
        began_s = self._clock.monotonic_s()
        worth_s = self._leads_until_s - began_s if self.leads() else self._settings.renew_within_s
        try:
            async with asyncio.timeout(worth_s):
                lease = self._ours or await self._read()
                if self._is_held_by_another(lease):
                    return
                self._ours = await self._kube.patch(lease, self._claim(lease), only_if_unchanged=True)
        except (errors.HoldfastError, TimeoutError) as error:
            self._ours = None  # somebody else wrote, or nobody knows: read it again
            self._log.debug("lease not renewed", error=str(error))
        else:
            self._leads_until_s = began_s + self._settings.renew_within_s

    async def _read(self) -> Lease:
        meta = ObjectMeta(name=self._settings.name, namespace=self._settings.namespace)
        try:
            lease = await self._kube.get(Lease, meta.name, meta.namespace)
        except errors.NotFound:
            lease = await self._kube.create(Lease(metadata=meta))  # of nobody; to be taken like any other
        if lease.metadata.resource_version != self._seen_version:
            self._seen_version = lease.metadata.resource_version
            self._seen_s = self._clock.monotonic_s()
        return lease

    def _is_held_by_another(self, lease: Lease) -> bool:
        spec = lease.spec
        if not spec.holder_identity or spec.holder_identity == self._identity:
            return False
        lasts_s = max(spec.lease_duration_seconds or 0, self._settings.duration_s)
        return self._clock.monotonic_s() < self._seen_s + lasts_s

    def _claim(self, lease: Lease) -> dict[str, Any]:
        now = datetime.fromtimestamp(self._clock.now_s(), UTC).strftime(_MICRO_TIME)
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._settings.duration_s,
            "renewTime": now,
        }
        if lease.spec.holder_identity != self._identity:
            spec |= {
                "acquireTime": now,
                "leaseTransitions": min((lease.spec.lease_transitions or 0) + 1, _INT32_MAX),
            }
        return {"spec": spec}
