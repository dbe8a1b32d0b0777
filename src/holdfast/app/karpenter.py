"""Detects a Karpenter that runs in the same cluster.

Both programs would launch nodes for the same pods, and each would disrupt the nodes of the other. Without
`--beside-karpenter`, `production` does not start while Karpenter runs, and stops when Karpenter appears later.

Three signs show Karpenter: a recently renewed Lease, a running pod with the label of its chart (leader election may be
off), and hash versions that another program writes over ours (Karpenter may run outside of the cluster, without a Lease).
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

import structlog

from holdfast import errors, names
from holdfast.api.cluster import Lease
from holdfast.api.nodepool import NodePool
from holdfast.api.pods import Pod
from holdfast.ports import Clock, Kube
from holdfast.runtime.cache import Caches
from holdfast.state.conversion import nodepools, times

LEASE: Final = "karpenter-leader-election"
POD_NAME_LABEL: Final = "app.kubernetes.io/name"
POD_NAME: Final = "karpenter"
CHECK_EVERY_S: Final = 5.0
_EXPIRY_CHECK_S: Final = 2.0
OVERWRITES: Final = 3  # a user who restores a NodePool from a file overwrites the hash version once
OVERWRITES_WITHIN_S: Final = 60.0

_LEASE_S: Final = 15  # for a Lease without leaseDurationSeconds


class KarpenterRunsError(errors.Terminal):
    """Karpenter runs in this cluster."""

    def __init__(self, sign: str) -> None:
        super().__init__(
            f"Karpenter runs in this cluster: {sign}. Both would launch nodes for the same pods. Scale Karpenter to zero "
            "first"
        )


async def leases(kube: Kube) -> tuple[Lease, ...]:
    """The Leases of Karpenter, in any namespace."""
    return (await kube.list(Lease, field_selector=f"metadata.name={LEASE}")).items


def is_held(lease: Lease, now_s: int) -> bool:
    """Whether the holder of a Lease renewed it recently; `now_s` is the API server's time."""
    spec = lease.spec
    lasts_s = 2 * (spec.lease_duration_seconds or _LEASE_S)  # twice: the holder's clock may differ
    renewed_s = times.epoch_s(spec.renew_time) if spec.renew_time else 0
    return bool(spec.holder_identity) and now_s < renewed_s + lasts_s


def lease_sign(found: Iterable[Lease], now_s: int) -> str | None:
    """A Lease of Karpenter that was renewed recently."""
    for lease in found:
        if is_held(lease, now_s):
            return _held_text(lease)
    return None


def _held_text(lease: Lease) -> str:
    return f"{lease.spec.holder_identity} holds the Lease {lease.metadata.namespace}/{lease.metadata.name}"


def pod_sign(pods: Iterable[Pod]) -> str | None:
    """A running pod of Karpenter."""
    for pod in pods:
        meta = pod.metadata
        if pod.status.phase == "Running" and meta.deletion_timestamp is None:
            return f"the pod {meta.namespace}/{meta.name} has the label {POD_NAME_LABEL}={POD_NAME}"
    return None


class Detector:
    """Looks for Karpenter before the start with `check`, and while the program runs with `run`."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube = kube
        self._clock = clock

    async def check(self) -> None:
        """Raises KarpenterRunsError if Karpenter runs now. The Lease of a Karpenter that was just stopped is held until
        it expires: waits for that, or until the Lease is renewed."""
        pods = await self._kube.list(Pod, label_selector=f"{POD_NAME_LABEL}={POD_NAME}")
        if sign := pod_sign(pods.items):
            raise KarpenterRunsError(sign)
        first = await self._held()
        if first:
            text = _held_text(next(iter(first.values())))
            structlog.get_logger().info("waiting until the lease of karpenter expires", lease=text)
        held = first
        while held:
            await self._clock.sleep(_EXPIRY_CHECK_S)
            held = await self._held()
            for uid, lease in held.items():
                if uid not in first or lease.spec.renew_time != first[uid].spec.renew_time:
                    raise KarpenterRunsError(_held_text(lease))

    async def run(self, caches: Caches) -> None:
        """Raises KarpenterRunsError when Karpenter appears."""
        pods = caches.of(Pod).index(_by_karpenter)
        overwrites = _Overwrites(caches, self._clock)
        while True:
            await self._clock.sleep(CHECK_EVERY_S)
            try:
                sign = await self._lease_sign()
            except errors.HoldfastError:  # the other signs need no request
                sign = None
            if sign := sign or pod_sign(pods.get(POD_NAME)) or overwrites.sign():
                raise KarpenterRunsError(sign)

    async def _held(self) -> dict[str, Lease]:
        """The Leases of Karpenter that have not expired, by uid."""
        now_s = self._clock.now_s()
        return {one.metadata.uid: one for one in await leases(self._kube) if is_held(one, now_s)}

    async def _lease_sign(self) -> str | None:
        return lease_sign(await leases(self._kube), self._clock.now_s())


class _Overwrites:
    """Counts how often another program replaces the hash version of a NodePool after this program wrote its own."""

    def __init__(self, caches: Caches, clock: Clock) -> None:
        self._clock = clock
        self._seen: deque[tuple[float, str]] = deque(maxlen=OVERWRITES)
        caches.of(NodePool).subscribe(self._observe)

    def sign(self) -> str | None:
        if len(self._seen) < OVERWRITES or self._seen[-1][0] - self._seen[0][0] > OVERWRITES_WITHIN_S:
            return None
        return f"another program writes {names.NODEPOOL_HASH_VERSION} on the NodePool {self._seen[-1][1]}"

    def _observe(self, before: NodePool | None, after: NodePool | None) -> None:
        if before is not None and after is not None and _version(before) == nodepools.HASH_VERSION:
            written = _version(after)
            if written is not None and written != nodepools.HASH_VERSION:
                self._seen.append((self._clock.monotonic_s(), after.metadata.name))


def _version(pool: NodePool) -> str | None:
    return pool.metadata.annotations.get(names.NODEPOOL_HASH_VERSION)


def _by_karpenter(pod: Pod) -> tuple[str, ...]:
    return (POD_NAME,) if pod.metadata.labels.get(POD_NAME_LABEL) == POD_NAME else ()
