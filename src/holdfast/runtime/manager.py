"""Syncs the caches, acquires the Lease, runs the controllers, and stops all of it in order.

The order matters: no controller runs on a partly filled cache or without the Lease, and the Lease is released only after
the last reconcile has ended. If a reconcile had to be cancelled, the Lease expires instead. A replica that loses the
Lease exits and is restarted with empty caches.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

from holdfast import errors
from holdfast.api.nodeclaim import NodeClaim
from holdfast.ports import Clock, Ids, Kube
from holdfast.runtime.cache import Caches
from holdfast.runtime.controller import Controller
from holdfast.runtime.lease import Election
from holdfast.runtime.recorder import KubeRecorder
from holdfast.runtime.reflector import Reflector
from holdfast.runtime.supervision import Supervisor, until_first_ends

_GRACE_S: Final = 20.0  # the kubelet kills the container after 30
_SYNC_WARNING_S: Final = 30.0
_SYNC_WARNING_EVERY_S: Final = 10.0


class Manager:
    def __init__(  # noqa: PLR0913 - all by keyword, from `app` alone
        self,
        *,
        kube: Kube,
        caches: Caches,
        controllers: Sequence[Controller],
        recorder: KubeRecorder,
        election: Election | None,
        clock: Clock,
        ids: Ids,
        supervisor: Supervisor,
    ) -> None:
        self._supervisor = supervisor
        self.is_controlling = False  # whether the controllers run
        self.leading_since_s: int | None = None
        self._may_release = True
        self._caches = caches
        self._controllers = controllers
        self._recorder = recorder
        self._election = election
        self._clock = clock
        self._reflectors = [
            Reflector(cache, kube=kube, clock=clock, ids=ids, recorder=recorder) for cache in caches
        ]
        self._began_s = clock.monotonic_s()
        self._log = structlog.get_logger()

    async def run(self, stop: asyncio.Event, *, after_sync: Callable[[], None] = lambda: None) -> None:
        """Runs until `stop` is set. Raises Unreachable when the Lease is lost; in strict mode also unexpected errors."""
        leader = asyncio.create_task(self._lead(stop, after_sync))
        tasks = [leader, self._supervisor.start("recorder", self._recorder.run)]
        await until_first_ends([*tasks, *self._watches()])

    async def follow(self) -> None:
        """Keeps the caches current, without leading: no controller runs. Until cancelled."""
        await until_first_ends(self._watches())

    def _watches(self) -> list["asyncio.Task[None]"]:
        return [self._supervisor.start(f"watch {one.kind.plural}", one.run) for one in self._reflectors]

    def unready(self) -> str:
        """Why this replica is not ready, or nothing. A replica that waits for the Lease is ready."""
        missing = self._caches.unsynced()
        return f"not read yet: {', '.join(missing)}" if missing else ""

    def measure(self) -> None:
        """Sets the metrics of the controllers that are computed for a scrape. Keys of a replica that does not lead wait,
        and no controller of it is blocked."""
        if self.is_controlling:
            for controller in self._controllers:
                controller.measure()

    def stuck(self) -> str:
        """Which controllers make no progress, and why; empty while this replica does not lead."""
        if not self.is_controlling:
            return ""
        found = ((controller.name, controller.stuck()) for controller in self._controllers)
        return "; ".join(f"{name}: {why}" for name, why in found if why)

    @property
    def unsynced_s(self) -> float:
        """Seconds since the start while a cache is not synced, else 0."""
        return self._clock.monotonic_s() - self._began_s if self._caches.unsynced() else 0.0

    async def _warn_while_unsynced(self) -> None:
        """Logs the caches that are not synced, until cancelled (ST-3)."""
        await self._clock.sleep(_SYNC_WARNING_S)
        while True:
            self._log.warning(
                "waiting for caches to sync", missing=self._caches.unsynced(), seconds=round(self.unsynced_s)
            )
            await self._clock.sleep(_SYNC_WARNING_EVERY_S)

    async def _lead(self, stop: asyncio.Event, after_sync: Callable[[], None]) -> None:
        stopping = asyncio.create_task(stop.wait())
        warner = asyncio.create_task(self._warn_while_unsynced())
        try:
            for cache in self._caches:
                if not await _before(stopping, cache.until_synced()):
                    return
            warner.cancel()
            after_sync()
            self._log.info("synced caches", objects=sum(len(cache) for cache in self._caches))
            if self._election is None:
                await self._control(stopping, None)
            elif await _before(stopping, self._election.acquire()):
                await self._control(stopping, self._election)
        finally:
            warner.cancel()
            stopping.cancel()
            if self._election is not None and self._may_release:
                await self._election.release()
            elif self._election is not None:
                self._log.warning(
                    "not releasing lease", reason="a reconcile was cancelled; its last write may still arrive"
                )

    async def _control(self, stopping: "asyncio.Task[bool]", election: Election | None) -> None:
        name = {"name": "holdfast"}
        self._recorder.gauge("leader_election_master_status", name, 1)
        running: list[asyncio.Task[None]] = []
        renewal = asyncio.create_task(election.hold()) if election is not None else None
        try:
            if renewal is not None:
                await _before(stopping, self._catch_up())
            running += [asyncio.create_task(c.run()) for c in self._controllers]
            self.is_controlling, self.leading_since_s = True, self._clock.now_s()
            await asyncio.wait(
                {stopping, *running, *([renewal] if renewal else [])}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self.is_controlling, self.leading_since_s = False, None
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*(c.stop(grace_s=_GRACE_S) for c in self._controllers))
            self._may_release = all(ended)
            self._recorder.gauge("leader_election_master_status", name, 0)
            if renewal is not None and not renewal.done():
                renewal.cancel()
        for task in running:
            if task.done() and not task.cancelled():
                task.result()
        if not stopping.done():
            raise errors.Unreachable("lost the Lease; restart")

    async def _catch_up(self) -> None:
        """Lists the NodeClaims again: a stalled watch may lack those that the previous leader created."""
        for reflector in self._reflectors:
            if reflector.kind is NodeClaim:
                await reflector.catch_up()


async def _before(stopping: "asyncio.Task[bool]", work: Coroutine[Any, Any, None]) -> bool:
    """Whether the work ended before `stop` was set; cancels it otherwise."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({stopping, task}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
            return True
        return False
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
