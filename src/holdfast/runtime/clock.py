"""The Clock door on the machine's own clock. Callers: whoever makes a world in which time is real, or real but faster."""

import asyncio
import time
from typing import Final

import structlog

from holdfast.ports import Clock

_WARN_FROM_S: Final = 30
_SLACK_S: Final = 1  # clocks are read, and written down, in whole seconds


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


class CorrectedClock:
    """A machine's clock, put right by what the cloud says the time is: the cloud's dates count on the cloud's clock.
    Durations are the machine's own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._warned = False
        self.offset_s = 0  # what the machine's clock is behind by

    def now_s(self) -> int:
        return self._clock.now_s() + self.offset_s

    def monotonic_s(self) -> float:
        return self._clock.monotonic_s()

    async def sleep(self, seconds: float) -> None:
        await self._clock.sleep(seconds)

    def heard(self, said_s: int, *, took_s: float) -> None:
        """Somebody who knows said what time it was, within the time that the answer took."""
        latest_s = said_s - self._clock.now_s() + int(took_s)
        earliest_s = said_s - self._clock.now_s()
        if earliest_s - _SLACK_S <= self.offset_s <= latest_s + _SLACK_S:
            return
        self.offset_s = (
            0 if earliest_s - _SLACK_S <= 0 <= latest_s + _SLACK_S else (earliest_s + latest_s) // 2
        )
        is_far = abs(self.offset_s) > _WARN_FROM_S
        if is_far and not self._warned:
            structlog.get_logger().warning("the clock of this machine is off", behind_s=self.offset_s)
        self._warned = is_far
