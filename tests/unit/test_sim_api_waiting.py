"""Watches of a resource without changes wait again and again, for weeks of simulated time."""

import asyncio
import gc
import weakref
from datetime import UTC, datetime

from holdfast.sim import time
from holdfast.sim.api.server import ApiServer
from holdfast.sim.api.serving.front import Request
from holdfast.sim.api.storage.store import Bucket
from holdfast.sim.ids import SeededIds
from holdfast.sim.time import VirtualClock


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


def test_watches_that_ended_keep_nothing() -> None:
    async def program() -> int:
        server = ApiServer(clock=VirtualClock(datetime(2026, 1, 1, tzinfo=UTC)), ids=SeededIds("server"))
        query = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "5"}
        before = waiting()
        for _ in range(20):
            answer = await server.handle(Request("GET", "/api/v1/nodes", query))
            assert not isinstance(answer.body, bytes)
            assert [chunk async for chunk in answer.body] == []
        return waiting() - before

    assert time.run(program()) <= 1


def waiting() -> int:
    gc.collect()
    return sum(isinstance(one, asyncio.Future) and not one.done() for one in gc.get_objects())
