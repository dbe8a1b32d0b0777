"""How often we ask: a bucket of tokens that refills with time.

Callers: `client` before each request. Whoever waits is served in order. A server has limits of its own and says so
with 429; this one keeps a mistake of ours from being everybody's.
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
        """One token; returns when it was due. Each caller owes its own wait, so the order is that of asking."""
        now_s = self._clock.monotonic_s()
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_s) * self._per_second)
        self._filled_s = now_s
        self._tokens -= 1
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self._per_second)
