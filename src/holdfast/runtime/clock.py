"""The Clock door on the machine's own clock. Callers: whoever makes a world in which time is real, or real but faster."""

import asyncio
import time

from holdfast.ports import Clock


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
