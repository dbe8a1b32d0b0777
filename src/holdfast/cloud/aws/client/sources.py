"""What is read from AWS now and then, kept in memory between, and the one loop that keeps it fresh.

A `Source` is one value for the whole program (all subnets, all reservations); an `Answers` keeps the answers to
questions that differ (an image by its id, a parameter by its name). The rules: one reading at a time, whatever
the number of callers; a reading that failed leaves the last value in place; how often AWS is asked depends on
time alone, never on how many ask us.
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
SHORTEST_S: Final = 0.1  # between two looks at what is due
LONGEST_S: Final = 10.0  # a value without readers may have one by then
UNUSED_S: Final = 86_400.0  # an answer that no caller read for so long is deleted


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
        self.wanted = True  # the loop refreshes only what callers want
        self._read = read
        self._clock = clock
        self._lock = asyncio.Lock()
        self._value: T | None = None
        self._read_s: float | None = None  # when the reading of the value began
        self._begun = 0  # readings so far
        self._kept = 0  # which of them the value is from
        self._failures: list[errors.HoldfastError] = []  # since the last reading that succeeded
        self._again_s = 0.0  # not before then, after a failure

    @property
    def is_wanted(self) -> bool:
        """Whether the schedule refreshes it."""
        return self.wanted and self._is_needed()

    @property
    def last(self) -> T | None:
        """The value as it is; None: there is none yet."""
        return self._value

    @property
    def age_s(self) -> float | None:
        """Of the value; None: there is none."""
        return None if self._read_s is None else self._clock.monotonic_s() - self._read_s

    @property
    def due_in_s(self) -> float:
        """How long until it should be read again; after a failure sooner than its period, and less and less so."""
        held_s = self._again_s - self._clock.monotonic_s()
        return max(held_s, 0.0 if self.age_s is None else self.period_s - self.age_s)

    async def get(self) -> T:
        """The value as it is; read only where there is none."""
        return self._value if self._value is not None else await self.fresh()

    async def fresh(self, max_age_s: float | None = None) -> T:
        """The value, no older than `max_age_s` or its period. Right after a failed reading this raises that
        failure, so that an AWS outage does not cause more calls."""
        async with self._lock:
            limit_s = self.period_s if max_age_s is None else max_age_s
            if self._value is not None and self.age_s is not None and self.age_s < limit_s:
                return self._value
            if self._failures and self._clock.monotonic_s() < self._again_s:
                raise self._failures[-1].with_traceback(None)
            return await self._anew()

    async def read(self) -> T:
        """The value from a reading that begins after this call does."""
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
    """Cached answers by question; each caller sets how old an answer may be."""

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
    """Keeps sources fresh."""

    def __init__(
        self, sources: Sequence[Source[Any]], *, clock: ports.Clock, recorder: ports.Recorder
    ) -> None:
        self._sources = sources
        self._clock = clock
        self._recorder = recorder

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(await self.step())

    async def step(self) -> float:
        """Reads what is due; how long until something is again."""
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
