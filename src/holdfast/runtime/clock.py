"""The Clock door on the machine's own clock. Callers: `app`, for every world in which time is real."""

import asyncio
import time


class RealClock:
    def now_s(self) -> int:
        return int(time.time())

    def monotonic_s(self) -> float:
        # Goes on while the machine sleeps: a leader that was suspended must not believe that no time has passed.
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
