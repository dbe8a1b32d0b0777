"""Runs one reconciler: keys from its queue, a few at a time, each result counted, said once and acted on.

Callers: `app` makes one per reconciler, `manager` runs it. An error that no code expected costs the key that it happened
on, and no other: the key is tried again, ever more slowly up to a few minutes, and soon after its object changed. No key
is given up. A controller that completes no reconcile for ten minutes, although it has work, is `stuck`, which fails the
liveness probe. In simulation and CI (`strict`) an unexpected error ends the run.
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
from holdfast.runtime.supervision import Unexpected

K = TypeVar("K", bound=Object)

_TERMINAL_S: Final = (
    600.0  # what only a user can mend is looked at again this seldom: permissions are not watched
)
_LONGEST_WAIT_S: Final = 300.0  # whatever another program asks for in a Retry-After
_CHANGED_S: Final = (
    5.0  # a key that failed unexpectedly is tried again so soon after its object changed: our own
)
# writes change it, too
_SHORTEST_WAIT_S: Final = (
    0.01  # what is left of a difference of two times may be less than any clock advances by
)
_QUIET: Final = (errors.Conflict, errors.Unreachable, errors.Throttled)
_LONGEST_TEXT: Final = 500
_STUCK_S: Final = 600.0  # far more than any plan or call takes


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
        self._unexpected = Unexpected(clock=clock, recorder=recorder)
        self._completed_s = clock.monotonic_s()  # when a reconcile last ended without an unexpected error
        self._working_since_s: dict[Key, float] = {}
        self.queue = queue if queue is not None else WorkQueue(clock=clock, ids=ids)  # an empty one is false
        self.failing: dict[Key, str] = {}  # keys whose last reconcile raised an unexpected error

    @property
    def name(self) -> str:
        return self._reconciler.name

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
        if key in self.failing:
            self.queue.add_after(key, _CHANGED_S)
        else:
            self.queue.add(key)

    def stuck(self) -> str:
        """Why this controller makes no progress; empty when it does, or has nothing to do."""
        now_s = self._clock.monotonic_s()
        for key, since_s in self._working_since_s.items():
            if now_s - since_s >= _STUCK_S:
                return f"the reconcile of {_text(key)} has been running for {now_s - since_s:.0f} s"
        silent_s = now_s - self._completed_s
        if silent_s < _STUCK_S:
            return ""
        for key, error in self.failing.items():
            return f"no reconcile has completed for {silent_s:.0f} s; {_text(key)} failed with {error}"
        return f"keys wait, and no reconcile has completed for {silent_s:.0f} s" if self.queue.is_due else ""

    async def run(self) -> None:
        """Until it is cancelled; reconciles that are running then are left to `stop`. In strict mode a bug ends it."""
        self._completed_s = self._clock.monotonic_s()
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

    async def stop(self, *, grace_s: float) -> bool:
        """Lets what is running come to its end, for so long. Whether all did; the rest is cancelled, and a write that is
        on its way may still arrive."""
        if not self._running:
            return True
        _, late = await asyncio.wait(self._running, timeout=grace_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return not late

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
        began_s = self._working_since_s[key] = self._clock.monotonic_s()
        try:
            result = await self._reconciler.reconcile(key)
        except errors.HoldfastError as error:
            outcome, said = self._failed(key, error)
        except Exception as error:
            if self._strict:
                raise
            outcome, said = self._failed_unexpectedly(key, error)
        else:
            outcome, said = self._succeeded(key, result)
        finally:
            del self._working_since_s[key]
            self.queue.done(key)
        took_s = self._clock.monotonic_s() - began_s
        self._recorder.count("controller_runtime_reconcile_total", {**self._name, "result": outcome})
        self._recorder.observe("controller_runtime_reconcile_time_seconds", self._name, took_s)
        self._say(key, outcome, took_s, said)

    def _succeeded(self, key: Key, result: Done | RequeueAfter) -> tuple[str, dict[str, Any]]:
        self.queue.succeeded(key)
        self._completed(key)
        match result:
            case Done(did):
                return "success", {"did": did} if did else {}
            case RequeueAfter(seconds, why, did):
                self.queue.add_after(key, max(seconds, _SHORTEST_WAIT_S))
                said: dict[str, Any] = {"requeue_s": round(seconds, 3), "why": why}
                return "requeue_after", said | ({"did": did} if did else {})
            case _:
                assert_never(result)

    def _failed(self, key: Key, error: errors.HoldfastError) -> tuple[str, dict[str, Any]]:
        self._completed(key)
        if isinstance(error, errors.Terminal):
            wait_s = _TERMINAL_S
            self.queue.add_after(key, wait_s)
        else:
            asked_s = error.retry_after_s if isinstance(error, errors.Retryable) else None
            wait_s = self.queue.retry(key, at_least_s=min(asked_s or 0, _LONGEST_WAIT_S))
        said: dict[str, Any] = {"error": f"{type(error).__name__}: {error}", "requeue_s": round(wait_s, 3)}
        return "error", said | ({"quiet": True} if isinstance(error, _QUIET) else {})

    def _failed_unexpectedly(self, key: Key, error: Exception) -> tuple[str, dict[str, Any]]:
        self.failing[key] = repr(error)[:_LONGEST_TEXT]
        self._recorder.gauge("holdfast_failing_keys", self._name, len(self.failing))
        wait_s = self.queue.retry(key)
        self._unexpected.report(self._reconciler.name, error, key=_text(key))
        return "unexpected", {"error": self.failing[key], "requeue_s": round(wait_s, 3), "quiet": True}

    def _completed(self, key: Key) -> None:
        self._completed_s = self._clock.monotonic_s()
        if self.failing.pop(key, None) is not None:
            self._recorder.gauge("holdfast_failing_keys", self._name, len(self.failing))
            self._log.info("recovered", key=_text(key))

    def _say(self, key: Key, outcome: str, took_s: float, said: dict[str, Any]) -> None:
        """The one canonical line: an error when it is a new one, info when the world was changed, else debug. Quiet errors
        are debug: a conflict is read and decided again, and an outage is logged by the adapter, once for all keys."""
        trouble = "" if said.pop("quiet", False) else str(said.get("error", ""))
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
        line = {"key": _text(key), "result": outcome, "seconds": round(took_s, 6)}
        getattr(self._log, level)("reconciled", **line, **said)


def _text(key: Key) -> str:
    return "/".join(filter(None, key))
