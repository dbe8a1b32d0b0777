"""Leader election with a Lease: at most one replica leads at any moment.

Why there are never two leaders: the leader counts its term from before its renewal request, and the term is shorter
than the time that another replica waits after it reads that renewal. Each replica measures durations on its own
monotonic clock, so wrong wall clocks do no harm. A Lease is only patched at the resourceVersion that was read, so of
two replicas one gets a Conflict. The fence checks `leads` before every write (`holdfast.fence`), so a leader whose
process was paused sends nothing.
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

NAME: Final = "holdfast-leader-election"  # not Karpenter's: the two must not alternate
_MICRO_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"  # the API server requires exactly six digits
_INT32_MAX: Final = 2**31 - 1  # leaseTransitions is an int32


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    namespace: str
    name: str = NAME
    duration_s: int = 15  # how long another replica waits after the last renewal it read
    renew_within_s: float = 10  # how long the leader leads after it began its last renewal
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
        self._written: Lease | None = None  # as this replica last wrote it
        self._read_version = ""
        self._version_read_s = 0.0  # when that version was read first
        self._log = structlog.get_logger().bind(lease=settings.name, identity=identity)

    def leads(self) -> bool:
        return self._clock.monotonic_s() < self._leads_until_s

    async def acquire(self) -> None:
        """Returns when this replica leads."""
        while not self.leads():
            await self._try()
            if not self.leads():
                await self._clock.sleep(self._settings.retry_s + self._ids.jitter(self._settings.retry_s))
        self._log.info("acquired lease")

    async def hold(self) -> None:
        """Renews the Lease; returns when this replica does not lead any more."""
        while self.leads():
            await self._clock.sleep(self._settings.retry_s)
            await self._try()
        self._log.error("lost lease")

    async def release(self) -> None:
        """Clears the holder, so that another replica need not wait for the Lease to expire."""
        written, self._written, self._leads_until_s = self._written, None, float("-inf")
        if written is None:
            return
        try:
            await self._kube.patch(
                written, {"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}}, only_if_unchanged=True
            )
        except errors.HoldfastError as error:
            self._log.warning("failed to release lease", error=str(error))

    async def _try(self) -> None:
        """Acquires or renews the Lease if no other replica holds it. The timeout is the rest of the term: a later
        response could not extend it."""
        began_s = self._clock.monotonic_s()
        timeout_s = self._leads_until_s - began_s if self.leads() else self._settings.renew_within_s
        try:
            async with asyncio.timeout(timeout_s):
                lease = self._written or await self._read()
                if self._is_held_by_another(lease):
                    return
                self._written = await self._kube.patch(lease, self._claim(lease), only_if_unchanged=True)
        except (errors.HoldfastError, TimeoutError) as error:
            self._written = None  # another replica wrote it, or the outcome is unknown: read it again
            self._log.debug("failed to renew lease", error=str(error))
        else:
            self._leads_until_s = began_s + self._settings.renew_within_s

    async def _read(self) -> Lease:
        meta = ObjectMeta(name=self._settings.name, namespace=self._settings.namespace)
        try:
            lease = await self._kube.get(Lease, meta.name, meta.namespace)
        except errors.NotFound:
            lease = await self._kube.create(Lease(metadata=meta))  # without a holder
        if lease.metadata.resource_version != self._read_version:
            self._read_version = lease.metadata.resource_version
            self._version_read_s = self._clock.monotonic_s()
        return lease

    def _is_held_by_another(self, lease: Lease) -> bool:
        spec = lease.spec
        if not spec.holder_identity or spec.holder_identity == self._identity:
            return False
        lasts_s = max(spec.lease_duration_seconds or 0, self._settings.duration_s)
        return self._clock.monotonic_s() < self._version_read_s + lasts_s

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
