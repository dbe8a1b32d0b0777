"""A token bucket that limits requests to the API server, so that a defect of Holdfast does not overload it.

Waiting requests are served in order.
"""

from holdfast.ports import Clock


class RateLimit:
    def __init__(self, *, clock: Clock, per_second: float, burst: int) -> None:
        assert per_second > 0, per_second
        assert burst >= 1, burst
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._filled_s = clock.monotonic_s()

    async def take(self) -> None:
        """Takes one token and waits until it is available. The count may be negative: each caller waits for its own token."""
        now_s = self._clock.monotonic_s()
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._per_second)
        self._filled_s = now_s
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._per_second)
