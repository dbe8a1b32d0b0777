"""The Clock port: this process's clock, a faster one for the demo, and the clock of the controllers.

`app` creates one `ProgramClock` for all controllers. It follows the API server's clock, because the ages of API objects
count from it. No other server's clock changes it (docs/adr/0036).
"""

import asyncio
import time
from typing import Final

import structlog

from holdfast.ports import Clock

IGNORED_S: Final = 2  # servers report whole seconds, and responses take time to arrive
WARN_FROM_S: Final = 30
_LONGEST_ANSWER_S: Final = 2.0  # the time in a slower response is too inexact
_CONFIRMED_BY: Final = 3
_CONFIRMED_OVER_S: Final = 10.0


class RealClock:
    def now_s(self) -> int:
        return int(time.time())

    def monotonic_s(self) -> float:
        # Counts suspended time too: a leader that was suspended must not assume that its Lease is still valid.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ScaledClock:
    """Real time, `speed` times as fast. It never jumps, so waits for sockets work as usual."""

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
    """The process's wall clock without its steps: setting the clock must not change the ages of objects."""

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
    """How far a server's clock is ahead of this process's, by the times in its responses.

    Differences of up to `IGNORED_S` are ignored. A new offset is adopted when several responses in a row agree on it
    over some seconds, so that one wrong response changes nothing.
    """

    def __init__(
        self,
        clock: SteadyClock,
        *,
        answers: int = _CONFIRMED_BY,
        over_s: float = _CONFIRMED_OVER_S,
        adopts_first: bool = False,
    ) -> None:
        """`adopts_first`: adopt the offset of the first response at once."""
        self._clock = clock
        self._answers = answers
        self._over_s = over_s
        self._adopts_first = adopts_first
        self._unconfirmed: list[
            tuple[float, int]
        ] = []  # (time, offset) of responses that agree with each other
        self.adopted_s: int | None = None  # None: not known yet
        self.reported_s = 0  # offset of the last response, adopted or not

    @property
    def is_in_doubt(self) -> bool:
        return bool(self._unconfirmed)

    def observe(self, reported_s: int, duration_s: float) -> bool:
        """Records the time in a response that took `duration_s`. Returns whether a new offset is adopted."""
        if duration_s > _LONGEST_ANSWER_S:
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
    """The API server's time, continued by this process's monotonic clock between two readings. Before the first reading
    it is this process's wall clock."""

    def __init__(self, wall: Clock) -> None:
        self.wall = wall
        self.steady = SteadyClock(wall)
        self.api_server = ServerOffset(self.steady, adopts_first=True)

    @property
    def offset_s(self) -> int:
        """Seconds this clock is ahead of the process's steady clock."""
        adopted_s = self.api_server.adopted_s
        return self.steady.steps_s if adopted_s is None else adopted_s

    def now_s(self) -> int:
        now_s = self.steady.now_s()
        return now_s + self.offset_s

    def monotonic_s(self) -> float:
        return self.wall.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        await self.wall.sleep(seconds)

    def observe(self, created_s: int, duration_s: float) -> None:
        """Records the creationTimestamp in a response that took `duration_s`."""
        if self.api_server.observe(created_s, duration_s) and abs(self.offset_s) > WARN_FROM_S:
            structlog.get_logger().warning(
                "local clock differs from the API server's; using the API server's",
                ahead_s=-self.offset_s,
            )
