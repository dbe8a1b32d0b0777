"""The Clock port: this process's clock, a faster one for demonstrations, and the program's time.

Callers: `production` and `demo` make the first two; `app` makes one `ProgramClock` and passes it to every controller.
The rule: the ages of API objects count on the API server's clock, so the program's time is the API server's time. No
other server's clock moves it (docs/adr/0036).
"""

import asyncio
import time
from typing import Final

import structlog

from holdfast.ports import Clock

IGNORED_S: Final = 2  # times are reported in whole seconds and need some time to arrive
WARN_FROM_S: Final = 30
_LONGEST_ANSWER_S: Final = 2.0  # an answer that took longer does not tell the time well enough
_CONFIRMED_BY: Final = 3
_CONFIRMED_OVER_S: Final = 10.0


class RealClock:
    def now_s(self) -> int:
        return int(time.time())

    def monotonic_s(self) -> float:
        # Goes on while the machine sleeps: a leader that was suspended must not believe that no time has passed.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ScaledClock:
    """Real time from now on, so many times as fast. It never jumps: whoever waits for a socket misses nothing."""

    def __init__(self, real: Clock, speed: float) -> None:
        assert speed > 0, speed
        self._real = real
        self._speed = speed
        self._began_s = real.monotonic_s()
        self._start_s = real.now_s()

    def now_s(self) -> int:
        return self._start_s + int(self.monotonic_s())

    def monotonic_s(self) -> float:
        return (self._real.monotonic_s() - self._began_s) * self._speed

    async def sleep(self, seconds: float) -> None:
        await self._real.sleep(seconds / self._speed)


class SteadyClock:
    """A process's wall clock without its steps: NTP or an administrator may set it, and no age changes by that."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_s = clock.now_s() - clock.monotonic_s()
        self.steps_s = 0  # the sum of all steps since

    def now_s(self) -> int:
        before_s, now_s, after_s = self._clock.monotonic_s(), self._clock.now_s(), self._clock.monotonic_s()
        earliest_s, latest_s = now_s - after_s - self._started_s, now_s - before_s - self._started_s
        if not earliest_s - IGNORED_S <= self.steps_s <= latest_s + IGNORED_S:
            self.steps_s = round(latest_s)
        return now_s - self.steps_s

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)


class ServerOffset:
    """How far the clock of one server is ahead of ours, by the times that the server reports.

    A difference of up to `IGNORED_S` is none. A new offset is adopted when several answers in a row agree on it over
    some seconds, so that one wrong answer changes nothing.
    """

    def __init__(
        self,
        clock: SteadyClock,
        *,
        answers: int = _CONFIRMED_BY,
        over_s: float = _CONFIRMED_OVER_S,
        adopts_first: bool = False,
    ) -> None:
        """`adopts_first`: the first answer is adopted at once, because nothing is known before it."""
        self._clock = clock
        self._answers = answers
        self._over_s = over_s
        self._adopts_first = adopts_first
        self._unconfirmed: list[tuple[float, int]] = []  # when, and the offset; they agree with each other
        self.adopted_s: int | None = None  # None: not known yet
        self.reported_s = 0  # by the last answer, adopted or not

    @property
    def is_in_doubt(self) -> bool:
        return bool(self._unconfirmed)

    def observe(self, reported_s: int, took_s: float) -> bool:
        """The server reported its time in an answer that took so long. Whether a new offset is adopted."""
        if took_s > _LONGEST_ANSWER_S:
            return False
        at_s, offset_s = self._clock.monotonic_s(), reported_s - self._clock.now_s()
        self.reported_s = offset_s
        if self.adopted_s is not None and abs(offset_s - self.adopted_s) <= IGNORED_S:
            self._unconfirmed.clear()
            return False
        if self._unconfirmed and abs(offset_s - self._unconfirmed[-1][1]) > IGNORED_S:
            self._unconfirmed.clear()
        self._unconfirmed = [*self._unconfirmed[: self._answers - 1], (at_s, offset_s)]
        is_first = self._adopts_first and self.adopted_s is None
        is_confirmed = (
            len(self._unconfirmed) == self._answers and at_s - self._unconfirmed[0][0] >= self._over_s
        )
        if not is_first and not is_confirmed:
            return False
        self.adopted_s = 0 if abs(offset_s) <= IGNORED_S else offset_s
        self._unconfirmed.clear()
        return True


class ProgramClock:
    """The API server's time. Between two answers of the API server this process's monotonic clock continues it; before
    the first answer it is this process's wall clock."""

    def __init__(self, wall: Clock) -> None:
        self.wall = wall
        self.steady = SteadyClock(wall)
        self.api_server = ServerOffset(self.steady, adopts_first=True)

    @property
    def offset_s(self) -> int:
        """What the program's time is ahead of this process's steady clock by."""
        adopted_s = self.api_server.adopted_s
        return self.steady.steps_s if adopted_s is None else adopted_s

    def now_s(self) -> int:
        now_s = self.steady.now_s()
        return now_s + self.offset_s

    def monotonic_s(self) -> float:
        return self.wall.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        await self.wall.sleep(seconds)

    def observe(self, created_s: int, took_s: float) -> None:
        """The API server stamped an object with that time, in an answer that took so long."""
        if self.api_server.observe(created_s, took_s) and abs(self.offset_s) > WARN_FROM_S:
            structlog.get_logger().warning(
                "the clock of this process differs from the API server's; ages are counted by the API server's",
                ahead_s=-self.offset_s,
            )
