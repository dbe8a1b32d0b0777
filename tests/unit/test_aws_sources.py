"""Values that are read periodically: one read at a time, and a failed read keeps the last value."""

import asyncio
import itertools

import pytest

from holdfast import errors
from holdfast.cloud.aws.client.sources import REFRESHES_FAILED, Answers, Schedule, Source
from manual_ports import CollectingRecorder, ManualClock


class Counter:
    """Each read returns the next number after some steps of the event loop, or fails."""

    def __init__(self, period_s: float = 60) -> None:
        self.clock = ManualClock()
        self.reads = 0
        self.failing = False
        self.source = Source("numbers", self.read, period_s=period_s, clock=self.clock)

    async def read(self) -> int:
        self.reads += 1
        number = self.reads
        for _ in range(5):
            await asyncio.sleep(0)
        if self.failing:
            raise errors.Unreachable("no")
        return number


def test_concurrent_callers_share_one_read() -> None:
    counter = Counter()

    async def read_concurrently() -> list[int]:
        return await asyncio.gather(*(counter.source.fresh() for _ in range(10)))

    assert asyncio.run(read_concurrently()) == [1] * 10


def test_a_value_is_read_again_when_its_period_is_over() -> None:
    counter = Counter()
    for passed_s, value in ((0, 1), (59, 1), (1, 2), (0, 2)):
        counter.clock.advance(passed_s)
        assert asyncio.run(counter.source.fresh()) == value
    counter.clock.advance(1000)
    assert asyncio.run(counter.source.get()) == 2  # get() does not refresh


def test_read_returns_a_value_that_was_read_after_the_call() -> None:
    counter = Counter()

    async def read_during_refresh() -> tuple[int, int, int]:
        running = asyncio.create_task(counter.source.fresh())
        await asyncio.sleep(0)  # the first read is running
        first, second = await asyncio.gather(counter.source.read(), counter.source.read())
        return await running, first, second

    assert asyncio.run(read_during_refresh()) == (1, 2, 2)


def test_running_read_delays_no_caller_for_which_the_value_is_new_enough() -> None:
    counter = Counter()

    async def fresh_during_read() -> tuple[int, bool]:
        await counter.source.fresh()
        counter.clock.advance(10)
        running = asyncio.create_task(counter.source.fresh(5))
        await asyncio.sleep(0)
        value, is_running = await counter.source.fresh(), not running.done()
        await running
        return value, is_running

    assert asyncio.run(fresh_during_read()) == (1, True)


def test_failed_read_keeps_the_last_value() -> None:
    counter = Counter()
    asyncio.run(counter.source.fresh())
    counter.failing = True
    counter.clock.advance(61)
    with pytest.raises(errors.Unreachable):
        asyncio.run(counter.source.fresh())
    assert counter.source.last == 1
    assert counter.source.age_s == 61
    assert asyncio.run(counter.source.get()) == 1


def test_fresh_does_not_read_again_during_the_backoff() -> None:
    counter = Counter()
    counter.failing = True
    for _ in range(100):
        with pytest.raises(errors.Unreachable):
            asyncio.run(counter.source.fresh())
        counter.clock.advance(0.1)
    assert counter.reads == 2  # the first call, and a retry after five seconds
    counter.failing = False
    counter.clock.advance(10)
    assert asyncio.run(counter.source.fresh()) == 3


def test_cached_answer_expires_after_the_lifetime_of_its_value() -> None:
    clock = ManualClock()
    answers = Answers[str, int | None](clock)
    questions_read: list[str] = []

    async def get(question: str, answer: int | None) -> int | None:
        async def read_answer() -> int | None:
            questions_read.append(question)
            return answer

        return await answers.get(question, lambda found: 100 if found else 10, read_answer)

    assert asyncio.run(get("a", 1)) == 1
    assert asyncio.run(get("b", None)) is None
    clock.advance(10)
    assert asyncio.run(get("a", 2)) == 1
    assert asyncio.run(get("b", 2)) == 2
    answers.discard("a")
    assert asyncio.run(get("a", 3)) == 3
    assert questions_read == ["a", "b", "b", "a"]


def test_schedule_reads_sources_that_are_due_and_wanted() -> None:
    often, seldom, unwanted = Counter(60), Counter(600), Counter(60)
    clock = ManualClock()
    for counter in (often, seldom, unwanted):
        counter.source._clock = clock
    unwanted.source.wanted = False
    schedule = Schedule(
        [often.source, seldom.source, unwanted.source], clock=clock, recorder=CollectingRecorder()
    )
    for _ in range(60):
        clock.advance(asyncio.run(schedule.step()))
    assert clock.monotonic_s() == 600
    assert (often.reads, seldom.reads, unwanted.reads) == (10, 1, 0)


def test_schedule_retries_a_failed_source_with_backoff() -> None:
    counter, records = Counter(period_s=43_200), CollectingRecorder()
    counter.failing = True
    schedule = Schedule([counter.source], clock=counter.clock, recorder=records)
    attempts_s: list[float] = []
    while len(attempts_s) < 9:
        before = counter.reads
        wait_s = asyncio.run(schedule.step())
        if counter.reads > before:
            attempts_s.append(counter.clock.monotonic_s())
        counter.clock.advance(wait_s)
    assert [b - a for a, b in itertools.pairwise(attempts_s)] == [5, 10, 20, 40, 80, 160, 300, 300]
    assert records.total(REFRESHES_FAILED, source="numbers", error="Unreachable") == 9
    counter.failing = False
    counter.clock.advance(300)
    asyncio.run(schedule.step())
    assert counter.source.last == 10


def test_schedule_that_is_read_once_reads_wanted_sources_and_returns_failures() -> None:
    good, bad, unwanted = Counter(), Counter(), Counter()
    bad.failing, bad.source.name, unwanted.source.wanted = True, "bad", False
    schedule = Schedule(
        [good.source, bad.source, unwanted.source], clock=good.clock, recorder=CollectingRecorder()
    )
    failures = asyncio.run(schedule.read_once())
    assert {name: str(error) for name, error in failures.items()} == {"bad": "no"}
    assert (good.source.last, unwanted.reads) == (1, 0)
