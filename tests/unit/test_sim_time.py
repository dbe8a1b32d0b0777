"""Virtual time: it jumps to the next timer, replays exactly, and reports a program that hangs."""

import asyncio
import itertools

import pytest

from holdfast.sim import time
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import Stuck, VirtualClock
from scripted import START


def test_timers_fire_on_time_for_two_weeks() -> None:
    clock = VirtualClock(START)
    times_s: list[int] = []

    async def program() -> int:
        for _ in range(14 * 24 * 60):
            await clock.sleep(60)
            times_s.append(clock.now_s())
        return clock.now_s()

    assert time.run(program()) == int(START.timestamp()) + 14 * 24 * 3600
    assert times_s[:2] == [int(START.timestamp()) + 60, int(START.timestamp()) + 120]


def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock = VirtualClock(START)
    wake_times_s: list[float] = []

    async def sleeper(seconds: float) -> None:
        await clock.sleep(seconds)
        wake_times_s.append(clock.monotonic_s())

    async def program() -> None:
        await asyncio.gather(*(sleeper(seconds) for seconds in (30, 0.5, 7, 86_400)))

    time.run(program())
    assert wake_times_s == [0.5, 7, 30, 86_400]


@pytest.mark.parametrize("others", range(20))
def test_sleepers_of_the_same_moment_wake_in_the_order_in_which_they_began(others: int) -> None:
    """The order must not depend on the number of other timers, as it does in a heap without a second criterion."""
    woken: list[int] = []

    async def sleeper(number: int) -> None:
        await asyncio.sleep(number)
        await asyncio.sleep(100 - number)
        woken.append(number)

    async def program() -> None:
        await asyncio.gather(
            *(asyncio.sleep(50 + number % 7) for number in range(others)), *map(sleeper, range(12))
        )

    time.run(program())
    assert woken == list(range(12))


def test_a_program_that_waits_without_a_timer_is_stuck() -> None:
    async def program() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Stuck):
        time.run(program())


def test_a_jump_of_the_wall_clock_does_not_change_durations() -> None:
    async def program() -> tuple[int, float]:
        clock = VirtualClock(START)
        clock.jumped_s = -3600
        await clock.sleep(10)
        return clock.now_s(), clock.monotonic_s()

    assert time.run(program()) == (int(START.timestamp()) - 3590, 10)


def test_a_seed_gives_the_same_tokens_with_and_without_jitter() -> None:
    def tokens(seed: int, *, with_jitter: bool) -> list[str]:
        ids = SeededIds(seed)
        names = []
        for _ in range(5):
            if with_jitter:
                assert 0 <= ids.jitter(3) <= 3
            names.append(ids.token())
        return names

    assert tokens(7, with_jitter=True) == tokens(7, with_jitter=False)
    assert tokens(7, with_jitter=True) != tokens(8, with_jitter=True)
    assert len(set(tokens(7, with_jitter=False))) == 5
    assert all(len(name) == 32 for name in tokens(7, with_jitter=False))


def test_time_advances_when_many_tasks_wait_for_the_same_fraction_of_a_nanosecond() -> None:
    async def wait(due_s: float, turns: int) -> int:
        """Sleeps again until the due time, as a work queue does."""
        loop, rounds = asyncio.get_running_loop(), 0
        for _ in range(turns):
            await asyncio.sleep(0)
        while loop.time() < due_s and rounds < 1000:
            await asyncio.sleep(due_s - loop.time())
            rounds += 1
        return rounds

    async def main() -> list[int]:
        await asyncio.sleep(1800.05)
        due_s = asyncio.get_running_loop().time() + 5e-10
        return await asyncio.gather(*(wait(due_s, turns) for turns in range(4)))

    assert max(time.run(main())) <= 2


def test_a_program_that_spins_without_advancing_time_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "_ROUNDS_MAX", 10_000)

    async def program() -> None:
        for _ in itertools.count():
            await asyncio.sleep(1e-13)

    with pytest.raises(Stuck, match="time stands still"):
        time.run(program())
