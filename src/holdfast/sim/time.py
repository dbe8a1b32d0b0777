"""Virtual time: an event loop whose clock jumps to the next timer instead of waiting for it.

Real controllers run for a fortnight in seconds, and each run is the same. Nothing outside the loop can wake it, so a
program with neither a timer nor work would wait for ever: that is an error, and so is a program that never stops
working at one moment. No real sockets and no threads.
"""

import asyncio
import heapq
import itertools
import math
import selectors
from collections.abc import Callable, Coroutine
from contextvars import Context
from datetime import datetime
from typing import Any, Final, TypeVar

T = TypeVar("T")


_ROUNDS_MAX: Final = 2_000_000  # of the event loop, at one moment; a plan for 50,000 pods needs far fewer
_SAME_MOMENT_S: Final = 1e-6


class Stuck(Exception):
    """Every task waits and no timer is set; or tasks run without end and time does not advance."""


class _JumpingSelector(selectors.SelectSelector):
    """Passes every wait to `wait`."""

    def __init__(self, wait: Callable[[float], None]) -> None:
        super().__init__()
        self._wait = wait

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("no task can run and no timer is set: every task waits for another")
        self._wait(timeout)
        return []


class _Timer(asyncio.TimerHandle):
    """Of two timers that are due at the same moment, the one that was set first runs first. In asyncio it depends on all
    other timers, so that a program with one timer less would have other results."""

    __slots__ = ("_turn",)
    _scheduled: bool  # whether it is in the heap of asyncio's loop, which counts the cancelled ones there

    def __init__(self, number: int, when: float, *about: Any) -> None:
        super().__init__(when, *about)
        self._turn = when, number

    def __lt__(self, other: asyncio.TimerHandle) -> bool:
        assert isinstance(other, _Timer)
        return self._turn < other._turn


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is `now_s`."""

    _scheduled: list[asyncio.TimerHandle]  # the heap of timers of asyncio's loop

    def __init__(self) -> None:
        self.now_s = 0.0
        self.is_over = False
        self._moment_s, self._rounds = 0.0, 0
        self._numbers = itertools.count()
        super().__init__(_JumpingSelector(self._jump))
        self._clock_resolution = math.ulp(self.now_s)

    def time(self) -> float:
        return self.now_s

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer(next(self._numbers), when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # noqa: SLF001 - as asyncio's loop does
        return timer

    def close(self) -> None:
        self.is_over = True
        super().close()

    def _jump(self, seconds: float) -> None:
        """The clock resolution is one ulp: asyncio runs a timer that is due within the resolution at once. With a
        larger one, a caller that then reads the clock would be too early, again and again."""
        if seconds > 0.0:
            self.now_s = now_s = self.now_s + seconds
            self._clock_resolution = math.ulp(now_s)
            if now_s > self._moment_s + _SAME_MOMENT_S:
                self._moment_s, self._rounds = now_s, 0
        self._rounds += 1
        if self._rounds > _ROUNDS_MAX:
            raise Stuck(f"time stands still at {self.now_s} s: tasks wake each other without end")


class VirtualClock:
    """The Clock port with the time of the running loop, from a given time on."""

    def __init__(self, start: datetime) -> None:
        self._start_s = start.timestamp()
        self._loop: VirtualLoop | None = None
        self.jumped_s = 0.0  # seconds by which a test moved the wall clock

    def now_s(self) -> int:
        return int(self._start_s + self.monotonic_s() + self.jumped_s)

    def monotonic_s(self) -> float:
        loop = self._loop
        if loop is None or loop.is_over:
            running = asyncio.get_running_loop()  # a system call in Python 3.11
            if not isinstance(running, VirtualLoop):
                return running.time()
            loop = self._loop = running
        return loop.now_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs the program in virtual time and returns its result. Remaining tasks are cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
