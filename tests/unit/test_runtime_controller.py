"""The work loop: how it handles each result, and unexpected errors."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import structlog
from structlog.testing import capture_logs

import objects
from holdfast import errors
from holdfast.api.pods import Pod
from holdfast.runtime.backoff import Backoff
from holdfast.runtime.cache import Cache
from holdfast.runtime.controller import Controller
from holdfast.runtime.queue import WorkQueue
from holdfast.runtime.results import Done, Key, RequeueAfter
from holdfast.sim import time
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock
from recorders import KeepingRecorder
from scripted import START

Answer = Done | RequeueAfter


@dataclass
class RecordingReconciler:
    """A reconciler that calls a function of the test and records the time and key of each call."""

    handle: Callable[[Key, int], Awaitable[Answer]]
    name: str = "test.thing"
    calls: list[tuple[float, str]] = field(default_factory=list)

    async def reconcile(self, key: Key) -> Answer:
        count = sum(name == key[1] for _, name in self.calls)
        self.calls.append((round(asyncio.get_running_loop().time(), 3), key[1]))
        return await self.handle(key, count)


def build_controller(
    reconciler: RecordingReconciler, recorder: KeepingRecorder, *, concurrency: int = 1, strict: bool = False
) -> Controller:
    clock, ids = VirtualClock(START), SeededIds(1)
    return Controller(
        reconciler,
        clock=clock,
        ids=ids,
        recorder=recorder,
        concurrency=concurrency,
        strict=strict,
        queue=WorkQueue(clock=clock, ids=ids, backoff=Backoff(1, 64)),
    )


def run(
    handle: Callable[[Key, int], Awaitable[Answer]],
    *keys: str,
    for_s: float = 1000,
    concurrency: int = 1,
    strict: bool = False,
) -> tuple[list[tuple[float, str]], Controller, KeepingRecorder]:
    """Runs the controller for `for_s` seconds and returns the calls of the reconciler."""
    recorder = KeepingRecorder()
    reconciler = RecordingReconciler(handle)

    async def program() -> Controller:
        controller = build_controller(reconciler, recorder, concurrency=concurrency, strict=strict)
        for key in keys:
            controller.add(("", key))
        running = asyncio.create_task(controller.run())
        await asyncio.wait({running}, timeout=for_s)
        if running.done():
            running.result()
        running.cancel()
        await controller.stop(grace_s=5)
        return controller

    return reconciler.calls, time.run(program()), recorder


def results(recorder: KeepingRecorder) -> dict[str, int]:
    found = recorder.counts.items()
    return {key[2]: count for key, count in found if key[0] == "controller_runtime_reconcile_total"}


def test_a_done_key_is_not_reconciled_again() -> None:
    async def handle(_key: Key, _count: int) -> Answer:
        return Done()

    calls, _, recorder = run(handle, "a", "b", "a")
    assert calls == [(0, "a"), (0, "b")]
    assert results(recorder) == {"success": 2}


def test_requeue_after_reconciles_again() -> None:
    async def handle(_key: Key, count: int) -> Answer:
        return RequeueAfter(10, "it takes a while") if count < 3 else Done()

    calls, _, recorder = run(handle, "a")
    assert calls == [(0, "a"), (10, "a"), (20, "a"), (30, "a")]
    assert results(recorder) == {"requeue_after": 3, "success": 1}


def test_a_tiny_requeue_delay_has_a_minimum() -> None:
    """The rounding error of a deadline is such a delay; without a minimum the key is reconciled in a busy loop."""

    async def handle(_key: Key, count: int) -> Answer:
        return RequeueAfter(1e-13, "until it is late") if count < 1000 else Done()

    calls, _, _ = run(handle, "a", for_s=1)
    assert 10 <= len(calls) <= 101


def test_failures_are_retried_with_backoff_until_success() -> None:
    async def handle(_key: Key, count: int) -> Answer:
        if count < 4:
            raise errors.Conflict("somebody was faster")
        return RequeueAfter(100, "later") if count == 4 else Done()

    calls, _, recorder = run(handle, "a")
    moments = [at_s for at_s, _ in calls]
    waits = [after - before for before, after in pairwise(moments)]
    for wait_s, longest_s in zip(waits, (1, 2, 4, 8), strict=False):
        assert longest_s / 2 <= wait_s <= longest_s
    assert waits[4] == 100
    assert results(recorder) == {"error": 4, "requeue_after": 1, "success": 1}


def test_retry_after_is_respected() -> None:
    async def handle(_key: Key, count: int) -> Answer:
        if count == 0:
            raise errors.Throttled("slower", retry_after_s=50)
        return Done()

    calls, _, _ = run(handle, "a")
    assert calls == [(0, "a"), (50, "a")]


def test_terminal_errors_are_retried_rarely() -> None:
    async def handle(_key: Key, _count: int) -> Answer:
        raise errors.Rejected("no such image")

    calls, _, _ = run(handle, "a", for_s=1250)
    assert calls == [(0, "a"), (600, "a"), (1200, "a")]


def test_an_unexpected_error_delays_only_its_own_key() -> None:
    async def handle(key: Key, _count: int) -> Answer:
        assert key[1] != "bad", "two slots for one node"
        return RequeueAfter(100, "a heartbeat")

    with capture_logs() as logs:
        calls, controller, recorder = run(handle, "good", "bad", for_s=3600)
    assert len([name for _, name in calls if name == "good"]) == 36
    moments = [at_s for at_s, name in calls if name == "bad"]
    waits = [after - before for before, after in pairwise(moments)]
    assert waits[0] <= 1
    assert 32 <= max(waits) <= 64  # retries never stop, and the delay is capped
    assert list(controller.failing) == [("", "bad")]
    assert recorder.gauges["holdfast_failing_keys", "test.thing"] == 1
    assert results(recorder)["unexpected"] == len(moments)
    tracebacks = [
        line for line in logs if line["event"] == "unexpected error" and line["log_level"] == "error"
    ]
    assert len(tracebacks) == 1


def test_a_failing_key_is_retried_soon_after_its_object_changes() -> None:
    async def handle(_key: Key, count: int) -> Answer:
        assert count >= 15, "not mended yet"
        return Done()

    async def program() -> None:
        controller = build_controller(RecordingReconciler(handle), KeepingRecorder())
        running = asyncio.create_task(controller.run())
        controller.add(("", "a"))
        await asyncio.sleep(400)
        start_s = asyncio.get_running_loop().time()
        for _ in range(10):
            controller.add(("", "a"))  # its object changed
            await asyncio.sleep(6)
        assert asyncio.get_running_loop().time() - start_s == pytest.approx(60)
        assert not controller.failing
        running.cancel()

    time.run(program())


@pytest.mark.parametrize("hangs", [False, True])
def test_a_controller_that_completes_nothing_for_ten_minutes_is_stuck(*, hangs: bool) -> None:
    async def handle(_key: Key, _count: int) -> Answer:
        if hangs:
            await asyncio.sleep(100_000)
        raise AssertionError("a bug")

    async def program() -> None:
        controller = build_controller(RecordingReconciler(handle), KeepingRecorder())
        running = asyncio.create_task(controller.run())
        assert controller.stuck() == ""
        controller.add(("", "a"))
        await asyncio.sleep(590)
        assert controller.stuck() == ""
        await asyncio.sleep(20)
        if hangs:
            assert controller.stuck() == "the reconcile of a has been running for 610 s"
        else:
            assert controller.stuck().startswith("no reconcile has completed for 610 s; a failed with")
        running.cancel()
        await controller.stop(grace_s=0)

    time.run(program())


def test_blocked_time_counts_from_the_due_key_and_not_from_the_last_reconcile() -> None:
    recorder = KeepingRecorder()
    name = "holdfast_controller_blocked_seconds", "test.thing"

    async def program() -> None:
        blocked = asyncio.Event()

        async def handle(_key: Key, _count: int) -> Answer:
            await blocked.wait()
            return Done()

        controller = build_controller(RecordingReconciler(handle), recorder)
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(3600)  # without work
        controller.measure()
        assert recorder.gauges[name] == 0
        for key in ("a", "b"):
            controller.add(("", key))
        controller.measure()
        assert recorder.gauges[name] == 0
        await asyncio.sleep(400)
        controller.measure()
        assert recorder.gauges[name] == pytest.approx(400)
        assert recorder.gauges["workqueue_depth", "test.thing", "test.thing", ""] == 1
        blocked.set()
        await asyncio.sleep(1)
        controller.measure()
        assert recorder.gauges[name] == 0
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    time.run(program())


def test_an_absurd_retry_after_is_capped() -> None:
    async def handle(_key: Key, count: int) -> Answer:
        if count == 0:
            raise errors.Throttled("slower", retry_after_s=99_999_999)
        return Done()

    calls, _, _ = run(handle, "a", for_s=400)
    assert calls == [(0, "a"), (300, "a")]


def test_in_strict_mode_an_unexpected_error_ends_the_run() -> None:
    async def handle(key: Key, _count: int) -> Answer:
        assert key[1] != "bad", "two slots for one node"
        return Done()

    with pytest.raises(AssertionError, match="two slots for one node"):
        run(handle, "good", "bad", strict=True)


def test_concurrency_is_limited_and_no_key_runs_twice_at_once() -> None:
    running: list[str] = []
    most = 0

    async def handle(key: Key, count: int) -> Answer:
        nonlocal most
        assert key[1] not in running
        running.append(key[1])
        most = max(most, len(running))
        await asyncio.sleep(1)
        running.remove(key[1])
        return RequeueAfter(0.5, "again") if count < 5 else Done()

    calls, _, _ = run(handle, *"abcdefg", concurrency=3, strict=True)
    assert most == 3
    assert len(calls) == 7 * 6


def test_stop_waits_for_running_reconciles() -> None:
    ended: list[str] = []

    async def handle(key: Key, _count: int) -> Answer:
        await asyncio.sleep(3 if key[1] == "short" else 3600)
        ended.append(key[1])
        return Done()

    run(handle, "short", "long", for_s=1, concurrency=2)
    assert ended == ["short"]


@pytest.fixture
def every_level() -> Iterator[None]:
    """Another test of this process may have raised the log level."""
    before = structlog.get_config()
    structlog.reset_defaults()
    yield
    structlog.configure(**before)


@pytest.mark.usefixtures("every_level")
def test_a_conflict_is_not_logged_as_an_error() -> None:
    async def handle(_key: Key, count: int) -> Answer:
        if count == 0:
            raise errors.Conflict("the object has been modified")
        return Done("wrote it")

    with capture_logs() as logs:
        run(handle, "a")
    lines = [line for line in logs if "result" in line]
    assert [line["log_level"] for line in lines] == ["debug", "info"]


@pytest.mark.usefixtures("every_level")
def test_each_reconcile_logs_one_line_and_a_lasting_error_once() -> None:
    async def handle(_key: Key, count: int) -> Answer:
        match count:
            case 0:
                return RequeueAfter(1, "wait", did="launched i-1")
            case 1 | 2 | 3:
                raise errors.NotReady("no subnets")
            case _:
                return Done()

    with capture_logs() as logs:
        run(handle, "a")
    lines = [line for line in logs if "result" in line]
    assert [line["log_level"] for line in lines] == ["info", "error", "debug", "debug", "debug"]
    assert lines[0] == {
        "controller": "test.thing",
        "object": "a",
        "result": "requeue_after",
        "seconds": 0.0,
        "requeue_s": 1,
        "requeue_reason": "wait",
        "event": "launched i-1",
        "log_level": "info",
    }


def test_changed_objects_add_their_keys_and_an_overflow_is_refilled() -> None:
    async def handle(_key: Key, _count: int) -> Answer:
        return Done()

    reconciler = RecordingReconciler(handle)

    async def program() -> None:
        clock, ids = VirtualClock(START), SeededIds(1)
        cache = Cache(Pod, clock=clock)
        queue = WorkQueue(clock=clock, ids=ids, max_keys=2)
        controller = Controller(reconciler, clock=clock, ids=ids, recorder=KeepingRecorder(), queue=queue)
        controller.watch(cache, lambda pod: [("", pod.spec.node_name)])
        for number in range(5):
            meta = {"resourceVersion": str(number + 1)}
            cache.written(objects.pod(f"p{number}", meta, nodeName=f"n{number}"))
        cache.written(objects.pod("p0", {"resourceVersion": "9"}, nodeName="n9"))
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        running.cancel()

    time.run(program())
    names = [name for _, name in reconciler.calls]
    assert names[:2] == ["n0", "n1"]
    assert {"n1", "n2", "n3", "n4", "n9"} <= set(names)
