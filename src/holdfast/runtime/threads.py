"""A thread pool that does not delay the exit of the process.

At exit Python waits for every thread of `concurrent.futures`: for a long poll of 20 s, or for a plan. These threads are
daemons, so their work is dropped at exit. That is safe, because a crash at that moment is.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

R = TypeVar("R")


class DaemonExecutor(ThreadPoolExecutor):
    """A bounded pool. It is a ThreadPoolExecutor because asyncio accepts no other default executor."""

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, name)  # starts no thread
        self._max_threads, self._name = threads, name
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._started = 0
        self._closed = False
        self._guard = threading.Lock()

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        future: Future[R] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._guard:
            if self._closed:
                raise RuntimeError("the threads are closed")
            self._waiting.put(work)
            if not self._idle.acquire(blocking=False) and self._started < self._max_threads:
                self._started += 1
                threading.Thread(target=self._work, name=f"{self._name}_{self._started}", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - signature of the base class
        """Returns at once. Queued calls are dropped; running ones are dropped at exit."""
        with self._guard:
            self._closed = True
            for _ in range(self._started):
                self._waiting.put(None)

    def _work(self) -> None:
        while True:
            work = self._waiting.get()
            if work is None or self._closed:
                return
            work()
            del work  # else the last call's values stay in memory
            self._idle.release()
