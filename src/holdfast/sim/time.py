"""Virtual time: an event loop whose clock jumps to the next timer instead of waiting for it.

Real controllers run for a fortnight in seconds, and each run is the same. Nothing outside the loop can wake it, so a
program with neither a timer nor work would wait for ever: that is an error, and so is a program that never stops
working at one moment. No real sockets and no threads.
"""

import asyncio
import math
import selectors
from collections.abc import Coroutine
from datetime import datetime
from typing import Any, Final, TypeVar

T = TypeVar("T")


_ROUNDS_MAX: Final = 2_000_000  # of the event loop, at one moment; a plan for 50,000 pods needs far fewer
_SAME_MOMENT_S: Final = 1e-6


class Stuck(Exception):
    """Every task waits and no timer is set; or tasks run without end and time does not advance."""


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self._moment_s, self._rounds = 0.0, 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Stuck("no task can run and no timer is set: every task waits for another")
        self.now_s += max(0.0, timeout)
        self._rounds += 1
        if self.now_s > self._moment_s + _SAME_MOMENT_S:
            self._moment_s, self._rounds = self.now_s, 0
        if self._rounds > _ROUNDS_MAX:
            raise Stuck(f"time stands still at {self.now_s} s: tasks wake each other without end")
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)
        self._resolved_s = -1.0  # the time that `_clock_resolution` is for

    def time(self) -> float:
        """The clock resolution is one ulp: asyncio runs a timer that is due within the resolution at once. With a
        larger one, a caller that then reads the clock would be too early, again and again."""
        now_s = self._jumping.now_s
        if now_s != self._resolved_s:
            self._resolved_s, self._clock_resolution = now_s, math.ulp(now_s)
        return now_s


class VirtualClock:
    """The Clock port with the time of the running loop, from a given time on."""

    def __init__(self, start: datetime) -> None:
        self._start_s = start.timestamp()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.jumped_s = 0.0  # seconds by which a test moved the wall clock

    def now_s(self) -> int:
        return int(self._start_s + self.monotonic_s() + self.jumped_s)

    def monotonic_s(self) -> float:
        if self._loop is None or not self._loop.is_running():
            self._loop = asyncio.get_running_loop()  # a system call in Python 3.11
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs the program in virtual time and returns its result. Remaining tasks are cancelled."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
