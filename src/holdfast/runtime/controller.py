"""Runs one reconciler: keys from its queue, a few at a time, each result counted, said once and acted on.

Callers: `app` makes one per reconciler, `manager` runs it. This is the only place that catches everything: a bug of
ours parks the key it happened on, so that the others go on and the broken decision is not made again and again. A
parked key stays so until the program is started anew. In simulation and CI (`strict`) a bug ends the run.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar, assert_never

import structlog

from holdfast import errors
from holdfast.api.meta import Object
from holdfast.ports import Clock, Ids, Recorder
from holdfast.runtime.cache import Cache
from holdfast.runtime.queue import WorkQueue
from holdfast.runtime.results import Done, Key, Reconciler, RequeueAfter

K = TypeVar("K", bound=Object)

_TERMINAL_S: Final = (
    600.0  # what only a user can mend is looked at again this seldom: permissions are not watched
)


class Controller:
    def __init__(
        self,
        reconciler: Reconciler,
        *,
        clock: Clock,
        ids: Ids,
        recorder: Recorder,
        concurrency: int = 1,
        strict: bool = False,
        queue: WorkQueue | None = None,
    ) -> None:
        assert concurrency >= 1, concurrency
        self._reconciler = reconciler
        self._clock = clock
        self._recorder = recorder
        self._strict = strict
        self._concurrency = concurrency
        self._sources: list[Callable[[], Iterable[Key]]] = []
        self._bug: BaseException | None = None  # in strict mode
        self._bug_found = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._said: dict[Key, str] = {}
        self._backlog: list[Key] = []
        self._name = {"controller": reconciler.name}
        self._log = structlog.get_logger().bind(controller=reconciler.name)
        self.queue = queue if queue is not None else WorkQueue(clock=clock, ids=ids)  # an empty one is false
        self.parked: dict[Key, str] = {}

    def watch(self, cache: Cache[K], keys_of: Callable[[K], Iterable[Key]]) -> None:
        """Wakes the keys that an object concerns, as it was and as it is, whenever it changes."""

        def changed(before: K | None, after: K | None) -> None:
            for obj in (before, after):
                if obj is not None:
                    for key in keys_of(obj):
                        self.add(key)

        def everything() -> Iterable[Key]:
            return (key for obj in cache for key in keys_of(obj))

        cache.subscribe(changed)
        self._sources.append(everything)

    def add(self, key: Key) -> None:
        if key not in self.parked:
            self.queue.add(key)

    async def run(self) -> None:
        """Until it is cancelled; reconciles that are running then are left to `stop`. In strict mode a bug ends it."""
        dispatching = asyncio.create_task(self._dispatch())
        looking = asyncio.create_task(self._bug_found.wait())
        try:
            await asyncio.wait({dispatching, looking}, return_when=asyncio.FIRST_COMPLETED)
            if self._bug is not None:
                raise self._bug
            dispatching.result()
        finally:
            dispatching.cancel()
            looking.cancel()
            await asyncio.gather(dispatching, looking, return_exceptions=True)

    async def stop(self, *, grace_s: float) -> None:
        """Lets what is running come to its end, for so long."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _dispatch(self) -> None:
        room = asyncio.Semaphore(self._concurrency)
        while True:
            await room.acquire()
            self._fill_after_overflow()
            key = await self.queue.get()
            task = asyncio.create_task(self._one(key))
            self._running.add(task)
            task.add_done_callback(lambda done: self._ended(done, room))
            self._recorder.gauge("controller_runtime_active_workers", self._name, len(self._running))
            self._recorder.gauge("workqueue_depth", {"name": self._reconciler.name}, len(self.queue))

    def _ended(self, task: asyncio.Task[None], room: asyncio.Semaphore) -> None:
        self._running.discard(task)
        room.release()
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._bug = bug
            self._bug_found.set()

    def _fill_after_overflow(self) -> None:
        """What found no room comes from the caches again, once round, as room becomes free."""
        if self.queue.overflowed and not self._backlog and not len(self.queue):
            self.queue.overflowed = False
            self._backlog = list(dict.fromkeys(key for source in self._sources for key in source()))
        while self._backlog and not self.queue.is_full:
            self.add(self._backlog.pop())

    async def _one(self, key: Key) -> None:
        began_s = self._clock.monotonic_s()
        try:
            result = await self._reconciler.reconcile(key)
        except errors.HoldfastError as error:
            outcome, said = self._failed(key, error)
        except Exception as error:
            if self._strict:
                raise
            self._park(key, error)
            outcome, said = "parked", {}
        else:
            outcome, said = self._succeeded(key, result)
        finally:
            self.queue.done(key)
        took_s = self._clock.monotonic_s() - began_s
        self._recorder.count("controller_runtime_reconcile_total", {**self._name, "result": outcome})
        self._recorder.observe("controller_runtime_reconcile_time_seconds", self._name, took_s)
        self._say(key, outcome, took_s, said)

    def _succeeded(self, key: Key, result: Done | RequeueAfter) -> tuple[str, dict[str, Any]]:
        self.queue.succeeded(key)
        match result:
            case Done(did):
                return "success", {"did": did} if did else {}
            case RequeueAfter(seconds, why, did):
                self.queue.add_after(key, seconds)
                said: dict[str, Any] = {"requeue_s": round(seconds, 3), "why": why}
                return "requeue_after", said | ({"did": did} if did else {})
            case _:
                assert_never(result)

    def _failed(self, key: Key, error: errors.HoldfastError) -> tuple[str, dict[str, Any]]:
        if isinstance(error, errors.Terminal):
            wait_s = _TERMINAL_S
            self.queue.add_after(key, wait_s)
        else:
            asked_s = error.retry_after_s if isinstance(error, errors.Retryable) else None
            wait_s = self.queue.retry(key, at_least_s=asked_s or 0)
        said: dict[str, Any] = {"error": f"{type(error).__name__}: {error}", "requeue_s": round(wait_s, 3)}
        return "error", said | ({"conflict": True} if isinstance(error, errors.Conflict) else {})

    def _park(self, key: Key, error: Exception) -> None:
        self.parked[key] = repr(error)
        self._recorder.gauge("holdfast_parked_keys", self._name, len(self.parked))
        self._log.error("parked", key="/".join(filter(None, key)), exc_info=error)

    def _say(self, key: Key, outcome: str, took_s: float, said: dict[str, Any]) -> None:
        """The one canonical line: an error when it is a new one, info when the world was changed, else debug. That
        somebody else wrote first is no trouble: it is read again and decided again."""
        trouble = "" if said.get("conflict") else str(said.get("error", ""))
        is_news = trouble != self._said.get(key, "")
        if trouble:
            self._said[key] = trouble
        else:
            self._said.pop(key, None)
        level = "debug"
        if said.get("did"):
            level = "info"
        if trouble and is_news:
            level = "error"
        line = {"key": "/".join(filter(None, key)), "result": outcome, "seconds": round(took_s, 6)}
        getattr(self._log, level)("reconciled", **line, **said)
