"""The holders of a Lease over time, from a watch: how long no replica led."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

from holdfast.api.cluster import Lease
from holdfast.app.sandbox import Sandbox
from holdfast.runtime.cache import Cache
from holdfast.runtime.clock import RealClock
from holdfast.runtime.ids import RealIds
from holdfast.runtime.reflector import Reflector
from recorders import KeepingRecorder


@dataclass(frozen=True)
class Handover:
    from_holder: str
    to_holder: str
    seconds: float | None  # without a holder; None: the Lease was never released, so it timed out


class Holders:
    def __init__(self) -> None:
        self.changes: list[tuple[float, str]] = []  # monotonic time and holder; empty: released
        self.released = asyncio.Event()

    @property
    def now(self) -> str:
        return self.changes[-1][1] if self.changes else ""

    def record(self, holder: str) -> None:
        if not self.changes or self.now != holder:
            self.changes.append((time.monotonic(), holder))
            if not holder:
                self.released.set()

    def handovers(self) -> list[Handover]:
        """Every change from one replica to another."""
        found: list[Handover] = []
        held, released_s = "", None
        for at_s, holder in self.changes:
            if holder and held and holder != held:
                found.append(Handover(held, holder, None if released_s is None else at_s - released_s))
            held, released_s = holder or held, None if holder else at_s
        return found


@contextlib.asynccontextmanager
async def watching(env: Sandbox, namespace: str, name: str) -> AsyncIterator[Holders]:
    """Records the holders inside the block."""
    clock, holders = RealClock(), Holders()
    cache = Cache(Lease, clock=clock)

    def changed(_before: Lease | None, after: Lease | None) -> None:
        if after is not None and (after.metadata.namespace, after.metadata.name) == (namespace, name):
            holders.record(after.spec.holder_identity or "")

    cache.subscribe(changed)
    reflector = Reflector(cache, kube=env.kube, clock=clock, ids=RealIds(), recorder=KeepingRecorder())
    task = asyncio.create_task(reflector.run())
    try:
        await cache.until_synced()
        yield holders
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
