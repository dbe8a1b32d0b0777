"""Daemon threads: they do not delay the exit of the process."""

import threading
from concurrent.futures import Future

import pytest

from holdfast.runtime.threads import DaemonExecutor

WITHIN_S = 30


def test_call_returns_or_raises_to_its_caller() -> None:
    threads = DaemonExecutor(2, "test")
    assert threads.submit(divmod, 7, 2).result(WITHIN_S) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        threads.submit(divmod, 7, 0).result(WITHIN_S)
    assert threads.submit(int, "12", base=3).result(WITHIN_S) == 5


def test_no_more_threads_than_allowed_run_at_once() -> None:
    threads, may_end, names = DaemonExecutor(2, "test"), threading.Event(), []

    def call() -> None:
        names.append(threading.current_thread().name)
        may_end.wait(WITHIN_S)

    waiting = [threads.submit(call) for _ in range(5)]
    may_end.set()
    for one in waiting:
        one.result(WITHIN_S)
    assert len(names) == 5
    assert set(names) <= {"test_1", "test_2"}


def test_idle_thread_is_used_again() -> None:
    threads = DaemonExecutor(8, "test")
    used = {threads.submit(threading.current_thread).result(WITHIN_S)}
    for _ in range(20):
        used.add(threads.submit(threading.current_thread).result(WITHIN_S))
    assert len(used) <= 2  # a result can be set just before its thread is idle
    assert all(thread.daemon for thread in used)


def test_shutdown_does_not_wait_and_rejects_new_calls() -> None:
    threads, may_end = DaemonExecutor(1, "test"), threading.Event()
    running: Future[bool] = threads.submit(may_end.wait, WITHIN_S)
    threads.shutdown()
    assert not running.done()
    with pytest.raises(RuntimeError):
        threads.submit(int)
    may_end.set()
    assert running.result(WITHIN_S)


def test_cancelled_call_is_not_made() -> None:
    threads, may_end = DaemonExecutor(1, "test"), threading.Event()
    calls: list[int] = []
    threads.submit(may_end.wait, WITHIN_S)
    cancelled = threads.submit(calls.append, 1)
    assert cancelled.cancel()
    may_end.set()
    threads.submit(int).result(WITHIN_S)
    assert calls == []
