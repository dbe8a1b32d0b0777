"""A running program: caches are filled, the lead is won, controllers run, and all of it ends in order.

Callers: `app`. The order is the point: nobody decides on a half-filled cache, nobody writes without the lead, and the
lease is given back only after the last reconcile has ended; where one had to be cancelled, the lease runs out. A
replica that loses its lead ends, and is started anew with nothing in its memory.
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
from holdfast.runtime.recorder import LiveRecorder
from holdfast.runtime.reflector import Reflector
from holdfast.runtime.supervision import Supervisor

_GRACE_S: Final = 20.0  # kubelet kills after 30
_LATE_S: Final = 30.0  # by then everything should have been read
_TOLD_EVERY_S: Final = 10.0


class Manager:
    def __init__(  # noqa: PLR0913 - all by name, from one place
        self,
        *,
        kube: Kube,
        caches: Caches,
        controllers: Sequence[Controller],
        recorder: LiveRecorder,
        election: Election | None,
        clock: Clock,
        ids: Ids,
        supervisor: Supervisor,
    ) -> None:
        self._supervisor = supervisor
        self._is_controlling = False
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
        """Until `stop` is set. Unreachable when the lead was lost; in strict mode an unexpected error ends it."""
        leading = asyncio.create_task(self._lead(stop, after_sync))
        tasks = [leading, self._supervisor.start("recorder", self._recorder.run)]
        tasks += [self._supervisor.start(f"watch {one.kind.plural}", one.run) for one in self._reflectors]
        try:
            ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def unready(self) -> str:
        """What keeps this replica from being ready, or nothing. One that waits for the lead is ready."""
        missing = self._caches.unsynced()
        return f"not read yet: {', '.join(missing)}" if missing else ""

    def stuck(self) -> str:
        """Which controllers make no progress, and why; empty while this replica does not lead."""
        if not self._is_controlling:
            return ""
        found = ((controller.name, controller.stuck()) for controller in self._controllers)
        return "; ".join(f"{name}: {why}" for name, why in found if why)

    @property
    def unsynced_s(self) -> float:
        """How long it has been running without having read everything; 0: it has."""
        return self._clock.monotonic_s() - self._began_s if self._caches.unsynced() else 0.0

    async def _tell_what_is_missing(self) -> None:
        """Until it is cancelled (ST-3)."""
        await self._clock.sleep(_LATE_S)
        while True:
            self._log.warning("not synced", missing=self._caches.unsynced(), seconds=round(self.unsynced_s))
            await self._clock.sleep(_TOLD_EVERY_S)

    async def _lead(self, stop: asyncio.Event, after_sync: Callable[[], None]) -> None:
        stopping = asyncio.create_task(stop.wait())
        telling = asyncio.create_task(self._tell_what_is_missing())
        try:
            for cache in self._caches:
                if not await _before(stopping, cache.until_synced()):
                    return
            telling.cancel()
            after_sync()
            self._log.info("synced", objects=sum(len(cache) for cache in self._caches))
            if self._election is None:
                await self._control(stopping, None)
            elif await _before(stopping, self._election.acquire()):
                await self._control(stopping, self._election)
        finally:
            telling.cancel()
            stopping.cancel()
            if self._election is not None and self._may_release:
                await self._election.release()
            elif self._election is not None:
                self._log.warning(
                    "lease not released", why="a reconcile was cancelled; its last write may still arrive"
                )

    async def _control(self, stopping: "asyncio.Task[bool]", election: Election | None) -> None:
        name = {"name": "holdfast"}
        self._recorder.gauge("leader_election_master_status", name, 1)
        running: list[asyncio.Task[None]] = []
        holding = asyncio.create_task(election.hold()) if election is not None else None
        try:
            if holding is not None:
                await _before(stopping, self._catch_up())
            running += [asyncio.create_task(c.run()) for c in self._controllers]
            self._is_controlling = True
            await asyncio.wait(
                {stopping, *running, *([holding] if holding else [])}, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            self._is_controlling = False
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*(c.stop(grace_s=_GRACE_S) for c in self._controllers))
            self._may_release = all(ended)
            self._recorder.gauge("leader_election_master_status", name, 0)
            if holding is not None and not holding.done():
                holding.cancel()
        for task in running:
            if task.done() and not task.cancelled():
                task.result()
        if not stopping.done():
            raise errors.Unreachable("the lead was lost; start anew")

    async def _catch_up(self) -> None:
        """What the leader before us decided is known before we decide: our watch may have stalled, unnoticed."""
        for reflector in self._reflectors:
            if reflector.kind is NodeClaim:
                await reflector.catch_up()


async def _before(stopping: "asyncio.Task[bool]", work: Coroutine[Any, Any, None]) -> bool:
    """Whether the work came to its end before the stop did; else it is cancelled."""
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
