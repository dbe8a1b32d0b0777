"""Edge cases of the work queue: its size limit, and many timers of one key.

The general rules are tested in tests/property/test_runtime_queue.py.
"""

import asyncio

from holdfast.runtime.backoff import Backoff
from holdfast.runtime.queue import WorkQueue
from holdfast.sim import time
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock
from scripted import START


def queue(max_keys: int = 1000) -> WorkQueue:
    return WorkQueue(clock=VirtualClock(START), ids=SeededIds(1), backoff=Backoff(1, 60), max_keys=max_keys)


def test_a_full_queue_rejects_new_keys_and_sets_overflowed() -> None:
    async def program() -> None:
        work = queue(max_keys=2)
        work.add(("", "a"))
        work.add_after(("", "b"), 5)
        work.add(("", "a"))
        work.add(("", "b"))
        overflowed = [work.overflowed]
        work.add(("", "c"))
        work.add_after(("", "d"), 1)
        assert [*overflowed, work.overflowed] == [False, True]
        assert len(work) == 2
        assert [await work.get(), await work.get()] == [("", "a"), ("", "b")]

    time.run(program())


def test_timers_of_a_key_added_many_times_do_not_accumulate() -> None:
    async def program() -> None:
        work = queue()
        for _ in range(10_000):
            work.add_after(("", "a"), 600)
            work.add(("", "a"))
            work.done(await work.get())
        assert len(work._timers) < 100

    time.run(program())


def test_an_earlier_key_ends_the_wait_for_a_later_one() -> None:
    async def program() -> None:
        work = queue()
        work.add_after(("", "late"), 100)
        waiting = asyncio.create_task(work.get())
        await asyncio.sleep(1)
        work.add_after(("", "soon"), 1)
        assert await waiting == ("", "soon")
        assert asyncio.get_running_loop().time() == 2

    time.run(program())


def test_backoff_grows_up_to_its_cap() -> None:
    ids = SeededIds(1)
    waits = [Backoff(1, 60).delay_s(failures, ids) for failures in range(1, 2000)]
    for failures, wait_s in enumerate(waits, start=1):
        longest_s = min(60, 2 ** min(failures - 1, 40))
        assert longest_s / 2 <= wait_s <= longest_s
    assert len(set(waits[100:200])) == 100  # jitter makes all delays differ
