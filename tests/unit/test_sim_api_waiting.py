"""Watches of a resource without changes wait again and again, for weeks of simulated time."""

import asyncio
import weakref

from holdfast.sim.api.storage.store import Bucket


def test_waits_that_timed_out_are_not_kept_until_the_next_change() -> None:
    async def program() -> int:
        bucket = Bucket(window=10)
        ended = []
        for _ in range(100):
            future = bucket.changed()
            future.cancel()
            ended.append(weakref.ref(future))
            del future
        return sum(one() is not None for one in ended)

    assert asyncio.run(program()) <= 1
