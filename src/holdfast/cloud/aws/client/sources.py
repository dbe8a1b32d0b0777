"""Cached values from AWS, and the loop that refreshes them.

A `Source` is one value for the whole program (all subnets, all reservations). `Answers` has one value per question (an
image by its id, a parameter by its name). There is one read at a time, for any number of callers. A failed read keeps
the last value. The rate of calls depends on time, not on the number of callers.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from holdfast import errors, ports

T = TypeVar("T")
K = TypeVar("K")

REFRESHES_FAILED: Final = "holdfast_aws_refresh_failures_total"
REFRESH_AGE: Final = "holdfast_aws_refresh_age_seconds"
RETRY_FIRST_S: Final = 5.0
RETRY_LONGEST_S: Final = 300.0
_FAILURES_MAX: Final = 16
SHORTEST_S: Final = 0.1  # the shortest pause of the loop
LONGEST_S: Final = 10.0  # the longest pause: a source may become wanted meanwhile
UNUSED_S: Final = 86_400.0  # an answer of that age is deleted


class Source(Generic[T]):
    def __init__(
        self,
        name: str,
        read: Callable[[], Awaitable[T]],
        *,
        period_s: float,
        clock: ports.Clock,
        is_needed: Callable[[], bool] = lambda: True,
    ) -> None:
        self.name = name
        self._is_needed = is_needed
        self.period_s = period_s
        self.wanted = True  # the loop refreshes only wanted sources
        self._read = read
        self._clock = clock
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._read_s: float | None = None  # when the read of the value began
        self._begun = 0  # number of reads so far
        self._kept = 0  # number of the read that returned the value
        self._failures: list[errors.HoldfastError] = []  # since the last successful read
        self._again_s = 0.0  # no read before this time, after a failure

    @property
    def is_wanted(self) -> bool:
        """Whether the loop refreshes it."""
        return self.wanted and self._is_needed()

    @property
    def last(self) -> T | None:
        """The cached value; None before the first read."""
        return self._value

    @property
    def age_s(self) -> float | None:
        """Age of the value in seconds; None without a value."""
        return None if self._read_s is None else self._clock.monotonic_s() - self._read_s

    @property
    def due_in_s(self) -> float:
        """Seconds until the next read. After a failure it is shorter than the period, and grows with each further one."""
        held_s = self._again_s - self._clock.monotonic_s()
        return max(held_s, 0.0 if self.age_s is None else self.period_s - self.age_s)

    async def get(self) -> T:
        """The cached value; reads it if there is none."""
        return self._value if self._value is not None else await self.fresh()

    async def fresh(self, max_age_s: float | None = None) -> T:
        """The value, at most `max_age_s` or its period old. Right after a failed read this raises that failure, so that
        an AWS outage does not cause more calls."""
        limit_s = self.period_s if max_age_s is None else max_age_s
        known = self._younger_than(limit_s)
        if known is not None:
            return known  # without the lock: a slow read delays no caller for which the cached value is new enough
        async with self._lock:
            known = self._younger_than(limit_s)
            if known is not None:
                return known
            if self._failures and self._clock.monotonic_s() < self._again_s:
                raise self._failures[-1].with_traceback(None)
            return await self._anew()

    def _younger_than(self, limit_s: float) -> T | None:
        return self._value if self.age_s is not None and self.age_s < limit_s else None

    async def read(self) -> T:
        """The value of a read that begins after this call."""
        before = self._begun
        async with self._lock:
            if self._value is not None and self._kept > before:
                return self._value
            return await self._anew()

    async def _anew(self) -> T:
        self._begun += 1
        number, began_s = self._begun, self._clock.monotonic_s()
        try:
            value = await self._read()
        except errors.HoldfastError as error:
            self._failures = [*self._failures[-_FAILURES_MAX:], error]
            wait_s = RETRY_FIRST_S * 2.0 ** (len(self._failures) - 1)
            self._again_s = self._clock.monotonic_s() + min(wait_s, RETRY_LONGEST_S, self.period_s)
            raise
        self._value, self._read_s, self._kept = value, began_s, number
        self._failures, self._again_s = [], 0.0
        return value


class Answers(Generic[K, T]):
    """Cached answers by question; each caller sets the maximum age."""

    def __init__(self, clock: ports.Clock) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._kept: dict[K, tuple[float, T]] = {}

    async def get(self, question: K, ttl_s: Callable[[T], float], fetch: Callable[[], Awaitable[T]]) -> T:
        async with self._lock:
            cached = self._kept.get(question)
            if cached is not None and self._clock.monotonic_s() - cached[0] < ttl_s(cached[1]):
                return cached[1]
            began_s = self._clock.monotonic_s()
            answer = await fetch()
            self._kept = {q: a for q, a in self._kept.items() if began_s - a[0] < UNUSED_S}
            self._kept[question] = (began_s, answer)
            return answer

    def discard(self, question: K) -> None:
        self._kept.pop(question, None)


class Schedule:
    """Refreshes sources."""

    def __init__(
        self, sources: Sequence[Source[Any]], *, clock: ports.Clock, recorder: ports.Recorder
    ) -> None:
        self._sources = sources
        self._clock = clock
        self._recorder = recorder

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            await self._clock.sleep(await self.step())

    async def read_once(self) -> dict[str, errors.HoldfastError]:
        """Reads all wanted sources, and returns the failures by the name of the source."""
        failures: dict[str, errors.HoldfastError] = {}

        async def read(source: Source[Any]) -> None:
            try:
                await source.fresh()
            except errors.HoldfastError as error:
                failures[source.name] = error

        await asyncio.gather(*(read(source) for source in self._sources if source.is_wanted))
        return failures

    async def step(self) -> float:
        """Reads the sources that are due, and returns the seconds until the next step."""
        for source in self._sources:
            if source.is_wanted and source.due_in_s <= 0:
                await self._refresh(source)
            self._recorder.gauge(REFRESH_AGE, {"source": source.name}, source.age_s or 0)
        due_s = [source.due_in_s for source in self._sources if source.is_wanted]
        return max(SHORTEST_S, min([LONGEST_S, *due_s]))

    async def _refresh(self, source: Source[Any]) -> None:
        try:
            await source.fresh()
        except errors.HoldfastError as error:
            self._recorder.count(REFRESHES_FAILED, {"source": source.name, "error": type(error).__name__})
