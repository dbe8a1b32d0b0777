"""Runs one reconciler: takes keys from its queue, reconciles a few at a time, counts, logs and requeues.

An unexpected error affects only the key that it happened on: the key is retried with backoff up to a few minutes, and
soon after its object changes. No key is dropped. A controller that has work and completes no reconcile for ten minutes is
`stuck`, which fails the liveness probe. In simulation and CI (`strict`) an unexpected error ends the run.
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
    600.0  # retry of terminal errors: a granted permission, for example, causes no watch event
)
_LONGEST_WAIT_S: Final = 300.0  # limit for a Retry-After
# Delay of a failing key after its object changed. Not 0: the controller's own writes change the object, too.
_CHANGED_S: Final = 5.0
_SHORTEST_WAIT_S: Final = 0.01  # a rounding error of two times may be too short for any clock to advance
_LOGGED_ELSEWHERE: Final = (errors.Conflict, errors.Unreachable, errors.Throttled)
_FAILED: Final = ("error", "unexpected")
_MAX_ERROR_CHARS: Final = 500
_STUCK_S: Final = 600.0  # far longer than any plan or call


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
        self._logged_errors: dict[Key, str] = {}
        self._backlog: list[Key] = []
        self._name = {"controller": reconciler.name}
        self._of_queue = {"name": reconciler.name, "controller": reconciler.name}
        self._log = structlog.get_logger().bind(controller=reconciler.name)
        self._unexpected = Unexpected(clock=clock, recorder=recorder)
        self._completed_s = clock.monotonic_s()  # when a reconcile last ended without an unexpected error
        self._working_since_s: dict[Key, float] = {}
        self.queue = (
            queue if queue is not None else WorkQueue(clock=clock, ids=ids)
        )  # `or` would replace an empty queue
        self.failing: dict[Key, str] = {}  # keys whose last reconcile raised an unexpected error

    @property
    def name(self) -> str:
        return self._reconciler.name

    def watch(
        self,
        cache: Cache[K],
        keys_of: Callable[[K], Iterable[Key]],
        *,
        unless: Callable[[K, K], bool] = lambda _before, _after: False,
    ) -> None:
        """Adds the keys of an object, before and after, on each of its changes, `unless` the change does not matter."""

        def changed(before: K | None, after: K | None) -> None:
            if before is not None and after is not None and unless(before, after):
                return
            keys = dict.fromkeys(keys_of(before)) if before is not None else {}
            if after is not None:
                keys |= dict.fromkeys(keys_of(after))
            for key in keys:
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
        """Why this controller makes no progress; empty if it does, or has no work."""
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

    def measure(self) -> None:
        """Sets the metrics that are computed for a scrape."""
        record, now_s = self._recorder, self._clock.monotonic_s()
        ages_s = [now_s - since_s for since_s in self._working_since_s.values()]
        oldest_s = max(ages_s, default=0.0)
        due_since_s = self.queue.due_since_s
        silent_s = 0.0 if due_since_s is None else now_s - max(due_since_s, self._completed_s)
        added, delayed = self.queue.take_counts()
        record.gauge("workqueue_depth", {**self._of_queue, "priority": ""}, self.queue.due)
        record.gauge("workqueue_unfinished_work_seconds", self._of_queue, sum(ages_s))
        record.gauge("workqueue_longest_running_processor_seconds", self._of_queue, oldest_s)
        record.count("workqueue_adds_total", self._of_queue, added)
        record.count("workqueue_retries_total", self._of_queue, delayed)
        record.gauge("controller_runtime_active_workers", self._name, len(self._running))
        record.gauge("controller_runtime_max_concurrent_reconciles", self._name, self._concurrency)
        record.gauge("holdfast_controller_blocked_seconds", self._name, max(oldest_s, silent_s))

    async def run(self) -> None:
        """Runs until cancelled; `stop` ends the reconciles in progress. In strict mode an unexpected error ends it."""
        self._completed_s = self._clock.monotonic_s()
        dispatcher = asyncio.create_task(self._dispatch())
        bug_waiter = asyncio.create_task(self._bug_found.wait())
        try:
            await asyncio.wait({dispatcher, bug_waiter}, return_when=asyncio.FIRST_COMPLETED)
            if self._bug is not None:
                raise self._bug
            dispatcher.result()
        finally:
            dispatcher.cancel()
            bug_waiter.cancel()
            self.queue.close()
            await asyncio.gather(dispatcher, bug_waiter, return_exceptions=True)

    async def stop(self, *, grace_s: float) -> bool:
        """Waits `grace_s` for the reconciles in progress, then cancels them. Returns whether none was cancelled: a write
        of a cancelled one may still reach its server."""
        if not self._running:
            return True
        _, late = await asyncio.wait(self._running, timeout=grace_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        return not late

    async def _dispatch(self) -> None:
        workers = asyncio.Semaphore(self._concurrency)
        while True:
            await workers.acquire()
            self._fill_after_overflow()
            key = await self.queue.get()
            # The cloud port reads the name of the task as the label `controller` of its calls.
            task = asyncio.create_task(self._one(key), name=self._reconciler.name)
            self._running.add(task)
            task.add_done_callback(lambda done: self._ended(done, workers))
            self._recorder.observe("workqueue_queue_duration_seconds", self._of_queue, self.queue.waited_s)

    def _ended(self, task: asyncio.Task[None], workers: asyncio.Semaphore) -> None:
        self._running.discard(task)
        workers.release()
        if not task.cancelled() and (bug := task.exception()) is not None:
            self._bug = bug
            self._bug_found.set()

    def _fill_after_overflow(self) -> None:
        """Adds all keys from the caches once more after the queue was full, as space becomes free."""
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
            outcome, fields = self._failed(key, error)
        except Exception as error:
            if self._strict:
                raise
            outcome, fields = self._failed_unexpectedly(key, error)
        else:
            outcome, fields = self._succeeded(key, result)
        finally:
            del self._working_since_s[key]
            self.queue.done(key)
        duration_s = self._clock.monotonic_s() - began_s
        self._recorder.count("controller_runtime_reconcile_total", {**self._name, "result": outcome})
        self._recorder.observe("controller_runtime_reconcile_time_seconds", self._name, duration_s)
        self._recorder.observe("workqueue_work_duration_seconds", self._of_queue, duration_s)
        if outcome in _FAILED:
            self._recorder.count("controller_runtime_reconcile_errors_total", self._name)
        self._log_result(key, outcome, duration_s, fields)

    def _succeeded(self, key: Key, result: Done | RequeueAfter) -> tuple[str, dict[str, Any]]:
        self.queue.succeeded(key)
        self._completed(key)
        match result:
            case Done(did):
                return "success", {"did": did} if did else {}
            case RequeueAfter(seconds, why, did):
                self.queue.add_after(key, max(seconds, _SHORTEST_WAIT_S))
                fields: dict[str, Any] = {"requeue_s": round(seconds, 3), "requeue_reason": why}
                return "requeue_after", fields | ({"did": did} if did else {})
            case _:
                assert_never(result)

    def _failed(self, key: Key, error: errors.HoldfastError) -> tuple[str, dict[str, Any]]:
        self._completed(key)
        if isinstance(error, errors.Terminal):
            self._recorder.count("controller_runtime_terminal_reconcile_errors_total", self._name)
            wait_s = _TERMINAL_S
            self.queue.add_after(key, wait_s)
        else:
            requested_s = error.retry_after_s if isinstance(error, errors.Retryable) else None
            wait_s = self.queue.retry(key, at_least_s=min(requested_s or 0, _LONGEST_WAIT_S))
        fields: dict[str, Any] = {"error": f"{type(error).__name__}: {error}", "requeue_s": round(wait_s, 3)}
        return "error", fields | ({"quiet": True} if isinstance(error, _LOGGED_ELSEWHERE) else {})

    def _failed_unexpectedly(self, key: Key, error: Exception) -> tuple[str, dict[str, Any]]:
        self.failing[key] = repr(error)[:_MAX_ERROR_CHARS]
        self._recorder.gauge("holdfast_failing_keys", self._name, len(self.failing))
        self._recorder.count("controller_runtime_reconcile_panics_total", self._name)
        wait_s = self.queue.retry(key)
        self._unexpected.report(self._reconciler.name, error, object=_text(key))
        return "unexpected", {"error": self.failing[key], "requeue_s": round(wait_s, 3), "quiet": True}

    def _completed(self, key: Key) -> None:
        self._completed_s = self._clock.monotonic_s()
        if self.failing.pop(key, None) is not None:
            self._recorder.gauge("holdfast_failing_keys", self._name, len(self.failing))
            self._log.info("recovered from an unexpected error", object=_text(key))

    def _log_result(self, key: Key, outcome: str, duration_s: float, fields: dict[str, Any]) -> None:
        """Logs one line per reconcile: the action at info, a new error at error level, everything else at debug. Quiet
        errors are debug: a conflict is retried at once, and the adapter logs an outage once for all keys."""
        error = "" if fields.pop("quiet", False) else str(fields.get("error", ""))
        is_new = error != self._logged_errors.get(key, "")
        if error:
            self._logged_errors[key] = error
        else:
            self._logged_errors.pop(key, None)
        level, message = "debug", "reconciled"
        if did := fields.pop("did", ""):
            level, message = "info", did
        if error and is_new:
            level, message = "error", "Reconciler error"  # as controller-runtime logs it
        line = {"object": _text(key), "result": outcome, "seconds": round(duration_s, 6)}
        getattr(self._log, level)(message, **line, **fields)


def _text(key: Key) -> str:
    return "/".join(filter(None, key))
